// An agent that dials in serves windows of two dialects. AGENT is the example's
// code, which the test has put beside this script.
import { spawn } from "node:child_process";
import { Browser, ask, assert, base, finished, messages, run, start, test, text, until } from "./lib.mjs";
import { key, open } from "./channels.mjs";

const all = ["subscribe", "publish:user_message", "publish:cancel_any", "publish:tool_approval"];

/** The example, as a process of its own. */
async function agent(thread) {
  const p = spawn(process.execPath, [process.env.AGENT], {
    env: { ...process.env, URL: base.replace("http", "ws") + "/socket", APP: key, THREAD: thread }, stdio: ["ignore", "pipe", "inherit"],
  });
  process.on("exit", () => p.kill("SIGKILL"));
  await new Promise((ok) => p.stdout.once("data", ok));
  return p;
}

const opened = async () => {
  const b = new Browser(); const t = await b.thread();
  const p = await b.window();
  await messages(p, t);
  return { t, p, c: await open(t, "ada", all) };
};

test("PIN-192 PIN-198 a thread of two dialects is answered by an agent that dials in", async () => {
  const { t, p, c } = await opened();
  const first = await start(p, t, "good morning"); // nobody is there yet
  await c.until(() => Object.values(c.slots).some((v) => v?.status === "pending"), "the run that waits");
  const a = await agent(t);
  await finished(p, first.runId);
  assert.equal(text(p, first.runId), "You said: good morning");
  const r = await c.send("and good night");
  await c.ended(r.runId);
  const want = ["good morning", "You said: good morning", "and good night", "You said: and good night"];
  assert.deepEqual(c.check().messages.map((m) => m.content), want);
  assert.deepEqual((await messages(p, t)).messages.map((m) => m.content), want);
  c.socket.disconnect(); a.kill("SIGKILL");
});

test("PIN-172 PIN-173 its question is answered from either dialect", async () => {
  const { t, p, c } = await opened();
  const a = await agent(t);
  const r = await c.send("please");
  await c.until(() => c.status(r.runId) === "suspended", "the question");
  const q = (await messages(p, t)).pendingInterrupt;
  const ack = await ask(p, "run:resume", { threadId: t, interruptId: q.interruptId, answer: { approved: true } });
  assert.equal(ack.ok, true, JSON.stringify(ack));
  await c.ended(r.runId);
  assert.equal(c.messages.at(-1).content, "May I? I did.");
  const s = await c.send("please again");
  await c.until(() => c.status(s.runId) === "suspended", "the question");
  await c.push("tool_approval", { runId: s.runId, toolCallId: c.slots[`run:${s.runId}`].suspendedTool.toolCallId, approved: false });
  await c.ended(s.runId);
  assert.equal(c.check().messages.at(-1).content, "May I? I did not.");
  c.socket.disconnect(); a.kill("SIGKILL");
});

test("PIN-184 PIN-185 an agent that is killed in mid-run is swept, and its text is kept", async () => {
  const { t, p, c } = await opened();
  const a = await agent(t);
  const r = await c.send("word ".repeat(200));
  await c.until(() => (c.slots[`stream:${r.runId}`]?.length ?? 0) > 30, "some text");
  a.kill("SIGKILL");
  const shown = c.slots[`stream:${r.runId}`];
  await c.ended(r.runId);
  const last = c.check().messages.at(-1);
  assert.deepEqual([last.role, last.status], ["assistant", "cancelled"]);
  assert.ok(last.content.startsWith(shown));
  assert.equal((await messages(p, t)).messages.at(-1).content, last.content);
  // Another process goes on with what comes.
  const b = await agent(t);
  const s = await c.send("still there?");
  await c.ended(s.runId);
  assert.equal(c.messages.at(-1).content, "You said: still there?");
  c.socket.disconnect(); b.kill("SIGKILL");
});

await run();
