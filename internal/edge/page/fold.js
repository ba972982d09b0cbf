// What a window shows of a thread, as pure functions: a history makes a view,
// and each envelope makes the next. Replayed and live envelopes take one path,
// so a window that joins late ends up as one that watched from the start.
//
// A view:
//   threadId
//   blocks     what was said and done, in order. Each has a key of its own and a
//              kind: user, text, reasoning, tool, note. A block that did not
//              change is the same object in the next view
//   runs       [{id, sequence, status: running | paused | ended}], the one that
//              was heard of last comes last
//   questions  [{id, payload, runId}] that wait for an answer
//   todos      the plan; task, where the thread is a background task's own
//   tasks      background tasks by id
//   stale      what the envelopes say is not enough: ask for the history again
//   unknown    events of types that this page does not know; they do no harm
//   faults     what the gateway sent although its contract forbids it

const keptRuns = 20; // ended ones are kept for a while, to know what repeats

// open makes the view of a history, the ok answer to thread:messages. before is
// what the window showed until then, or nothing: it knows some things that a
// history does not tell.
export function open(threadId, answer, before) {
	let view = {
		threadId,
		blocks: [],
		runs: [],
		questions: [],
		todos: answer.todos ?? [],
		task: answer.task ?? null,
		tasks: {},
		truncated: answer.replay?.truncated ?? false,
		stale: false,
		unknown: 0,
		faults: [],
	};
	for (const m of answer.messages ?? []) {
		view = message(view, m);
	}
	const replay = answer.replay?.envelopes ?? [];
	const cut = new Set();
	for (const envelope of replay) {
		// A replay without its beginning starts anywhere, once for each run.
		if (view.truncated && !cut.has(envelope?.runId)) {
			cut.add(envelope?.runId);
			view = admit(view, envelope);
		}
		view = fold(view, envelope);
	}
	const q = answer.pendingInterrupt;
	if (q && !view.questions.some((known) => known.id === q.interruptId)) {
		const first = { id: q.interruptId, payload: q.payload, runId: q.runId };
		view = { ...view, questions: [...view.questions, first, ...after(first, before?.questions ?? [])] };
	}
	return before ? keepNotes(view, before) : view;
}

// after lists what is known of the questions that came with an open one and
// after it: a history tells the first only.
function after(first, questions) {
	const at = questions.findIndex((q) => q.id === first.id);
	return at < 0 ? [] : questions.slice(at + 1).filter((q) => q.runId === first.runId);
}

// settle takes a question out that is not open any more.
export function settle(view, id) {
	return { ...view, questions: view.questions.filter((q) => q.id !== id) };
}

// fold makes the next view of an envelope.
export function fold(view, envelope) {
	const wrong = fault(envelope);
	if (wrong) {
		return { ...view, faults: [...view.faults.slice(-9), wrong] };
	}
	if (envelope.threadId !== view.threadId) {
		return view; // of another room
	}
	const { runId, sequence, event } = envelope;
	const run = view.runs.find((r) => r.id === runId);
	if (run && sequence <= run.sequence) {
		return view; // seen
	}
	if (sequence !== (run?.sequence ?? 0) + 1) {
		return { ...view, stale: true };
	}
	view = setRun(view, { ...(run ?? { id: runId, status: "running" }), sequence });
	const next = Object.hasOwn(events, event.type) ? events[event.type] : unknown;
	return next(view, event, runId);
}

// foldTask makes the next view of a task:status.
export function foldTask(view, { threadId, task } = {}) {
	return threadId === view.threadId && typeof task?.taskId === "string" ? withTask(view, task) : view;
}

// running is the run that Stop stops, or undefined.
export function running(view) {
	return view?.runs.findLast((r) => r.status === "running");
}

