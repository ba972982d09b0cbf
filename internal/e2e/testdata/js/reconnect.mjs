// Windows that are cut off at each event of a run and come back to another edge.
import http from "node:http";
import { Browser, assert, fold, messages, run, start, test, text, finished, until } from "./lib.mjs";

const edges = JSON.parse(process.env.EDGES);
const total = Number(process.env.EVENTS ?? 200);
// Words that come while an earlier one is being stored may be stored together,
// so a run has some more of them than it must have events.
const words = 2 * total;
// The last of them are said when all windows are back, on however busy a machine.
const last = 20;

/**
 * One run, watched from the start by one window and by one for each of its first
 * events, which goes when it has seen that many and comes back by
 * again(w). All must fold to the same transcript.
 */
async function cutAtEach(open, again, pause = 15) {
  const b = new Browser(edges[0]); const t = await b.thread();
  const first = await b.window({ at: edges[0] });
  const whole = await messages(first, t);
  const list = [];
  for (let i = 1; i <= total; i++) list.push(await open(b, i));
  // Each window joins some events before its own, so that the load stays that
  // of a few windows; it counts what the history has already shown it.
  const back = [];
  const cut = (w, i) => {
    let gone = false;
    const look = (sequence) => {
      if (gone || sequence < i) return;
      gone = true;
      if (sequence === i) exact++;
      w.disconnect();
      back.push((async () => {
        const x = await again(b, w);
        let answer;
        x.on("disconnect", () => { x.lost = true; });
        answer = await messages(x, t);
        return { i, x, answer };
      })());
    };
    w.on("run:event", (e) => look(e.sequence));
    w.trouble = "no history yet";
    return messages(w, t).catch((e) => ({ error: String(e) })).then((a) => {
      if (!a.ok) { w.trouble = JSON.stringify(a.error); return; }
      w.trouble = undefined; look(a.replay?.envelopes.at(-1)?.sequence ?? (a.messages.length ? total : 0));
    });
  };
  let exact = 0;
  const early = 40;
  await Promise.all(list.slice(0, early).map((w, i) => cut(w, i + 1)));
  first.on("run:event", (e) => { if (list[e.sequence + early - 1]) cut(list[e.sequence + early - 1], e.sequence + early); });
  const { runId } = await start(first, t, `n=${words} d=${pause} hold=${words - last}`);
  await until(() => back.length === total, "the cut of each window", 120_000).catch((e) => {
    const left = list.map((w, i) => [i + 1, w]).filter(([, w]) => w.connected);
    throw new Error(`${e.message}; left: ` + left.slice(0, 8).map(([i, w]) => `${i} (${w.events.length} events, ${w.hellos.length} connections, ${w.trouble ?? "joined"})`).join(", "));
  });
  await Promise.all(back.map(async (p) => assert.equal((await p).answer.ok, true, JSON.stringify((await p).answer))));
  await fetch(process.env.BOOKS + "/on");
  await finished(first, runId);
  assert.ok(exact > total / 2, `${exact} of ${total} windows were cut off at their very event`);
  const want = fold(whole, first.events);
  assert.ok(first.events.length >= total, `${first.events.length} events of the run`);
  let live = 0;
  for (const p of back) {
    const { i, x, answer } = await p;
    if (answer.replay) {
      await until(() => x.events.at(-1)?.event.type === "RUN_FINISHED" || answer.replay.envelopes.at(-1)?.event.type === "RUN_FINISHED", `the end for ${i}`);
      assert.equal(x.events[0]?.sequence ?? first.events.length + 1, answer.replay.envelopes.length + 1, `the seam of ${i}`);
      live++;
    }
    assert.ok(!x.lost, `${i} was cut off once more`);
    assert.deepEqual(fold(answer, x.events), want, `cut off at ${i}`);
    x.disconnect();
  }
  assert.equal(live, total, `${live} of ${total} came back while the run was at work`);
  assert.equal(text(first, runId).trim().split(" ").length, words);
}

test("F32 WebSocket windows cut off at each event come back to another edge and have the same transcript", async () => {
  await cutAtEach(
    (b, i) => { const e = i % edges.length; return b.window({ at: edges[e] }).then((w) => Object.assign(w, { e })); },
    (b, w) => b.window({ at: edges[(w.e + 1) % edges.length] }),
  );
}, 280_000);

// Behind a load balancer that keeps a client where its cookie says, as polling
// needs it. One that comes back with a cookie of another edge is moved.
if (process.env.BALANCER) {
  const balancer = process.env.BALANCER;
  // A connection for each poll would use up the ports of the machine.
  const agent = new http.Agent({ keepAlive: true });
  const place = async (not) => {
    for (;;) {
      const r = await fetch(balancer + "/protocol");
      await r.arrayBuffer();
      const c = r.headers.getSetCookie().find((x) => x.startsWith("lb="))?.split(";")[0];
      assert.ok(c, "the load balancer gives no cookie");
      if (c !== not) return c;
    }
  };
  test("F32 polling windows behind a load balancer with affinity, moved at each event, have the same transcript", async () => {
    const open = async (b, not) => {
      const lb = await place(not);
      const w = await b.window({ at: balancer, transports: ["polling"], cookie: lb, agent });
      return Object.assign(w, { lb });
    };
    await cutAtEach((b) => open(b), (b, w) => open(b, w.lb), 50);
  }, 280_000);
}

await run();
