// Questions that one dialect raises and another answers.
import { WebSocket } from "ws";
import { Browser, ask, assert, call, finished, messages, run, start, test, until } from "./lib.mjs";
import { open } from "./channels.mjs";

const smooth = process.env.SMOOTH ?? process.env.BASE;
const agentId = "11111111-1111-4111-8111-111111111111";
const abilities = ["subscribe", "publish:user_message", "publish:cancel_any", "publish:tool_approval"];

/** A smooth-operator client of the same browser, which keeps what it is told. */
class Operator {
  constructor(browser) {
    this.frames = [];
    this.ws = new WebSocket(smooth.replace("http", "ws") + "/ws", { headers: { cookie: browser.cookie } });
    this.ws.on("message", (b) => this.frames.push(JSON.parse(b)));
    this.opened = new Promise((ok, no) => { this.ws.on("open", ok); this.ws.on("error", no); });
  }
  send(action, more) { this.ws.send(JSON.stringify({ action, ...more })); }
  seen(type, f = () => true) { return until(() => this.frames.find((x) => x.type === type && f(x)), `${type} in smooth-operator`); }
  async session(more = {}) {
    await this.opened;
    const requestId = `create-${Operator.n++}`;
    this.send("create_conversation_session", { requestId, agentId, ...more });
    const { data } = await this.seen("immediate_response", (x) => x.requestId === requestId);
    this.sessionId = data.sessionId; this.conversationId = data.conversationId;
    this.send("get_session", { requestId: `get-${requestId}`, sessionId: this.sessionId });
    this.thread = (await this.seen("immediate_response", (x) => x.requestId === `get-${requestId}`)).data.threadId;
    return this;
  }
  say(message, requestId = "turn") { this.send("send_message", { requestId, sessionId: this.sessionId, message }); return requestId; }
  said(requestId) { return this.frames.filter((x) => x.type === "stream_token" && x.requestId === requestId).map((x) => x.token).join(""); }
  results(requestId) { return this.frames.filter((x) => x.requestId === requestId && x.data.state?.rawResponse?.toolResult).map((x) => x.data.state.rawResponse.toolResult); }
}
Operator.n = 0;

/** A thread that smooth-operator begins, with a window of each other dialect. */
const fromSmooth = async (supports = []) => {
  const b = new Browser(); await b.thread(); // which gives it its cookie
  const o = await new Operator(b).session({ supports });
  const p = await b.window();
  assert.equal((await messages(p, o.thread)).ok, true);
  return { b, o, p, t: o.thread, c: await open(o.thread, "ada", abilities) };
};

/** A thread that Pilotoo begins, watched by smooth-operator. */
const watched = async (supports = []) => {
  const b = new Browser(); const t = await b.thread();
  const p = await b.window();
  assert.equal((await messages(p, t)).ok, true);
  const c = await open(t, "ada", abilities);
  const o = await new Operator(b).session({ conversationId: t, supports: ["thread_watch", ...supports] });
  assert.equal(o.conversationId, t);
  return { b, o, p, t, c };
};
const done = ({ c, o }) => { c.check(); c.socket.disconnect(); o.ws.terminate(); };
const suspended = async (c) => {
  await c.until(() => Object.values(c.slots).some((v) => v?.status === "suspended"), "the pause in Pingerchips");
  return Object.values(c.slots).find((v) => v?.status === "suspended");
};
const pending = async (p, t) => {
  for (;;) { const q = (await messages(p, t)).pendingInterrupt; if (q) return q; await new Promise((r) => setTimeout(r, 20)); }
};

test("SMO-150 SMO-152 PIL-090 an approval of a smooth-operator turn is given in Pilotoo", async () => {
  await call("approval");
  const w = await fromSmooth();
  w.o.say("delete it");
  await w.o.seen("write_confirmation_required");
  const q = await pending(w.p, w.t);
  const a = await ask(w.p, "run:resume", { threadId: w.t, interruptId: q.interruptId, answer: true });
  assert.equal(a.ok, true, JSON.stringify(a));
  const f = await w.o.seen("eventual_response");
  assert.equal(f.requestId, "turn");
  assert.deepEqual(w.o.results("turn"), [{ name: "delete_record", isError: false, result: "Record 42 deleted." }]);
  assert.equal(w.o.said("turn"), "done");
  await finished(w.p, a.runId);
  assert.equal((await call("answers"))[0].payload.approved, true);
  done(w);
});

test("SMO-150 SMO-156 PIN-170 an approval of a smooth-operator turn is refused in Pingerchips", async () => {
  await call("approval");
  const w = await fromSmooth();
  w.o.say("delete it");
  await w.o.seen("write_confirmation_required");
  const r = await suspended(w.c);
  await w.c.push("tool_approval", { runId: r.runId, toolCallId: r.suspendedTool.toolCallId, approved: false });
  await w.o.seen("eventual_response");
  assert.equal(w.o.results("turn").length, 1);
  assert.equal(w.o.results("turn")[0].isError, true);
  await w.c.ended(r.runId);
  assert.equal((await call("answers"))[0].payload.approved, false);
  // What the first answered is over for the others.
  w.o.send("confirm_tool_action", { requestId: "late", sessionId: w.o.sessionId, approved: true });
  assert.equal((await w.o.seen("error")).error.code, "NO_PENDING_CONFIRMATION");
  done(w);
});