const events = {
	RUN_STARTED(view, e, runId) {
		if (e.message) {
			return message(view, e.message);
		}
		// A paused run goes on or ends. Which one, the envelope does not say.
		const waiting = new Set(view.questions.map((q) => q.runId));
		return { ...view, questions: [], stale: view.stale || waiting.size > 1 };
	},
	RUN_FINISHED: (view, e, runId) => ended(view, runId, "ended"),
	RUN_CANCELLED: (view, e, runId) => ended(view, runId, "ended", { level: "stopped", text: "Stopped" }),
	RUN_ERROR: (view, e, runId) => ended(view, runId, "ended", { level: "error", text: `${e.message} (${e.code})` }),
	RUN_PAUSED: (view, e, runId) => ended(view, runId, "paused"),

	TEXT_MESSAGE_START: (view, e, runId) =>
		put(view, "m:" + e.messageId, { kind: "text", id: e.messageId }, () => ({ text: "", open: true, runId })),
	TEXT_MESSAGE_CONTENT: (view, e, runId) =>
		put(view, "m:" + e.messageId, { kind: "text", id: e.messageId, text: "", cut: true }, (b) => ({
			text: b.text + e.delta, open: true, runId,
		})),
	TEXT_MESSAGE_END: (view, e) => change(view, "m:" + e.messageId, { open: false }),

	REASONING_START: (view, e, runId) =>
		put(view, "r:" + e.messageId, { kind: "reasoning" }, () => ({ text: "", open: true, runId })),
	REASONING_CONTENT: (view, e, runId) =>
		put(view, "r:" + e.messageId, { kind: "reasoning", text: "", cut: true }, (b) => ({
			text: b.text + e.delta, open: true, runId,
		})),
	REASONING_END: (view, e) => change(view, "r:" + e.messageId, { open: false }),

	TOOL_CALL_START: (view, e, runId) => put(view, "c:" + e.toolCallId, call(e.toolCallId), () => ({
		name: e.toolCallName, args: "", open: true, runId,
	})),
	TOOL_CALL_ARGS: (view, e, runId) => put(view, "c:" + e.toolCallId, { ...call(e.toolCallId), cut: true }, (b) => ({
		args: b.args + e.delta, open: true, runId,
	})),
	TOOL_CALL_END: (view, e) => change(view, "c:" + e.toolCallId, { open: false }),
	TOOL_CALL_RESULT: (view, e, runId) => put(view, "c:" + e.toolCallId, call(e.toolCallId), () => ({
		result: e.content, open: false, runId,
	})),

	SUBAGENT_STARTED: (view, e, runId) => put(view, "c:" + e.toolCallId, call(e.toolCallId), () => ({
		subagent: { name: e.name, status: "running" }, child: e.childThreadId, runId,
	})),
	SUBAGENT_FINISHED: (view, e, runId) => put(view, "c:" + e.toolCallId, call(e.toolCallId), (b) => ({
		subagent: { ...b.subagent, name: e.name ?? b.subagent?.name, status: e.detached ? "detached" : e.status },
		child: e.childThreadId ?? b.child,
		runId,
	})),

	TODOS_SNAPSHOT: (view, e) => ({ ...view, todos: e.todos }),
	INTERRUPT: (view, e, runId) => ({
		...view,
		questions: [
			...view.questions.filter((q) => q.id !== e.interruptId),
			{ id: e.interruptId, payload: e.payload, runId },
		],
	}),
};

const unknown = (view) => ({ ...view, unknown: view.unknown + 1 });

// The members that a known event must have, all strings but where it says list.
const members = {
	RUN_ERROR: ["code", "message"],
	TEXT_MESSAGE_START: ["messageId"],
	TEXT_MESSAGE_CONTENT: ["messageId", "delta"],
	TEXT_MESSAGE_END: ["messageId"],
	REASONING_START: ["messageId"],
	REASONING_CONTENT: ["messageId", "delta"],
	REASONING_END: ["messageId"],
	TOOL_CALL_START: ["toolCallId", "toolCallName"],
	TOOL_CALL_ARGS: ["toolCallId", "delta"],
	TOOL_CALL_END: ["toolCallId"],
	TOOL_CALL_RESULT: ["toolCallId", "content"],
	SUBAGENT_STARTED: ["toolCallId"],
	SUBAGENT_FINISHED: ["toolCallId", "status"],
	INTERRUPT: ["interruptId"],
};

