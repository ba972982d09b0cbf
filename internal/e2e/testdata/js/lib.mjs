// What the scripts share: a browser's worth of identity, sockets of the
// published client, and a reference fold of envelopes.
import assert from "node:assert/strict";
import readline from "node:readline";
import { io } from "socket.io-client";

export const base = process.env.BASE;
const cases = [];

/** Registers a case; run() runs them in order, each within its own time. */
export function test(name, f, ms = 180_000) { cases.push({ name, f, ms }); }

export async function run() {
  for (const { name, f, ms } of cases) {
    let error = "";
    try {
      await Promise.race([f(), new Promise((_, no) => setTimeout(() => no(new Error(`took longer than ${ms / 1000} s`)), ms).unref())]);
    } catch (e) {
      error = String(e?.stack ?? e);
    }
    console.log(JSON.stringify({ name, error }));
    closeAll();
  }
  process.exit(0);
}

let lines;
/** Has the test that runs this script do something, and waits for its result. */
export async function call(name) {
  lines ??= readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  console.log(JSON.stringify({ call: name }));
  return JSON.parse((await lines.next()).value);
}

const open = new Set();
process.on("unhandledRejection", () => {}); // of cases that failed already
function closeAll() { for (const s of open) s.disconnect(); open.clear(); }

/** A browser: its cookie is its identity. */
export class Browser {
  constructor(at = base) { this.base = at; this.cookie = ""; }
  async fetch(path, init = {}) {
    const headers = { ...(init.headers ?? {}) };
    if (this.cookie) headers.cookie = this.cookie;
    const r = await fetch(this.base + path, { ...init, headers });
    for (const c of r.headers.getSetCookie()) if (c.startsWith("parlance=")) this.cookie = c.split(";")[0];
    return r;
  }
  async thread(body = {}) {
    const r = await this.fetch("/conversations", { method: "POST", body: JSON.stringify(body) });
    assert.equal(r.status, 201, await r.clone().text());
    return (await r.json()).id;
  }
  /**
   * A connected socket that keeps what it is told; at is where, if not the
   * browser's own base, and cookie one more than the browser has.
   */
  async window({ transports = ["websocket"], forceNew = true, wait = true, at = this.base, cookie = "", agent } = {}) {
    const s = io(at, { transports, forceNew, ...(agent ? { agent } : {}), extraHeaders: { cookie: [this.cookie, cookie].filter(Boolean).join("; ") }, reconnectionDelay: 50, reconnectionDelayMax: 200 });
    open.add(s);
    s.events = []; s.errors = []; s.tasks = []; s.hellos = []; s.order = [];
    s.on("protocol:hello", (h) => { s.hellos.push(h); s.order.push("hello"); });
    s.on("run:event", (e) => { s.events.push(e); s.order.push(e.event.type); });
    s.on("task:status", (e) => { s.tasks.push(e); s.order.push("task"); });
    s.on("protocol:error", (e) => { s.errors.push(e); s.order.push("error"); });
    if (wait) await until(() => s.hellos.length > 0, "the hello");
    return s;
  }
}

export const ask = (s, name, arg) => s.timeout(60_000).emitWithAck(name, arg);
export const messages = (s, threadId) => ask(s, "thread:messages", { threadId });
let n = 0;
export const newID = () => `m-${process.pid}-${n++}`;
export const start = (s, threadId, input, more = {}) => ask(s, "run:start", { threadId, messageId: newID(), input, ...more });

/** Waits until f, which may be asynchronous, has something true to say, and returns that. */
export async function until(f, what = "it", ms = 60_000) {
  for (const end = Date.now() + ms; ;) {
    const v = await f();
    if (v) return v;
    if (Date.now() > end) throw new Error(`${what} did not come`);
    await new Promise((r) => setTimeout(r, 5));
  }
}

const terminal = new Set(["RUN_FINISHED", "RUN_CANCELLED", "RUN_ERROR"]);
export const ended = (s, runId) => s.events.find((e) => e.runId === runId && terminal.has(e.event.type));
export const finished = (s, runId) => until(() => ended(s, runId), `the end of ${runId}`);
export const types = (s, runId) => s.events.filter((e) => e.runId === runId).map((e) => e.event.type);
export const text = (s, runId) => s.events.filter((e) => e.runId === runId && e.event.type === "TEXT_MESSAGE_CONTENT").map((e) => e.event.delta).join("");
export const seen = (s, runId, type) => until(() => s.events.find((e) => e.runId === runId && e.event.type === type), `${type} of ${runId}`);
export const refused = (a, code) => { assert.equal(a.ok, false, JSON.stringify(a)); assert.equal(a.error.code, code, JSON.stringify(a)); assert.equal(a.code, code); };

/**
 * The transcript that a reader ends up with: the messages of a history answer,
 * its replay and what came live after it, through one path.
 */
export function fold(answer, live) {
  const list = answer.messages.map((m) => ({ ...m }));
  const at = (id) => list.find((m) => m.id === id);
  const call = (id) => list.flatMap((m) => m.toolCalls ?? []).find((c) => c.id === id);
  const last = new Map();
  const envelopes = [...(answer.replay?.envelopes ?? []), ...live];
  for (const { v, runId, sequence, event: e } of envelopes) {
    assert.equal(v, 1);
    if (last.has(runId)) assert.equal(sequence, last.get(runId) + 1, `a hole in ${runId}`);
    last.set(runId, sequence);
    switch (e.type) {
      case "RUN_STARTED":
        if (e.message && !at(e.message.id)) list.push({ ...e.message });
        break;
      case "TEXT_MESSAGE_START":
        if (!at(e.messageId)) list.push({ id: e.messageId, role: "assistant", content: "" });
        break;
      case "TEXT_MESSAGE_CONTENT": at(e.messageId).content += e.delta; break;
      case "TOOL_CALL_START": {
        const m = at(e.parentMessageId) ?? list[list.length - 1];
        (m.toolCalls ??= []).push({ id: e.toolCallId, name: e.toolCallName, arguments: "" });
        break;
      }
      case "TOOL_CALL_ARGS": call(e.toolCallId).arguments += e.delta; break;
      case "TOOL_CALL_RESULT": { const c = call(e.toolCallId); if (c) c.result = e.content; break; }
    }
  }
  return list.map(({ id, role, content, toolCalls }) => ({ id, role, content, ...(toolCalls ? { toolCalls } : {}) }));
}

export { assert };
