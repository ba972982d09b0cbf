// The operator's page in headless Chromium. SHOTS names a folder for pictures of
// it, for a person to look at.
import assert from "node:assert/strict";
import { chromium } from "playwright-core";
import { Browser, ask, call, finished, messages, run, seen, start, test, until } from "./lib.mjs";

const [here, there, admin] = [process.env.BASE, process.env.OTHER, process.env.ADMIN];
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const complaints = [];

/** A browser profile of a user of Caddy's, whose every page is watched. */
async function profile(username = "ada", options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, httpCredentials: { username, password: "operator" }, ...options });
  context.setDefaultTimeout(20_000);
  await context.exposeFunction("tell", (what) => complaints.push(what));
  await context.addInitScript(() => {
    addEventListener("securitypolicyviolation", (e) => window.tell(`${e.violatedDirective} by ${e.blockedURI} ${e.sample}`));
  });
  context.on("page", (page) => {
    page.on("console", (m) => ["error", "warning"].includes(m.type()) && complaints.push(m.text()));
    page.on("pageerror", (e) => complaints.push(String(e)));
    page.on("dialog", (d) => { complaints.push(`a dialog: ${d.message()}`); d.dismiss(); });
  });
  return context;
}

const ada = await profile();
const page = await ada.newPage();
const person = new Browser(here);
const section = (name) => page.locator("section").filter({ has: page.getByRole("heading", { name, exact: true }) });
const row = (where, text) => where.locator("tbody tr").filter({ hasText: text });
const sees = (text, where = page) => where.getByText(text).first().waitFor();
const shot = async (name) => process.env.SHOTS && page.screenshot({ path: `${process.env.SHOTS}/${name}.png`, fullPage: true });

/** A run that was begun. */
async function begins(w, t, input) {
  const ack = await start(w, t, input);
  assert.equal(ack.ok, true, JSON.stringify(ack));
  return ack;
}

let thread, question, runId;

test("an operator whom Caddy knows is shown the page, nobody else", async () => {
  for (const [name, status] of [["ada", 200], ["bob", 404]]) {
    const auth = `Basic ${btoa(`${name}:operator`)}`;
    for (const path of ["/ops/", "/ops/ui/app.js", "/ops/edges"]) {
      assert.equal((await fetch(here + path, { headers: { authorization: auth } })).status, status, `${name} ${path}`);
    }
  }
  assert.equal((await fetch(`${here}/ops/edges`)).status, 401);
  for (const path of ["ui/#/constructor", ""]) { // what is no view leads to the first one
    await page.goto(`${here}/ops/${path}`);
    await sees("Nothing stands out.");
  }
});

test("the page of the admin endpoint works in a browser that came from there", async () => {
  const other = await ada.newPage();
  await other.goto(`${admin}/parlance/ui/`, { referer: `${admin}/` });
  await row(other.locator("section"), "north (this one)").first().waitFor();
  await other.close();
});

test("pages of other origins change nothing", async () => {
  const foreign = await (await browser.newContext({ httpCredentials: { username: "ada", password: "operator" } })).newPage();
  await foreign.goto(`${there}/elsewhere`);
  const tried = await foreign.evaluate(async (list) => {
    const got = [];
    for (const [url, init] of list) {
      got.push(await fetch(url, { method: "POST", credentials: "include", ...init }).then((r) => r.status || r.type, (e) => e.name));
    }
    return got;
  }, [`${here}/ops`, `${admin}/parlance`].flatMap((at) => [
    [`${at}/drain`, { mode: "no-cors" }], [`${at}/drain`, { mode: "no-cors", headers: { "content-type": "text/plain" }, body: "{}" }],
    [`${at}/drain`, { headers: { "parlance-operator": "act" } }], [`${at}/drain`, { headers: { "content-type": "application/json" }, body: "{}" }],
    [`${at}/realms/default/threads/x`, { method: "DELETE", headers: { "parlance-operator": "act" } }],
  ]));
  assert.ok(tried.every((x) => x === "TypeError" || x === "opaque"), String(tried));
  await foreign.setContent(`<form method=post action="${here}/ops/drain"></form>`);
  await foreign.locator("form").evaluate((f) => f.submit());
  await foreign.waitForURL(/drain/);
  assert.match(await foreign.content(), /another site asks/);
  await foreign.context().close();
  const [edges] = await (await fetch(`${here}/ops/edges`, { headers: { authorization: `Basic ${btoa("ada:operator")}` } })).json();
  assert.ok(edges.edges.every((e) => !e.draining));
  assert.deepEqual(await call("audit"), []);
});

