// What several windows do at the same moment, each on another edge.
import { Browser, ask, assert, ended, finished, messages, newID, run, start, test, types, until, seen } from "./lib.mjs";

const edges = JSON.parse(process.env.EDGES);
const times = Number(process.env.TIMES ?? 10);

/** A thread with a joined window on each edge. */
async function everywhere() {
  const b = new Browser(edges[0]); const t = await b.thread();
  const ws = [];
  for (const at of edges) { const w = await b.window({ at }); assert.equal((await messages(w, t)).ok, true); ws.push(w); }
  return { b, t, ws };
}
const one = (list, f) => { const hit = list.filter(f); assert.equal(hit.length, 1, JSON.stringify(list)); return hit[0]; };
const code = (a) => a.error?.code;
const terminals = (w, runId) => w.events.filter((e) => e.runId === runId && /^RUN_(FINISHED|CANCELLED|ERROR)$/.test(e.event.type)).length;
const idle = async (w, t) => { for (;;) { const a = await messages(w, t); if (!a.replay) return a; await new Promise((r) => setTimeout(r, 20)); } };

test("F36 PIL-035 ten identical sends on three edges at once, and again after the end, are one message and one run", async () => {
  const { t, ws } = await everywhere();
  for (let i = 0; i < times; i++) {
    const messageId = newID();
    const send = (w) => ask(w, "run:start", { threadId: t, messageId, input: "n=3 d=1" });
    const all = await Promise.all(Array.from({ length: 10 }, (_, j) => send(ws[j % ws.length])));
    const { runId } = one(all, (a) => a.ok);
    for (const a of all) if (!a.ok) assert.equal(code(a), "DUPLICATE_MESSAGE");
    for (const w of ws) await finished(w, runId);
    for (const w of ws) assert.equal(code(await send(w)), "DUPLICATE_MESSAGE");
    const a = await idle(ws[0], t);
    one(a.messages, (m) => m.id === messageId);
    one(ws[1].events.filter((e) => e.event.message?.id === messageId), () => true);
  }
});

test("F37 PIL-035 the same id with another text is refused on every edge, and stores nothing", async () => {
  const { t, ws } = await everywhere();
  const messageId = newID();
  const { runId } = await ask(ws[0], "run:start", { threadId: t, messageId, input: "n=3 d=1" });
  for (const w of ws) assert.equal(code(await ask(w, "run:start", { threadId: t, messageId, input: "n=4 d=1" })), "DUPLICATE_MESSAGE");
  await finished(ws[0], runId);
  assert.deepEqual((await idle(ws[2], t)).messages.filter((m) => m.role === "user").map((m) => m.content), ["n=3 d=1"]);
});

test("F38 PIL-046 sends of three edges at once: one run at a time, and each that was taken is there", async () => {
  const { t, ws } = await everywhere();
  const taken = [];
  for (let i = 0; i < times; i++) {
    const ids = ws.map(() => newID());
    const all = await Promise.all(ws.map((w, j) => ask(w, "run:start", { threadId: t, messageId: ids[j], input: "n=8 d=4 hang" })));
    const { runId } = one(all, (a) => a.ok);
    for (const a of all) if (!a.ok) assert.equal(code(a), "INVALID_COMMAND");
    taken.push(ids[all.findIndex((a) => a.ok)]);
    // It is at work until all have had their answers, however slow the machine.
    await ask(ws[0], "run:cancel", { runId });
    await finished(ws[0], runId);
    await idle(ws[0], t);
  }
  assert.deepEqual((await idle(ws[1], t)).messages.filter((m) => m.role === "user").map((m) => m.id), taken);
});

test("F39 PIL-099 stops of three edges race the natural end: one terminal, and who is told of success has stopped it", async () => {
  const { t, ws } = await everywhere();
  let won = 0;
  for (let i = 0; i < times; i++) {
    const n = 5;
    const { runId } = await start(ws[i % ws.length], t, `n=${n} d=3`);
    await until(() => types(ws[0], runId).filter((x) => x === "TEXT_MESSAGE_CONTENT").length >= 1 + (i % 2) || ended(ws[0], runId));
    await new Promise((r) => setTimeout(r, (i * 11) % 30));
    const all = await Promise.all(ws.map((w) => ask(w, "run:cancel", { runId })));
    for (const w of ws) await finished(w, runId);
    const end = ended(ws[0], runId).event.type;
    for (const a of all) if (!a.ok) assert.equal(code(a), "UNKNOWN_RUN");
    assert.equal(all.some((a) => a.ok), end === "RUN_CANCELLED", `${JSON.stringify(all)} ${end}`);
    if (end === "RUN_CANCELLED") won++;
    await idle(ws[0], t);
    for (const w of ws) { assert.equal(terminals(w, runId), 1); assert.equal(ended(w, runId).event.type, end); }
  }
  console.log(`${won} of ${times} stops won`);
}, 240_000);

