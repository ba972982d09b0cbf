// Agents dial in to one of two edges and windows watch at the other. BASE and OTHER
// are the edges, AGENT is the example's code.
import { spawn } from "node:child_process";
import { WebSocket } from "ws";
import { Socket } from "phoenix";
import { Browser, ask, assert, base, call, finished, messages, run, start, test, text, types, until } from "./lib.mjs";
import { key, open, topicOf } from "./channels.mjs";

const other = process.env.OTHER;
const all = ["subscribe", "publish:user_message", "publish:cancel_any", "publish:tool_approval"];
const ws = (at) => at.replace("http", "ws") + "/socket";

/** The example, as a process of its own. */
async function example(thread, at) {
  const p = spawn(process.execPath, [process.env.AGENT], {
    env: { ...process.env, URL: ws(at), APP: key, THREAD: thread }, stdio: ["ignore", "pipe", "inherit"],
  });
  process.on("exit", () => p.kill("SIGKILL"));
  await new Promise((ok) => p.stdout.once("data", ok));
  return p;
}

/** An agent within this script, which says what a test has it say. */
class Agent {
  constructor(thread, at, name = "a1") {
    this.socket = new Socket(ws(at), { transport: WebSocket, timeout: 20_000, reconnectAfterMs: () => 50, rejoinAfterMs: () => 50 });
    this.runs = {}; this.decisions = [];
    this.channel = this.socket.channel(topicOf(thread), { secret: process.env.SECRET, agent_id: name });
    this.channel.on("snapshot", ({ state }) => { this.runs = { ...state.runs }; });
    this.channel.on("change", ({ key: k, value }) => this.slot(k, value));
    this.channel.on("batch", ({ changes }) => { for (const c of changes) this.slot(c.key, c.value); });
    this.channel.on("tool_approval", (d) => this.decisions.push(d));
    this.socket.connect();
    this.joined = new Promise((ok, no) => this.channel.join().receive("ok", ok).receive("error", (e) => no(new Error(e.reason))));
  }
  slot(k, value) { if (k.startsWith("run:")) this.runs[k.slice(4)] = value; }
  push(event, payload) {
    return new Promise((ok, no) => this.channel.push(event, payload).receive("ok", ok)
      .receive("error", (e) => no(new Error(`${event}: ${e.reason}`))).receive("timeout", () => no(new Error(`${event} was not answered`))));
  }
  waiting(runId) { return until(() => this.runs[runId]?.status === "pending", `the run ${runId}`); }
  close() { return new Promise((ok) => this.socket.disconnect(ok)); }
}

const agent = async (thread, at, name) => { const a = new Agent(thread, at, name); await a.joined; return a; };

const opened = async () => {
  const b = new Browser(); const t = await b.thread();
  const p = await b.window();
  await messages(p, t);
  return { t, p, c: await open(t, "ada", all) };
};

/** The id by which this dialect knows the run that a window of the other began. */
async function live(c) {
  const find = () => Object.values(c.slots).find((v) => ["pending", "active", "suspended"].includes(v?.status));
  await c.until(find, "the run");
  return find().runId;
}

test("PIN-192 PIN-172 an agent at the other edge answers windows of two dialects", async () => {
  const { t, p, c } = await opened();
  const a = await example(t, other);
  const r = await c.send("good morning");
  await c.ended(r.runId);
  assert.equal(c.check().messages.at(-1).content, "You said: good morning");
  await start(p, t, "please");
  const asking = await live(c);
  await c.until(() => c.status(asking) === "suspended", "the question");
  await c.push("tool_approval", { runId: asking, toolCallId: c.slots[`run:${asking}`].suspendedTool.toolCallId, approved: true });
  await c.ended(asking);
  assert.equal(c.check().messages.at(-1).content, "May I? I did.");
  assert.equal((await messages(p, t)).messages.at(-1).content, "May I? I did.");
  const v = await start(p, t, "word ".repeat(300));
  const long = await live(c);
  await c.until(() => (c.slots[`stream:${long}`]?.length ?? 0) > 20, "some text");
  await ask(p, "run:cancel", { runId: v.runId });
  await c.ended(long);
  assert.equal(c.status(long), "cancelled");
  c.socket.disconnect(); a.kill("SIGKILL");
});

