// A thread: its runs and why they are as they are, its members, and the timeline
// of its records, or of one run's.
import { get, records, threadPath } from "./api.js";
import { clock, count, el, keyed, put, span, table } from "./draw.js";
import { threadLink } from "./find.js";
import { closeButton, who } from "./people.js";
import { calls, entries, state } from "./timeline.js";

// most is how many of the newest records the page keeps.
const most = 5000;

export function thread({ query, confirm }) {
	const key = { realm: query.get("realm") ?? "", tenant: query.get("tenant") ?? "", thread: query.get("thread") ?? "" };
	let run = query.get("run") ?? "";
	let kept = [];
	let cursor = "";
	let dropped = 0;

	const facts = el("dl", { className: "facts" });
	const showFacts = keyed(facts, (f) => f[0], ([name]) => {
		const value = el("dd");
		return { node: el("div", {}, el("dt", { textContent: name }), value), show: ([, text]) => put(value, text) };
	});
	const sentence = el("p", { className: "verdict" });
	const chips = el("ul", { className: "chips" });
	const showChips = keyed(chips, (c) => c.run, (c) => {
		const a = el("a", { href: threadLink(key, c.run) });
		return {
			node: el("li", {}, a),
			show(now) {
				put(a, now.text);
				if (now.run === run) {
					a.setAttribute("aria-current", "true");
				}
			},
		};
	});
	const cancel = el("button", {
		type: "button", className: "bad", textContent: "Cancel this run", hidden: true,
		onclick: () => confirm({
			title: "Cancel this run?", button: "Cancel it", method: "POST", said: "The run was cancelled.",
			text: "It ends at once, with the text that it has, in every window. Its agent's connection is closed.",
			path: `runs/${encodeURIComponent(cancel.dataset.segment)}/cancel`,
		}),
	});
	const remove = el("button", {
		type: "button", className: "quiet", textContent: "Delete this thread",
		onclick: () => confirm({
			title: "Delete this thread?", button: "Delete it", method: "DELETE", said: "The thread was deleted.", leaves: "#/",
			text: "Its runs end, and all of it is gone for everybody, with its attachments and archives. Nothing takes that back.",
			path: threadPath(key),
		}),
	});
	const agentCalls = table("Calls of its agent", [
		{ head: "Call", text: (c) => String(c.n) },
		{ head: "Edge", text: (c) => (c.edge ? c.edge : "?") },
		{ head: "Began", text: (c) => clock(c.at, true) },
		{ head: "First event after", text: (c) => (c.first === null ? "nothing yet" : span(c.first - c.at)), mark: (c) => (c.first === null && c.until === null ? "warn" : "") },
		{ head: "Took", text: (c) => span((c.until ?? Date.now()) - c.at) },
		{ head: "Records", text: (c) => `${c.records}, ${c.size} bytes` },
		{ head: "Tools", text: (c) => String(c.tools) },
		{ head: "Came to", text: (c) => c.end || "goes on" },
	], (c) => c.n, "Its agent was not called.");
	const members = table("Members", [
		{ head: "Who", text: (m) => who(m.subject) },
		{ head: "Dialect", text: (m) => m.dialect || "?" },
		{ head: "Edge", text: (m) => m.edge },
		{ head: "Since", text: (m) => `${clock(m.since)} · ${span(Date.now() - m.since)}` },
		{
			head: "Act", node: (current) => {
				const b = closeButton(confirm, current);
				b.show = (m) => { b.disabled = !m.id; };
				return b;
			},
		},
	], (m) => m.id || `${m.edge} ${m.subject.iss} ${m.subject.id} ${m.since}`, "Nobody watches it.");
	const list = el("ol", { className: "timeline" });
	const older = el("p", { className: "hushed", hidden: true });
	const showList = keyed(list, (e) => e.key, (first) => {
		const pos = el("span", { className: "pos" });
		const at = el("time");
		const kind = el("b");
		const text = el("span", { className: "what" });
		const edge = el("span", { className: "edge", hidden: !first.edge });
		return {
			node: el("li", {}, pos, at, kind, text, edge),
			show(e) {
				put(pos, e.from === e.to ? `${e.from}` : `${e.from}–${e.to}`);
				put(at, clock(e.at, true) + (e.until > e.at ? ` +${span(e.until - e.at)}` : ""));
				put(kind, e.kind);
				put(text, e.text);
				put(edge, e.edge ? `edge ${e.edge}${e.fence ? `, fence ${e.fence}` : ""}` : "");
				kind.dataset.mark = e.mark;
			},
		};
	});
	const ofRun = el("section", {}, el("h2"), sentence, el("div", { className: "row" }, cancel), agentCalls.node);
	const node = el("div", {},
		el("section", {}, el("h2", {}, "Thread ", el("code", { textContent: key.thread })), facts, el("div", { className: "row" }, remove), members.node),
		ofRun,
		el("section", {}, el("h2", { textContent: "Timeline" }), chips, older, list));

	// chosen is the run that the address names, by its own id or a segment's.
	function chosen(live) {
		const at = live.find((r) => r.run === run || r.segments?.includes(run));
		const rec = at ? null : kept.find((r) => r.run && r.segment === run);
		return at?.run ?? rec?.run ?? run;
	}

	function show(found) {
		const t = found?.thread;
		const live = t?.runs ?? [];
		const ids = [...new Set([...kept.map((r) => r.run).filter(Boolean), ...live.map((r) => r.run)])];
		run = chosen(live);
		const now = Date.now();
		showFacts([
			["Realm", key.realm + (key.tenant ? ` / ${key.tenant}` : "")],
			["Made", t?.created ? clock(t.created) : "?"],
			["Records", t ? `${t.pos}, kept from ${t.floor + 1}, ${t.bytes} bytes` : "?"],
			["Epoch", kept[0]?.epoch ?? "?"],
			["Journal", found?.journal ?? "?"],
		]);
		members.show((t?.members ?? []).flatMap((a) => a.members.map((m) => ({ ...m, ...key, edge: a.edge }))));
		showChips([{ run: "", text: "All" }, ...ids.slice(-30).map((id) => {
			const l = live.find((r) => r.run === id);
			return { run: id, text: `${id.slice(0, 8)}…${id.slice(-4)}${l ? ` · ${l.status}` : ""}` };
		})]);
		const r = live.find((x) => x.run === run);
		ofRun.hidden = !run;
		if (run) {
			put(ofRun.querySelector("h2"), `Run ${run}${r ? ` of ${r.agent}, ${r.status}, owner ${r.edge === "?" ? "gone" : r.edge || "nobody"}, fence ${r.fence}` : ""}`);
			const s = state(r, kept, run, kept.at(-1)?.at ?? now, now, span);
			put(sentence, s.text);
			sentence.dataset.mark = s.mark;
			cancel.hidden = !r;
			cancel.dataset.segment = r?.segments?.at(-1) ?? "";
			agentCalls.show(calls(kept, run));
		}
		const shown = entries(run ? kept.filter((x) => x.run === run) : kept);
		older.hidden = dropped === 0 && shown.length <= 1000;
		put(older, `${count(dropped, "older record")} and ${count(Math.max(0, shown.length - 1000), "older line")} are not shown here.`);
		showList(shown.slice(-1000));
	}

	return {
		title: `Thread ${key.thread}`,
		node,
		async refresh(signal) {
			const [found] = await get(threadPath(key), signal);
			await records(key, cursor, (r) => {
				if (kept.length && r.epoch !== kept[0].epoch) {
					dropped += kept.length;
					kept = []; // the store lost records: what was shown is not true any more
				}
				if (kept.length && r.pos <= kept.at(-1).pos) {
					return;
				}
				kept.push(r);
				cursor = `${r.epoch}.${r.pos}`;
				if (kept.length > most + 500) {
					dropped += kept.length - most;
					kept = kept.slice(-most);
				}
			}, signal);
			if (!signal.aborted) {
				show(found);
			}
		},
	};
}
