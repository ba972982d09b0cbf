// What the scripts of the Pingerchips dialect share: sockets of the published
// client, and a fold of a thread's slots that holds each entry to the one before.
import { appendFileSync } from "node:fs";
import { WebSocket } from "ws";
import { assert, base, until } from "./lib.mjs";

const { Socket, LongPoll } = await import(process.env.CLIENT ?? "phoenix");
export const polling = process.env.TRANSPORT === "longpoll";
export const key = "pk_live_x";
export const topicOf = (thread) => `chat:v1:app:${key}:thread:${thread}`;

/** A token as a back end gets it for its user. */
export async function token(thread, client, capabilities) {
  const r = await fetch(`${base}/api/chat/auth`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-app-key": key, "x-app-secret": process.env.SECRET },
    body: JSON.stringify({ thread_id: thread, client_id: client, capabilities }),
  });
  assert.equal(r.status, 200, await r.clone().text());
  return (await r.json()).auth;
}

/** The edges; sockets are spread over them. */
export const edges = JSON.parse(process.env.EDGES ?? JSON.stringify([base]));
let sockets = 0;

/** A connected socket of the published client, to some edge. */
export function connect(at = edges[sockets % edges.length]) {
  const s = new Socket(at.replace("http", polling ? "http" : "ws") + "/socket", {
    transport: polling ? LongPoll : WebSocket, timeout: 20_000,
    reconnectAfterMs: () => 20, rejoinAfterMs: () => 30,
  });
  record(s, sockets++);
  s.closes = [];
  s.onClose((e) => s.closes.push(e?.code));
  s.connect();
  return s;
}

/** Keeps every frame of a socket where the test that runs this script looks at it. */
function record(s, c) {
  const file = process.env.FRAMES;
  if (!file) return;
  const note = (out, m) => appendFileSync(file, JSON.stringify({ c: `${process.pid}.${c}`, out, f: [m.join_ref ?? null, m.ref ?? null, m.topic, m.event, m.payload] }) + "\n");
  const { encode, decode } = s;
  s.encode = (m, f) => { note(true, m); return encode.call(s, m, f); };
  s.decode = (raw, f) => decode.call(s, raw, (m) => { note(false, m); f(m); });
}

const events = ["snapshot", "change", "batch", "run:start", "run:end", "run:suspend", "run:resume", "view:update"];
const plain = (v) => JSON.stringify(v ?? null);

/**
 * A joined thread, folded into its slots. From gives what another window had when
 * this one begins: its slots and log_id.
 */
export class Window {
  constructor(socket, thread, payload, from) {
    this.slots = { ...(from?.slots ?? {}) };
    this.log = from?.log;
    this.entries = new Map(); this.states = new Map(); this.seen = []; this.replies = []; this.closed = []; this.failed = [];
    this.channel = socket.channel(topicOf(thread), () => ({ ...payload, ...(this.log === undefined ? {} : { after_log_id: this.log }) }));
    for (const e of events) this.channel.on(e, (p) => this.take(e, p));
    this.channel.onClose((p) => this.closed.push(p));
    this.joined = new Promise((ok, no) => this.channel.join().receive("ok", (r) => { this.fresh = true; this.replies.push(r); ok(r); }).receive("error", no).receive("timeout", () => no(new Error("the join was not answered"))));
    this.joined.catch(() => {});
  }

  take(event, p) {
    try { this.fold(event, p); } catch (e) { this.failed.push(e); }
  }

  fold(event, p) {
    this.seen.push(event);
    if (this.companion) assert.ok(event === "batch" || event === "change", `PIN-105 ${this.companion} is followed by ${event}`);
    this.companion = undefined;
    switch (event) {
      case "snapshot": return this.snapshot(p);
      case "change": return this.entry(p.log_id, [p]);
      case "batch": return this.entry(p.log_id, p.changes);
      case "view:update": return undefined;
      default:
        assert.ok(this.live, `PIN-063 ${event} before the snapshot`);
        this.companion = event;
    }
  }

  entry(log, changes) {
    if (this.log !== undefined) assert.equal(log, this.log + 1, "PIN-080 an entry is missing or twice");
    for (const c of changes) {
      if (this.log !== undefined) assert.equal(plain(c.previous), plain(this.slots[c.key]), `PIN-088 the former value of ${c.key} in entry ${log}`);
      if (c.value === null) delete this.slots[c.key]; else this.slots[c.key] = c.value;
    }
    this.log = log;
    this.entries.set(log, plain(changes));
    this.states.set(log, { slots: { ...this.slots }, log });
    this.onEntry?.(log);
  }

  snapshot({ state, log_id, has_older }) {
    const { runs, ...slots } = state;
    if (state.last_message_id === null) delete slots.last_message_id;
    for (const [id, run] of Object.entries(runs)) slots[`run:${id}`] = run;
    if (this.log === log_id) {
      // Everything that was missed has been told: the fold is what is shown.
      for (const k of Object.keys(this.slots)) if (!k.startsWith("run:")) assert.ok(k in slots, `PIN-078 ${k} is not in the snapshot`);
      for (const [k, v] of Object.entries(slots)) if (k in this.slots || v?.length) assert.equal(plain(v), plain(this.slots[k]), `PIN-078 ${k} at ${log_id}`);
    } else if (this.log !== undefined) this.skipped = true; // PIN-067
    this.slots = slots; this.log = log_id; this.live = true; this.hasOlder = has_older;
    this.states.set(log_id, { slots: { ...slots }, log: log_id });
  }

  /** Throws what was wrong with anything that came. */
  check() { if (this.failed.length) throw this.failed[0]; return this; }

  async until(f, what) {
    await until(() => this.failed.length || f(), what);
    this.check();
  }

  shown() { return this.until(() => this.live, "the snapshot"); }

  push(event, payload = {}) {
    return new Promise((ok, no) => this.channel.push(event, payload).receive("ok", ok).receive("error", (e) => no(Object.assign(new Error(`${event}: ${e.reason}`), e))).receive("timeout", () => no(new Error(`${event} was not answered`))));
  }

  async send(text, id = `c-${process.pid}-${Window.n++}`) {
    return this.push("send", { text, messageId: id, runId: `r-${id}` });
  }

  status(runId) { return this.slots[`run:${runId}`]?.status; }
  ended(runId) { return this.until(() => ["complete", "cancelled", "error"].includes(this.status(runId)), `the end of ${runId}`); }
  get messages() { return this.slots.messages ?? []; }

  leave() { return new Promise((ok) => this.channel.leave().receive("ok", ok)); }
}
Window.n = 0;

/** A window of its own socket, which has its snapshot. */
export async function open(thread, client, capabilities, socket = connect()) {
  const w = new Window(socket, thread, { auth: await token(thread, client, capabilities) });
  w.socket = socket;
  await w.joined;
  await w.shown();
  return w;
}

/** Why a join is refused. */
export async function reason(thread, payload, topic = topicOf(thread)) {
  const s = connect();
  const c = s.channel(topic, payload);
  try {
    return await new Promise((ok, no) => c.join().receive("ok", () => no(new Error("it was admitted"))).receive("error", (e) => ok(e.reason)));
  } finally {
    c.leave();
    s.disconnect();
  }
}
