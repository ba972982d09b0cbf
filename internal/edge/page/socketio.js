// A small Socket.IO 5 client on Engine.IO 4: WebSocket only, one namespace, text
// only, acknowledgements that always settle. It connects when it is made, and
// again after a loss, later each time; a refusal and a farewell of the server's
// are final.

const connectWithin = 10_000; // ms, from the first try to the CONNECT reply
const firstDelay = 500; // ms; doubled after each failure
const longestDelay = 10_000;
const longestAckId = 15; // digits

// AckError: no acknowledgement came, so what the server did is not known.
export class AckError extends Error {}

export class Socket {
	// What the handshake said a message may hold, in bytes.
	maxPayload = Infinity;

	#url;
	#on;
	#ws = null;
	#ready = false; // the server answered CONNECT
	#final = false;
	#failures = 0;
	#acks = new Map();
	#nextAck = 0;
	#retry = 0;
	#deadline = 0; // timer: the CONNECT reply is due, later the next ping
	#patience = 0; // ms between pings that are still in time

	// url is the endpoint, http or ws. on.state(name, why) is told "connecting",
	// "connected", "waiting" and, as the last one, "closed"; on.event(name, ...args)
	// what the server emits.
	constructor(url, on) {
		this.#url = new URL(url);
		this.#url.protocol = this.#url.protocol.replace("http", "ws");
		this.#url.search = "?EIO=4&transport=websocket";
		this.#on = on;
		addEventListener("online", this.#hurry);
		this.#open();
	}

	// emit sends an event with one argument and resolves with the first argument
	// of its acknowledgement. It rejects with AckError when that does not come
	// within ms or the connection breaks, and with another Error when nothing
	// was sent.
	emit(event, argument, ms = 15_000) {
		if (!this.#ready) {
			return Promise.reject(new Error("not connected"));
		}
		const id = this.#nextAck++;
		const text = "42" + id + JSON.stringify([event, argument]);
		if (text.length > this.maxPayload / 3 && new Blob([text]).size > this.maxPayload) {
			return Promise.reject(new Error(`too large: the server takes ${this.maxPayload} bytes`));
		}
		return new Promise((resolve, reject) => {
			const timer = setTimeout(() => {
				this.#acks.delete(id);
				reject(new AckError("the server did not answer in time"));
			}, ms);
			this.#acks.set(id, { resolve, reject, timer });
			this.#ws.send(text);
		});
	}

	// close ends the connection for good.
	close(why = "closed here") {
		if (this.#final) {
			return;
		}
		this.#final = true;
		removeEventListener("online", this.#hurry);
		clearTimeout(this.#retry);
		if (this.#ready) {
			this.#ws.send("41");
		}
		this.#letGo();
		this.#on.state("closed", why);
	}

	// reconnect drops the connection and tries again.
	reconnect(why) {
		this.#lost(this.#ws, why);
	}

	#open() {
		clearTimeout(this.#retry);
		this.#on.state("connecting", "");
		const ws = (this.#ws = new WebSocket(this.#url));
		ws.binaryType = "arraybuffer";
		this.#expect(connectWithin, "the server did not answer in time");
		let opened = false;
		ws.onopen = () => (opened = true);
		ws.onmessage = (m) => ws === this.#ws && this.#receive(m.data);
		ws.onclose = (e) => {
			const code = e.code && e.code !== 1005 && e.code !== 1006 ? ` (${e.code})` : "";
			this.#lost(ws, opened ? `the connection was closed${code}` : "a WebSocket could not be opened");
		};
	}

	#expect(ms, orElse) {
		clearTimeout(this.#deadline);
		const ws = this.#ws;
		this.#deadline = setTimeout(() => this.#lost(ws, orElse), ms);
	}

	// lost plans the next try. Half of the delay is chance, so that many clients
	// of a server that went away do not return as one.
	#lost(ws, why) {
		if (this.#final || !ws || ws !== this.#ws) {
			return;
		}
		this.#letGo();
		const delay = Math.min(longestDelay, firstDelay * 2 ** this.#failures++);
		this.#retry = setTimeout(() => this.#open(), delay / 2 + (Math.random() * delay) / 2);
		this.#on.state("waiting", why);
	}

	#hurry = () => {
		if (!this.#ws) {
			this.#open();
		}
	};

	#letGo() {
		clearTimeout(this.#deadline);
		const ws = this.#ws;
		this.#ws = null;
		this.#ready = false;
		ws?.close();
		const acks = [...this.#acks.values()];
		this.#acks.clear();
		for (const { reject, timer } of acks) {
			clearTimeout(timer);
			reject(new AckError("the connection was lost before the server answered"));
		}
	}

	#receive(data) {
		try {
			if (typeof data !== "string") {
				throw new Error("binary data");
			}
			switch (data[0]) {
				case "0":
					return this.#opened(JSON.parse(data.slice(1)));
				case "1":
					return this.#lost(this.#ws, "the server closed the connection");
				case "2":
					this.#ws.send("3" + data.slice(1));
					return this.#expect(this.#patience, "the server fell silent");
				case "4":
					return this.#packet(data[1], data.slice(2));
			}
		} catch (err) {
			this.#lost(this.#ws, "the server sent what is not Socket.IO: " + err.message);
		}
	}

	#opened(handshake) {
		this.#patience = handshake.pingInterval + handshake.pingTimeout;
		this.maxPayload = handshake.maxPayload || Infinity;
		this.#ws.send("40");
	}

	#packet(type, body) {
		switch (type) {
			case "0":
				this.#ready = true;
				this.#failures = 0;
				this.#expect(this.#patience, "the server fell silent");
				return this.#on.state("connected", "");
			case "1":
				return this.close("the server ended the session");
			case "2":
				return this.#on.event(...list(body.replace(/^\d+/, "")));
			case "3": {
				const digits = /^\d+/.exec(body)?.[0] ?? "";
				if (!digits || digits.length > longestAckId) {
					throw new Error("an acknowledgement of nothing");
				}
				return this.#settle(Number(digits), list(body.slice(digits.length))[0]);
			}
			case "4":
				return this.close("the server refused: " + (JSON.parse(body)?.message ?? "no reason given"));
		}
		throw new Error("packet " + type);
	}

	#settle(id, value) {
		const waiting = this.#acks.get(id);
		if (waiting) {
			this.#acks.delete(id);
			clearTimeout(waiting.timer);
			waiting.resolve(value);
		}
	}
}

function list(text) {
	const value = JSON.parse(text);
	if (!Array.isArray(value)) {
		throw new Error("not a list");
	}
	return value;
}
