// A crowd of windows on many edges. Each is a socket of the published client
// that comes back to another edge when it is cut off, asks for the history and
// goes on. All that they see and do is printed, a line of JSON each:
//
//   conn, disc                 a connection of a window begins, ends
//   join                       a history: messages, envelopes of the replay
//   ev                         an envelope
//   send, ack                  a message, and whether it was taken
//   cancel, cancelled          a stop, and what became of it
//   answer, answered           an answer to a question, and what became of it
//   final                      what a window that comes last sees, on each edge, and for
//                              how long (n, in ms) an edge was behind another
//   stuck                      something that did not settle in time
//   settled                    all is said; the process ends
//
// "stop" on the standard input ends the sending.
import readline from "node:readline";
import { io } from "socket.io-client";

const cfg = JSON.parse(process.env.SWARM);
const { edges, threads, windows, polling = 0, settle = 60_000, kinds, pauses = 400 } = cfg;

let state = cfg.seed >>> 0;
const random = () => { // mulberry32
  state = (state + 0x6d2b79f5) >>> 0;
  let t = state;
  t = Math.imul(t ^ (t >>> 15), t | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
};
const below = (n) => Math.floor(random() * n);
const pick = (list) => list[below(list.length)];
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));

let out = [];
const flush = () => { if (out.length) process.stdout.write(out.splice(0).join("")); };
setInterval(flush, 50).unref();
const log = (k, o) => { out.push(JSON.stringify({ k, t: Date.now(), ...o }) + "\n"); if (out.length > 200) flush(); };
process.on("unhandledRejection", (e) => { log("stuck", { why: "script: " + (e?.stack ?? e) }); });

let stopping = false;
const terminal = new Set(["RUN_FINISHED", "RUN_CANCELLED", "RUN_ERROR"]);

let cookie = "";
async function web(path, init = {}) {
  for (let e = 0; ; e++) {
    try {
      const r = await fetch(edges[e % edges.length] + path, { ...init, headers: cookie ? { cookie } : {}, signal: AbortSignal.timeout(10_000) });
      for (const c of r.headers.getSetCookie()) if (c.startsWith("parlance=")) cookie = c.split(";")[0];
      if (r.ok) return r;
    } catch { /* another edge, then */ }
    if (e > 100) throw new Error("no edge serves " + path);
    await sleep(200);
  }
}

const plain = (e) => ({
  r: e.runId, s: e.sequence, y: e.event.type, m: e.event.messageId ?? e.event.message?.id,
  d: e.event.delta ?? (e.event.message ? e.event.message.content : undefined), i: e.event.interruptId, code: e.event.code,
});

const transcript = (a) => a.messages.map((m) => ({ m: m.id, y: m.role, d: m.content }));

class Window {
  /** One that stays comes back to its own edge. */
  constructor(id, thread, edge, transports, stays = false) {
    Object.assign(this, { id, thread, edge, transports, stays, c: 0, joined: false, gone: false, open: new Set(), waiting: [] });
    this.connect();
  }
  connect() {
    const c = ++this.c;
    this.open = new Set();
    const sock = io(edges[this.edge], { transports: this.transports, forceNew: true, reconnection: false, timeout: 10_000, extraHeaders: { cookie } });
    this.sock = sock;
    let over = false;
    const end = (why) => {
      if (over) return;
      over = true;
      clearTimeout(slow);
      this.joined = false;
      log("disc", { w: this.id, c, th: this.thread.id, why });
      sock.disconnect();
      if (this.gone) return;
      if (edges.length > 1 && !this.stays) this.edge = (this.edge + 1 + below(edges.length - 1)) % edges.length;
      setTimeout(() => { if (!this.gone) this.connect(); }, 30 + below(250));
    };
    const slow = setTimeout(() => end("too slow"), 25_000);
    sock.on("connect_error", (e) => end("refused: " + e.message));
    sock.on("disconnect", end);
    sock.on("run:event", (e) => { this.saw(e); log("ev", { w: this.id, c, th: e.threadId, ...plain(e) }); });
    sock.on("protocol:hello", async () => {
      log("conn", { w: this.id, c, th: this.thread.id, e: this.edge });
      const a = await this.look();
      if (!a?.ok) return end("no history: " + (a?.error?.message ?? "no answer"));
      clearTimeout(slow);
      if (over) return;
      this.joined = true;
      for (const f of this.waiting.splice(0)) f();
    });
  }
  /**
   * Asks for the history on the connection that is. The answer is taken in the
   * very moment in which it comes: what follows it may come with it.
   */
  look() {
    const { sock, c } = this;
    return new Promise((done) => sock.timeout(20_000).emit("thread:messages", { threadId: this.thread.id }, (err, a) => {
      if (!err && a.ok) this.history(c, a);
      done(err ? null : a);
    }));
  }
  history(c, a) {
    this.open.clear();
    const env = a.replay?.envelopes ?? [];
    for (const e of env) this.saw(e);
    log("join", {
      w: this.id, c, th: this.thread.id, e: this.edge, trunc: !!a.replay?.truncated, pi: a.pendingInterrupt?.interruptId,
      msgs: transcript(a), env: env.map(plain),
    });
    // Whether what may run now is silent until it is stopped. It can be older than
    // the last send: its acknowledgement was lost, and no owner had it for a while.
    this.thread.hung = !!a.messages.findLast((m) => m.role === "user")?.content.endsWith(" hang");
  }
  saw(e) {
    if (terminal.has(e.event.type)) this.open.delete(e.runId); else this.open.add(e.runId);
    if (e.event.type === "TEXT_MESSAGE_CONTENT") this.thread.heard.set(e.runId, (this.thread.heard.get(e.runId) ?? 0) + 1);
    if (terminal.has(e.event.type)) this.thread.heard.delete(e.runId);
  }
  /** Resolves when the window is joined, or with false after ms. */
  ready(ms) {
    if (this.joined) return Promise.resolve(true);
    return new Promise((r) => { this.waiting.push(() => r(true)); setTimeout(() => r(false), ms); });
  }
  ask(name, arg) {
    if (!this.joined) return Promise.resolve(null);
    return this.sock.timeout(20_000).emitWithAck(name, arg).catch(() => null);
  }
  leave() { this.gone = true; this.sock.disconnect(); }
}

