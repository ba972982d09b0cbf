import assert from "node:assert/strict";
import { test } from "node:test";
import { fold, foldTask, open, running, settle } from "../fold.js";

const at = "2026-01-02T03:04:05.678Z";
const user = (id, content) => ({ id, role: "user", content, createdAt: at });

// run numbers events as one run's envelopes.
const run = (runId, ...events) => events.map((event, i) => ({ v: 1, threadId: "t", runId, sequence: i + 1, event }));

const long = run("r1",
	{ type: "RUN_STARTED", message: user("u1", "hello") },
	{ type: "REASONING_START", messageId: "h1" },
	{ type: "REASONING_CONTENT", messageId: "h1", delta: "hm" },
	{ type: "REASONING_END", messageId: "h1" },
	{ type: "TEXT_MESSAGE_START", messageId: "a1", role: "assistant" },
	{ type: "TEXT_MESSAGE_CONTENT", messageId: "a1", delta: "Good " },
	{ type: "TEXT_MESSAGE_CONTENT", messageId: "a1", delta: "day" },
	{ type: "TOOL_CALL_START", toolCallId: "c1", toolCallName: "task" },
	{ type: "TEXT_MESSAGE_END", messageId: "a1" },
	{ type: "TOOL_CALL_ARGS", toolCallId: "c1", delta: "{" },
	{ type: "TOOL_CALL_ARGS", toolCallId: "c1", delta: "}" },
	{ type: "TOOL_CALL_END", toolCallId: "c1" },
	{ type: "SUBAGENT_STARTED", toolCallId: "c1", name: "counter", childThreadId: "t2" },
	{ type: "TODOS_SNAPSHOT", todos: [{ content: "x", status: "pending" }] },
	{ type: "SUBAGENT_FINISHED", toolCallId: "c1", name: "counter", status: "finished", detached: true },
	{ type: "TOOL_CALL_RESULT", messageId: "m", toolCallId: "c1", content: "ok" },
	{ type: "INTERRUPT", interruptId: "i1", payload: { kind: "approval" } },
	{ type: "RUN_PAUSED" },
	{ type: "RUN_FINISHED" },
);

const history = (extra) => ({ ok: true, messages: [user("u1", "hello")], ...extra });
const join = (extra) => open("t", history(extra));

test("a window that joins at any event folds to the view of one that watched", () => {
	const watched = long.reduce(fold, open("t", { ok: true, messages: [] }));
	for (let k = 1; k <= long.length - 2; k++) { // from the pause on there is no replay
		const late = long.slice(k).reduce(fold, join({ replay: { envelopes: long.slice(0, k), truncated: false } }));
		assert.deepEqual(late, watched, `joined after ${k}`);
	}
	assert.equal(watched.blocks.map((b) => b.key).join(), "m:u1,r:h1,m:a1,c:c1");
	assert.equal(watched.blocks[2].text, "Good day");
	assert.equal(watched.blocks[3].subagent.status, "detached");
	assert.equal(watched.stale, false);
});

test("fold is pure", () => {
	const freeze = (o) => {
		Object.values(o).forEach((v) => v && typeof v === "object" && freeze(v));
		return Object.freeze(o);
	};
	long.reduce((view, e) => freeze(fold(view, freeze(e))), freeze(open("t", freeze(history()))));
});

test("a block that did not change stays the same object", () => {
	const before = long.slice(0, 6).reduce(fold, join());
	const after = fold(before, long[6]);
	assert.equal(after.blocks[0], before.blocks[0]);
	assert.notEqual(after.blocks[2], before.blocks[2]);
});

test("a hole makes the view stale, a repeated envelope changes nothing", () => {
	const view = long.slice(0, 6).reduce(fold, join());
	assert.equal(fold(view, long[5]), view);
	assert.equal(fold(view, long[7]).stale, true);
	assert.equal(fold(join(), long[3]).stale, true, "of a run whose beginning never came");
});

test("a replay without its beginning shows what there is", () => {
	const view = join({ replay: { envelopes: long.slice(6, 8), truncated: true } });
	assert.equal(view.stale, false);
	assert.equal(view.blocks[1].text, "day");
	assert.equal(view.blocks[1].cut, true);
	assert.equal(running(view).id, "r1");
	assert.equal(fold(view, long[8]).stale, false);
});

test("a pause leaves its question and nothing that runs", () => {
	const view = long.reduce(fold, join());
	assert.deepEqual(view.questions, [{ id: "i1", payload: { kind: "approval" }, runId: "r1" }]);
	assert.equal(running(view), undefined);
	const resumed = run("r2", { type: "RUN_STARTED" }).reduce(fold, view);
	assert.deepEqual(resumed.questions, []);
	assert.equal(running(resumed).id, "r2");
});

