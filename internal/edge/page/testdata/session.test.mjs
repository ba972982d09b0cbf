import assert from "node:assert/strict";
import { afterEach, beforeEach, mock, test } from "node:test";
import { Session } from "../session.js";

// A server on a string: what the page opened, sent and was told.
let sockets, warned, lines, session;

class FakeWebSocket {
	sent = [];
	closed = false;
	constructor(url) {
		this.url = String(url);
		sockets.push(this);
	}
	send(text) { this.sent.push(text); }
	close() { this.closed = true; }
	receive(text) { this.onmessage({ data: text }); }
	accept(handshake = {}) {
		this.onopen();
		this.receive("0" + JSON.stringify({ sid: "s", upgrades: [], pingInterval: 25_000, pingTimeout: 20_000, maxPayload: 1_000, ...handshake }));
		this.receive('40{"sid":"x"}');
	}
	emit(...args) { this.receive("42" + JSON.stringify(args)); }
	commands() { return this.sent.filter((s) => s.startsWith("42")).map((s) => /^42(\d+)(.*)$/.exec(s)).map(([, id, body]) => [id, ...JSON.parse(body)]); }
	answer(i, value) { this.receive("43" + this.commands()[i][0] + JSON.stringify([value])); }
}

const hello = { protocol: { major: 1, minor: 17 }, minClientMajor: 1 };
const settle = () => new Promise((resolve) => setImmediate(resolve));
const history = { ok: true, messages: [] };

beforeEach(() => {
	[sockets, warned, lines] = [[], [], []];
	mock.timers.enable({ apis: ["setTimeout"] });
	globalThis.WebSocket = FakeWebSocket;
	globalThis.addEventListener = globalThis.removeEventListener = () => {};
	mock.method(console, "warn", (text) => warned.push(text));
	session = new Session("http://gateway.test/socket.io/", "t", {
		change() {}, joined() {}, line: (text) => lines.push(text),
	});
});
afterEach(() => {
	session.close();
	mock.timers.reset();
	mock.restoreAll();
});

async function live() {
	sockets[0].accept();
	sockets[0].emit("protocol:hello", hello);
	sockets[0].answer(0, history);
	await settle();
	assert.equal(session.state, "live");
	return sockets[0];
}

test("opens a WebSocket and sends nothing before the announcement (PIL-206)", async () => {
	assert.equal(sockets[0].url, "ws://gateway.test/socket.io/?EIO=4&transport=websocket");
	sockets[0].accept();
	assert.deepEqual(sockets[0].sent, ["40"]);
	sockets[0].emit("protocol:hello", { ...hello, more: 1 });
	assert.deepEqual(sockets[0].commands(), [["0", "thread:messages", { threadId: "t" }]]);
	assert.deepEqual(warned, []);
});

test("follows a gateway of a higher minor (PIL-202)", () => {
	sockets[0].accept();
	sockets[0].emit("protocol:hello", { protocol: { major: 1, minor: 99 }, minClientMajor: 0 });
	assert.equal(sockets[0].commands().length, 1);
});

for (const [what, announced] of [
	["its major", { protocol: { major: 2, minor: 0 }, minClientMajor: 1 }],
	["the least it serves", { protocol: { major: 1, minor: 0 }, minClientMajor: 2 }],
]) {
	test(`stops for good when ${what} differs (PIL-207)`, () => {
		sockets[0].accept();
		sockets[0].emit("protocol:hello", announced);
		assert.equal(session.state, "closed");
		assert.match(session.why, /version 1 .*version [12] .*below [12]/);
		mock.timers.tick(600_000);
		assert.equal(sockets.length, 1);
		assert.equal(sockets[0].commands().length, 0);
	});
}

test("follows a gateway that announces nothing within the grace, with a warning (PIL-208)", () => {
	sockets[0].accept();
	mock.timers.tick(1_999);
	assert.equal(sockets[0].commands().length, 0);
	mock.timers.tick(1);
	assert.equal(sockets[0].commands().length, 1);
	assert.equal(warned.length, 1);
	sockets[0].emit("protocol:hello", hello);
	assert.equal(sockets[0].commands().length, 1, "a late announcement joins once");
});

test("warns of an announcement that cannot be read (PIL-209)", () => {
	sockets[0].accept();
	sockets[0].emit("protocol:hello", "1.17");
	assert.equal(warned.length, 1);
	assert.equal(sockets[0].commands().length, 1);
});

test("answers pings, and takes their absence for a loss", async () => {
	await live();
	mock.timers.tick(44_000);
	sockets[0].receive("2");
	assert.equal(sockets[0].sent.at(-1), "3");
	mock.timers.tick(44_999);
	assert.equal(session.state, "live");
	mock.timers.tick(1);
	assert.equal(session.state, "waiting");
	assert.equal(sockets[0].closed, true);
});