let ids = 0;
class Thread {
  constructor(id) { Object.assign(this, { id, windows: [], heard: new Map() }); }
  async joined() {
    for (const end = Date.now() + settle; Date.now() < end;) {
      const w = pick(this.windows);
      if (await w.ready(1000)) return w;
    }
    log("stuck", { th: this.id, why: "no window is joined" });
    return null;
  }
  /** Sends a message until it is taken, from whichever window is there. */
  async send(text, { twice = false } = {}) {
    const id = `m${cfg.seed}-${ids++}`;
    for (let attempt = 0; attempt < 60; attempt++) {
      const w = await this.joined();
      if (!w) return null;
      const others = twice ? this.windows.filter((x) => x !== w && x.joined) : [];
      log("send", { id, w: w.id, th: this.id, d: text, n: attempt });
      const arg = { threadId: this.id, messageId: id, input: text };
      const all = await Promise.all([w, ...others].map((x) => x.ask("run:start", arg)));
      for (const a of all) {
        log("ack", { id, th: this.id, n: attempt, ok: !!a?.ok, lost: !a, r: a?.runId, code: a?.error?.code, why: a?.error?.message });
      }
      const won = all.find((a) => a?.ok);
      if (won) return won;
      // An attempt whose answer was lost had been taken.
      if (all.some((a) => a?.error?.code === "DUPLICATE_MESSAGE")) return { ok: true };
      await sleep(100 + below(300));
      if (stopping && attempt > 5) return null;
    }
    return null;
  }
  async cancel(run) {
    const some = this.windows.filter((w) => w.joined).slice(0, 1 + below(3));
    await Promise.all(some.map(async (w) => {
      log("cancel", { w: w.id, th: this.id, r: run });
      const a = await w.ask("run:cancel", { runId: run });
      log("cancelled", { w: w.id, th: this.id, r: run, ok: !!a?.ok, lost: !a, code: a?.error?.code });
      this.stops = (this.stops ?? []).slice(-7).concat(a?.ok ? "ok" : a?.error?.code ?? "lost");
    }));
  }
  async answer(i) {
    const some = this.windows.filter((w) => w.joined).slice(0, 1 + below(3));
    await Promise.all(some.map(async (w) => {
      const d = `${w.id}-${ids++}`;
      log("answer", { w: w.id, th: this.id, i, d });
      const a = await w.ask("run:resume", { threadId: this.id, interruptId: i, answer: { approved: true, reason: d } });
      log("answered", { w: w.id, th: this.id, i, d, ok: !!a?.ok, lost: !a, r: a?.runId, code: a?.error?.code });
    }));
  }
  /** Waits until nothing runs and nothing is asked; answers what is. */
  async idle() {
    let said = "nothing is heard of it";
    for (const end = Date.now() + settle; Date.now() < end;) {
      const w = await this.joined();
      if (!w) return false;
      for (let i = 0; i < 40 && w.joined && w.open.size; i++) await sleep(50);
      if (!w.joined) continue;
      const a = await w.look();
      if (a?.ok && a.pendingInterrupt) await this.answer(a.pendingInterrupt.interruptId);
      else if (a?.ok && !a.replay) return true;
      // The stops of a run that hangs may all have been lost while the store was away.
      else if (this.hung && w.joined) for (const r of w.open) await this.cancel(r);
      said = a?.ok ? `${a.messages.at(-1)?.content.slice(-60)}; open ${[...w.open]}` : `${a?.error?.code ?? "no answer"}`;
      await sleep(50);
    }
    log("stuck", { th: this.id, why: `a run does not end: ${said}; stops: ${this.stops ?? "none"}` });
    return false;
  }
  async drive() {
    while (!stopping) {
      const kind = pick(kinds);
      const [n, d] = [6 + below(50), 2 + below(30)];
      this.hung = kind === "hang"; // until a history says better
      switch (kind) {
        case "think": await this.send(`n=4 d=3000`); break;
        case "long": await this.send(`n=${150 + below(100)} d=20`); break;
        case "ask": await this.send(`n=${n} d=${d} ask`); break;
        case "fail": case "cut": await this.send(`n=${n} d=${d} ${kind}`); break;
        case "twice": await this.send(`n=${n} d=${d}`, { twice: true }); break;
        case "cancel": case "hang": { // a stop in the middle, or near the end
          const a = await this.send(`n=${n} d=${d}` + (kind === "hang" ? " hang" : ""));
          if (!a) break;
          const at = kind === "hang" ? n / 2 : below(n + 2);
          for (let i = 0; i < 200 && ![...this.heard.values()].some((h) => h >= at); i++) await sleep(10);
          const run = a.runId ?? [...this.heard.keys()][0];
          if (run) await this.cancel(run);
          break;
        }
        default: await this.send(`n=${n} d=${d}`);
      }
      // What hangs ends only by a stop; one that failed is tried again.
      for (let i = 0; i < 20 && kind === "hang"; i++) {
        const w = await this.joined();
        if (!w || (await w.look())?.replay === undefined) break;
        for (const r of w.open) await this.cancel(r);
        await sleep(200);
      }
      if (!(await this.idle())) return;
      await sleep(below(pauses));
    }
  }
  /**
   * Waits until all edges tell the same and nothing runs there, and says for how
   * long one was behind another that had it all.
   */
  async agree(last) {
    const first = new Map(); // what an edge told -> when one did so first
    let told;
    for (const end = Date.now() + settle; Date.now() < end; await sleep(25)) {
      told = await Promise.all(last.map(async (w) => (await w.ready(5000)) ? w.look() : null));
      const now = Date.now();
      for (const a of told) {
        if (a?.pendingInterrupt) await this.answer(a.pendingInterrupt.interruptId);
        const key = a?.ok && JSON.stringify(transcript(a));
        if (key && !first.has(key)) first.set(key, now);
      }
      if (this.hung) for (const w of last) for (const r of w.open) await this.cancel(r);
      const calm = told.every((a) => a?.ok && !a.replay && !a.pendingInterrupt);
      const keys = new Set(told.map((a) => JSON.stringify(a && transcript(a))));
      if (calm && keys.size === 1) {
        await sleep(150); // what was sent to the windows is on its way
        return { told, late: now - first.get([...keys][0]) };
      }
    }
    return { told: told ?? [], late: settle };
  }
  async finish() {
    await this.idle();
    // Each window must come to rest by itself.
    for (const w of this.windows) {
      if (!(await w.ready(settle))) { log("stuck", { th: this.id, w: w.id, why: "a window does not come back" }); continue; }
      for (const end = Date.now() + 20_000; Date.now() < end && w.open.size;) await sleep(20);
    }
    const last = edges.map((_, e) => new Window(`${this.id}-last-${e}`, this, e, ["websocket"], true));
    const { told, late } = await this.agree(last);
    for (const [e, a] of told.entries()) {
      if (!a?.ok) log("stuck", { th: this.id, why: "no last history of edge " + e });
      else log("final", { w: last[e].id, th: this.id, e, n: late, msgs: transcript(a), pi: a.pendingInterrupt?.interruptId, open: !!a.replay });
    }
    for (const w of last) w.leave();
    for (const w of this.windows) w.leave();
  }
}

const list = [];
for (let i = 0; i < threads; i++) {
  const r = await web("/conversations", { method: "POST", body: "{}" });
  list.push(new Thread((await r.json()).id));
}
for (const [i, t] of list.entries()) {
  for (let j = 0; j < windows; j++) {
    t.windows.push(new Window(`w${i}-${j}`, t, (i + j) % edges.length, (i * windows + j) % 10 < polling ? ["polling"] : ["websocket"]));
  }
}
readline.createInterface({ input: process.stdin }).on("line", (l) => { if (l === "stop") stopping = true; });
log("begun", {});
await Promise.all(list.map(async (t) => {
  await Promise.all(t.windows.map((w) => w.ready(settle)));
  await t.drive();
  await t.finish();
}));
if (cfg.remove) for (const t of list) await web(`/conversations/${t.id}`, { method: "DELETE" }).catch(() => {});
log("settled", {});
flush();
process.stdout.write("", () => process.exit(0));
