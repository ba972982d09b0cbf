// One thread, used at random by windows of two dialects, on all edges.
import { Browser, ask, assert, finished, messages, newID, run, test, until } from "./lib.mjs";
import { Window, connect, edges, token } from "./channels.mjs";

const can = ["subscribe", "publish:user_message", "publish:cancel_any", "publish:tool_approval"];

/** Numbers that a seed determines. */
function random(seed) {
  const next = () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return { below: (n) => Math.floor(next() * n), of: (list) => list[Math.floor(next() * list.length)] };
}

/** A window of either dialect: what a script needs of it. */
class Pilot {
  constructor(s, t) { Object.assign(this, { s, t, name: "Pilotoo" }); }
  async say(input, more = {}) {
    const a = await ask(this.s, "run:start", { threadId: this.t, messageId: newID(), input, ...more });
    return a.ok ? a.runId : undefined;
  }
  fork(message, text) { return this.say(text, { forkFromMessageId: message }); }
  async cancel() {
    const live = this.s.events.map((e) => e.runId).filter((id, i, l) => l.indexOf(id) === i && !ended(this.s, id));
    for (const runId of live) late(await ask(this.s, "run:cancel", { runId }));
  }
  async answer(yes) {
    const q = (await messages(this.s, this.t)).pendingInterrupt;
    if (q) late(await ask(this.s, "run:resume", { threadId: this.t, interruptId: q.interruptId, answer: yes }));
  }
}

const terminal = ["RUN_FINISHED", "RUN_CANCELLED", "RUN_ERROR"];
const ended = (s, id) => s.events.some((e) => e.runId === id && terminal.includes(e.event.type));

class Channel {
  constructor(w) { Object.assign(this, { w, name: "Pingerchips" }); }
  async say(text, more = {}) {
    const id = newID();
    return (await this.w.push("send", { text, messageId: id, runId: `r-${id}`, ...more }).catch(refused))?.runId;
  }
  async fork(messageId, text) {
    const id = newID();
    return (await this.w.push("edit", { messageId, text, newMessageId: id, runId: `r-${id}` }).catch(refused))?.runId;
  }
  live(status) { return Object.entries(this.w.slots).filter(([k, v]) => k.startsWith("run:") && status.includes(v.status)).map(([, v]) => v); }
  async cancel() { for (const r of this.live(["pending", "active", "suspended"])) await this.w.push("cancel", { runId: r.runId }).catch(refused); }
  async answer(approved) {
    for (const r of this.live(["suspended"])) await this.w.push("tool_approval", { runId: r.runId, toolCallId: r.suspendedTool.toolCallId, approved }).catch(refused);
  }
}
// What another was faster with.
const late = (a) => { assert.ok(a.ok || ["UNKNOWN_RUN"].includes(a.error?.code), JSON.stringify(a)); };
const refused = (e) => { assert.ok(["already_ended", "not_found", "already_decided", "not_suspended", "too many runs", "busy"].includes(e.reason), String(e)); };

async function script(seed) {
  const r = random(seed);
  const b = new Browser(); const t = await b.thread();
  const pilots = []; const channels = [];
  for (const at of edges) {
    const s = await b.window({ at });
    await messages(s, t);
    pilots.push(new Pilot(s, t));
    const socket = connect(at);
    const w = new Window(socket, t, { auth: await token(t, "ada", can) });
    w.socket = socket;
    await w.joined;
    await w.shown();
    channels.push(new Channel(w));
  }
  const all = [...pilots, ...channels];
  let runs = 0; // that were accepted
  const begun = (runId) => { if (runId) runs++; return runId; };
  const known = () => channels.every((c) => Object.keys(c.w.check().slots).filter((k) => k.startsWith("run:")).length === runs);
  const speaks = () => channels.every((c) => c.live(["active"]).some((run) => c.w.slots[`stream:${run.runId}`]));
  const quiet = () => known() && channels.every((c) => c.live(["pending", "active", "suspended"]).length === 0);
  const settled = () => until(quiet, "the end of all runs").catch((e) => {
    throw new Error(`${e.message}: ${did.join("; ")}: ${JSON.stringify(channels.map((c) => c.live(["pending", "active", "suspended"])))}`);
  });
  const has = (c, f) => c.w.until(f, "what another window did");
  const did = [];
  for (let step = 0; step < 8; step++) {
    const [one, other] = [r.of(all), r.of(all)];
    const what = r.below(7);
    did.push(`${what} by ${one.name}, ${other.name}`);
    switch (what) {
      case 0: begun(await one.say("some words to say")); break;
      case 1: begun(await one.say("some /tool and /think words")); break;
      case 2: // begun in one, cancelled in another
        if (begun(await one.say("words /slow"))) {
          await until(speaks, "the run everywhere");
          await until(() => pilots.every((p) => p.s.events.some((e) => !ended(p.s, e.runId))), "the run in Pilotoo");
          await other.cancel();
        }
        break;
      case 3: // begun in one, decided in another, perhaps in two at once
        if (begun(await one.say("before /ask after"))) {
          await until(() => channels.every((c) => c.live(["suspended"]).length > 0), "the question everywhere");
          await Promise.all([other.answer(r.below(2) === 0), ...(r.below(2) === 0 ? [r.of(all).answer(true)] : [])]);
        }
        break;
      case 4: { // a fork here is a branch there
        const asked = channels[0].w.messages.filter((m) => m.role === "user");
        if (asked.length > 0) begun(await one.fork(r.of(asked).messageId, "said otherwise"));
        break;
      }
      case 5: { // an answer made anew
        const said = channels[0].w.messages.filter((m) => m.role === "assistant");
        if (said.length === 0) break;
        const old = r.of(said);
        begun((await r.of(channels).w.push("regenerate", { messageId: old.messageId, runId: newID() })).runId);
        // What hung hangs again, and what asked asks again.
        const everywhere = (status) => channels.every((c) => c.live(status).length > 0);
        if (old.status === "cancelled") await until(speaks, "the run everywhere").then(() => other.cancel());
        else await until(() => quiet() || everywhere(["suspended"]), "its end").then(() => quiet() || other.answer(true));
        break;
      }
      default: (await Promise.all([one.say("at the same"), other.say("moment as")])).forEach(begun);
    }
    await settled();
    const log = Math.max(...channels.map((c) => c.w.log));
    for (const c of channels) await has(c, () => c.w.log >= log);
    await settled();
  }
  await same(pilots, channels, t, did);
  for (const c of channels) c.w.socket.disconnect();
}