test("SMO-227 SMO-152 an approval of a Pilotoo run is given by a smooth-operator client", async () => {
  await call("approval");
  const w = await watched();
  const { runId } = await start(w.p, w.t, "delete it");
  const q = await w.o.seen("write_confirmation_required");
  assert.match(q.requestId, /^run:/);
  assert.equal(q.data.data.toolId, "delete_record");
  w.o.send("confirm_tool_action", { requestId: q.requestId, sessionId: w.o.sessionId, approved: true });
  const f = await w.o.seen("eventual_response");
  assert.equal(f.requestId, q.requestId);
  await finished(w.p, runId);
  await until(() => w.p.events.filter((e) => e.event.type === "RUN_FINISHED").length === 2, "the end in Pilotoo");
  assert.equal((await messages(w.p, w.t)).messages.at(-1).content, "done");
  assert.equal((await call("answers"))[0].payload.approved, true);
  done(w);
});

test("SMO-227 PIN-170 an approval of a Pingerchips run is refused by a smooth-operator client", async () => {
  await call("approval");
  const w = await watched();
  const r = await w.c.send("delete it");
  const q = await w.o.seen("write_confirmation_required");
  await w.c.until(() => w.c.status(r.runId) === "suspended", "the pause");
  w.o.send("confirm_tool_action", { requestId: q.requestId, sessionId: w.o.sessionId, approved: false });
  await w.c.ended(r.runId);
  await w.o.seen("eventual_response", (f) => f.requestId === q.requestId);
  assert.equal((await call("answers"))[0].payload.approved, false);
  done(w);
});

test("SMO-182 SMO-193 SMO-227 a form of a Pilotoo run is filled in on a smooth-operator card", async () => {
  await call("form");
  const w = await watched(["schema_form"]);
  const { runId } = await start(w.p, w.t, "how many?");
  const q = await w.o.seen("interaction_required");
  assert.equal(q.data.data.kind, "form");
  assert.deepEqual(q.data.data.spec.schema.required, ["n"]);
  const sub = (requestId, n) => w.o.send("submit_interaction", { requestId, sessionId: w.o.sessionId, interactionId: q.data.data.interactionId, values: { n } });
  sub(q.requestId, "many");
  await w.o.seen("interaction_invalid");
  sub(q.requestId, 3);
  await w.o.seen("eventual_response", (f) => f.requestId === q.requestId);
  await finished(w.p, runId);
  assert.deepEqual((await call("answers"))[0].payload, { n: 3 });
  await until(() => w.p.events.filter((e) => e.event.type === "RUN_FINISHED").length === 2, "the end in Pilotoo");
  done(w);
});

test("SMO-185 PIL-090 a card of a smooth-operator turn is answered in Pilotoo", async () => {
  await call("form");
  const w = await fromSmooth(["schema_form"]);
  w.o.say("how many?");
  const q = await w.o.seen("interaction_required");
  const i = await pending(w.p, w.t);
  const a = await ask(w.p, "run:resume", { threadId: w.t, interruptId: i.interruptId, answer: { n: 7 } });
  assert.equal(a.ok, true, JSON.stringify(a));
  await w.o.seen("eventual_response");
  assert.deepEqual((await call("answers"))[0].payload, { n: 7 });
  w.o.send("submit_interaction", { requestId: "late", sessionId: w.o.sessionId, interactionId: q.data.data.interactionId, values: { n: 1 } });
  assert.equal((await w.o.seen("error")).error.code, "NO_PENDING_INTERACTION");
  done(w);
});

test("SMO-186 PIN-170 a card that follows an approval of Pingerchips is shown", async () => {
  await call("both");
  const w = await fromSmooth(["identity_form"]);
  w.o.say("delete it");
  await w.o.seen("write_confirmation_required");
  const r = await suspended(w.c);
  await w.c.push("tool_approval", { runId: r.runId, toolCallId: r.suspendedTool.toolCallId, approved: true });
  const q = await w.o.seen("interaction_required");
  w.o.send("submit_interaction", { requestId: "s", sessionId: w.o.sessionId, interactionId: q.data.data.interactionId, values: { email: "ann@example.com" } });
  await w.o.seen("eventual_response");
  assert.deepEqual(w.o.results("turn").map((x) => x.isError), [false, false]);
  done(w);
});

test("SMO-157 PIN-251 an approval that all three answer at once has one answer", async () => {
  for (let n = 0; n < 5; n++) {
    await call("approval");
    const w = await fromSmooth();
    w.o.say("delete it");
    await w.o.seen("write_confirmation_required");
    const q = await pending(w.p, w.t);
    const r = await suspended(w.c);
    w.o.send("confirm_tool_action", { requestId: "mine", sessionId: w.o.sessionId, approved: true });
    const others = await Promise.allSettled([
      ask(w.p, "run:resume", { threadId: w.t, interruptId: q.interruptId, answer: false }).then((a) => { if (!a.ok) throw new Error(a.error.code); }),
      w.c.push("tool_approval", { runId: r.runId, toolCallId: r.suspendedTool.toolCallId, approved: false }),
    ]);
    const mine = await until(() => w.o.frames.find((f) => f.requestId === "mine"), "the answer in smooth-operator");
    const won = [mine.type === "immediate_response", ...others.map((o) => o.status === "fulfilled")];
    assert.equal(won.filter(Boolean).length, 1, `${JSON.stringify(won)} ${others.map((o) => o.reason)}`);
    await w.o.seen("eventual_response");
    const given = await call("answers");
    assert.equal(given.length, 1);
    assert.equal(given[0].payload.approved, won[0]);
    done(w);
  }
});

await run();
