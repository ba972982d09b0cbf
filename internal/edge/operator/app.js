// The page: which view is shown, how often it asks, and the one question before
// anything is done.
import { act } from "./api.js";
import { clock, put } from "./draw.js";
import { find } from "./find.js";
import { overview } from "./overview.js";
import { people } from "./people.js";
import { runs } from "./runs.js";
import { thread } from "./thread.js";

// every is how often a view asks again, while it can be seen.
const every = 2000;

const main = document.getElementById("main");
const alert = document.getElementById("alert");
const done = document.getElementById("done");
const fresh = document.getElementById("fresh");
const dialog = document.getElementById("ask");
const yes = document.getElementById("ask-yes");

const views = { "": overview, runs, people, find, thread };

// A view is made of { query, confirm } and has a node, a title, and refresh(signal).
let view;
let stop = new AbortController();
// settle answers the question that is asked.
let settle = () => {};

function open() {
	stop.abort();
	stop = new AbortController();
	const [, name, rest = ""] = /^#\/([a-z]*)\??(.*)$/.exec(location.hash) ?? [null, "", ""];
	view = (Object.hasOwn(views, name) ? views[name] : overview)({ query: new URLSearchParams(rest), confirm, go });
	document.title = `${view.title} – Parlance`;
	main.replaceChildren(view.node);
	for (const a of document.querySelectorAll("nav a")) {
		if (a.getAttribute("href") === `#/${name}`) {
			a.setAttribute("aria-current", "page");
		} else {
			a.removeAttribute("aria-current");
		}
	}
	alert.hidden = done.hidden = true;
	put(fresh, "asking …");
	follow(view, stop.signal);
}

async function follow(of, signal) {
	while (!signal.aborted) {
		if (!document.hidden) {
			await refresh(of, signal);
		}
		await new Promise((wake) => {
			const t = setTimeout(wake, every);
			signal.addEventListener("abort", () => { clearTimeout(t); wake(); }, { once: true });
		});
	}
}

async function refresh(of, signal) {
	try {
		await of.refresh(signal);
		if (!signal.aborted) {
			alert.hidden = true;
			put(fresh, `as of ${clock(Date.now())}`);
		}
	} catch (e) {
		if (!signal.aborted) {
			alert.hidden = false;
			put(alert, e.message);
		}
	}
}

function go(hash) {
	if (location.hash === hash) {
		open();
	} else {
		location.hash = hash;
	}
}

// confirm asks once and then does: { title, text, button, method, path, said }.
// With leaves the view is left for that one when it was done.
async function confirm(what) {
	put(document.getElementById("ask-title"), what.title);
	put(document.getElementById("ask-text"), what.text);
	put(yes, what.button);
	settle(false);
	const answered = new Promise((settled) => { settle = settled; });
	dialog.showModal();
	if (!await answered) {
		return;
	}
	alert.hidden = done.hidden = true;
	try {
		await act(what.method, what.path);
		done.hidden = false;
		put(done, what.said);
		if (what.leaves) {
			go(what.leaves); // there is nothing to ask about any more
			done.hidden = false;
		} else {
			await refresh(view, stop.signal);
		}
	} catch (e) {
		alert.hidden = false;
		put(alert, `${what.title} It was not done: ${e.message}`);
	}
}

// The answer is taken where it is given: a hidden page hears late that its dialog
// was closed, when it may be another's question.
for (const [button, answer] of [[yes, true], [document.getElementById("ask-no"), false]]) {
	button.addEventListener("click", () => {
		settle(answer);
		dialog.close();
	});
}
dialog.addEventListener("cancel", () => settle(false));
document.getElementById("search").addEventListener("submit", (e) => {
	e.preventDefault();
	const id = new FormData(e.target).get("id").trim();
	if (id) {
		go(`#/find?${new URLSearchParams({ id })}`);
	}
});
document.querySelector(".skip").addEventListener("click", (e) => {
	e.preventDefault();
	main.focus();
});
addEventListener("hashchange", open);
addEventListener("visibilitychange", () => !document.hidden && refresh(view, stop.signal));
open();