test("PIN-194 an agent comes back through the other edge in the middle of a run", async () => {
  const { t, p, c } = await opened();
  let a = await agent(t, other);
  const segment = (await start(p, t, "go")).runId;
  const runId = await live(c);
  await a.waiting(runId);
  await a.push("run:start", { runId });
  let said = "";
  for (let i = 0; i < 60; i++) {
    if (i % 20 === 19) {
      await a.close();
      a = await agent(t, i % 40 === 19 ? base : other);
    }
    await a.push("run:token", { runId, content: (said += `word${i} `) });
  }
  await c.until(() => c.slots[`stream:${runId}`] === said, "all of the text");
  await a.close();
  a = await agent(t, base);
  await a.push("run:end", { runId });
  await c.ended(runId);
  await finished(p, segment);
  assert.equal(c.check().messages.at(-1).content, said);
  assert.equal(text(p, segment), said, "PIL-220 the deltas of the other dialect");
  assert.equal(types(p, segment).filter((e) => e === "TEXT_MESSAGE_START").length, 1, "PIL-220 the messages of the other dialect");
  await a.close(); c.socket.disconnect();
});

test("PIN-193 an agent begins a run by itself", async () => {
  const { t, p, c } = await opened();
  const a = await agent(t, other);
  await a.push("run:start", { runId: "news", ownerClientId: "ada" });
  await a.push("run:token", { runId: "news", content: "It is noon" });
  await a.push("run:suspend", { runId: "news", toolCallId: "c1", toolName: "strike", args: { bells: 12 } });
  await c.until(() => c.status("news") === "suspended", "the question");
  const asked = await messages(p, t);
  assert.deepEqual(asked.messages.map((m) => [m.role, m.content]), [["assistant", "It is noon"]]);
  const ack = await ask(p, "run:resume", { threadId: t, interruptId: asked.pendingInterrupt.interruptId, answer: { approved: true } });
  assert.equal(ack.ok, true, JSON.stringify(ack));
  await until(() => a.decisions.length > 0, "the decision");
  await a.push("run:resume", { runId: "news" });
  await a.push("run:token", { runId: "news", content: "It is noon." });
  await a.push("run:end", { runId: "news" });
  await c.ended("news");
  const m = c.check().messages.at(-1);
  assert.deepEqual([m.role, m.content, m.ownerClientId, m.status], ["assistant", "It is noon.", "ada", "complete"]);
  await until(() => p.events.filter((e) => e.event.type === "RUN_FINISHED").length === 2, "its end in the other dialect");
  assert.deepEqual((await messages(p, t)).messages.map((m) => m.content).filter((s) => s), ["It is noon."]);
  const r = await c.send("thank you");
  await a.waiting(r.runId);
  await a.push("run:start", { runId: r.runId });
  await a.push("run:end", { runId: r.runId });
  await c.ended(r.runId);
  await a.close(); c.socket.disconnect();
});

test("PIN-206 two agents speak for one run through two edges", async () => {
  const { t, c } = await opened();
  const a = await agent(t, base, "a1"); const b = await agent(t, other, "a2");
  const r = await c.send("go");
  await a.waiting(r.runId);
  await Promise.all([a, b].map((x) => x.push("run:start", { runId: r.runId })));
  for (const [x, said] of [[a, "first"], [b, "second"], [a, "third"], [b, "fourth"]]) {
    await x.push("run:token", { runId: r.runId, content: said });
    await c.until(() => c.slots[`stream:${r.runId}`] === said, said);
  }
  await a.push("run:end", { runId: r.runId });
  await c.ended(r.runId);
  await assert.rejects(b.push("run:end", { runId: r.runId }), /already_ended/);
  c.check();
  await a.close(); await b.close(); c.socket.disconnect();
});

