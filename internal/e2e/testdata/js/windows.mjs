// Windows of one conversation, on the published Socket.IO client.
import { Browser, ask, assert, base, ended, finished, fold, messages, newID, refused, run, seen, start, test, text, types, until } from "./lib.mjs";

test("PIL-010 PIL-011 PIL-012 PIL-013 PIL-014 PIL-015 the hello is first, once a connection, and comes again after a reconnect", async () => {
  const b = new Browser(); const t = await b.thread();
  const s = await b.window();
  await messages(s, t);
  await finished(s, (await start(s, t, "hi")).runId);
  assert.deepEqual(s.hellos, [{ protocol: { major: 1, minor: 17 }, minClientMajor: 1 }]);
  assert.equal(s.order[0], "hello");
  s.io.engine.close();
  await until(() => s.hellos.length === 2, "the second hello");
});

test("PIL-195 PIL-196 /health and /protocol answer anybody, with the same object as the hello", async () => {
  const s = await new Browser().window().catch(() => null);
  const r = await fetch(base + "/protocol");
  assert.equal(r.status, 200);
  assert.deepEqual(await r.json(), { protocol: { major: 1, minor: 17 }, minClientMajor: 1 });
  assert.deepEqual(await (await fetch(base + "/health")).json(), { status: "ok" });
  s?.disconnect();
});

for (const transports of [["websocket"], ["polling"], ["polling", "websocket"]]) {
  test(`PIL-017 PIL-021 PIL-022 PIL-142 PIL-143 PIL-168 a run is seen by every window that asked for the history, over ${transports.join(" then ")}`, async () => {
    const b = new Browser(); const t = await b.thread();
    const [one, two, three] = [await b.window({ transports }), await b.window({ transports }), await b.window()];
    for (const w of [one, two, three]) assert.equal((await messages(w, t)).ok, true);
    const { ok, runId } = await start(one, t, "tell me of /tool and /think /plan please");
    assert.equal(ok, true);
    for (const w of [one, two, three]) await finished(w, runId);
    assert.deepEqual(two.events, one.events);
    assert.deepEqual(three.events, one.events);
    assert.equal(one.events[0].event.type, "RUN_STARTED");
    assert.deepEqual(one.events.map((e) => e.sequence), one.events.map((_, i) => i + 1));
  });
}

test("PIL-146 a socket that has not joined a thread gets none of its envelopes", async () => {
  const b = new Browser(); const t = await b.thread();
  const [one, two] = [await b.window(), await b.window()];
  await finished(one, (await start(one, t, "hi")).runId);
  assert.equal((await messages(two, t)).messages.length, 2);
  assert.deepEqual(two.events, []);
});

test("PIL-144 the sender of a start sees its run from the first envelope, after its answer; a failed command joins nothing", async () => {
  const b = new Browser(); const t = await b.thread();
  const [one, two] = [await b.window(), await b.window()];
  let acked = -1;
  one.emit("run:start", { threadId: t, messageId: "first", input: "hi" }, () => { acked = one.events.length; });
  await until(() => acked >= 0, "the answer");
  assert.equal(acked, 0, "envelopes came before the answer");
  await until(() => one.events.some((e) => e.event.type === "RUN_FINISHED"), "the end");
  assert.equal(one.events[0].sequence, 1);
  refused(await ask(two, "run:start", { threadId: t, messageId: "first", input: "again" }), "DUPLICATE_MESSAGE");
  await finished(one, (await start(one, t, "more")).runId);
  assert.deepEqual(two.events, []);
});

test("PIL-156 PIL-163 PIL-166 PIL-167 a window that joins at each event of a 200-event run folds to what a window saw from the start", async () => {
  const b = new Browser(); const t = await b.thread();
  const first = await b.window();
  const whole = await messages(first, t);
  const waiting = [];
  for (let i = 0; i < 240; i++) waiting.push(await b.window());
  const words = Array.from({ length: 190 }, (_, i) => `wörd-${i}😀`).join(" ");
  const joined = [];
  const join = (w) => messages(w, t).then((answer) => [w, answer]);
  first.on("run:event", () => { if (waiting.length) joined.push(join(waiting.pop())); });
  const { runId } = await start(first, t, `/plan /tool ${words} /tool`);
  await finished(first, runId);
  assert.ok(first.events.length >= 200, `${first.events.length} events`);
  assert.ok(joined.length >= 200, `${joined.length} windows`);
  const want = fold(whole, first.events);
  let live = 0;
  for (const j of joined) {
    const [w, answer] = await j;
    assert.equal(answer.ok, true, JSON.stringify(answer));
    if (answer.replay) {
      live++;
      await finished(w, runId);
      assert.equal(answer.replay.truncated, false);
    }
    assert.deepEqual(fold(answer, w.events), want);
  }
  assert.ok(live > 150, `only ${live} joined in the middle`);
});

