// One thread, seen by clients of two dialects.
import { Browser, ask, assert, finished, messages, run, start, test, text, types, until } from "./lib.mjs";
import { open } from "./channels.mjs";

const all = ["subscribe", "publish:user_message", "publish:cancel_any", "publish:tool_approval"];
const opened = async () => {
  const b = new Browser(); const t = await b.thread();
  const p = await b.window();
  await messages(p, t);
  return { t, p, c: await open(t, "ada", all) };
};
const same = async ({ t, p, c }) => {
  // Pilotoo also shows what a run said nothing in, such as the call that it waited with.
  const h = (await messages(p, t)).messages.filter((m) => m.content);
  assert.deepEqual(c.check().messages.map((m) => [m.messageId, m.role, m.content]), h.map((m) => [m.id, m.role, m.content]));
  c.socket.disconnect();
};

test("PIN-250 a run of a Pilotoo window is seen as it is written, and ends alike", async () => {
  const w = await opened();
  const { runId } = await start(w.p, w.t, "one two three four");
  await finished(w.p, runId);
  await w.c.until(() => w.c.messages.length === 2, "both messages");
  assert.equal(w.c.messages[1].content, text(w.p, runId));
  assert.equal(w.c.seen.filter((e) => e === "run:start").length, 1);
  assert.equal(w.c.seen.filter((e) => e === "run:end").length, 1);
  await same(w);
});

test("PIN-021 a run of a Pingerchips window is seen in Pilotoo, and ends alike", async () => {
  const w = await opened();
  const r = await w.c.send("five six seven");
  await w.c.ended(r.runId);
  await until(() => w.p.events.some((e) => e.event.type === "RUN_FINISHED"), "the end in Pilotoo");
  const { runId } = w.p.events[0];
  assert.equal(text(w.p, runId), "five six seven");
  assert.equal(types(w.p, runId).filter((k) => k.startsWith("RUN_")).join(), "RUN_STARTED,RUN_FINISHED");
  await same(w);
});

test("PIN-135 a run of either is stopped from the other", async () => {
  const w = await opened();
  const { runId } = await start(w.p, w.t, "/slow");
  await w.c.until(() => Object.keys(w.c.slots).some((k) => k.startsWith("stream:") && w.c.slots[k]), "text");
  await w.c.push("cancel", { runId: Object.keys(w.c.slots).find((k) => k.startsWith("stream:")).slice("stream:".length) });
  assert.equal((await finished(w.p, runId)).event.type, "RUN_CANCELLED");
  w.p.events.length = 0;
  const r = await w.c.send("/slow");
  await until(() => w.p.events.some((e) => e.event.delta), "text in Pilotoo");
  assert.equal((await ask(w.p, "run:cancel", { runId: w.p.events[0].runId })).ok, true);
  await w.c.ended(r.runId);
  assert.equal(w.c.status(r.runId), "cancelled");
  await until(() => w.p.events.some((e) => e.event.type === "RUN_CANCELLED"), "the end in Pilotoo");
  await same(w);
});

test("PIN-170 PIN-251 a question of either is answered from the other", async () => {
  const w = await opened();
  const { runId } = await start(w.p, w.t, "/ask");
  await finished(w.p, runId);
  await w.c.until(() => Object.values(w.c.slots).some((v) => v?.status === "suspended"), "the pause");
  const run = Object.values(w.c.slots).find((v) => v?.status === "suspended");
  await w.c.push("tool_approval", { runId: run.runId, toolCallId: run.suspendedTool.toolCallId, approved: true });
  await w.c.ended(run.runId);
  await until(() => w.p.events.filter((e) => e.event.type === "RUN_FINISHED").length === 2, "the end in Pilotoo");
  const r = await w.c.send("/ask");
  await w.c.until(() => w.c.status(r.runId) === "suspended", "the second pause");
  const q = (await messages(w.p, w.t)).pendingInterrupt;
  const a = await ask(w.p, "run:resume", { threadId: w.t, interruptId: q.interruptId, answer: true });
  assert.equal(a.ok, true, JSON.stringify(a));
  await w.c.ended(r.runId);
  await finished(w.p, a.runId);
  await same(w);
});

await run();
