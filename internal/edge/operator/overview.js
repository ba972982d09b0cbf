// The first look: what stands out, how each edge does, the last hour of this
// one, and whether it is the agents or us.
import { get } from "./api.js";
import { clock, count, el, keyed, plot, put, short, span, table } from "./draw.js";
import { liveRuns, runTable } from "./runs.js";
import { threadLink } from "./find.js";

const agentsFault = ["agent", "AGENT_ERROR", "AGENT_TIMEOUT", "AGENT_UNAVAILABLE", "UPSTREAM_TRUNCATED", "ANSWER_TOO_LONG", "RUN_TIMEOUT", "timeout"];
const ourFault = ["edge_lost", "EDGE_LOST", "log_lost", "LOG_LOST", "shutdown", "GATEWAY_RESTART"];
const whose = (reason) => (agentsFault.includes(reason) ? "agent" : ourFault.includes(reason) ? "us" : "");

const sum = (list, of) => list.reduce((n, x) => n + of(x), 0);
const ms = (n) => (n ? `${n < 1 ? n.toFixed(2) : short(n)} ms` : "–");
const percent = (part, of) => (of ? `${((100 * part) / of).toFixed(part ? 1 : 0)} %` : "–");

// slow says of an edge's journal how it compares with the fastest one's.
function slow(edge, edges) {
	const mine = edge.pulse?.journal ?? 0;
	const best = Math.min(...edges.map((e) => e.pulse?.journal ?? 0).filter(Boolean));
	if (!mine || mine < 5000) {
		return "";
	}
	return mine >= 2 * best ? `slow: ${(mine / best).toFixed(1)} times the fastest edge` : mine >= 50_000 ? "slow" : "";
}

const plots = [
	["Sockets", "", (m) => m.sockets],
	["Runs at work", "", (m) => m.runs],
	["Commands a minute", "", (m) => m.commands],
	["Journal, a write", " ms", (m) => (m.writes ? m.writeMicros / m.writes / 1000 : null)],
	["Agents, first word", " ms", (m) => (m.answers ? m.answerMillis / m.answers : null)],
	["Runs that failed", "", (m) => m.failed],
];

// lastHour draws one edge's plots.
function lastHour() {
	const title = el("h3");
	const drawn = plots.map(([name, unit, of]) => ({ ...plot(name, unit), of }));
	return {
		node: el("div", {}, title, el("div", { className: "plots" }, ...drawn.map((p) => p.node))),
		show(p) {
			put(title, `The last hour on edge ${p.edge}`);
			const end = Math.floor(p.now / 60_000);
			const minutes = p.minutes.map((m) => ({ at: 60 - (end - m.at / 60_000), m })).filter((x) => x.at >= 0);
			for (const d of drawn) {
				d.show(minutes.map((x) => ({ at: x.at, value: d.of(x.m) })));
			}
		},
	};
}

// verdict compares what agents take and what we take, over the last hour.
function verdict(pulses) {
	const minutes = pulses.flatMap((p) => p.minutes);
	const agents = pulses.flatMap((p) => p.agents);
	const reasons = agents.flatMap((a) => Object.entries(a.reasons));
	const of = (side) => sum(reasons.filter(([r]) => whose(r) === side), ([, n]) => n);
	const lost = sum(minutes, (m) => m.writeErrors);
	const answers = sum(minutes, (m) => m.answers);
	const writes = sum(minutes, (m) => m.writes);
	const said = [];
	if (answers) {
		said.push(`In the last hour agents took ${span(sum(minutes, (m) => m.answerMillis) / answers)} to their first word, and the journal ${ms(sum(minutes, (m) => m.writeMicros) / (writes || 1) / 1000)} for a write.`);
	} else {
		said.push("In the last hour no agent answered here.");
	}
	if (lost) {
		said.push(`It is us: ${count(lost, "write")} of the journal had no answer.`);
	}
	if (of("agent") || of("us")) {
		said.push(`Of the runs that failed since the start, ${of("agent")} failed at the agent and ${of("us")} at us.`);
	} else {
		said.push("No run has failed since the start.");
	}
	return said.join(" ");
}

// odd lists what stands out: { key, text, link }.
function odd(hubs, stats, pulses, live) {
	const list = [];
	for (const s of stats.filter((x) => !x.ready)) {
		list.push({ text: `Takes no new sockets: ${s.journal} – ${s.error}` });
	}
	for (const e of hubs.flatMap((h) => h.edges)) {
		if (e.draining) {
			list.push({ text: `Edge ${e.name} drains: ${count(e.sockets ?? 0, "socket")} and ${count(e.runs ?? 0, "run")} are left.` });
		}
	}
	for (const h of hubs.filter((x) => x.error)) {
		list.push({ text: `The edges of ${h.journal} are not known: ${h.error}` });
	}
	for (const r of live.filter((x) => x.stuck)) {
		list.push({ text: `Run ${r.run} of ${r.agent}: ${r.stuck}.`, link: threadLink(r, r.run) });
	}
	for (const p of pulses) {
		const m = p.minutes.at(-1);
		if (m?.writeErrors) {
			list.push({ text: `Edge ${p.edge}: ${count(m.writeErrors, "write")} of the journal had no answer in this minute.` });
		}
	}
	return list.slice(0, 20).map((x) => ({ ...x, key: x.text }));
}