/** Both dialects show the same thread, and each run ended once in each. */
async function same(pilots, channels, t, did) {
  const script = did.join("; ");
  for (const { w } of channels) {
    assert.equal(JSON.stringify(w.messages), JSON.stringify(channels[0].w.messages), `the slots of two edges: ${script}`);
    assert.deepEqual([...w.entries].filter(([k]) => channels[0].w.entries.has(k)), [...channels[0].w.entries].filter(([k]) => w.entries.has(k)), script);
  }
  // What Pilotoo shows is the path of the tree that ends where the last of it was
  // written: chosen there, it is the same messages to the letter.
  for (const { s } of pilots) {
    const list = (await messages(s, t)).messages.filter((m) => m.content);
    assert.equal(new Set(list.map((m) => m.id)).size, list.length, script);
    for (const { w } of channels) {
      await w.push("branch:reset");
      for (const { id } of list) if (w.messages.some((m) => m.messageId === id)) await w.push("branch:select", { messageId: id, selectedId: id });
      const view = (await w.push("view:get", { limit: 200 })).messages;
      // It has a message for each text of an answer, and also those without any.
      const flat = view.flatMap((m) => m.role === "user" ? [[m.messageId, m.role, m.content]] : m.content.split("\n\n").filter(Boolean).map((text) => ["", m.role, text]));
      assert.deepEqual(list.map((m) => [m.role === "user" ? m.id : "", m.role, m.content]), flat, `PIN-250 PIN-230 the views: ${script}`);
    }
  }
  const runs = Object.keys(channels[0].w.slots).filter((k) => k.startsWith("run:")).length;
  for (const { w } of channels) assert.equal(w.seen.filter((e) => e === "run:end").length, runs, `one end of each run: ${script}`);
  for (const { s } of pilots) {
    // A segment that waits ends too, and is no run's end.
    const ids = [...new Set(s.events.map((e) => e.runId))];
    const ends = () => ids.filter((id) => ended(s, id) && !s.events.some((e) => e.runId === id && e.event.type === "RUN_PAUSED")).length;
    await until(() => ids.every((id) => ended(s, id)), `the ends in Pilotoo: ${script}`);
    assert.equal(ends(), runs, `one end of each run in Pilotoo: ${script}`);
    for (const id of ids) {
      const list = s.events.filter((e) => e.runId === id);
      assert.deepEqual(list.map((e) => e.sequence), list.map((_, i) => i + 1), `PIL numbers of ${id}: ${script}`);
      assert.equal(list.filter((e) => terminal.includes(e.event.type)).length, 1, `one end of ${id}: ${script}`);
      assert.ok(terminal.includes(list.at(-1).event.type), `nothing after the end of ${id}: ${script}`);
    }
    await finished(s, ids.at(-1));
  }
}

const first = Number(process.env.SEED ?? 1);
for (let seed = first; seed < first + Number(process.env.SCRIPTS ?? 4); seed++) {
  test(`PIN-021 PIN-250 PIN-251 script ${seed}: both dialects show the same thread`, () => script(seed), 240_000);
}

await run();