test("a question comes from the history, once", () => {
	const q = { interruptId: "i1", payload: null, runId: "r1" };
	assert.equal(join({ pendingInterrupt: q }).questions.length, 1);
	assert.equal(join({ pendingInterrupt: q, replay: { envelopes: long.slice(0, 17), truncated: false } }).questions.length, 1);
});

test("a history names the first question only; those after it that were seen stay", () => {
	const ask = (id, runId = "r1") => ({ id, payload: null, runId });
	const before = { ...join(), questions: [ask("i1"), ask("i2"), ask("i3"), ask("j1", "r0")] };
	const pending = (id) => open("t", history({ pendingInterrupt: { interruptId: id, payload: null, runId: "r1" } }), before);
	assert.deepEqual(pending("i2").questions.map((q) => q.id), ["i2", "i3"]);
	assert.deepEqual(pending("i9").questions.map((q) => q.id), ["i9"]);
	assert.deepEqual(open("t", history(), before).questions, []);
	assert.deepEqual(settle(before, "i2").questions.map((q) => q.id), ["i1", "i3", "j1"]);
});

test("a stop and a failure are noted, and notes outlive a new history", () => {
	for (const [event, level] of [
		[{ type: "RUN_CANCELLED" }, "stopped"],
		[{ type: "RUN_ERROR", code: "X", message: "broke" }, "error"],
	]) {
		const view = [...long.slice(0, 6), { ...long[6], event }].reduce(fold, join());
		assert.equal(view.blocks.at(-1).level, level);
		assert.equal(view.blocks.some((b) => b.open), false);
		const messages = [user("u1", "hello"), { id: "a1", role: "assistant", content: "Good ", createdAt: at }, user("u2", "next")];
		assert.equal(open("t", { ok: true, messages }, view).blocks.map((b) => b.key).join(), "m:u1,m:a1,n:r1,m:u2");
		assert.equal(open("t", { ok: true, messages: [user("u9", "other")] }, view).blocks.length, 1, "its place is gone");
	}
});

test("a history shows reasoning, text and calls in this order", () => {
	const view = open("t", { ok: true, messages: [{
		id: "a1", role: "assistant", content: "x", createdAt: at, reasoning: "hm",
		toolCalls: [{ id: "c1", name: "f", arguments: "{}", result: "1" }],
		task: { taskId: "k1", status: "running", childThreadId: "t2", toolCallId: "c1" },
	}] });
	assert.equal(view.blocks.map((b) => b.kind).join(), "reasoning,text,tool");
	assert.equal(view.blocks[2].task.taskId, "k1");
});

test("a task's status reaches its call", () => {
	const task = { taskId: "k1", status: "finished", childThreadId: "t2", toolCallId: "c1" };
	const view = long.reduce(fold, join());
	assert.equal(foldTask(view, { threadId: "t", task }).blocks.at(-1).task.status, "finished");
	assert.equal(foldTask(view, { threadId: "other", task }), view);
	assert.equal(foldTask(view, undefined), view);
});

test("PIL-147 an unknown type is counted, and harmless", () => {
	for (const type of ["CITATION", "constructor", "__proto__", "toString"]) {
		const view = run("r1", { type: "RUN_STARTED" }, { type }, { type: "TEXT_MESSAGE_START", messageId: "a" }).reduce(fold, join());
		assert.equal(view.unknown, 1, type);
		assert.equal(view.stale, false, type);
		assert.equal(view.blocks.length, 2, type);
	}
});

test("a known type that is malformed is an error", () => {
	for (const bad of [null, {}, { ...long[0], v: 2 }, { ...long[0], sequence: 0 }, { ...long[0], sequence: "1" },
		{ ...long[0], event: { type: "TEXT_MESSAGE_CONTENT", messageId: "a" } }, { ...long[0], event: { type: "TODOS_SNAPSHOT" } }]) {
		const view = fold(join(), bad);
		assert.equal(view.faults.length, 1, JSON.stringify(bad));
		assert.equal(view.blocks.length, 1);
	}
});

test("another thread's envelope changes nothing", () => {
	const view = join();
	assert.equal(fold(view, { ...long[0], threadId: "t2" }), view);
});

test("what is kept of ended runs is bounded", () => {
	let view = join();
	for (let i = 0; i < 100; i++) {
		view = run("r" + i, { type: "RUN_STARTED" }, { type: "RUN_FINISHED" }).reduce(fold, view);
	}
	assert.ok(view.runs.length <= 22, `${view.runs.length} runs`);
});
