// The live runs of the threads that are open on this edge.
import { get } from "./api.js";
import { el, span, table } from "./draw.js";
import { threadLink } from "./find.js";

const words = { pending: "waits for its agent", active: "at work", suspended: "waits for an answer" };

// runTable lists live runs, those that need a look first.
export function runTable(caption) {
	return table(caption, [
		{ head: "Run", text: (r) => r.run, link: (r) => threadLink(r, r.run) },
		{ head: "State", text: (r) => r.stuck || words[r.status] || r.status, mark: (r) => (r.stuck ? "bad" : r.status === "suspended" ? "warn" : "good") },
		{ head: "Agent", text: (r) => r.agent },
		{ head: "Dialect", text: (r) => r.dialect || "?" },
		{ head: "Began", text: (r) => (r.since ? `${span(Date.now() - r.since)} ago` : "not yet") },
		{ head: "Thread's newest record", text: (r) => `${span(Date.now() - r.at)} ago` },
		{ head: "Edge", text: (r) => r.edge },
	], (r) => `${r.edge} ${r.run}`, "No run is live in a thread that is open on this edge.");
}

// liveRuns asks for them.
export async function liveRuns(signal) {
	const all = (await get("runs", signal)).flatMap((h) => h.runs.map((r) => ({ ...r, edge: h.edge })));
	const rank = (r) => (r.stuck ? 0 : r.status === "suspended" ? 1 : 2);
	return all.sort((a, b) => rank(a) - rank(b) || (a.since ?? 0) - (b.since ?? 0)).slice(0, 500);
}

export function runs() {
	const list = runTable("Live runs");
	return {
		title: "Runs",
		node: el("section", {}, el("h2", { textContent: "Live runs" }), list.node),
		async refresh(signal) {
			list.show(await liveRuns(signal));
		},
	};
}
