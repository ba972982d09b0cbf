// 200 sockets and 20 runs while the configuration is reloaded fifty times.
import { Browser, ask, assert, call, ended, finished, fold, messages, run, start, test, text, until } from "./lib.mjs";

const words = Array.from({ length: 120 }, (_, i) => `w${i}`).join(" ");

test("fifty reloads drop no socket and no run, and leave nothing behind", async () => {
  const b = new Browser();
  const threads = [];
  for (let i = 0; i < 20; i++) threads.push(await b.thread());
  const windows = [];
  for (let i = 0; i < 200; i++) windows.push(await b.window());
  let dropped = 0;
  for (const w of windows) w.on("disconnect", () => { dropped++; });
  await Promise.all(windows.map((w, i) => messages(w, threads[i % 20])));
  // Twenty runs before the first look, so that what a run needs once is there.
  const round = () => Promise.all(threads.map((t, i) => start(windows[i], t, words)));
  const settle = async (runs) => {
    for (const [i, w] of windows.entries()) {
      await finished(w, runs[i % 20].runId);
      assert.equal(text(w, runs[i % 20].runId), words);
    }
  };
  await settle(await round());
  await call("reload");
  const before = await call("stats");
  const runs = await round();
  // However long the reloads take, one run goes on until it is stopped.
  const hung = await b.thread();
  const watch = await b.window();
  await messages(watch, hung);
  const slow = await start(watch, hung, "/slow");
  await until(() => runs.every((r, i) => text(windows[i], r.runId)) && text(watch, slow.runId), "some text of each run");
  await call("reload");
  assert.ok(!ended(watch, slow.runId), "a run ended with a reload");
  assert.equal((await ask(watch, "run:cancel", { runId: slow.runId })).ok, true);
  assert.equal((await finished(watch, slow.runId)).event.type, "RUN_CANCELLED");
  assert.ok(watch.connected && watch.hellos.length === 1);
  watch.disconnect();
  await settle(runs);
  assert.ok(windows.every((w) => w.connected && w.hellos.length === 1));
  // What the runs wrote stays with their threads; what reloads leave must not.
  const written = await call("stats");
  await call("reload");
  let after;
  for (let i = 0; i < 30; i++) {
    after = await call("stats");
    if (after.goroutines <= before.goroutines + 20 && after.heap <= written.heap * 1.1) break;
    await new Promise((r) => setTimeout(r, 500));
  }
  console.log(`heap ${before.heap}, ${written.heap} -> ${after.heap}, goroutines ${before.goroutines} -> ${after.goroutines}`);
  assert.ok(after.goroutines <= before.goroutines + 20, `goroutines ${before.goroutines} -> ${after.goroutines}`);
  assert.ok(after.heap <= written.heap * 1.1, `heap ${written.heap} -> ${after.heap}`);
  assert.equal(dropped, 0);
}, 280_000);

// A poll that is on its way in the very moment in which Caddy changes listeners
// is reset by the system. Its client comes back, and loses nothing.
test("a polling window that a reload interrupts is whole when it is back", async () => {
  const b = new Browser(); const t = await b.thread();
  const [one, two] = [await b.window(), await b.window({ transports: ["polling"] })];
  const first = await messages(one, t);
  let answer = await messages(two, t);
  two.on("protocol:hello", async () => { answer = null; two.events.length = 0; answer = await messages(two, t); });
  const { runId } = await start(one, t, words);
  await until(() => text(one, runId), "some text");
  await call("reload");
  await finished(one, runId);
  await until(() => answer && (!answer.replay || ended(two, runId)), "the rest");
  assert.deepEqual(fold(answer, two.events), fold(first, one.events));
}, 180_000);

await run();
