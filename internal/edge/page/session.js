// A window's session on a thread: a socket, the duties of a Pilotoo client, and
// the view that its envelopes make. It knows nothing of the document.

import { fold, foldTask, open, settle } from "./fold.js";
import { AckError, Socket } from "./socketio.js";

const major = 1;
const graceMs = 2_000; // an older gateway announces nothing
const askAgainMs = 4_000; // no event says that another window answered one of several questions

// tools are what this page lets an agent ask it, declared with every run.
const tools = [
	{
		name: "ask_window",
		description: "Asks the person at this page and waits for the answer.",
		kind: "blocking",
		arguments: { type: "object", properties: { question: { type: "string" } } },
	},
];

// newId is a random UUID; crypto.randomUUID is missing on plain http addresses.
export function newId() {
	const b = crypto.getRandomValues(new Uint8Array(16));
	b[6] = (b[6] & 0x0f) | 0x40;
	b[8] = (b[8] & 0x3f) | 0x80;
	const hex = Array.from(b, (x) => x.toString(16).padStart(2, "0")).join("");
	return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

export class Session {
	view = null;
	state = "connecting"; // waiting, joining, live, closed
	why = "";

	#on;
	#socket;
	#greeted = false;
	#grace = 0;
	#look = 0; // timer: look whether the questions are still open
	#loading = false;
	#again = false;
	#closed = false;
	#attempt = { key: "", id: "" }; // the message being sent, until it is known to have arrived
	#mine = ""; // the last message sent from here that went on at the end

	// on.change() is called when view or state have changed, on.line(text) with
	// what a person should read, on.joined(answer) after each first history of a
	// connection. before is what the window showed last.
	constructor(url, threadId, on, before = null) {
		this.threadId = threadId;
		this.view = before;
		this.#on = on;
		this.#socket = new Socket(url, {
			state: (name, why) => this.#connection(name, why),
			event: (name, argument) => this.#event(name, argument),
		});
	}

	close(why) {
		this.#closed = true;
		clearTimeout(this.#grace);
		this.#socket?.close(why);
	}

	// start sends a message. It resolves with true when the thread has it. What
	// is sent again after a lost answer goes under the same id, so that the thread
	// cannot have it twice.
	async start(input, attachments, forkFromMessageId) {
		const key = JSON.stringify([input, forkFromMessageId, attachments.map((a) => a.name + a.data.length)]);
		const repeated = this.#attempt.key === key;
		if (!repeated) {
			this.#attempt = { key, id: newId() };
		}
		this.#mine = forkFromMessageId ? "" : this.#attempt.id;
		const command = { threadId: this.threadId, messageId: this.#attempt.id, input, clientTools: tools };
		if (attachments.length > 0) {
			command.attachments = attachments;
		}
		if (forkFromMessageId) {
			command.forkFromMessageId = forkFromMessageId;
		}
		const error = await this.#command("run:start", command);
		if (error && !(repeated && error.code === "DUPLICATE_MESSAGE")) {
			return false;
		}
		this.#attempt = { key: "", id: "" };
		if (error || forkFromMessageId) {
			this.#load();
		}
		return true;
	}

	// answer settles a question. What is asked next, the history tells.
	async answer(interruptId, answer) {
		const error = await this.#command("run:resume", { threadId: this.threadId, interruptId, answer, clientTools: tools });
		if (!error || error.code === "UNKNOWN_RUN") {
			this.view = settle(this.view, interruptId);
			this.#changed();
			this.#load();
		}
		return !error;
	}

	stop(runId) {
		return this.#command("run:cancel", { runId });
	}

	detach(runId, toolCallId) {
		return this.#command("run:detach", { runId, toolCallId });
	}

	// command resolves with the error, or null.
	async #command(name, argument) {
		if (this.state !== "live") {
			this.#on.line("Not connected: nothing was sent.");
			return { code: "", message: "" };
		}
		try {
			const answer = await this.#socket.emit(name, argument);
			if (answer?.ok) {
				return null;
			}
			const error = answer?.error ?? { code: "", message: "the gateway's answer cannot be read" };
			this.#line(error);
			return error;
		} catch (err) {
			this.#on.line(err instanceof AckError ? `${sentence(err)} Send it again to be sure.` : sentence(err));
			return { code: "", message: err.message };
		}
	}

	#connection(name, why) {
		clearTimeout(this.#grace);
		if (name === "connected") {
			this.#greeted = false;
			this.#loading = this.#again = false;
			this.#grace = setTimeout(() => {
				console.warn("the gateway did not announce its protocol; it is taken for an older one");
				this.#greet();
			}, graceMs);
			name = "joining";
		}
		this.#set(name, why);
	}

	#set(state, why = "") {
		if (this.#closed && this.state === "closed") {
			return;
		}
		this.state = state;
		this.why = why;
		this.#changed();
	}

	#changed() {
		const waits = this.state === "live" && this.view.questions.length > 0;
		if (!waits) {
			clearTimeout(this.#look);
			this.#look = 0;
		} else {
			this.#look ||= setTimeout(() => {
				this.#look = 0;
				this.#load();
			}, askAgainMs);
		}
		this.#on.change();
	}

	#event(name, argument) {
		switch (name) {
			case "protocol:hello":
				return this.#hello(argument);
			case "protocol:error":
				return this.#line(argument ?? {});
			case "run:event":
				return this.view && this.#envelope(argument);
			case "task:status":
				this.view &&= foldTask(this.view, argument);
				return this.#on.change();
		}
	}

	// hello checks what the gateway announces. One that this page cannot follow
	// ends the session, and it does not come back.
	#hello(hello) {
		const theirs = hello?.protocol?.major;
		const least = hello?.minClientMajor;
		if (!Number.isInteger(theirs) || !Number.isInteger(least)) {
			console.warn("the gateway's announcement cannot be read", hello);
		} else if (theirs !== major || least > major) {
			this.close(`This page speaks version ${major} of the protocol, the gateway version ${theirs} and none below ${least}.`);
			return;
		}
		this.#greet();
	}

	#greet() {
		clearTimeout(this.#grace);
		if (!this.#greeted) {
			this.#greeted = true;
			this.#load(true);
		}
	}

	#envelope(envelope) {
		const faults = this.view.faults;
		this.view = fold(this.view, envelope);
		if (this.view.faults !== faults) {
			this.#on.line(`The gateway sent ${this.view.faults.at(-1)}.`);
		}
		// Whether a message went on at the end or replaced an earlier one is not
		// said to those who did not send it.
		const opening = envelope?.event?.type === "RUN_STARTED" ? envelope.event.message : undefined;
		if (this.view.stale || (opening && opening.id !== this.#mine)) {
			this.#load();
		}
		this.#changed();
	}

	// load asks for the history, which also joins the thread. While one is on its
	// way another request only makes it be asked for once more.
	async #load(first = false) {
		if (this.#loading) {
			this.#again = true;
			return;
		}
		this.#loading = true;
		let answer;
		try {
			answer = await this.#socket.emit("thread:messages", { threadId: this.threadId });
		} catch (err) {
			if (!this.#closed && this.state !== "waiting") {
				this.#socket.reconnect(err.message);
			}
			return;
		}
		this.#loading = false;
		if (!answer?.ok) {
			const error = answer?.error ?? {};
			this.close(error.code === "CONVERSATION_NOT_FOUND"
				? "This thread does not exist, or is not this browser's."
				: `${error.message ?? "the history cannot be read"} (${error.code ?? "?"})`);
			return;
		}
		const before = this.view?.threadId === this.threadId ? this.view : null;
		this.view = open(this.threadId, answer, before);
		if (first) {
			this.#on.joined(answer);
		}
		this.#set("live");
		if (this.#again) {
			this.#again = false;
			this.#load();
		}
	}

	// The gateway says an error as an acknowledgement and as an event.
	#said = { text: "", at: 0 };

	#line({ code, message }) {
		const text = `${message} (${code})`;
		const now = Date.now();
		if (text !== this.#said.text || now - this.#said.at > 1_000) {
			this.#on.line(text);
		}
		this.#said = { text, at: now };
	}
}

function sentence(err) {
	return err.message[0].toUpperCase() + err.message.slice(1) + ".";
}
