// An agent that dials in: it joins one thread with its app's secret, takes up each
// run that waits, and says the user's message back, word by word. A message that
// has the word "please" asks for a decision first.
//
//   npm install phoenix ws
//   URL=ws://localhost:8080/socket APP=pk_live_x SECRET=... THREAD=t1 node agent.mjs
import { Socket } from "phoenix";
import { WebSocket } from "ws";

const { URL: url, APP: app, SECRET: secret, THREAD: thread } = process.env;
const socket = new Socket(url, { transport: WebSocket });
let messages = [];
const mine = new Set(); // runs that this process has taken up
const waiting = new Map(); // those that wait for a decision

const channel = socket.channel(`chat:v1:app:${app}:thread:${thread}`, { secret, agent_id: `example-${process.pid}` });
const push = (event, payload) => new Promise((ok, no) => channel.push(event, payload)
  .receive("ok", ok).receive("error", (e) => no(new Error(e.reason))).receive("timeout", () => no(new Error("timeout"))));

channel.on("snapshot", ({ state }) => {
  messages = state.messages;
  for (const run of Object.values(state.runs)) consider(run);
});
channel.on("change", ({ key, value }) => slot(key, value));
channel.on("batch", ({ changes }) => { for (const { key, value } of changes) slot(key, value); });
channel.on("tool_approval", ({ runId, approved }) => {
  // What was asked before this process began is not known here any more.
  const go = waiting.get(runId) ?? ((yes) => answer(runId, yes ? "I did." : "I did not.", ""));
  waiting.delete(runId);
  push("run:resume", { runId }).then(() => go(approved)).catch(report(runId));
});

function slot(key, value) {
  if (key === "messages") messages = value;
  else if (key.startsWith("run:") && value) consider(value);
}

/** Takes up a run that waits for an agent. */
function consider({ runId, status, ownerClientId }) {
  if (status !== "pending" || mine.has(runId)) return;
  mine.add(runId);
  serve(runId, ownerClientId).catch(report(runId));
}

async function serve(runId, ownerClientId) {
  await push("run:start", { runId, ownerClientId });
  const text = messages.findLast((m) => m.runId === runId && m.role === "user")?.content ?? "";
  if (!/\bplease\b/.test(text)) return answer(runId, `You said: ${text}`, "");
  await push("run:token", { runId, content: "May I?" });
  waiting.set(runId, (yes) => answer(runId, yes ? " I did." : " I did not.", "May I?"));
  await push("run:suspend", { runId, toolCallId: `call-${runId}`, toolName: "favour", args: { text } });
}

/** Says words after what was said already: each token is the whole text so far. */
async function answer(runId, words, content) {
  for (const word of words.match(/\s*\S+/g) ?? []) {
    await push("run:token", { runId, content: (content += word) });
    await new Promise((r) => setTimeout(r, 30));
  }
  await push("run:end", { runId, reason: "complete" });
}

// A run that a person has stopped meanwhile is over: its pushes say so.
const report = (runId) => (e) => console.error(`run ${runId}: ${e.message}`);
channel.join().receive("ok", () => console.log("joined")).receive("error", (e) => { console.error(e.reason); process.exit(1); });
socket.connect();