test("F22 PIN-194 the agent's edge is killed, and it goes on at the other", async () => {
  const { t, c } = await opened();
  const a = await agent(t, other);
  const r = await c.send("go");
  await a.waiting(r.runId);
  await a.push("run:start", { runId: r.runId });
  await a.push("run:token", { runId: r.runId, content: "half" });
  await c.until(() => c.slots[`stream:${r.runId}`] === "half", "the text");
  await call("kill");
  await a.close();
  const b = await agent(t, base);
  await b.push("run:token", { runId: r.runId, content: "half and half" });
  await b.push("run:end", { runId: r.runId });
  await c.ended(r.runId);
  assert.deepEqual([c.check().messages.at(-1).content, c.status(r.runId)], ["half and half", "complete"]);
  await call("boot");
  await b.close(); c.socket.disconnect();
}, 240_000);

test("PIN-184 PIN-185 the agent's edge is killed and it with it: the run is swept, its text is kept", async () => {
  const { t, c } = await opened();
  const a = await agent(t, other);
  const r = await c.send("go");
  await a.waiting(r.runId);
  await a.push("run:start", { runId: r.runId });
  await a.push("run:token", { runId: r.runId, content: "half" });
  await c.until(() => c.slots[`stream:${r.runId}`] === "half", "the text");
  await call("kill");
  await a.close();
  await c.ended(r.runId);
  assert.deepEqual([c.check().messages.at(-1).content, c.status(r.runId)], ["half", "cancelled"]);
  await call("boot");
  c.socket.disconnect();
}, 240_000);

test("F43 PIN-194 the agent's edge is restarted, and it loses nothing", async () => {
  const { t, c } = await opened();
  const a = await agent(t, other);
  const runs = [];
  for (const m of ["one", "two", "three"]) runs.push((await c.send(m)).runId);
  for (const runId of runs) await a.waiting(runId);
  await a.push("run:start", { runId: runs[0] });
  await a.push("run:token", { runId: runs[0], content: "half" });
  await a.push("run:start", { runId: runs[1] });
  await a.push("run:suspend", { runId: runs[1], toolCallId: "c1", toolName: "mail", args: {} });
  const restarted = call("restart");
  await c.push("tool_approval", { runId: runs[1], toolCallId: "c1", approved: true });
  await restarted; // the published client comes back by itself
  await until(() => a.decisions.length > 0, "the decision");
  await a.push("run:token", { runId: runs[0], content: "half and half" });
  await a.push("run:end", { runId: runs[0] });
  await a.push("run:resume", { runId: runs[1] });
  await a.push("run:end", { runId: runs[1] });
  await a.push("run:start", { runId: runs[2] });
  await a.push("run:end", { runId: runs[2] });
  for (const runId of runs) await c.ended(runId);
  assert.deepEqual(runs.map((id) => c.status(id)), ["complete", "complete", "complete"]);
  assert.equal(c.check().messages.find((m) => m.runId === runs[0] && m.role === "assistant").content, "half and half");
  await a.close(); c.socket.disconnect();
}, 240_000);

test("PIN-254 an agent is woken for what waits for it", async () => {
  const { t, p, c } = await opened();
  const heard = async (runId, n) => {
    for (;;) {
      const all = (await call("heard")).filter((b) => b === JSON.stringify({ threadId: t, runId }));
      if (all.length >= n) return;
      await new Promise((ok) => setTimeout(ok, 20));
    }
  };
  await start(p, t, "please");
  const runId = await live(c);
  await heard(runId, 1);
  const a = await example(t, other);
  await c.until(() => c.status(runId) === "suspended", "the question");
  a.kill("SIGKILL");
  await c.push("tool_approval", { runId, toolCallId: c.slots[`run:${runId}`].suspendedTool.toolCallId, approved: false });
  await heard(runId, 2); // for the decision, too
  const b = await example(t, base);
  await c.ended(runId);
  assert.equal(c.check().messages.at(-1).content, "I did not.");
  b.kill("SIGKILL"); c.socket.disconnect();
});

await run();
