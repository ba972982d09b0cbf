// What the page asks of the edge, and has it do. All of it is below the folder
// that the page's own is in.
const root = new URL("../", document.baseURI);

// Refused is an answer that is no success.
export class Refused extends Error {
	constructor(status, text) {
		super(text);
		this.status = status;
	}
}

async function ask(path, init) {
	const answer = await fetch(new URL(path, root), { cache: "no-store", redirect: "error", ...init });
	if (!answer.ok) {
		const said = await answer.json().catch(() => ({}));
		throw new Refused(answer.status, typeof said.error === "string" ? said.error : `the edge answered ${answer.status}`);
	}
	return answer;
}

// get returns the answer's JSON.
export async function get(path, signal) {
	return (await ask(path, { signal })).json();
}

// act changes something. The header is one that pages of other origins cannot
// send.
export async function act(method, path) {
	return (await ask(path, { method, headers: { "Parlance-Operator": "act" } })).json();
}

// threadPath is where a thread is: { realm, tenant, thread }.
export function threadPath(key, more = "", query = {}) {
	const q = new URLSearchParams(query);
	if (key.tenant) {
		q.set("tenant", key.tenant);
	}
	const tail = q.size ? `?${q}` : "";
	return `realms/${encodeURIComponent(key.realm)}/threads/${encodeURIComponent(key.thread)}${more}${tail}`;
}

// records hands a thread's records after a cursor to take, one by one.
export async function records(key, from, take, signal) {
	const answer = await ask(threadPath(key, "/records", from ? { from } : {}), { signal });
	const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
	let rest = "";
	for (;;) {
		const { value, done } = await reader.read();
		const lines = (rest + (value ?? "")).split("\n");
		rest = lines.pop();
		for (const line of lines) {
			if (line) {
				// An epoch is too large for a number; it is a record's first member.
				take({ ...JSON.parse(line), epoch: /"epoch":(\d+)/.exec(line)[1] });
			}
		}
		if (done) {
			return;
		}
	}
}
