// 200 sockets and 20 runs while the configuration is reloaded fifty times.
import { Browser, assert, call, ended, finished, messages, run, start, test, text, until } from "./lib.mjs";

test("fifty reloads drop no socket and no run, and leave nothing behind", async () => {
  const b = new Browser();
  const threads = [];
  for (let i = 0; i < 20; i++) threads.push(await b.thread());
  const windows = [];
  for (let i = 0; i < 200; i++) windows.push(await b.window({ transports: i % 10 ? ["websocket"] : ["polling"] }));
  let dropped = 0;
  for (const w of windows) w.on("disconnect", () => { dropped++; });
  await Promise.all(windows.map((w, i) => messages(w, threads[i % 20])));
  // Twenty runs before the first look, so that what a run needs once is there.
  const words = Array.from({ length: 120 }, (_, i) => `w${i}`).join(" ");
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
  await until(() => runs.every((r, i) => text(windows[i], r.runId)), "some text of each run");
  await call("reload");
  assert.ok(runs.some((r, i) => !ended(windows[i], r.runId)), "the runs ended before the reloads did");
  await settle(runs);
  assert.equal(dropped, 0);
  assert.ok(windows.every((w) => w.connected && w.hellos.length === 1));
  let after;
  for (let i = 0; i < 30; i++) {
    after = await call("stats");
    if (after.goroutines <= before.goroutines + 20 && after.heap <= before.heap * 1.15) break;
    await new Promise((r) => setTimeout(r, 500));
  }
  console.log(`heap ${before.heap} -> ${after.heap}, goroutines ${before.goroutines} -> ${after.goroutines}`);
  assert.ok(after.goroutines <= before.goroutines + 20, `goroutines ${before.goroutines} -> ${after.goroutines}`);
  assert.ok(after.heap <= before.heap * 1.15, `heap ${before.heap} -> ${after.heap}`);
}, 200_000);
await run();
