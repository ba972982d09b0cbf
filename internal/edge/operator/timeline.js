// What a thread's records say, in the words of an operator: pure, without a
// document.

// folds are kinds of which many come in a row and are shown as one.
const folds = new Set(["text.delta", "reasoning.delta", "tool.args", "custom", "state", "activity", "step"]);

const by = (s) => (!s?.id ? "" : s.iss === "operator" ? "an operator" : `${s.id} (${s.iss})`);

// entries gathers records to what is shown: { key, from, to, at, until, kind, run,
// edge, fence, n, size, text, mark }.
export function entries(records) {
	const list = [];
	for (const r of records) {
		const last = list.at(-1);
		if (last && folds.has(r.kind) && last.kind === r.kind && last.run === (r.run ?? "") && last.to + 1 === r.pos) {
			last.to = r.pos;
			last.until = r.at;
			last.n++;
			last.size += r.size ?? 0;
			last.text = many(last);
			continue;
		}
		const e = {
			key: `${r.epoch}.${r.pos}`, from: r.pos, to: r.pos, at: r.at, until: r.at, kind: r.kind, run: r.run ?? "",
			edge: r.edge ?? "", fence: r.fence ?? 0, n: 1, size: r.size ?? 0, text: "", mark: "",
		};
		[e.text, e.mark] = folds.has(r.kind) ? [many(e), ""] : says(r);
		list.push(e);
	}
	return list;
}

const bytes = (n) => (n === 1 ? "1 byte" : `${n} bytes`);
const many = (e) => `${e.n === 1 ? "1 piece" : `${e.n} pieces`}, ${bytes(e.size)}`;

// says is what one record means, and whether it is good, bad or to be noticed.
function says(r) {
	switch (r.kind) {
	case "thread": return [`opened${r.by ? ` by ${by(r.by)}` : ""}`, ""];
	case "message": return [`${r.role} message ${r.message}, ${bytes(r.size ?? 0)}${r.by ? `, by ${by(r.by)}` : ""}`, ""];
	case "run.pending": return [`begun${r.by ? ` by ${by(r.by)}` : ""}${r.dialect ? ` through ${r.dialect}` : ""}, for agent ${r.agent}`, ""];
	case "run.active": return ["its agent is called", ""];
	case "run.suspended": return ["paused: it waits for an answer, and holds no connection to its agent", "warn"];
	case "run.resumed": return ["its agent is called again", "good"];
	case "run.taken": return ["another connection shows it from here on", ""];
	case "run.detach": return ["subagents are asked into the background", ""];
	case "run.stop": return [`sealed: ${r.cause === "user" && !r.by ? "an operator cancelled it" : why(r.cause)}${r.by ? `, by ${by(r.by)}` : ""}${r.code ? `, ${r.code}` : ""}`, "bad"];
	case "run.end": return [`${r.status}${r.cause ? `: ${why(r.cause)}` : ""}${r.code ? ` (${r.code})` : ""}${r.message ? `, message ${r.message} of ${bytes(r.size ?? 0)}` : ""}`, r.status === "complete" ? "good" : "bad"];
	case "interrupt": return [`question ${r.interrupt} (${r.question})${r.tool ? ` about tool ${r.tool}` : ""}${r.deadline ? `, until ${new Date(r.deadline).toLocaleTimeString()}` : ", without a time limit"}`, "warn"];
	case "answer": return [`question ${r.interrupt} ${r.status}${r.by ? ` by ${by(r.by)}` : ""}`, "good"];
	case "tool.start": return [`calls tool ${r.tool} (${r.call})`, ""];
	case "tool.end": return [`has said what it gives to ${r.call}`, ""];
	case "tool.result": return [`result of ${r.call}, ${bytes(r.size ?? 0)}`, ""];
	case "subagent.start": return [`subagent ${r.agent || r.call} begins`, ""];
	case "subagent.end": return [`a subagent ends${r.status ? `: ${r.status}` : ""}`, ""];
	}
	return [r.size ? bytes(r.size) : "", ""];
}

const causes = {
	user: "somebody cancelled it", withdraw: "a new message took its question back", timeout: "it took too long",
	agent: "its agent gave up", edge_lost: "its edge was lost", log_lost: "the journal lost records",
	shutdown: "its edge went away", deleted: "its thread is deleted",
};
const why = (cause) => causes[cause] ?? cause ?? "";

// calls are the agent's calls of a run: a segment each, with how long the agent
// took to its first event and to the end.
export function calls(records, run) {
	const list = [];
	let open = null;
	for (const r of records) {
		if (r.run !== run) {
			continue;
		}
		switch (r.kind) {
		case "run.active":
		case "run.resumed":
			open = { n: list.length + 1, at: r.at, edge: r.edge ?? "", fence: r.fence ?? 0, first: null, until: null, records: 0, size: 0, tools: 0, end: "" };
			list.push(open);
			break;
		case "run.suspended":
		case "run.end":
		case "run.stop":
			if (open && open.until === null) {
				open.until = r.at;
				open.end = r.kind === "run.suspended" ? "asked" : r.status || r.cause || "stopped";
			}
			break;
		case "interrupt":
		case "answer":
		case "message":
		case "run.pending":
			break;
		default:
			if (open && open.until === null) {
				open.first ??= r.at;
				open.records++;
				open.size += r.size ?? 0;
				open.tools += r.kind === "tool.start" ? 1 : 0;
			}
		}
	}
	return list;
}

// state says in a sentence why a live run is as it is. run is what the edge knows
// of it, or undefined if it has ended; newest is when its thread was written last.
export function state(run, records, id, newest, now, span) {
	if (!run) {
		const end = records.findLast((r) => r.run === id && r.kind === "run.end");
		return end ? { text: `It has ended: ${says(end)[0]}.`, mark: end.status === "complete" ? "good" : "bad" } :
			{ text: "It is not live, and its end is no longer in the journal's newest records.", mark: "" };
	}
	const owner = run.edge === "?" ? "an edge that is gone" : run.edge ? `edge ${run.edge}` : "no edge";
	const quiet = span(now - newest);
	if (run.stopped) {
		return { text: `It is sealed and about to end; any edge ends it within seconds. Its owner was ${owner}.`, mark: "warn" };
	}
	if (run.status === "suspended") {
		const asks = (run.interrupts ?? []).map((i) => `${i.id} (${i.kind})${i.deadline ? (i.deadline > now ? `, ${span(i.deadline - now)} left` : ", past its time") : ", without a time limit"}`);
		return { text: `It waits for people, not for its agent: ${asks.length ? `open ${asks.length === 1 ? "question" : "questions"} ${asks.join("; ")}` : "its agent is to go on by itself"}, since ${span(now - run.suspended)}.`, mark: "warn" };
	}
	if (run.edge === "?") {
		return { text: `Its owner is gone (fence ${run.fence}). Another edge ends it, or takes it up, within 20 s of that.`, mark: "bad" };
	}
	if (run.status === "pending") {
		return { text: `Its agent ${run.agent} was not called yet; it is with ${owner}. Agents that dial in are waited for.`, mark: "warn" };
	}
	const last = calls(records, id).at(-1);
	if (last && last.first === null) {
		return { text: `It is the agent: ${run.agent} was called ${span(now - last.at)} ago by ${owner} and has said nothing.`, mark: "warn" };
	}
	return { text: `It is at work on ${owner} (fence ${run.fence}); its agent ${run.agent} was heard ${quiet} ago.`, mark: now - newest > 60_000 ? "bad" : "good" };
}
