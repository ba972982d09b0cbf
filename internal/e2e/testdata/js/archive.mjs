// A long, old thread, read in each dialect before and after it is archived.
import { WebSocket } from "ws";
import { Browser, ask, assert, call, finished, messages, run, start, test, until } from "./lib.mjs";
import { open } from "./channels.mjs";

const thread = process.env.THREAD;
const turns = 320;
const browser = new Browser();
browser.cookie = process.env.COOKIE;

/** What Pilotoo's history shows. */
async function inPilotoo() {
  const p = await browser.window();
  const h = await messages(p, thread);
  p.disconnect();
  if (!h.ok) throw Object.assign(new Error(h.error.message), h.error);
  return h.messages.map((m) => [m.id, m.role, m.content]);
}

/** What Pingerchips shows: the snapshot, and before it page by page. */
async function inPingerchips(limit) {
  const w = await open(thread, "ada", ["subscribe"]);
  try {
    let list = w.messages, older = w.hasOlder;
    while (older) {
      const page = await w.push("load_older", { beforeMessageId: list[0].messageId, limit });
      assert.ok(page.messages.length === limit || !page.has_older, `PIN-176 a page of ${page.messages.length}`);
      for (const m of page.messages) assert.ok(m.messageId && m.content && m.role, `PIN-177 no message: ${JSON.stringify(m)}`);
      list = [...page.messages, ...list]; older = page.has_older;
    }
    return list.map((m) => [m.messageId, m.role, m.content]);
  } finally {
    w.socket.disconnect();
  }
}

/** What smooth-operator shows, by pages from the newest on; most bounds them. */
async function inSmooth(limit, most = Infinity) {
  const frames = [];
  const ws = new WebSocket(process.env.SMOOTH.replace("http", "ws") + "/ws", { headers: { cookie: browser.cookie } });
  ws.on("message", (b) => frames.push(JSON.parse(b)));
  await new Promise((ok, no) => { ws.on("open", ok); ws.on("error", no); });
  let n = 0;
  const request = async (action, more) => {
    const requestId = `r${n++}`;
    ws.send(JSON.stringify({ action, requestId, ...more }));
    const f = await until(() => frames.find((x) => x.requestId === requestId), `an answer to ${action}`);
    if (f.type === "error") throw Object.assign(new Error(f.error?.message ?? f.message), { code: f.error?.code ?? f.code });
    return f.data;
  };
  try {
    const { sessionId } = await request("create_conversation_session", { agentId: "11111111-1111-4111-8111-111111111111", conversationId: thread });
    let list = [], cursor = null;
    do {
      const page = await request("get_conversation_messages", { sessionId, limit, ...(cursor ? { cursor } : {}) });
      assert.ok(page.messages.length === limit || !page.hasMore, `a page of ${page.messages.length}`);
      list.push(...page.messages); cursor = page.nextCursor;
    } while (cursor && list.length < most);
    return list.reverse().map((m) => [m.id, m.direction === "inbound" ? "user" : "assistant", m.content.text]);
  } finally {
    ws.terminate();
  }
}

const everywhere = async () => ({ pilotoo: await inPilotoo(), pingerchips: await inPingerchips(37), smooth: await inSmooth(41) });
const fails = async (f) => {
  let shown;
  try { shown = await f(); } catch (e) { return e; }
  assert.fail(`${shown.length} messages are shown`);
};
let before;

test("a long thread is read in each dialect", async () => {
  before = await everywhere();
  assert.equal(before.pingerchips.length, 2 * turns);
  assert.deepEqual(before.smooth.map((m) => m.slice(1)), before.pingerchips.map((m) => m.slice(1)));
  assert.deepEqual(before.pilotoo, before.pingerchips.slice(-before.pilotoo.length));
  assert.ok(before.pilotoo.length > 100);
});

test("PIN-177 an archived one shows the same messages, page by page", async () => {
  assert.equal(await call("archive"), true);
  assert.deepEqual(await everywhere(), before);
  assert.deepEqual(await inPingerchips(200), before.pingerchips);
});

test("PIN-177 it goes on when somebody writes", async () => {
  const p = await browser.window();
  assert.equal((await messages(p, thread)).ok, true);
  const { runId } = await start(p, thread, "once more");
  await finished(p, runId);
  const r = await ask(p, "run:start", { threadId: thread, messageId: before.pilotoo[0][0], input: "again" });
  assert.equal(r.error?.code, "DUPLICATE_MESSAGE", JSON.stringify(r));
  p.disconnect();
  const after = await everywhere();
  assert.deepEqual(after.pingerchips.slice(0, -2), before.pingerchips);
  assert.deepEqual(after.smooth.slice(0, -2), before.smooth);
  assert.deepEqual(after.pingerchips.slice(-2).map((m) => m[2]), ["once more", "once more"]);
  assert.equal(after.pilotoo.at(-1)[2], "once more");
  before = after;
});

test("PIN-178 one that cannot be read is an error, and no shorter page", async () => {
  assert.equal(await call("spoil"), 1);
  assert.equal((await fails(() => inPingerchips(50))).reason, "archive_unavailable");
  assert.equal((await fails(inPilotoo)).code, "INVALID_COMMAND");
  assert.equal((await fails(() => inSmooth(100))).code, "STORAGE_ERROR");
  // The newest are there all the same.
  assert.deepEqual(await inSmooth(20, 20), before.smooth.slice(-20));
  const w = await open(thread, "ada", ["subscribe"]);
  const page = await w.push("load_older", { limit: 10 });
  assert.deepEqual(page.messages.map((m) => m.messageId), before.pingerchips.slice(-10).map((m) => m[0]));
  w.socket.disconnect();
});

test("PIN-178 one that can be read again is", async () => {
  assert.equal(await call("mend"), 1);
  assert.deepEqual(await everywhere(), before);
});

test("deleting the thread deletes its archive", async () => {
  assert.equal(await call("blobs"), 1);
  const r = await browser.fetch(`/conversations/${thread}`, { method: "DELETE" });
  assert.equal(r.ok, true, `${r.status}`);
  assert.equal(await call("blobs"), 0);
});

await run();