export function overview({ confirm }) {
	const things = el("ul", { className: "odd" });
	const calm = el("p", { className: "hushed", textContent: "Nothing stands out." });
	const showOdd = keyed(things, (x) => x.key, (x) => ({
		node: el("li", {}, x.link ? el("a", { href: x.link, textContent: x.text }) : x.text), show() {},
	}));
	let everyone = [];
	const edges = table("Edges of this journal", [
		{ head: "Edge", text: (e) => e.name + (e.self ? " (this one)" : "") },
		{ head: "State", text: (e) => (e.draining ? "draining" : "serving"), mark: (e) => (e.draining ? "warn" : "good") },
		{ head: "Version", text: (e) => e.version || "not named" },
		{ head: "Up", text: (e) => (e.started ? span(Date.now() - e.started) : "?"), title: (e) => (e.started ? `since ${clock(e.started)}` : "") },
		{ head: "Sockets", text: (e) => short(e.sockets ?? 0) },
		{ head: "Open threads", text: (e) => short(e.rooms ?? 0) },
		{ head: "Runs", text: (e) => short(e.runs ?? 0) },
		{ head: "Journal, a write", text: (e) => ms((e.pulse?.journal ?? 0) / 1000) + (slow(e, everyone) ? ` – ${slow(e, everyone)}` : ""), mark: (e) => (slow(e, everyone) ? "bad" : "") },
		{ head: "Agents, first word", text: (e) => (e.pulse?.agent ? span(e.pulse.agent) : "–") },
		{ head: "Ended since start", text: (e) => short(e.pulse?.ended ?? 0) },
		{ head: "Failed", text: (e) => (e.pulse?.failed ? `${short(e.pulse.failed)} (${percent(e.pulse.failed, e.pulse.ended)})` : "0"), mark: (e) => (e.pulse?.failed ? "warn" : "") },
		{
			head: "Act", node: (current) => {
				const b = el("button", {
					type: "button", className: "quiet", textContent: "Drain", ariaLabel: `Drain edge ${current().name}`,
					onclick: () => confirm({
						title: `Drain edge ${current().name}?`, button: "Drain it", method: "POST", said: `Edge ${current().name} drains.`,
						text: "It takes no more sockets and runs, its clients are told to come back elsewhere, and its runs may finish. Nothing takes that back but a restart.",
						path: `edges/${encodeURIComponent(current().name)}/drain`,
					}),
				});
				b.show = (e) => {
					b.disabled = e.draining || !e.self;
					b.title = e.self ? "" : "Open this page on that edge to drain it.";
				};
				return b;
			},
		},
	], (e) => `${e.journal} ${e.boot}`, "No edge is known.");
	const live = runTable("Live runs here, those that wait first");
	const judged = el("p", { className: "verdict" });
	const agents = table("Agents on this edge since it started", [
		{ head: "Agent", text: (a) => a.agent },
		{ head: "At work or waiting", text: (a) => short(a.live) },
		{ head: "Complete", text: (a) => short(a.ended.complete ?? 0) },
		{ head: "Cancelled", text: (a) => short(a.ended.cancelled ?? 0) },
		{ head: "Failed", text: (a) => short(a.ended.error ?? 0), mark: (a) => (a.ended.error ? "warn" : "") },
		{ head: "Why", text: (a) => Object.entries(a.reasons).sort((x, y) => y[1] - x[1]).slice(0, 4).map(([r, n]) => `${r} ${n}${whose(r) ? ` (${whose(r)})` : ""}`).join(", ") || "–" },
		{ head: "First word", text: (a) => (a.answers ? span(a.answerMillis / a.answers) : "–") },
		{ head: "Slowest", text: (a) => (a.answers ? span(a.slowest) : "–") },
	], (a) => `${a.edge} ${a.agent}`, "No agent has answered on this edge yet.");
	const dialects = table("Members on this edge by dialect", [
		{ head: "Dialect", text: (d) => d.dialect }, { head: "Members", text: (d) => short(d.n) },
	], (d) => d.dialect, "Nobody watches a thread on this edge.");
	const hours = el("div");
	const showHours = keyed(hours, (p) => p.journal, lastHour);
	const node = el("div", { className: "overview" },
		el("section", {}, el("h2", { textContent: "Needs a look" }), things, calm),
		el("section", {}, el("h2", { textContent: "Edges" }), edges.node),
		el("section", {}, el("h2", { textContent: "Runs" }), live.node),
		el("section", {}, el("h2", { textContent: "The agent, or us?" }), judged, agents.node),
		el("section", {}, el("h2", { textContent: "The last hour" }), hours, dialects.node));
	return {
		title: "Overview",
		node,
		async refresh(signal) {
			const [hubs, stats, pulses, runs] = await Promise.all([get("edges", signal), get("stats", signal), get("pulse", signal), liveRuns(signal)]);
			const list = odd(hubs, stats, pulses, runs);
			showOdd(list);
			calm.hidden = list.length > 0;
			everyone = hubs.flatMap((h) => h.edges.map((e) => ({ ...e, journal: h.journal, self: e.name === h.self })));
			edges.show(everyone);
			live.show(runs.slice(0, 20));
			put(judged, verdict(pulses));
			const known = pulses.flatMap((p) => p.agents.map((a) => ({ ...a, edge: p.edge, live: 0 })));
			for (const r of runs) {
				let a = known.find((x) => x.edge === r.edge && x.agent === r.agent);
				if (!a) {
					known.push(a = { agent: r.agent, edge: r.edge, live: 0, ended: {}, reasons: {}, answers: 0, answerMillis: 0, slowest: 0 });
				}
				a.live++;
			}
			agents.show(known);
			showHours(pulses);
			const by = new Map();
			for (const [dialect, n] of stats.flatMap((s) => Object.entries(s.members))) {
				by.set(dialect, (by.get(dialect) ?? 0) + n);
			}
			dialects.show([...by].map(([dialect, n]) => ({ dialect, n })));
		},
	};
}
