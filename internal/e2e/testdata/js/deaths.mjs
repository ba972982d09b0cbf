// An edge that is killed, time after time, under windows of the published client.
import { assert, call, run, test, until } from "./lib.mjs";
import { Window, connect, edges, token } from "./channels.mjs";

const can = ["subscribe", "publish:user_message", "publish:cancel_any", "publish:tool_approval"];
const alone = edges.length === 1;
const over = ["complete", "cancelled", "error"];

async function window(t, at) {
  const socket = connect(at);
  const w = new Window(socket, t, { auth: await token(t, "ada", can) });
  w.socket = socket;
  await w.joined;
  await w.shown();
  return w;
}

const live = (w) => Object.values(w.slots).filter((v) => v?.runId && v.status && !over.includes(v.status) && v.suspendedTool !== undefined);

test("PIN-182 PIN-187 nothing acknowledged or shown is lost with an edge, and each run ends once", async () => {
  const t = `t-${process.pid}`;
  const a = await window(t, edges[0]);
  const b = await window(t, edges.at(-1));
  const acked = new Set();
  let n = 0;
  for (let death = 0; death < 4; death++) {
    // Some runs to cut off: one that speaks, one that hangs, one that waits.
    const inputs = ["word ".repeat(80).trim(), "words /slow", "before /ask after", "a few /tool /think words"];
    for (let i = 0; i < 3; i++) {
      const id = `m-${n++}`;
      a.send(inputs[(death + i) % inputs.length], id).then(() => acked.add(id), () => {}); // perhaps never answered
    }
    await new Promise((ok) => setTimeout(ok, [40, 400, 150, 900][death]));
    const back = a.replies.length;
    const dead = await call("kill"); // when the process was gone
    assert.equal(typeof dead, "number", dead);
    await until(() => a.replies.length > back && a.seen.lastIndexOf("snapshot") > 0, "the way back", 90_000);
    await a.push("view:get");
    a.check(); b.check();
    // What waits for a person waits on; all else ends by itself, and soon.
    // A send that a busy machine brought too late began a run that nothing cut off.
    const asked = new Set();
    await until(() => [a, b].every((w) => live(w.check()).every((r) => {
      if (r.startedAt > dead && !asked.has(r.runId)) {
        asked.add(r.runId);
        b.push("cancel", { runId: r.runId }).catch(() => asked.delete(r.runId));
      }
      return r.status === "suspended";
    })), "the end of what was cut off", 90_000);
    for (const r of live(b)) await b.push("cancel", { runId: r.runId }).catch((e) => assert.equal(e.reason, "already_ended"));
    await until(() => [a, b].every((w) => live(w.check()).length === 0), "the end of what waited");
  }
  await until(() => a.log === b.log, "the same entry");
  assert.equal(JSON.stringify(a.messages), JSON.stringify(b.messages));
  const { nodes } = await b.push("tree:get", { limit: 1000 });
  const ids = new Set(nodes.map((m) => m.messageId));
  for (const id of acked) assert.ok(ids.has(id), `${id} was acknowledged and is not there`);
  assert.ok(acked.size >= 4, `only ${acked.size} were acknowledged`);
  // The text that anybody was shown is in the message that came of it.
  const { messages } = await b.push("load_older", { limit: 200 });
  for (const w of [a, b]) {
    const shown = new Map();
    for (const { slots } of w.states.values()) for (const [k, v] of Object.entries(slots)) if (k.startsWith("stream:")) shown.set(k.slice("stream:".length), v);
    for (const [runId, text] of shown) {
      const said = messages.filter((m) => m.runId === runId && m.role === "assistant");
      assert.equal(said.length, 1, `${runId} was active, and has ${said.length} answers`);
      assert.ok(said[0].content.startsWith(text), `${runId} was shown ${JSON.stringify(text)} and has ${JSON.stringify(said[0].content)}`);
    }
  }
  if (!alone) { // who was never cut off has seen each end
    const runs = new Set(nodes.map((m) => m.runId));
    assert.equal(b.seen.filter((e) => e === "run:end").length, runs.size);
    assert.ok(!b.skipped && !a.skipped);
    for (const [log, e] of a.entries) assert.equal(b.entries.get(log), e, `entry ${log}`);
  }
  for (const w of [a, b]) w.check().socket.disconnect();
}, 280_000);

await run();
