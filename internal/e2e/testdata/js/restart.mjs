// A gateway that ends and comes back, as the published phoenix client sees it.
import { assert, call, run, test, until } from "./lib.mjs";
import { open } from "./channels.mjs";

test("PIN-060 a restart sends each client back, and it comes to all that was written", async () => {
  const a = await open("t", "ada");
  const r = await a.send("before the restart");
  await a.ended(r.runId);
  const log = a.log;
  await call("restart");
  await until(() => a.replies.length === 2, "the way back", 60_000);
  await a.until(() => a.seen.filter((e) => e === "snapshot").length === 2, "the second snapshot");
  assert.ok(!a.skipped);
  assert.ok(a.socket.closes.length > 0 && !a.socket.closes.includes(1000), `closed with ${a.socket.closes}`);
  assert.equal(a.messages.length, 2);
  const s = await a.send("and after it");
  await a.ended(s.runId);
  assert.ok(a.log > log);
  assert.deepEqual(a.check().messages.map((m) => m.content), ["before the restart", "before the restart", "and after it", "and after it"]);
  a.socket.disconnect();
}, 180_000);

await run();
