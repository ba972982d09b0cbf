// What a search found: one thing is opened at once.
import { get } from "./api.js";
import { el, put } from "./draw.js";

export const threadLink = (key, run = "") => `#/thread?${new URLSearchParams({
	realm: key.realm, ...(key.tenant ? { tenant: key.tenant } : {}), thread: key.thread, ...(run ? { run } : {}),
})}`;

export function find({ query }) {
	const id = query.get("id") ?? "";
	const said = el("p", { className: "hushed", textContent: "Looking …" });
	const list = el("ul", { className: "found" });
	return {
		title: "Find",
		node: el("section", {}, el("h2", {}, "Find ", el("code", { textContent: id })), said, list),
		async refresh(signal) {
			const found = (await get(`find?${new URLSearchParams({ id })}`, signal)).flatMap((j) => j.found);
			const places = new Map();
			for (const f of found) {
				const link = threadLink(f, f.run ?? f.segment ?? "");
				places.set(link, f);
			}
			if (places.size === 1) {
				location.replace([...places.keys()][0]); // the way back does not lead here
				return;
			}
			put(said, places.size ? "It is in more than one place:" :
				"There is no thread of this id in a realm of this edge without tenants, and no live run. A thread of a tenant is found while somebody has it open here.");
			list.replaceChildren(...[...places].map(([href, f]) => el("li", {}, el("a", {
				href, textContent: `${f.run ? "run in " : f.segment ? "segment in " : ""}${f.thread} · realm ${f.realm}${f.tenant ? ` · tenant ${f.tenant}` : ""}`,
			}))));
		},
	};
}