test("five questions are answered in at most two clicks each", async () => {
  // One run fails, one waits for a person, and one's agent says nothing more.
  const failing = await person.thread();
  const w = await person.window();
  const south = await person.window({ at: there });
  await messages(w, failing);
  await finished(w, (await begins(w, failing, "fail")).runId);
  thread = await person.thread();
  await messages(w, thread);
  await messages(south, thread);
  // The other edge's journal is told of by what is written there.
  const beside = await person.thread();
  await messages(south, beside);
  await finished(south, (await begins(south, beside, "hello")).runId);
  const asked = await begins(w, thread, "ask");
  await finished(w, asked.runId);
  question = (await messages(w, thread)).pendingInterrupt.interruptId;

  let clicks = 0;
  const click = async (l) => { clicks++; await l.click(); };
  const begin = async () => { clicks = 0; await page.goto(`${here}/ops/ui/`); };

  await begin(); // why is this run stuck?
  runId = (await row(section("Runs"), "waits for an answer").locator("a").innerText()).trim();
  await click(row(section("Runs"), "waits for an answer").locator("a"));
  await sees("It waits for people, not for its agent: open question");
  assert.equal(clicks, 1);

  await begin(); // which edge is slow?
  for (const name of ["north (this one)", "south"]) {
    await until(async () => /\d ms/.test(await row(section("Edges"), name).locator("[data-head='Journal, a write']").innerText().catch(() => "")), `the pace of ${name}`);
  }
  // what did last night's deploy do? Version, age and failures of each edge.
  await until(async () => /1 \(/.test(await row(section("Edges"), "north").locator("[data-head=Failed]").innerText()), "the failure of the edge");
  assert.match(await row(section("Edges"), "north").innerText(), /serving[\s\S]*(not named|v\d)/);
  assert.match(await row(section("Edges"), "south").locator("[data-head=Up]").innerText(), /\d (s|min)/);
  // is it the agent or us?
  await sees("1 failed at the agent and 0 at us", section("The agent, or us?"));
  assert.match(await row(section("The agent, or us?"), "bot").innerText(), /agent 1 \(agent\)/);
  await row(section("The last hour"), "pilotoo").waitFor();
  assert.equal(await section("The last hour").getByRole("img", { name: /Journal, a write: [\d.]+ ms/ }).count(), 1);
  assert.equal(clicks, 0);
  await shot("overview");

  await click(page.getByRole("link", { name: "Who is connected" })); // who is connected?
  await row(page.locator("main"), thread).filter({ hasText: "pilotoo" }).first().waitFor();
  await sees("south has 1 socket");
  assert.equal(clicks, 1);
});

test("a run that is answered on another edge, whose edge is then killed", async () => {
  const south = await person.window({ at: there });
  await messages(south, thread);
  const resumed = await ask(south, "run:resume", { threadId: thread, interruptId: question, answer: true });
  assert.equal(resumed.ok, true, JSON.stringify(resumed));
  await seen(south, resumed.runId, "TEXT_MESSAGE_CONTENT");
  await page.goto(`${here}/ops/ui/#/thread?realm=default&thread=${thread}&run=${runId}`);
  await sees("It is at work on edge south (fence 3)");
  south.disconnect();
  await call("kill"); // its end is looked at below
});

test("200 outputs of a model do nothing on the operator's page, nor on the chat's", async () => {
  const payloads = await call("corpus");
  assert.equal(new Set(payloads).size, 200);
  const w = await person.window();
  const t = await person.thread();
  await messages(w, t);
  for (let i = 0; i < 4; i++) await finished(w, (await begins(w, t, `corpus ${i}`)).runId);

  await page.goto(`${here}/ops/ui/#/thread?realm=default&thread=${t}`);
  await until(async () => (await page.locator(".timeline li b", { hasText: "run.end" }).count()) === 4, "all runs");
  const lines = (await page.locator(".timeline .what").allTextContents()).join("\n");
  assert.equal(payloads.filter((p) => lines.includes(`calls tool ${p} (`)).length, 200, "not each is shown as it was said");
  const tags = await page.evaluate(() => [...new Set([...document.querySelectorAll("main *")].map((e) => e.tagName))].sort());
  assert.deepEqual(tags.filter((x) => !["A", "B", "BUTTON", "CAPTION", "CODE", "DD", "DIV", "DL", "DT", "H2", "LI", "OL", "P", "SECTION", "SPAN", "TABLE", "TBODY", "TD", "TH", "THEAD", "TIME", "TR", "UL"].includes(x)), []);
  assert.equal(await page.locator("script").count(), 1);

  await ada.addCookies([{ name: "parlance", value: person.cookie.slice("parlance=".length), url: here }]);
  const chat = await ada.newPage();
  await chat.goto(`${here}/demo/#thread=${t}`);
  const log = chat.getByRole("region", { name: "Window 1" }).getByRole("log");
  await until(async () => (await log.locator(".tool").count()) === 200, "all tools");
  await until(async () => { // it is drawn anew while it is read in
    const said = await log.textContent();
    return payloads.every((p) => said.includes(p));
  }, "each as it was said");
  assert.equal(await log.locator("script, img, svg, iframe, a, input, style, link, base, meta, form, object, video, math, body").count(), 0);
  for (const p of [page, chat]) assert.equal(await p.evaluate(() => window.owned), undefined);
  await chat.close();
  assert.deepEqual(complaints, []);
});

test("what is done is asked once and in the log", async () => {
  const w = await person.window();
  const t = await person.thread();
  await messages(w, t);
  const begun = await begins(w, t, "hang");
  await seen(w, begun.runId, "TEXT_MESSAGE_CONTENT");
  const dialog = page.getByRole("dialog");

  // By keyboard alone: found, left, and then cancelled.
  await page.goto(`${here}/ops/ui/`);
  await page.getByRole("searchbox").focus();
  await page.keyboard.type(begun.runId);
  await page.keyboard.press("Enter");
  await sees(/It is at work on edge north|has said nothing/);
  await page.getByRole("button", { name: "Cancel this run" }).focus();
  await page.keyboard.press("Enter");
  await dialog.waitFor();
  assert.equal(await dialog.locator(":focus").innerText(), "Leave it");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "hidden" });
  assert.deepEqual(await call("audit"), []);
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await sees("The run was cancelled.");
  assert.equal((await finished(w, begun.runId)).event.type, "RUN_CANCELLED");
  await sees("an operator cancelled it");

  const gone = new Promise((r) => w.on("disconnect", r));
  await row(page.locator("main"), "pilotoo").getByRole("button", { name: /^Close/ }).click();
  await dialog.getByRole("button", { name: "Close it" }).click();
  await sees("The connection was closed.");
  await gone;

  await page.getByRole("button", { name: "Delete this thread" }).click();
  await dialog.getByRole("button", { name: "Delete it" }).click();
  await page.waitForURL(/#\/$/);
  assert.equal((await person.fetch(`/conversations/${t}`)).status, 404);

  const lines = await call("audit");
  assert.deepEqual(lines.map((l) => [l.action, l.by, l.result]), [["cancel", "ada", "done"], ["close", "ada", "done"], ["delete", "ada", "done"]], JSON.stringify(lines));
  assert.equal(lines[0].id, begun.runId);
  assert.equal(lines[2].id, t);
  assert.ok(lines[1].member && lines[1].realm === "default" && lines[1].from === "127.0.0.1");
});

