// A framework's agent behind the gateway.
import { Browser, ask, assert, finished, messages, run, start, test, text, types, until } from "./lib.mjs";

const opened = async () => {
  const b = new Browser(); const t = await b.thread();
  const [one, two] = [await b.window(), await b.window()];
  await messages(one, t); await messages(two, t);
  return { b, t, one, two };
};

test("a plain message is answered, word by word, in both windows, and stays", async () => {
  const { t, one, two } = await opened();
  const { runId } = await start(one, t, "good morning, wörld 😀");
  await finished(one, runId); await finished(two, runId);
  assert.equal(text(one, runId), "Mastra heard: good morning, wörld 😀");
  assert.deepEqual(two.events, one.events);
  assert.deepEqual(types(one, runId).filter((x) => x !== "TEXT_MESSAGE_CONTENT"), ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_FINISHED"]);
  assert.equal((await messages(two, t)).messages.at(-1).content, text(one, runId));
});

for (const [approved, says] of [[true, "The email is on its way."], [false, "I did not send the email."]]) {
  test(`its tool waits for a decision, and goes on with ${approved}`, async () => {
    const { t, one, two } = await opened();
    const { runId } = await start(one, t, "send an email");
    await finished(one, runId); await finished(two, runId);
    assert.deepEqual(types(one, runId).slice(-3), ["INTERRUPT", "RUN_PAUSED", "RUN_FINISHED"]);
    assert.equal(types(one, runId).filter((x) => x === "INTERRUPT").length, 1);
    const q = (await messages(two, t)).pendingInterrupt;
    const a = await ask(two, "run:resume", { threadId: t, interruptId: q.interruptId, answer: { approved } });
    assert.equal(a.ok, true, JSON.stringify(a));
    await finished(one, a.runId);
    assert.equal(types(one, a.runId).at(-1), "RUN_FINISHED", JSON.stringify(one.events.at(-1)));
    assert.match(text(one, a.runId), new RegExp(says.replace(".", "\\.")));
  });
}

test("PIL-047 a new message withdraws the question, and the thread goes on", async () => {
  const { t, one } = await opened();
  const { runId } = await start(one, t, "send an email");
  await finished(one, runId);
  const a = await start(one, t, "never mind");
  assert.equal(a.ok, true, JSON.stringify(a));
  await finished(one, a.runId);
  assert.equal(types(one, a.runId).at(-1), "RUN_FINISHED", JSON.stringify(one.events.at(-1)));
  const h = await messages(one, t);
  assert.equal(h.pendingInterrupt, undefined);
  assert.match(h.messages.at(-1).content, /never mind/);
});

test("a stop ends the call, and the next message is answered", async () => {
  const { t, one } = await opened();
  const { runId } = await start(one, t, "w ".repeat(400));
  await until(() => text(one, runId).length > 20, "some text");
  assert.equal((await ask(one, "run:cancel", { runId })).ok, true);
  assert.equal((await finished(one, runId)).event.type, "RUN_CANCELLED");
  const a = await start(one, t, "still there?");
  await finished(one, a.runId);
  assert.equal(text(one, a.runId), "Mastra heard: still there?");
});

await run();
