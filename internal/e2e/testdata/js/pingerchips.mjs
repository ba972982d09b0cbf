// The Pingerchips dialect, driven by the published phoenix client.
import { WebSocket } from "ws";
import { assert, base, run, test, until } from "./lib.mjs";
import { Window, connect, key, open, polling, reason, token, topicOf } from "./channels.mjs";

let n = 0;
const thread = () => `t:${process.pid}-${n++}`;
const words = (k) => Array.from({ length: k }, (_, i) => `w${i}`).join(" ");

test("PIN-050 PIN-064 PIN-079 a join of a new thread is answered, then shown empty", async () => {
  const w = await open(thread(), "ada");
  assert.match(w.replies[0].socket_id, /./);
  assert.deepEqual(w.seen, ["snapshot"]);
  assert.equal(w.log, 0);
  assert.deepEqual(w.slots, { messages: [] });
  assert.equal(w.hasOlder, false);
  w.socket.disconnect();
});

test("PIN-030 a token of the command line is taken, on every thread that it names", async () => {
  const s = connect();
  const w = new Window(s, thread(), { auth: process.env.TOKEN });
  await w.joined;
  await w.shown();
  await assert.rejects(w.send("no"), { reason: "forbidden: missing publish:user_message" });
  s.disconnect();
});

test("PIN-051 PIN-052 PIN-054 PIN-055 PIN-056 joins that are refused", async () => {
  const t = thread();
  const auth = await token(t, "ada");
  assert.equal(await reason(t, { auth: `${auth}x` }), "invalid token");
  assert.equal(await reason(t, {}), "auth required");
  assert.equal(await reason(t, { secret: "guess-guess-guess", agent_id: "a" }), "invalid secret");
  assert.equal(await reason(t, { auth: await token("else", "ada") }), `forbidden: missing chat:subscribe:${t}`);
  assert.equal(await reason(t, { auth, after_log_id: -1 }), "invalid after_log_id");
  assert.equal(await reason(t, { auth }, `chat:v1:app:${key}x:thread:${t}`), "app_key mismatch");
  assert.equal(await reason(t, { auth }, "chat:v1:app:x"), "invalid topic. Expected: chat:v1:app:{app_key}:thread:{thread_id}");
});

test("PIN-089 PIN-120 PIN-186 two windows see one run alike, to its end", async () => {
  const t = thread();
  const [a, b] = [await open(t, "ada"), await open(t, "bob")];
  const r = await a.send(words(8));
  assert.equal(r.status, "ok");
  for (const w of [a, b]) await w.ended(r.runId);
  assert.deepEqual([...b.entries], [...a.entries]);
  assert.deepEqual(a.messages.map((m) => [m.role, m.ownerClientId, m.status]), [["user", "ada", "complete"], ["assistant", "ada", "complete"]]);
  assert.equal(a.messages[1].content, words(8));
  assert.equal(a.slots.last_message_id, a.messages[1].messageId);
  await assert.rejects(a.push("cancel", { runId: r.runId }), { reason: "already_ended" });
  await assert.rejects(a.push("nonsense"), { reason: "unknown event: nonsense" });
  for (const w of [a, b]) w.check().socket.disconnect();
});

test("PIN-136 PIN-140 PIN-143 a stranger may not stop a run; its owner may, and its text stays", async () => {
  const t = thread();
  const [a, b] = [await open(t, "ada"), await open(t, "bob")];
  const r = await a.send("/slow");
  await b.until(() => b.slots[`stream:${r.runId}`], "some text");
  await assert.rejects(b.push("cancel", { runId: r.runId }), { reason: "forbidden" });
  await a.push("cancel", { runId: r.runId });
  for (const w of [a, b]) await w.ended(r.runId);
  assert.deepEqual([b.status(r.runId), b.messages[1].status, b.messages[1].content.trim()], ["cancelled", "cancelled", "Waiting"]);
  for (const w of [a, b]) w.check().socket.disconnect();
});