for (const colorScheme of ["light", "dark"]) {
  test(`the page fits a phone, ${colorScheme}`, async () => {
    const context = await profile("ada", { viewport: { width: 390, height: 780 }, colorScheme, hasTouch: true, isMobile: true });
    const phone = await context.newPage();
    for (const path of ["", "#/people", `#/thread?realm=default&thread=${thread}&run=${runId}`]) {
      await phone.goto(`${here}/ops/ui/${path}`);
      await phone.getByText("as of").waitFor();
      assert.equal(await phone.evaluate(() => document.documentElement.scrollWidth), 390, path);
    }
    if (process.env.SHOTS) await phone.screenshot({ path: `${process.env.SHOTS}/phone-${colorScheme}.png`, fullPage: true });
    await context.close();
  });
}

test("the timeline tells of the question, the answer, both edges and the loss", async () => {
  await page.goto(`${here}/ops/ui/#/thread?realm=default&thread=${thread}&run=${runId}`);
  await sees("It has ended: error: its edge was lost");
  const lines = await page.locator(".timeline li").evaluateAll((list) => list.map((li) => [...li.children].filter((c) => !c.hidden).map((c) => c.textContent).join(" ")));
  const order = [
    /run\.pending begun by .* through pilotoo, for agent bot edge north/, /run\.active its agent is called edge north, fence 1/,
    /text\.delta 1 piece, 5 bytes/, /interrupt question \S+ \(\w+\)/, /run\.suspended paused.* edge north, fence 1/,
    /answer question \S+ answered by .* edge south/, /run\.resumed its agent is called again edge south/, /text\.delta 1 piece, 6 bytes/,
    /run\.end error: its edge was lost .*EDGE_LOST.* edge north/,
  ];
  let at = -1;
  for (const re of order) {
    const next = lines.findIndex((l, i) => i > at && re.test(l));
    assert.ok(next > at, `${re} is not after line ${at} of\n${lines.join("\n")}`);
    at = next;
  }
  const positions = lines.map((l) => Number(/^\d+/.exec(l)[0]));
  assert.deepEqual(positions, [...positions].sort((a, b) => a - b));
  assert.equal(await row(section(/^Run /), "asked").count(), 1);
  await shot("lost");
});

test("an edge is drained, once it was asked for", async () => {
  await page.goto(`${here}/ops/ui/`);
  await page.getByRole("button", { name: "Drain edge north" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drain it" }).click();
  await sees("Edge north drains:");
  assert.equal(await page.getByRole("button", { name: "Drain edge north" }).isDisabled(), true);
  assert.equal((await call("audit")).at(-1).action, "drain");
});

test("the browser's console holds no error", async () => assert.deepEqual(complaints, []));

await run();
