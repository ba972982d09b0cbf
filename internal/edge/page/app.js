// The page: a thread, kept in the address, open in two windows.

import { Pane } from "./pane.js";

const { socket, routes } = document.documentElement.dataset;
const base = new URL(routes, document.baseURI);
const site = {
	socketURL: new URL(socket, document.baseURI),
	fileURL: (id) => new URL("attachments/" + encodeURIComponent(id), base).href,
	visit: (threadId) => { location.hash = "thread=" + encodeURIComponent(threadId); },
};

const panes = ["Window 1", "Window 2"].map((name) => new Pane(name, site));
document.getElementById("panes").append(...panes.map((p) => p.element));
document.getElementById("new").onclick = create;
addEventListener("hashchange", show);

function alarm(text) {
	const p = document.getElementById("alert");
	p.textContent = text;
	p.hidden = !text;
}

const named = () => new URLSearchParams(location.hash.slice(1)).get("thread");

// create opens a thread of this browser's and names it in the address, from
// where a reload takes it up again.
async function create() {
	alarm("");
	try {
		const r = await fetch(new URL("conversations", base), {
			method: "POST", headers: { "Content-Type": "application/json" }, body: "{}",
		});
		const answer = await r.json().catch(() => ({}));
		if (!r.ok) {
			throw new Error(answer.message ?? `the server answered ${r.status}`);
		}
		site.visit(answer.id);
	} catch (err) {
		alarm(`No thread could be opened: ${err.message}.`);
	}
}

function show() {
	const id = named();
	if (!id) {
		return create();
	}
	document.getElementById("thread").textContent = id;
	for (const p of panes) {
		p.open(id);
	}
}

show();