test("PIL-175 a second thread:messages refreshes and does not double anything", async () => {
  const b = new Browser(); const t = await b.thread();
  const [one, two] = [await b.window(), await b.window()];
  await messages(one, t); await messages(two, t);
  const { runId } = await start(one, t, "/slow");
  await seen(two, runId, "TEXT_MESSAGE_CONTENT");
  const again = await messages(two, t);
  assert.equal(again.replay.envelopes.at(-1).sequence, two.events.at(-1).sequence);
  await ask(one, "run:cancel", { runId });
  await finished(two, runId);
  assert.deepEqual(two.events, one.events);
});

test("PIL-176 the question of a run in flight is in the messages and in RUN_STARTED, under one id", async () => {
  const b = new Browser(); const t = await b.thread();
  const s = await b.window();
  const { runId } = await ask(s, "run:start", { threadId: t, messageId: "q", input: "/slow" });
  await seen(s, runId, "TEXT_MESSAGE_CONTENT");
  const w = await b.window();
  const a = await messages(w, t);
  assert.deepEqual(a.messages.map((m) => m.id), ["q"]);
  assert.equal(a.replay.envelopes[0].event.message.id, "q");
  await ask(s, "run:cancel", { runId });
});

test("PIL-149 a run goes on when its client is gone, and its history is whole", async () => {
  const b = new Browser(); const t = await b.thread();
  const s = await b.window();
  const { runId } = await start(s, t, "one two three four five six seven eight nine ten eleven twelve");
  await seen(s, runId, "TEXT_MESSAGE_CONTENT");
  s.io.engine.transport.close(); s.disconnect();
  const w = await b.window();
  let a = await messages(w, t);
  if (a.replay) { await finished(w, runId); a = await messages(w, t); }
  assert.equal(a.replay, undefined);
  assert.equal(a.messages.at(-1).content, "one two three four five six seven eight nine ten eleven twelve");
});

test("PIL-019 PIL-097 PIL-098 PIL-100 PIL-101 any window stops a run, even one whose agent hangs; what had streamed stays", async () => {
  const b = new Browser(); const t = await b.thread();
  const [one, two] = [await b.window(), await b.window()];
  await messages(two, t);
  const { runId } = await start(one, t, "/slow");
  await seen(two, runId, "TEXT_MESSAGE_CONTENT");
  let acked;
  two.emit("run:cancel", { runId }, (a) => { acked = { a, seen: !!ended(two, runId) }; });
  await finished(one, runId);
  await until(() => acked, "the answer");
  assert.deepEqual(acked, { a: { ok: true }, seen: false });
  assert.deepEqual(types(one, runId).slice(-2), ["TEXT_MESSAGE_END", "RUN_CANCELLED"]);
  const a = await messages(two, t);
  assert.equal(a.messages.at(-1).content, text(one, runId));
  refused(await ask(one, "run:cancel", { runId }), "UNKNOWN_RUN");
});

test("PIL-018 PIL-077 PIL-083 PIL-085 PIL-089 two windows answer one question: one wins, and the run goes on in a new segment", async () => {
  const b = new Browser(); const t = await b.thread();
  const [one, two] = [await b.window(), await b.window()];
  await messages(one, t); await messages(two, t);
  const { runId } = await start(one, t, "/ask");
  await finished(two, runId);
  assert.deepEqual(types(one, runId).slice(-3), ["INTERRUPT", "RUN_PAUSED", "RUN_FINISHED"]);
  const { pendingInterrupt: q } = await messages(two, t);
  assert.equal(q.runId, runId);
  const answer = (w, a) => ask(w, "run:resume", { threadId: t, interruptId: q.interruptId, answer: a });
  refused(await answer(one, "perhaps"), "INVALID_COMMAND");
  refused(await ask(one, "run:resume", { threadId: "nowhere", interruptId: q.interruptId, answer: true }), "CONVERSATION_NOT_FOUND");
  const both = await Promise.all([answer(one, true), answer(two, false)]);
  assert.equal(both.filter((a) => a.ok).length, 1);
  refused(both.find((a) => !a.ok), "UNKNOWN_RUN");
  const next = both.find((a) => a.ok).runId;
  assert.notEqual(next, runId);
  for (const w of [one, two]) await finished(w, next);
  assert.equal(one.events.find((e) => e.runId === next).sequence, 1);
  assert.equal((await messages(one, t)).pendingInterrupt, undefined);
  refused(await answer(one, true), "UNKNOWN_RUN");
});

