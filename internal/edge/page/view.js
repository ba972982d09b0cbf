// Drawing of a view's blocks. What an agent or a person wrote is set as text,
// never as markup.

// el makes an element: el("p", { className: "x" }, "text", child, ...).
export function el(tag, properties = {}, ...children) {
	const node = Object.assign(document.createElement(tag), properties);
	node.append(...children);
	return node;
}

// Blocks draws blocks into a list and redraws only what changed.
export class Blocks {
	#list;
	#act;
	#drawn = new Map(); // key: { block, atWork, node, redraw }

	// act has what a person can do with a block: edit(block), detach(block),
	// visit(threadId), fileURL(id).
	constructor(list, act) {
		this.#list = list;
		this.#act = act;
	}

	// atWork says whether a run may still add to what there is.
	draw(blocks, atWork) {
		const kept = new Set(blocks.map((b) => b.key));
		for (const [key, { node }] of this.#drawn) {
			if (!kept.has(key)) {
				node.remove();
				this.#drawn.delete(key);
			}
		}
		let previous = null;
		for (const block of blocks) {
			let d = this.#drawn.get(block.key);
			if (!d) {
				d = makers[block.kind](this.#act);
				d.node.dataset.kind = block.kind;
				this.#drawn.set(block.key, d);
			}
			if (d.block !== block || d.atWork !== atWork) {
				Object.assign(d, { block, atWork });
				d.node.toggleAttribute("data-open", Boolean(block.open));
				d.redraw(block, atWork);
			}
			const place = previous ? previous.nextSibling : this.#list.querySelector("[data-kind]") ?? null;
			if (place !== d.node) {
				this.#list.insertBefore(d.node, place);
			}
			previous = d.node;
		}
	}
}

// write sets a node's text; what grew is only added to, which keeps a selection
// and costs no more for a long text than for a short one.
function write(node, text) {
	const had = node.firstChild?.data ?? "";
	if (had && text.startsWith(had)) {
		if (text.length > had.length) {
			node.firstChild.appendData(text.slice(had.length));
		}
	} else {
		node.textContent = text;
	}
}

const shown = (block) => (block.cut ? "… " : "") + block.text;

const makers = {
	user(act) {
		let block;
		const text = el("p", { className: "text" });
		const files = el("div", { className: "images" });
		const edit = el("button", { type: "button", className: "quiet", textContent: "Edit", onclick: () => act.edit(block) });
		const node = el("article", { className: "user" }, el("h3", { className: "who", textContent: "You" }), text, files, edit);
		return {
			node,
			redraw(b) {
				block = b;
				write(text, b.text);
				edit.setAttribute("aria-label", `Edit “${b.text.slice(0, 40)}”`);
				files.replaceChildren(...b.attachments.map((a) => el("img", {
					src: act.fileURL(a.id), alt: a.name || "attached image", loading: "lazy",
				})));
			},
		};
	},

	text() {
		const text = el("p", { className: "text" });
		return { node: el("article", { className: "agent" }, el("h3", { className: "who", textContent: "Agent" }), text),
			redraw: (b) => write(text, shown(b)) };
	},

	reasoning() {
		const text = el("p", { className: "text" });
		const node = el("details", { className: "reasoning" }, el("summary", { textContent: "Reasoning" }), text);
		return { node, redraw: (b) => write(text, shown(b)) };
	},

	tool(act) {
		let block;
		const name = el("code");
		const badge = el("span", { className: "badge" });
		const args = el("pre");
		const result = el("pre", { className: "result" });
		const detach = el("button", { type: "button", className: "quiet", textContent: "Send to background", onclick: () => act.detach(block) });
		const visit = el("button", { type: "button", className: "quiet", textContent: "Open its thread", onclick: () => act.visit(block.child) });
		const node = el("article", { className: "tool" },
			el("details", {}, el("summary", {}, name, badge), el("h4", { textContent: "Arguments" }), args,
				el("h4", { textContent: "Result" }), result),
			el("div", { className: "buttons" }, detach, visit));
		return {
			node,
			redraw(b, atWork) {
				block = b;
				write(name, b.name || "tool");
				write(args, (b.cut ? "… " : "") + b.args);
				write(result, b.result ?? (atWork ? "none yet" : "none"));
				const of = toolState(b, atWork);
				write(badge, of);
				badge.dataset.state = of;
				detach.hidden = b.subagent?.status !== "running";
				visit.hidden = !b.child;
			},
		};
	},

	note() {
		const node = el("p", { className: "note" });
		return { node, redraw: (b) => { node.dataset.level = b.level; write(node, b.text); } };
	},
};

function toolState(b, atWork) {
	const of = b.subagent ? `${b.subagent.name ?? "subagent"}: ` : "";
	if (b.task) {
		return `${of || "task: "}${b.task.status} in the background`;
	}
	if (b.subagent) {
		return of + (b.subagent.status === "detached" ? "in the background" : b.subagent.status);
	}
	return b.result !== undefined ? "done" : b.open ? "being called" : atWork ? "waiting" : "no result";
}