function fault(envelope) {
	const e = envelope?.event;
	if (typeof envelope?.runId !== "string" || typeof e?.type !== "string" ||
		!Number.isSafeInteger(envelope.sequence) || envelope.sequence < 1) {
		return "an envelope that is none";
	}
	if (envelope.v !== 1) {
		return `an envelope of version ${envelope.v}`;
	}
	const missing = (Object.hasOwn(members, e.type) ? members[e.type] : []).find((m) => typeof e[m] !== "string");
	if (missing) {
		return `${e.type} without ${missing}`;
	}
	if (e.type === "TODOS_SNAPSHOT" && !Array.isArray(e.todos)) {
		return "TODOS_SNAPSHOT without todos";
	}
	return "";
}

// message adds what a history's message holds: the reasoning before its text
// and the calls after it, as they came. One that is known by its id stays.
function message(view, m) {
	if (m.role === "user") {
		return put(view, "m:" + m.id, { kind: "user", id: m.id }, () => ({
			text: m.content, attachments: m.attachments ?? [],
		}));
	}
	if (m.reasoning) {
		view = put(view, "r:of " + m.id, { kind: "reasoning" }, () => ({ text: m.reasoning }));
	}
	if (m.content) {
		view = put(view, "m:" + m.id, { kind: "text", id: m.id }, () => ({ text: m.content }));
	}
	for (const c of m.toolCalls ?? []) {
		view = put(view, "c:" + c.id, call(c.id), () => ({ name: c.name, args: c.arguments, result: c.result }));
	}
	return m.task ? withTask(view, m.task) : view;
}

const call = (id) => ({ kind: "tool", id, name: "", args: "" });

function withTask(view, task) {
	view = { ...view, tasks: { ...view.tasks, [task.taskId]: task } };
	if (task.childThreadId === view.threadId) {
		return { ...view, task };
	}
	return task.toolCallId ? change(view, "c:" + task.toolCallId, { task, child: task.childThreadId }) : view;
}

// put changes the block of a key, or adds it at the end.
function put(view, key, fresh, changes) {
	const at = view.blocks.findLastIndex((b) => b.key === key);
	const block = at < 0 ? { key, ...fresh } : view.blocks[at];
	const blocks = view.blocks.slice();
	blocks[at < 0 ? blocks.length : at] = { ...block, ...changes(block) };
	return { ...view, blocks };
}

function change(view, key, changes) {
	const known = view.blocks.some((b) => b.key === key);
	return known ? put(view, key, {}, () => changes) : view;
}

// ended settles a run: no block of it is open any more, and why it stopped is
// noted. After RUN_PAUSED comes RUN_FINISHED, so that a run stays paused.
function ended(view, runId, status, note) {
	const run = view.runs.find((r) => r.id === runId);
	view = setRun(view, { ...run, status: run.status === "paused" ? "paused" : status });
	view = { ...view, blocks: view.blocks.map((b) => (b.open && b.runId === runId ? { ...b, open: false } : b)) };
	return note ? put(view, "n:" + runId, { kind: "note" }, () => note) : view;
}

function setRun(view, run) {
	const others = view.runs.filter((r) => r.id !== run.id);
	const old = others.filter((r) => r.status !== "running").slice(0, -keptRuns);
	return { ...view, runs: [...others.filter((r) => !old.includes(r)), run] };
}

// admit says that a run's envelopes before this one are not to be had.
function admit(view, envelope) {
	return fault(envelope) ? view : setRun(view, {
		id: envelope.runId, status: "running", sequence: envelope.sequence - 1,
	});
}

// keepNotes takes over what a history does not tell: that a run was stopped or
// failed. A note whose place is gone goes too.
function keepNotes(view, before) {
	const blocks = view.blocks.slice();
	before.blocks.forEach((note, i) => {
		const place = before.blocks[i - 1]?.key;
		const at = note.kind === "note" ? blocks.findLastIndex((b) => b.key === place) : -1;
		if (at >= 0 && !blocks.some((b) => b.key === note.key)) {
			blocks.splice(at + 1, 0, note);
		}
	});
	return { ...view, blocks };
}