test("PIL-075 a client tool may not have the name of one of the agent's own, nor of another", async () => {
  const b = new Browser(); const t = await b.thread();
  const s = await b.window();
  const named = (name) => ({ name, kind: "one-way", description: "a tool", arguments: { type: "object" } });
  refused(await start(s, t, "hi", { clientTools: [named("lookup")] }), "INVALID_COMMAND");
  refused(await start(s, t, "hi", { clientTools: [named("mine"), named("mine")] }), "INVALID_COMMAND");
  const { runId } = await start(s, t, "/ask", { clientTools: [named("mine")] });
  await finished(s, runId);
  const q = (await messages(s, t)).pendingInterrupt;
  const resume = (clientTools) => ask(s, "run:resume", { threadId: t, interruptId: q.interruptId, answer: true, clientTools });
  refused(await resume([named("lookup")]), "INVALID_COMMAND");
  assert.equal((await resume([named("mine")])).ok, true);
});

test("PIL-071 client tools: a blocking one asks, the set of the resume replaces the paused one's, a one-way one goes on", async () => {
  const b = new Browser(); const t = await b.thread();
  const s = await b.window();
  const tool = (name, kind, more = {}) => ({ name, kind, description: "a tool", arguments: { type: "object" }, ...more });
  const clientTools = [tool("pick", "blocking", { result: { type: "object", required: ["n"] } }), tool("draw", "one-way")];
  const { runId } = await start(s, t, `/client pick {"from":[1,2]} /client draw {"what":"cat"}`, { clientTools });
  await finished(s, runId);
  const i = s.events.find((e) => e.event.type === "INTERRUPT").event;
  assert.deepEqual(i.payload, { clientTool: "pick", arguments: { from: [1, 2] } });
  const resume = (answer, more = {}) => ask(s, "run:resume", { threadId: t, interruptId: i.interruptId, answer, ...more });
  refused(await resume("no object"), "INVALID_COMMAND");
  const a = await resume({ n: 2 }, { clientTools: [tool("draw", "one-way")] });
  assert.equal(a.ok, true, JSON.stringify(a));
  await finished(s, a.runId);
  const result = s.events.find((e) => e.runId === a.runId && e.event.type === "TOOL_CALL_RESULT").event;
  assert.deepEqual(JSON.parse(result.content), { n: 2 });
  assert.ok(types(s, a.runId).includes("TOOL_CALL_START"), "the one-way tool was not called: " + types(s, a.runId));
  assert.equal(types(s, a.runId).at(-1), "RUN_FINISHED");
});

test("PIL-038 PIL-039 PIL-042 a fork replaces a message and what followed it; a hidden branch can be forked still", async () => {
  const b = new Browser(); const t = await b.thread();
  const s = await b.window();
  const say = async (messageId, input, more = {}) => { const a = await ask(s, "run:start", { threadId: t, messageId, input, ...more }); assert.equal(a.ok, true, JSON.stringify(a)); await finished(s, a.runId); };
  await say("a", "alpha"); await say("b", "beta");
  await say("c", "gamma", { forkFromMessageId: "b" });
  const contents = async () => (await messages(s, t)).messages.map((m) => m.content);
  assert.deepEqual(await contents(), ["alpha", "alpha", "gamma", "gamma"]);
  await say("d", "delta", { forkFromMessageId: "b" });
  assert.deepEqual(await contents(), ["alpha", "alpha", "delta", "delta"]);
  await say("e", "epsilon", { forkFromMessageId: "a" });
  assert.deepEqual(await contents(), ["epsilon", "epsilon"]);
  refused(await ask(s, "run:start", { threadId: t, messageId: "f", input: "x", forkFromMessageId: "zzz" }), "FORK_POINT_NOT_FOUND");
});

