// One window: a session and the part of the document that shows it.

import { running } from "./fold.js";
import { Questions } from "./questions.js";
import { Session } from "./session.js";
import { Blocks, el } from "./view.js";

const chips = ["/tool", "/ask", "/plan", "/think", "/fail", "/slow", "/sub"];
const maxFiles = 8;
const maxFileBytes = 5 << 20;
const maxLines = 4;

const words = {
	connecting: "connecting",
	joining: "joining",
	live: "live",
	waiting: "connection lost",
	closed: "disconnected",
};

export class Pane {
	#site;
	#session = null;
	#threadId = "";
	#files = [];
	#fork = null; // the message being edited
	#frame = 0;
	#$;

	// site has socketURL, fileURL(id) and visit(threadId).
	constructor(name, site) {
		this.#site = site;
		const root = document.getElementById("pane").content.firstElementChild.cloneNode(true);
		root.setAttribute("aria-label", name);
		const $ = (this.#$ = {
			root,
			state: root.querySelector(".state"),
			link: root.querySelector(".link"),
			plan: root.querySelector(".plan"),
			log: root.querySelector(".log"),
			empty: root.querySelector(".empty"),
			lines: root.querySelector(".lines"),
			composer: root.querySelector(".composer"),
			editing: root.querySelector(".editing"),
			files: root.querySelector(".files"),
			input: root.querySelector("textarea"),
			pick: root.querySelector("input[type=file]"),
			stop: root.querySelector(".stop"),
			send: root.querySelector(".send"),
		});
		root.querySelector("h2").textContent = name;
		$.log.setAttribute("aria-label", `Conversation, ${name}`);
		$.input.setAttribute("aria-label", `Message, ${name}`);
		$.blocks = new Blocks($.log, {
			edit: (block) => this.#edit(block),
			detach: (block) => this.#session.detach(block.runId, block.id),
			visit: site.visit,
			fileURL: site.fileURL,
		});
		$.questions = new Questions(root.querySelector(".questions"), (id, value) => this.#session.answer(id, value));
		root.querySelector(".chips").append(...chips.map((c) =>
			el("button", { type: "button", className: "chip", textContent: c, onclick: () => this.#insert(c) })));
		$.link.onclick = () => this.#toggle();
		$.stop.onclick = () => this.#stop();
		$.pick.onchange = () => this.#attach([...$.pick.files]);
		$.editing.querySelector("button").onclick = () => this.#edit(null);
		$.composer.onsubmit = (e) => { e.preventDefault(); this.#send(); };
		$.input.onkeydown = (e) => {
			if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
				e.preventDefault();
				this.#send();
			}
		};
		$.input.oninput = () => this.#fit();
	}

	get element() {
		return this.#$.root;
	}

	// open shows a thread, from its beginning on.
	open(threadId) {
		this.#threadId = threadId;
		this.#edit(null);
		this.#$.lines.replaceChildren();
		this.#join(null);
	}

	#join(before) {
		this.#session?.close();
		this.#session = null;
		const on = {
			change: () => session === this.#session && this.#redraw(),
			line: (text) => this.#line(text),
			joined: (answer) => this.#joined(answer),
		};
		let session;
		session = new Session(this.#site.socketURL, this.#threadId, on, before);
		this.#session = session;
		this.#redraw();
	}

	#toggle() {
		if (this.#session.state === "closed") {
			this.#join(this.#session.view);
		} else {
			this.#session.close("");
		}
	}

	#joined({ messages = [], replay }) {
		this.#$.root.dataset.replayed = replay?.envelopes.length ?? 0;
		if (replay) {
			this.#line(`Joined in mid-run: ${count(messages.length, "message")} and ${count(replay.envelopes.length, "replayed event")}${replay.truncated ? ", the beginning is gone" : ""}.`, true);
		}
	}

	#line(text, calm = false) {
		const line = el("li", { textContent: text, className: calm ? "calm" : "" });
		line.append(el("button", { type: "button", className: "quiet", textContent: "×", ariaLabel: "Dismiss", onclick: () => line.remove() }));
		const lines = this.#$.lines;
		lines.append(line);
		while (lines.children.length > maxLines) {
			lines.firstChild.remove();
		}
	}

	#redraw() {
		this.#frame ||= requestAnimationFrame(() => {
			this.#frame = 0;
			this.#draw();
		});
	}

	#draw() {
		const $ = this.#$;
		const { state, why, view } = this.#session;
		const run = running(view);
		const live = state === "live";
		$.root.dataset.state = state;
		$.state.textContent = words[state] + (why ? `: ${why}` : live && view.questions.length > 0 ? ", the agent waits for an answer" : "");
		$.link.textContent = state === "closed" ? "Join late" : "Disconnect";
		$.stop.hidden = !run;
		$.stop.disabled = !live;
		$.send.hidden = Boolean(run);
		$.send.disabled = !live;
		$.log.setAttribute("aria-busy", String(Boolean(run)));

		const low = $.log.scrollHeight - $.log.scrollTop - $.log.clientHeight < 48;
		$.blocks.draw(view?.blocks ?? [], Boolean(run) || view?.questions.length > 0);
		$.empty.hidden = (view?.blocks.length ?? 0) > 0;
		$.questions.draw(live ? view.questions : []);
		this.#drawPlan(view);
		if (low) {
			$.log.scrollTop = $.log.scrollHeight;
		}
	}

	#drawPlan(view) {
		const todos = view?.todos ?? [];
		const task = view?.task;
		this.#$.plan.hidden = todos.length === 0 && !task;
		this.#$.plan.querySelector("h3").textContent =
			task ? `Background task: ${task.title || task.taskId}, ${task.status}` : "Plan";
		this.#$.plan.querySelector("ol").replaceChildren(...todos.map((t) => {
			const item = el("li", { textContent: t.content }, el("span", { className: "hushed", textContent: `, ${String(t.status).replace("_", " ")}` }));
			item.dataset.status = t.status;
			return item;
		}));
	}

	async #stop() {
		const run = running(this.#session.view);
		if (run) {
			this.#$.stop.disabled = true;
			await this.#session.stop(run.id);
			this.#redraw();
		}
	}

	async #send() {
		const $ = this.#$;
		const text = $.input.value;
		if (!text.trim() && this.#files.length === 0) {
			return;
		}
		const files = this.#files;
		const sent = await this.#session.start(text, files.map((f) => f.attachment), this.#fork?.id);
		if (sent && $.input.value === text) {
			$.input.value = "";
			this.#fit();
			this.#files = this.#files.filter((f) => !files.includes(f));
			this.#drawFiles();
			this.#edit(null);
		}
	}

	#insert(word) {
		const { input } = this.#$;
		input.value = (input.value ? input.value.trimEnd() + " " : "") + word + " ";
		this.#fit();
		input.focus();
	}

	#edit(block) {
		const $ = this.#$;
		this.#fork = block;
		$.editing.hidden = !block;
		if (block) {
			$.input.value = block.text;
			this.#fit();
			$.input.focus();
		}
	}

	#fit() {
		const { input } = this.#$;
		input.rows = Math.min(8, input.value.split("\n").length);
	}

	async #attach(files) {
		this.#$.pick.value = "";
		for (const f of files) {
			if (this.#files.length === maxFiles) {
				this.#line(`At most ${maxFiles} images go with a message.`);
				break;
			}
			if (f.size > maxFileBytes) {
				this.#line(`${f.name} is larger than 5 MiB.`);
				continue;
			}
			const attachment = { mediaType: f.type, data: await base64(f), name: f.name.slice(0, 255) };
			this.#files.push({ attachment });
		}
		this.#drawFiles();
	}

	#drawFiles() {
		this.#$.files.replaceChildren(...this.#files.map((f) => el("li", {},
			f.attachment.name, el("button", {
				type: "button", className: "quiet", textContent: "×", ariaLabel: `Remove ${f.attachment.name}`,
				onclick: () => { this.#files = this.#files.filter((o) => o !== f); this.#drawFiles(); },
			}))));
	}
}

const count = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

function base64(file) {
	return new Promise((resolve, reject) => {
		const r = new FileReader();
		r.onload = () => resolve(r.result.slice(r.result.indexOf(",") + 1));
		r.onerror = () => reject(r.error);
		r.readAsDataURL(file);
	});
}
