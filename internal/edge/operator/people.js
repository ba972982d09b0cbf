// Who is connected: the members of the threads that are open on this edge.
import { get, threadPath } from "./api.js";
import { clock, count, el, put, span, table } from "./draw.js";
import { threadLink } from "./find.js";

// who says who somebody is, as the site's authentication knows him.
export const who = (s) => (!s?.id ? "nobody named" : s.iss === "operator" ? "an operator" : `${s.id} (${s.iss})`);

// closeButton closes a member's connection; current() is the member with where he is.
export function closeButton(confirm, current) {
	return el("button", {
		type: "button", className: "quiet", textContent: "Close",
		ariaLabel: `Close the connection of ${who(current().subject)}`,
		onclick: () => {
			const m = current();
			confirm({
				title: "Close this connection?", button: "Close it", method: "POST", said: "The connection was closed.",
				text: `${who(m.subject)}, by ${m.dialect || "an unknown dialect"}, since ${clock(m.since)}. The runs go on. The client may come back by itself.`,
				path: threadPath(m, `/members/${encodeURIComponent(m.id)}/close`),
			});
		},
	});
}

export function people({ confirm }) {
	const said = el("p", { className: "hushed" });
	const list = table("Members of threads that are open on this edge", [
		{ head: "Who", text: (m) => who(m.subject) },
		{ head: "Dialect", text: (m) => m.dialect || "?" },
		{ head: "Thread", text: (m) => m.thread, link: (m) => threadLink(m) },
		{ head: "Realm", text: (m) => m.realm + (m.tenant ? ` / ${m.tenant}` : "") },
		{ head: "Since", text: (m) => `${clock(m.since)} · ${span(Date.now() - m.since)}` },
		{ head: "Act", node: (current) => closeButton(confirm, current) },
	], (m) => m.id, "Nobody watches a thread on this edge.");
	return {
		title: "Who is connected",
		node: el("section", {}, el("h2", { textContent: "Who is connected" }), said, list.node),
		async refresh(signal) {
			const [hubs, edges] = await Promise.all([get("members", signal), get("edges", signal)]);
			const all = hubs.flatMap((h) => h.members);
			const named = hubs.reduce((n, h) => n + h.count, 0);
			const sockets = edges.flatMap((h) => h.edges.map((e) => `${e.name} has ${count(e.sockets ?? 0, "socket")}`));
			put(said, `${count(named, "membership")} on edge ${hubs.map((h) => h.edge).join(", ")}${all.length < named ? `, ${all.length} of them here` : ""}. Edge ${sockets.join(", ")}.`);
			list.show(all);
		},
	};
}
