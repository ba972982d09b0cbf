// One conversation that is cut off at a named point by kill -9, and taken up
// again after the restart.
import { Browser, ask, assert, call, finished, messages, test, run, until } from "./lib.mjs";

const nth = (type, n = 1) => (s) => s.events.filter((e) => e.event.type === type).length >= n;
const input = "/think /plan /tool one two three four five six /ask seven";

// What is sent, and when the process is killed.
const points = {
  "before anything was sent": { at: () => true, idle: true },
  "when the start was sent and not acknowledged": { at: () => true, unacked: true },
  "when the start was acknowledged": { at: (s) => s.acked },
  "after RUN_STARTED": { at: nth("RUN_STARTED") },
  "after REASONING_START": { at: nth("REASONING_START") },
  "after the first REASONING_CONTENT": { at: nth("REASONING_CONTENT") },
  "after REASONING_END": { at: nth("REASONING_END") },
  "after the first TODOS_SNAPSHOT": { at: nth("TODOS_SNAPSHOT") },
  "after the last TODOS_SNAPSHOT": { at: nth("TODOS_SNAPSHOT", 2) },
  "after TOOL_CALL_START": { at: nth("TOOL_CALL_START") },
  "after the first TOOL_CALL_ARGS": { at: nth("TOOL_CALL_ARGS") },
  "after TOOL_CALL_END": { at: nth("TOOL_CALL_END") },
  "after TOOL_CALL_RESULT": { at: nth("TOOL_CALL_RESULT") },
  "after the first TEXT_MESSAGE_START": { at: nth("TEXT_MESSAGE_START") },
  "after the first TEXT_MESSAGE_CONTENT": { at: nth("TEXT_MESSAGE_CONTENT") },
  "after the third TEXT_MESSAGE_CONTENT": { at: nth("TEXT_MESSAGE_CONTENT", 3) },
  "after the sixth TEXT_MESSAGE_CONTENT": { at: nth("TEXT_MESSAGE_CONTENT", 6) },
  "after a TEXT_MESSAGE_END": { at: nth("TEXT_MESSAGE_END") },
  "after the second TOOL_CALL_START": { at: nth("TOOL_CALL_START", 2) },
  "after INTERRUPT": { at: nth("INTERRUPT") },
  "after RUN_PAUSED": { at: nth("RUN_PAUSED") },
  "after the paused segment's RUN_FINISHED": { at: nth("RUN_FINISHED") },
  "when the answer was sent and not acknowledged": { at: () => true, answer: true, unacked: true },
  "when the answer was acknowledged": { at: (s) => s.answered, answer: true },
  "after the second RUN_STARTED": { at: nth("RUN_STARTED", 2), answer: true },
  "in the resumed segment's text": { at: (s) => s.events.some((e) => e.runId === s.answered?.runId && e.event.type === "TEXT_MESSAGE_CONTENT"), answer: true },
  "after the last RUN_FINISHED": { at: nth("RUN_FINISHED", 2), answer: true },
  "when a cancel was sent and not acknowledged": { at: () => true, cancel: true, unacked: true },
  "when a cancel was acknowledged": { at: (s) => s.cancelled, cancel: true },
  "after RUN_CANCELLED": { at: nth("RUN_CANCELLED"), cancel: true },
};

if (process.env.POINT === undefined) {
  console.log(JSON.stringify(Object.keys(points)));
  process.exit(0);
}

const point = points[process.env.POINT];
test(process.env.POINT, async () => {
  const b = new Browser(); const t = await b.thread();
  const s = await b.window({ transports: ["websocket"] });
  await messages(s, t);
  const send = (name, arg) => s.timeout(60_000).emitWithAck(name, arg).catch(() => null);
  if (!point.idle) {
    const acked = send("run:start", { threadId: t, messageId: "q", input: point.cancel ? "/slow" : input }).then((a) => { s.acked = a; });
    if (point.answer) {
      await until(() => nth("RUN_FINISHED")(s), "the pause");
      const i = s.events.find((e) => e.event.type === "INTERRUPT").event.interruptId;
      send("run:resume", { threadId: t, interruptId: i, answer: true }).then((a) => { s.answered = a; });
    }
    if (point.cancel) {
      await acked;
      await until(() => nth("TEXT_MESSAGE_CONTENT")(s), "some text");
      send("run:cancel", { runId: s.acked.runId }).then((a) => { s.cancelled = a; });
    }
  }
  await until(() => point.at(s), "the point");
  await call("kill");
  // The restarted gateway: everything that was shown and acknowledged is there.
  const before = s.events.splice(0);
  const { acked, answered, cancelled } = s;
  await until(() => s.hellos.length >= 2, "the way back");
  let a = await messages(s, t);
  assert.equal(a.ok, true, JSON.stringify(a));
  if (acked?.ok) assert.ok(a.messages.some((m) => m.id === "q"), "an acknowledged send was lost");
  for (const e of before.filter((e) => e.event.type === "TEXT_MESSAGE_START")) {
    const shown = before.filter((x) => x.event.messageId === e.event.messageId && x.event.delta).map((x) => x.event.delta).join("");
    const kept = a.messages.find((m) => m.id === e.event.messageId)?.content
      ?? (a.replay?.envelopes ?? []).filter((x) => x.event.messageId === e.event.messageId && x.event.delta).map((x) => x.event.delta).join("");
    assert.ok(kept.startsWith(shown), `text that was shown is gone: ${shown} / ${kept}`);
  }
  // Each run settles by itself: with one terminal, or with its open question.
  const settled = async () => {
    for (const end = Date.now() + 90_000; Date.now() < end;) {
      a = await messages(s, t);
      if (!a.replay) return a;
      const id = a.replay.envelopes.at(-1)?.runId;
      if (id) await finished(s, id);
      else await new Promise((r) => setTimeout(r, 100));
    }
    throw new Error("a run is stuck");
  };
  a = await settled();
  if (a.pendingInterrupt) {
    const r = await ask(s, "run:resume", { threadId: t, interruptId: a.pendingInterrupt.interruptId, answer: true });
    assert.equal(r.ok, true, JSON.stringify(r));
    await finished(s, r.runId);
    a = await settled();
    assert.equal(a.pendingInterrupt, undefined);
  } else if (before.some((e) => e.event.type === "INTERRUPT") && !point.answer) {
    throw new Error("a question that was asked is gone");
  }
  const ends = new Map();
  for (const e of [...before, ...s.events]) {
    if (/^RUN_(FINISHED|CANCELLED|ERROR)$/.test(e.event.type)) ends.set(e.runId, (ends.get(e.runId) ?? 0) + 1);
  }
  for (const [id, n] of ends) assert.equal(n, 1, `${id} ended ${n} times`);
  if (cancelled?.ok) assert.ok(a.messages.length >= 1);
  if (answered?.ok) assert.equal(a.pendingInterrupt, undefined);
  // And the thread goes on.
  const r = await ask(s, "run:start", { threadId: t, messageId: "again", input: "hello" });
  assert.equal(r.ok, true, JSON.stringify(r));
  await finished(s, r.runId);
  a = await messages(s, t);
  assert.equal(a.messages.at(-1).content, "hello");
});
await run();
