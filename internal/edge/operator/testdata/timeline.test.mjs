import assert from "node:assert/strict";
import { test } from "node:test";
import { calls, entries, state } from "../timeline.js";

const span = (ms) => `${ms} ms`;
const record = (pos, at, kind, more = {}) => ({ epoch: "7", pos, at, kind, run: "r", ...more });
const asked = [
  record(1, 0, "run.pending", { agent: "bot", dialect: "pilotoo", by: { iss: "i", id: "ann" }, edge: "a" }),
  record(2, 10, "run.active", { edge: "a", fence: 1 }),
  record(3, 30, "text.start"), record(4, 30, "text.delta", { size: 5 }), record(5, 70, "text.delta", { size: 7 }), record(6, 71, "text.end"),
  record(7, 71, "tool.start", { tool: "<b>", call: "c" }), record(8, 72, "interrupt", { interrupt: "q", question: "approval" }),
  record(9, 72, "run.suspended", { edge: "a", fence: 1 }),
];
const resumed = [...asked, record(10, 500, "answer", { interrupt: "q", status: "answered", edge: "b" }), record(11, 500, "run.resumed", { edge: "b" })];

test("pieces in a row are one entry, with their positions, times and bytes", () => {
  const list = entries(asked);
  assert.equal(list.length, 8);
  const d = list[3];
  assert.deepEqual([d.from, d.to, d.at, d.until, d.n, d.size, d.text], [4, 5, 30, 70, 2, 12, "2 pieces, 12 bytes"]);
  assert.equal(list[0].text, "begun by ann (i) through pilotoo, for agent bot");
  assert.equal(list[5].text, "calls tool <b> (c)");
});

test("pieces of another run, or after a hole, are entries of their own", () => {
  assert.equal(entries([record(1, 0, "text.delta"), record(2, 0, "text.delta", { run: "s" }), record(4, 0, "text.delta", { run: "s" })]).length, 3);
});

test("an agent's call is told by its first event, its end and its edge", () => {
  const [one, two] = calls(resumed, "r");
  assert.deepEqual([one.edge, one.first - one.at, one.until - one.at, one.tools, one.size, one.end], ["a", 20, 62, 1, 12, "asked"]);
  assert.deepEqual([two.edge, two.first, two.until], ["b", null, null]);
  assert.deepEqual(calls(resumed, "other"), []);
});

for (const [name, run, records, want] of [
  ["an agent that says nothing", { edge: "b", fence: 3, agent: "bot", status: "active" }, resumed, "It is the agent: bot was called 500 ms ago by edge b and has said nothing."],
  ["a question", { edge: "", status: "suspended", suspended: 72, interrupts: [{ id: "q", kind: "approval" }] }, asked, "It waits for people, not for its agent: open question q (approval), without a time limit, since 928 ms."],
  ["an owner that is gone", { edge: "?", fence: 3, status: "active" }, resumed, "Its owner is gone (fence 3)."],
  ["one that is sealed", { edge: "b", status: "active", stopped: true }, resumed, "It is sealed and about to end"],
  ["an agent that was not called", { edge: "a", agent: "bot", status: "pending" }, asked.slice(0, 1), "Its agent bot was not called yet; it is with edge a."],
  ["one at work", { edge: "a", fence: 1, agent: "bot", status: "active" }, asked.slice(0, 5), "It is at work on edge a (fence 1); its agent bot was heard 930 ms ago."],
  ["one that has ended", undefined, [...resumed, record(12, 900, "run.end", { status: "error", cause: "edge_lost", code: "EDGE_LOST" })], "It has ended: error: its edge was lost (EDGE_LOST)."],
  ["one that nobody knows", undefined, [], "It is not live"],
]) {
  test(`why a run is stuck: ${name}`, () => assert.ok(state(run, records, "r", records.at(-1)?.at ?? 0, 1000, span).text.startsWith(want), state(run, records, "r", records.at(-1)?.at ?? 0, 1000, span).text));
}
