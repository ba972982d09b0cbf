// A store that comes back empty in the middle of a run, as windows of three
// edges see it.
import { Browser, ask, assert, call, finished, messages, run, start, test, text, until } from "./lib.mjs";

const edges = JSON.parse(process.env.EDGES);

test("F2 every window of a thread that the store has lost is told, and none waits for ever", async () => {
  const b = new Browser(edges[0]); const t = await b.thread();
  const ws = [];
  for (const at of edges) {
    const w = await b.window({ at });
    await messages(w, t);
    w.on("disconnect", () => { w.told = true; });
    ws.push(w);
  }
  const { runId } = await start(ws[0], t, "n=500 d=20");
  await until(() => ws.every((w) => text(w, runId).length > 100), "some text everywhere");
  await call("empty");
  await until(() => ws.every((w) => w.told), "the word to each window", 90_000);
  await until(() => ws.every((w) => w.connected && w.hellos.length >= 2), "the way back", 60_000);
  // Within the time of an end, each edge says the same: the thread is gone, or
  // it is there with its run ended.
  const settled = async (w) => {
    for (const end = Date.now() + 60_000; ;) {
      const a = await messages(w, t).catch(() => null);
      if (a && (a.ok ? !a.replay : a.error.code === "CONVERSATION_NOT_FOUND")) return a;
      assert.ok(Date.now() < end, `stuck with ${JSON.stringify(a)}`);
      await new Promise((r) => setTimeout(r, 100));
    }
  };
  const all = [];
  for (const w of ws) all.push(await settled(w));
  for (const a of all) assert.deepEqual(a, all[0]);
  console.log(all[0].ok ? `restored with ${all[0].messages.length} messages` : all[0].error.code);
  // The gateway goes on, on every edge.
  for (const at of edges) {
    const c = new Browser(at); const u = await c.thread();
    const w = await c.window({ at });
    await messages(w, u);
    const r = await start(w, u, "n=5 d=1");
    assert.equal(r.ok, true, JSON.stringify(r));
    await finished(w, r.runId);
  }
}, 280_000);

await run();