test("PIL-008 PIL-024 PIL-025 PIL-028 PIL-188 each error goes to its sender alone, and harms neither its socket nor a run in flight", async () => {
  const b = new Browser(); const t = await b.thread();
  const [one, two] = [await b.window(), await b.window()];
  await messages(two, t);
  const { runId } = await ask(one, "run:start", { threadId: t, messageId: "m", input: "/slow" });
  refused(await ask(one, "no:such", {}), "INVALID_COMMAND");
  refused(await one.timeout(9000).emitWithAck("run:start", { threadId: t, messageId: "n", input: "x" }, "extra"), "INVALID_COMMAND");
  refused(await ask(one, "run:start", { threadId: t, messageId: "n", input: "x", color: "red" }), "INVALID_COMMAND");
  refused(await ask(one, "run:start", { threadId: t, messageId: "n", input: "x".repeat(16_001) }), "INVALID_COMMAND");
  refused(await ask(one, "run:start", { threadId: t, messageId: "n", input: "busy" }), "INVALID_COMMAND");
  refused(await ask(one, "run:start", { threadId: "nowhere", messageId: "n", input: "x" }), "CONVERSATION_NOT_FOUND");
  refused(await ask(one, "run:start", { threadId: t, messageId: "m", input: "x" }), "DUPLICATE_MESSAGE");
  refused(await ask(one, "run:cancel", { runId: "nothing" }), "UNKNOWN_RUN");
  refused(await ask(one, "run:detach", { runId }), "INVALID_COMMAND");
  assert.equal(one.errors.length, 9);
  assert.deepEqual(two.errors, []);
  assert.equal(one.connected, true);
  assert.equal(ended(one, runId), undefined);
  assert.equal((await ask(one, "run:cancel", { runId })).ok, true);
});

test("PIL-027 thread:messages without an acknowledgement joins, and tells of a failure by protocol:error", async () => {
  const b = new Browser(); const t = await b.thread();
  const [one, two] = [await b.window(), await b.window()];
  two.emit("thread:messages", { threadId: t });
  two.emit("thread:messages", { threadId: "nowhere" });
  await until(() => two.errors.length === 1, "the error");
  assert.equal(two.errors[0].code, "CONVERSATION_NOT_FOUND");
  const { runId } = await start(one, t, "hi");
  await finished(two, runId);
});

test("PIL-044 PIL-045 PIL-174 a thread that is not there and one of somebody else look the same", async () => {
  const [ann, bob] = [new Browser(), new Browser()];
  const t = await ann.thread(); await bob.thread();
  const s = await bob.window();
  const [foreign, unknown] = [await messages(s, t), await messages(s, "01900000-0000-7000-8000-000000000000")];
  refused(foreign, "CONVERSATION_NOT_FOUND");
  assert.deepEqual(foreign, unknown);
  refused(await start(s, t, "hi"), "CONVERSATION_NOT_FOUND");
  const w = await ann.window();
  const { runId } = await start(w, t, "/slow");
  refused(await ask(s, "run:cancel", { runId }), "UNKNOWN_RUN");
  for (const path of [`/conversations/${t}`, "/conversations/nowhere"]) assert.equal((await bob.fetch(path)).status, 404);
  assert.equal((await bob.fetch(`/conversations/${t}`, { method: "DELETE" })).status, 404);
  await ask(w, "run:cancel", { runId });
});

test("PIL-145 a socket watches 256 threads and no more; nothing but its end leaves", async () => {
  const b = new Browser(); await b.thread();
  const s = await b.window();
  const ids = await Promise.all(Array.from({ length: 257 }, () => b.thread()));
  for (const [i, t] of ids.entries()) {
    let a = await messages(s, t);
    while (!a.ok && /slow down/.test(a.message)) { await new Promise((r) => setTimeout(r, 100)); a = await messages(s, t); }
    if (i < 256) assert.equal(a.ok, true, `${i} ${JSON.stringify(a)}`);
    else refused(a, "INVALID_COMMAND");
  }
});