test("comes back later each time, at once after a success", () => {
	const waits = [];
	for (let i = 0; i < 7; i++) {
		sockets.at(-1).onclose({ code: 1006 });
		assert.equal(session.state, "waiting");
		const before = sockets.length;
		let waited = 0;
		while (sockets.length === before) {
			mock.timers.tick(50);
			waited += 50;
		}
		waits.push(waited);
	}
	assert.ok(waits[0] >= 250 && waits[0] <= 550, String(waits));
	assert.ok(waits[6] >= 5_000 && waits[6] <= 10_050, String(waits));
	sockets.at(-1).accept();
	sockets.at(-1).onclose({ code: 1006 });
	mock.timers.tick(550);
	assert.equal(sockets.length, 9);
});

test("tries again when the server accepts and says nothing", () => {
	sockets[0].onopen();
	mock.timers.tick(10_000);
	assert.equal(session.state, "waiting");
	assert.equal(sockets[0].closed, true);
});

test("takes a refusal and a farewell as final", () => {
	sockets[0].accept();
	sockets[0].receive("41");
	assert.equal(session.state, "closed");
	mock.timers.tick(600_000);
	assert.equal(sockets.length, 1);
});

test("says why it was refused", () => {
	sockets[0].receive('44{"message":"unauthorized"}');
	assert.equal(session.state, "closed");
	assert.match(session.why, /unauthorized/);
});

for (const garbage of ["0{", "4", "49", "42{}", "42", "43[]", "4312345678901234567[]"]) {
	test(`drops a connection that sends ${garbage}`, () => {
		sockets[0].receive(garbage);
		assert.equal(session.state, "waiting");
	});
}

test("sends a message again under its id when the answer was lost, and takes a duplicate as arrived", async () => {
	const ws = await live();
	const first = session.start("hi", []);
	mock.timers.tick(15_000);
	assert.equal(await first, false);
	assert.equal(lines.length, 1);
	const second = session.start("hi", []);
	const [, one, two] = ws.commands();
	assert.equal(one[2].messageId, two[2].messageId);
	ws.answer(2, { ok: false, error: { code: "DUPLICATE_MESSAGE", message: "there is one" } });
	assert.equal(await second, true);
	assert.equal(ws.commands().at(-1)[1], "thread:messages");

	const other = session.start("hi", []);
	assert.notEqual(ws.commands().at(-1)[2].messageId, one[2].messageId);
	ws.answer(ws.commands().length - 1, { ok: true });
	assert.equal(await other, true);
});

test("shows an error that comes twice once", async () => {
	const ws = await live();
	const error = { code: "UNKNOWN_RUN", message: "no" };
	const stopped = session.stop("r");
	ws.emit("protocol:error", error);
	ws.answer(1, { ok: false, error });
	await stopped;
	assert.deepEqual(lines, ["no (UNKNOWN_RUN)"]);
});

test("does not send what the server would not take", async () => {
	const ws = await live();
	assert.equal(await session.start("x".repeat(2_000), []), false);
	assert.equal(ws.commands().length, 1);
	assert.match(lines[0], /Too large/);
});

test("asks for the history again after another window's message, not after its own", async () => {
	const ws = await live();
	const started = (id, runId) => ws.emit("run:event", { v: 1, threadId: "t", runId, sequence: 1,
		event: { type: "RUN_STARTED", message: { id, role: "user", content: "x", createdAt: "" } } });
	const sent = session.start("x", []);
	ws.answer(1, { ok: true, runId: "r1" });
	await sent;
	started(ws.commands()[1][2].messageId, "r1");
	assert.equal(ws.commands().length, 2);
	started("theirs", "r2");
	assert.equal(ws.commands().at(-1)[1], "thread:messages");
	assert.equal(ws.commands().length, 3);
});

test("joins again with a new history after a loss", async () => {
	const ws = await live();
	ws.onclose({ code: 1001 });
	mock.timers.tick(500);
	sockets[1].accept();
	sockets[1].emit("protocol:hello", hello);
	sockets[1].answer(0, { ok: true, messages: [{ id: "m", role: "user", content: "x", createdAt: "" }] });
	await settle();
	assert.equal(session.state, "live");
	assert.equal(session.view.blocks.length, 1);
});

test("looks now and then whether its question is still open, and only then", async () => {
	const ws = await live();
	mock.timers.tick(20_000);
	assert.equal(ws.commands().length, 1);
	ws.emit("run:event", { v: 1, threadId: "t", runId: "r", sequence: 1, event: { type: "INTERRUPT", interruptId: "i", payload: null } });
	for (let asked = 1; asked < 3; asked++) {
		assert.equal(ws.commands().length, asked);
		mock.timers.tick(4_000);
		assert.equal(ws.commands().length, asked + 1);
		ws.answer(asked, asked === 1 ? { ...history, pendingInterrupt: { interruptId: "i", payload: null, runId: "r" } } : history);
		await settle();
	}
	mock.timers.tick(20_000);
	assert.equal(ws.commands().length, 3);
});