test("F40 PIL-096 a stop of a run that is unknown, paused or over touches nothing; one of a silent agent is quick", async () => {
  const { t, ws } = await everywhere();
  assert.equal(code(await ask(ws[0], "run:cancel", { runId: "01900000-0000-7000-8000-000000000000" })), "UNKNOWN_RUN");
  const a = await start(ws[0], t, "n=4 d=1 ask");
  await finished(ws[1], a.runId);
  assert.equal(code(await ask(ws[1], "run:cancel", { runId: a.runId })), "UNKNOWN_RUN");
  const { pendingInterrupt: q } = await messages(ws[2], t);
  const next = await ask(ws[2], "run:resume", { threadId: t, interruptId: q.interruptId, answer: true });
  assert.equal(next.ok, true, JSON.stringify(next));
  await finished(ws[0], next.runId);
  assert.equal(code(await ask(ws[0], "run:cancel", { runId: next.runId })), "UNKNOWN_RUN");
  const b = await start(ws[1], t, "n=4 d=1 hang");
  assert.equal(b.ok, true, JSON.stringify(b));
  await seen(ws[2], b.runId, "TEXT_MESSAGE_CONTENT");
  assert.equal((await ask(ws[2], "run:cancel", { runId: b.runId })).ok, true);
  for (const w of ws) await finished(w, b.runId);
  assert.equal(code(await ask(ws[0], "run:cancel", { runId: b.runId })), "UNKNOWN_RUN");
  // The stop was of that run, and not of the next.
  const c = await start(ws[0], t, "n=4 d=1");
  for (const w of ws) await finished(w, c.runId);
  assert.equal(ended(ws[0], c.runId).event.type, "RUN_FINISHED");
});

test("F41 PIL-089 three edges answer one question at once: one wins, the agent gets its answer, a stale one touches nothing", async () => {
  const { t, ws } = await everywhere();
  let stale;
  for (let i = 0; i < times; i++) {
    const { runId } = await start(ws[i % ws.length], t, "n=4 d=1 ask");
    for (const w of ws) await finished(w, runId);
    const { pendingInterrupt: q } = await messages(ws[0], t);
    if (stale) assert.equal(code(await ask(ws[0], "run:resume", { threadId: t, interruptId: stale, answer: true })), "UNKNOWN_RUN");
    const all = await Promise.all(ws.map((w, j) => ask(w, "run:resume", { threadId: t, interruptId: q.interruptId, answer: { approved: true, reason: `w${j}` } })));
    const won = one(all, (a) => a.ok);
    for (const a of all) if (!a.ok) assert.equal(code(a), "UNKNOWN_RUN");
    for (const w of ws) await finished(w, won.runId);
    assert.equal(ended(ws[0], won.runId).event.type, "RUN_FINISHED");
    // One segment, with the winner's answer.
    const told = await (await fetch(process.env.BOOKS + "?run=" + won.runId)).json();
    assert.deepEqual(told.map((c) => c.map((a) => a.payload.reason)), [[`w${all.indexOf(won)}`]]);
    stale = q.interruptId;
    await idle(ws[0], t);
  }
}, 240_000);

test("F41 an answer races a new message that withdraws the question: one of them wins", async () => {
  const { t, ws } = await everywhere();
  for (let i = 0; i < times; i++) {
    const { runId } = await start(ws[0], t, "n=4 d=1 ask");
    for (const w of ws) await finished(w, runId);
    const { pendingInterrupt: q } = await messages(ws[0], t);
    const [answer, message] = await Promise.all([
      ask(ws[1], "run:resume", { threadId: t, interruptId: q.interruptId, answer: true }),
      start(ws[2], t, "n=4 d=1"),
    ]);
    assert.equal([answer, message].filter((a) => a.ok).length, 1, JSON.stringify([answer, message]));
    await finished(ws[0], (answer.ok ? answer : message).runId);
    await idle(ws[0], t);
  }
}, 240_000);

await run();
