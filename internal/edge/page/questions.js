// The cards of a thread's open questions.

import { el } from "./view.js";

// Questions shows a card for each open question and hands what a person
// answers to answer(interruptId, value), which resolves with whether it took.
export class Questions {
	#list;
	#answer;
	#cards = new Map();

	constructor(list, answer) {
		this.#list = list;
		this.#answer = answer;
	}

	draw(questions) {
		const open = new Set(questions.map((q) => q.id));
		for (const [id, card] of this.#cards) {
			if (!open.has(id)) {
				card.remove();
				this.#cards.delete(id);
			}
		}
		for (const q of questions) {
			if (!this.#cards.has(q.id)) {
				const card = this.#card(q);
				this.#cards.set(q.id, card);
				this.#list.append(card);
			}
		}
	}

	#card({ id, payload }) {
		const p = payload !== null && typeof payload === "object" ? payload : {};
		const card = el("form", { className: "question" }, el("p", { className: "asked", textContent: asked(p) }));
		const details = p.clientTool ? p.arguments : rest(p);
		if (details && Object.keys(details).length > 0) {
			card.append(el("pre", { textContent: JSON.stringify(details, null, 2) }));
		}
		const send = async (value) => {
			const buttons = [...card.elements];
			buttons.forEach((b) => (b.disabled = true));
			await this.#answer(id, value);
			buttons.forEach((b) => (b.disabled = false));
		};
		if (isApproval(p)) {
			card.onsubmit = (e) => { e.preventDefault(); send(true); };
			card.append(el("div", { className: "buttons" },
				el("button", { type: "submit", className: "approve", textContent: "Approve" }),
				el("button", { type: "button", className: "deny", textContent: "Deny", onclick: () => send(false) })));
			return card;
		}
		const field = el("textarea", { rows: 2, required: true });
		field.setAttribute("aria-label", "Your answer");
		const json = el("input", { type: "checkbox" });
		json.onchange = field.oninput = () => field.setCustomValidity("");
		card.onsubmit = (e) => {
			e.preventDefault();
			let value = field.value;
			try {
				value = json.checked ? JSON.parse(value) : value;
			} catch (err) {
				field.setCustomValidity("Not JSON: " + err.message);
				field.reportValidity();
				return;
			}
			send(value);
		};
		card.append(field, el("div", { className: "buttons" },
			el("button", { type: "submit", className: "approve", textContent: "Answer" }),
			el("label", {}, json, " as JSON")));
		return card;
	}
}

// isApproval tells a yes-or-no question: our own form of one, or AG-UI's.
function isApproval(p) {
	return !p.clientTool && (p.kind === "approval" || p.reason === "tool_call" || p.reason === "confirmation");
}

function asked(p) {
	if (p.clientTool) {
		return typeof p.arguments?.question === "string" ? p.arguments.question : `The agent calls ${p.clientTool} here.`;
	}
	const text = p.message ?? p.question ?? p.prompt;
	if (typeof text === "string" && text) {
		return text;
	}
	return isApproval(p) ? `May ${p.toolName ?? "this tool"} run?` : "The agent asks for an answer.";
}

function rest({ message, question, prompt, reason, kind, toolCallId, ...others }) {
	return others;
}