test("PIN-060 PIN-064 PIN-078 who comes back at any entry of a run of 200 misses nothing, and sees nothing twice", async () => {
  const t = thread();
  const a = await open(t, "ada");
  const auth = await token(t, "eve", ["subscribe"]);
  const back = [];
  const over = () => ["complete", "cancelled", "error"].includes(a.status(r.runId));
  a.onEntry = (k) => {
    // Words that come while an earlier one is being stored may be one entry, so
    // that only the entries say when it is long enough.
    if (k === 210) a.push("cancel", { runId: r.runId });
    back.push(comeBack(k));
  };
  const comeBack = async (k) => {
    // Somebody who went away having seen k entries joins again, in the middle of it.
    const s = connect();
    const w = new Window(s, t, { auth }, a.states.get(k));
    await w.joined;
    await w.shown();
    const at = w.log;
    await w.until(() => w.log > at || over(), "more, live");
    s.disconnect();
    return [k, w];
  };
  const r = await a.send(words(1000));
  await a.ended(r.runId);
  a.onEntry = undefined;
  const last = a.log;
  assert.ok(last >= 200, `the run has ${last} entries`);
  const same = (k, w) => {
    w.check();
    assert.ok(!w.skipped, `after ${k} nothing was replayed`);
    for (const [log, e] of w.entries) assert.equal(e, a.entries.get(log), `entry ${log} of who comes back after ${k}`);
  };
  let live = 0;
  for (const [k, w] of await Promise.all(back)) {
    same(k, w);
    for (let log = k + 1; log <= w.log; log++) assert.ok(w.entries.has(log), `after ${k} entry ${log} is missing`);
    if (w.log < last) live++;
  }
  assert.equal(back.length, last);
  assert.ok(live > last / 2, `only ${live} came back while it ran`);
  // The same once it is over, on few sockets: the whole rest, then the snapshot.
  // One socket may not join as often as it likes.
  let s = connect();
  for (let k = 0; k <= last; k++) {
    if (k % 100 === 99) {
      s.disconnect();
      s = connect();
    }
    const w = new Window(s, t, { auth }, k === 0 ? { slots: { messages: [] }, log: 0 } : a.states.get(k));
    await w.joined;
    await w.shown();
    same(k, w);
    assert.deepEqual([...w.entries.keys()], Array.from({ length: last - k }, (_, i) => k + 1 + i));
    assert.equal(w.seen.at(-1), "snapshot");
    await w.leave();
  }
  s.disconnect();
  a.check().socket.disconnect();
}, 240_000);

test("PIN-060 a client whose connection is cut in a run goes on by itself", async () => {
  const t = thread();
  const [a, b] = [await open(t, "ada"), await open(t, "bob")];
  const r = await a.send(words(60));
  for (let cut = 1; cut <= 3; cut++) {
    await b.until(() => b.replies.length === cut && b.seen.filter((e) => e === "snapshot").length === cut && b.slots[`stream:${r.runId}`], "text");
    if (polling) b.socket.conn.closeAndRetry(1006, "cut", false); else b.socket.conn.terminate();
    await until(() => b.replies.length > cut, "the way back");
  }
  for (const w of [a, b]) await w.ended(r.runId);
  for (const [log, e] of a.entries) assert.equal(b.entries.get(log), e, `entry ${log}`);
  assert.ok(!b.skipped);
  for (const w of [a, b]) w.check().socket.disconnect();
});

test("PIN-006 PIN-060 who leaves hears nothing more, and comes back to what was missed", async () => {
  const t = thread();
  const [a, b] = [await open(t, "ada"), await open(t, "bob")];
  await b.leave();
  await until(() => b.closed.length === 1, "the close of the channel");
  const { log, seen, slots } = b;
  const before = seen.length;
  const r = await a.send(words(3));
  await a.ended(r.runId);
  assert.equal(seen.length, before);
  const again = new Window(b.socket, t, { auth: await token(t, "bob") }, { slots, log });
  await again.joined;
  await again.shown();
  assert.deepEqual([...again.entries], [...a.entries]);
  assert.equal(again.messages.length, 2);
  for (const w of [a, again]) w.check();
  a.socket.disconnect(); b.socket.disconnect();
});

test("PIN-007 a second join of a topic closes the first, and takes its place", async () => {
  const t = thread();
  const a = await open(t, "ada");
  const frames = [];
  a.socket.onMessage((m) => frames.push(m));
  const ref = a.socket.makeRef();
  a.socket.push({ topic: topicOf(t), event: "phx_join", payload: { auth: await token(t, "ada") }, ref, join_ref: ref });
  await until(() => a.closed.length === 1, "the close of the first");
  await until(() => frames.some((m) => m.join_ref === ref && m.event === "snapshot"), "the second's snapshot");
  // What is sent now is the second's.
  const push = a.socket.makeRef();
  a.socket.push({ topic: topicOf(t), event: "send", payload: { text: "hi", messageId: "m", runId: "r" }, ref: push, join_ref: ref });
  await until(() => frames.some((m) => m.ref === push && m.payload.status === "ok"), "the reply");
  await until(() => frames.some((m) => m.join_ref === ref && m.event === "run:end"), "the end");
  a.check().socket.disconnect();
});