test("PIL-050 eight attachments travel inline or as uploads, nine do not", async () => {
  const b = new Browser(); const t = await b.thread();
  const s = await b.window();
  const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==", "base64");
  const up = await b.fetch("/attachments", { method: "POST", headers: { "content-type": "image/png", "x-name": "dot.png" }, body: png });
  assert.equal(up.status, 201);
  const { id } = await up.json();
  const inline = { mediaType: "image/png", data: png.toString("base64") };
  refused(await start(s, t, "", { attachments: Array(9).fill(inline) }), "INVALID_COMMAND");
  const a = await start(s, t, "", { attachments: [{ id }, ...Array(7).fill(inline)] });
  assert.equal(a.ok, true, JSON.stringify(a));
  await finished(s, a.runId);
  const [m] = (await messages(s, t)).messages;
  assert.equal(m.attachments.length, 8);
  for (const f of m.attachments) {
    const r = await b.fetch(`/attachments/${f.id}`);
    assert.equal(r.headers.get("content-type"), "image/png");
    assert.equal(r.headers.get("x-content-type-options"), "nosniff");
    assert.deepEqual(Buffer.from(await r.arrayBuffer()), png);
    const other = new Browser(); await other.thread();
    assert.equal((await other.fetch(`/attachments/${f.id}`)).status, 404);
    assert.equal((await other.fetch(`/attachments/${f.id}`, { method: "DELETE" })).status, 404);
  }
  // What came with a message goes with its conversation; an upload of its own
  // stays until it is deleted.
  assert.equal((await b.fetch(`/conversations/${t}`, { method: "DELETE" })).status, 204);
  for (const f of m.attachments) assert.equal((await b.fetch(`/attachments/${f.id}`)).status, f.id === id ? 200 : 404);
  assert.equal((await b.fetch(`/attachments/${id}`, { method: "DELETE" })).status, 204);
  assert.equal((await b.fetch(`/attachments/${id}`)).status, 404);
});

test("PIL-020 PIL-023 PIL-107 PIL-108 a subagent goes to the background, in a conversation of its own", async () => {
  const b = new Browser(); const t = await b.thread();
  const s = await b.window();
  await messages(s, t);
  const { runId } = await start(s, t, "/sub");
  await seen(s, runId, "SUBAGENT_STARTED");
  assert.equal((await ask(s, "run:detach", { runId })).ok, true);
  const done = await seen(s, runId, "SUBAGENT_FINISHED");
  assert.equal(done.event.detached, true);
  assert.equal(done.event.status, "finished");
  await finished(s, runId);
  const { task, threadId } = await until(() => s.tasks[0], "the task");
  assert.equal(threadId, t);
  assert.equal(task.parentThreadId, t);
  const a = await messages(s, task.childThreadId);
  assert.equal(a.ok, true);
  assert.equal(a.task.taskId, task.taskId);
  await until(() => s.tasks.some((x) => x.task.taskId === task.taskId && x.task.status === "finished"), "the task's end");
  assert.notEqual((await messages(s, task.childThreadId)).messages.at(-1).content, "");
});

test("PIL-198 conversations are listed in pages, and a deleted one is gone for its windows too", async () => {
  const b = new Browser();
  const made = [];
  for (let i = 0; i < 5; i++) made.unshift(await b.thread({ title: `t${i}` }));
  const got = [];
  for (let after = ""; ;) {
    const page = await (await b.fetch(`/conversations?limit=2${after && "&after=" + after}`)).json();
    got.push(...page.conversations.map((c) => c.id));
    if (!page.next) break;
    after = page.next;
  }
  assert.deepEqual(got, made);
  const s = await b.window();
  await messages(s, made[0]);
  let gone = false;
  s.on("disconnect", () => { gone = true; });
  assert.equal((await b.fetch(`/conversations/${made[0]}`, { method: "DELETE" })).status, 204);
  await until(() => gone, "the close");
  await until(() => s.hellos.length === 2, "the way back");
  refused(await messages(s, made[0]), "CONVERSATION_NOT_FOUND");
});

test("PIL-197 the routes of others say what to configure", async () => {
  const b = new Browser(); await b.thread();
  for (const p of ["agents", "agent-admin", "presentations", "usage", "schedules", "model-gateway"]) {
    assert.equal((await b.fetch(`/${p}`)).status, 501);
  }
});

await run();