test("PIN-005 PIN-007 heartbeats are answered, and a topic that nobody joined is not", async () => {
  const a = await open(thread(), "ada");
  const ms = await new Promise((ok) => a.socket.ping(ok));
  assert.ok(ms >= 0);
  const frames = [];
  a.socket.onMessage((m) => frames.push(m));
  const ref = a.socket.makeRef();
  a.socket.push({ topic: topicOf("never-joined"), event: "send", payload: {}, ref, join_ref: ref });
  const m = await until(() => frames.find((f) => f.ref === ref), "the reply");
  assert.deepEqual(m.payload, { status: "error", response: { reason: "unmatched topic" } });
  a.check().socket.disconnect();
});

test("PIN-150 PIN-160 PIN-235 a branch is made, chosen and shown", async () => {
  const a = await open(thread(), "ada");
  const r = await a.send("one");
  await a.ended(r.runId);
  const [ask, answer] = a.messages;
  const e = await a.push("edit", { messageId: ask.messageId, text: "two", newMessageId: "m-two", runId: "r-two" });
  assert.equal(e.messageId, "m-two");
  await a.ended("r-two");
  const g = await a.push("regenerate", { messageId: answer.messageId, runId: "r-again", parentId: ask.messageId });
  assert.equal(g.status, "ok");
  await a.ended("r-again");
  await a.push("branch:select", { messageId: "m-two", selectedId: ask.messageId });
  const view = await a.push("view:get");
  assert.deepEqual(view.messages.map((m) => m.content), ["one", "one"]);
  assert.equal(view.messages[1].msgRegenerate, answer.messageId);
  a.check().socket.disconnect();
});

/** How a connection of no library is closed that says something. */
const closed = (say, query = "vsn=2.0.0") => new Promise((ok, no) => {
  const ws = new WebSocket(`${base.replace("http", "ws")}/socket/websocket?${query}`);
  ws.on("open", () => { for (const m of say) ws.send(m); });
  ws.on("unexpected-response", (_, r) => ok(`HTTP ${r.statusCode}`));
  ws.on("close", ok);
  ws.on("error", () => {});
  setTimeout(() => no(new Error("it stays open")), 30_000).unref();
});

if (!polling) test("PIN-004 PIN-009 each fault of framing has its close code, which is never one that a client stays away for", async () => {
  assert.equal(await closed(["{oops"]), 1007);
  assert.equal(await closed([Buffer.from([0x7b, 0xff, 0x7d]).toString("latin1"), "nonsense"]), 1007);
  for (const m of ["{}", "[1]", `["1","1","t","phx_join"]`, `["1","1","t","phx_join",{},0]`, Buffer.from("\u0000\u0001\u0001t")]) assert.equal(await closed([m]), 1003, String(m));
  assert.equal(await closed([`["1","1","t","x","${"x".repeat(3 << 20)}"]`]), 1009);
  for (const q of ["vsn=1.0.0", "vsn=3.0.0", ""]) assert.match(await closed([], q), /^HTTP 4/, q);
});

test("PIN-009 PIN-060 a client that says nonsense is cut off, comes back and goes on", async () => {
  const t = thread();
  const [a, b] = [await open(t, "ada"), await open(t, "bob")];
  const r = await a.send(words(40));
  await b.until(() => b.slots[`stream:${r.runId}`], "text");
  b.socket.conn.send("{oops");
  await until(() => b.replies.length === 2, "the way back");
  for (const w of [a, b]) await w.ended(r.runId);
  assert.ok(b.socket.closes.length > 0 && !b.socket.closes.includes(1000), `closed with ${b.socket.closes}`);
  for (const [log, e] of a.entries) assert.equal(b.entries.get(log), e, `entry ${log}`);
  for (const w of [a, b]) w.check().socket.disconnect();
});

test("PIN-006 PIN-007 PIN-060 a channel that is left and joined again, time after time, misses nothing", async () => {
  const t = thread();
  const [a, b] = [await open(t, "ada"), await open(t, "bob")];
  const r = await a.send(words(50));
  let w = b;
  const auth = await token(t, "bob");
  const entries = new Map();
  for (let i = 0; i < 5; i++) {
    const at = w.log;
    await w.until(() => w.log > at || a.status(r.runId) === "complete", "an entry");
    await w.leave();
    w.check();
    for (const [k, v] of w.entries) entries.set(k, v);
    w = new Window(b.socket, t, { auth }, { slots: w.slots, log: w.log });
    await w.joined;
    await w.shown();
    assert.ok(!w.skipped);
  }
  for (const x of [a, w]) await x.ended(r.runId);
  for (const [k, v] of w.entries) entries.set(k, v);
  for (const [log, e] of a.entries) assert.equal(entries.get(log), e, `entry ${log}`);
  for (const x of [a, w]) x.check();
  a.socket.disconnect(); b.socket.disconnect();
});

await run();
