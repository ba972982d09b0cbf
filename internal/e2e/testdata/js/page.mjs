// The demonstration page in headless Chromium. SHOTS names a folder for
// pictures of it, for a person to look at.
import assert from "node:assert/strict";
import { chromium } from "playwright-core";
import { run, test as register, until } from "./lib.mjs";

const address = process.env.PAGE;
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

const complaints = [];

/** A case that leaves no page behind. */
function test(name, f) {
  register(name, async () => {
    try {
      await f();
    } finally {
      await Promise.all(browser.contexts().map((c) => c.close()));
    }
  });
}

/** A new browser profile with the page in it. */
async function visit(at = address, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 800 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.on("console", (m) => ["error", "warning"].includes(m.type()) && complaints.push(m.text()));
  page.on("pageerror", (e) => complaints.push(String(e)));
  page.on("requestfailed", (r) => complaints.push(`${r.url()}: ${r.failure()?.errorText}`));
  await page.goto(at);
  return page;
}

/** The two windows of a page, once they are live. */
async function windows(page) {
  const panes = [1, 2].map((n) => new Pane(page, n));
  for (const p of panes) await p.live();
  return panes;
}

class Pane {
  constructor(page, n) {
    this.root = page.getByRole("region", { name: `Window ${n}` });
    this.log = this.root.getByRole("log");
    this.answers = this.root.locator(".agent .text");
    this.link = this.root.locator(".link");
  }
  button(name) { return this.root.getByRole("button", { name, exact: true }); }
  live() { return this.root.locator("xpath=self::*[@data-state='live']").waitFor(); }
  async say(text) {
    const field = this.root.getByRole("textbox", { name: /^Message/ });
    await field.fill(text);
    await field.press("Enter");
  }
  sees(text) { return this.log.getByText(text).first().waitFor(); }
  /** The answer that is being written, when it has grown to n letters. */
  async partial(n) {
    let text = "";
    await until(async () => (text = await this.root.locator("[data-open] .text").last().textContent()).length >= n, "a partial sentence");
    return text;
  }
  /** No run is live in this window, and none waits to be drawn. */
  quiet() { return this.root.locator('.log[aria-busy="false"]').waitFor(); }
  /** All that is in the log; what a person has folded away or out is his own. */
  text() { return this.log.textContent(); }
}

async function same(panes) {
  for (const p of panes) await p.quiet();
  await until(async () => (await panes[0].text()) === (await panes[1].text()), "the same text in both windows", 30_000).catch(async () =>
    assert.equal(await panes[1].text(), await panes[0].text()));
}

// Long enough to be met in the middle, by a page that loads on a busy machine too.
const sentence = Array.from({ length: 150 }, (_, i) => `word${i}`).join(" ");

async function shot(page, name) {
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/${name}.png` });
}

test("both windows show a sentence while it is written, and the same in the end", async () => {
  const page = await visit();
  const [one, two] = await windows(page);
  await shot(page, "empty");
  await one.say(sentence);
  const [a, b] = await Promise.all([one.partial(8), two.partial(8)]);
  assert.ok(sentence.startsWith(a.trim()) && sentence.startsWith(b.trim()), `${a} | ${b}`);
  assert.ok(a.trim() !== sentence && b.trim() !== sentence, "it was whole at once");
  await shot(page, "streaming");
  for (const p of [one, two]) {
    await p.answers.getByText(sentence, { exact: true }).waitFor();
    assert.equal(await p.log.locator(".user .text").innerText(), sentence);
  }
  await same([one, two]);
});

test("Stop in one window stops the run of the other", async () => {
  const [one, two] = await windows(await visit());
  await one.root.getByRole("button", { name: "/slow" }).click();
  await one.root.getByRole("textbox", { name: /^Message/ }).press("Enter");
  await one.sees("Waiting");
  await two.button("Stop").click();
  for (const p of [one, two]) await p.log.getByText("Stopped", { exact: true }).waitFor();
  await same([one, two]);
  await two.say("and on");
  await one.answers.getByText("and on").waitFor();
  await same([one, two]);
});

test("Approve and Deny in either window answer the agent's question", async () => {
  const page = await visit();
  const [one, two] = await windows(page);
  await one.say("/ask first");
  await one.button("Approve").waitFor();
  await shot(page, "question");
  await two.button("Approve").click();
  for (const p of [one, two]) await p.answers.getByText("You approved it: the bell rang. first").waitFor();
  await two.say("/ask second");
  await one.button("Deny").click();
  for (const p of [one, two]) {
    await p.answers.getByText("You denied it. second").waitFor();
    assert.equal(await p.button("Approve").count(), 0);
  }
  await same([one, two]);
});

test("several questions are answered one by one, from two windows", async () => {
  const [one, two] = await windows(await visit());
  await one.say("/ask2");
  for (const [p, question, answer] of [[one, "What is your name?", "Ada"], [two, "What is your favourite colour?", "blue"]]) {
    const card = p.root.locator(".question").filter({ hasText: question });
    await card.getByRole("textbox").fill(answer);
    await card.getByRole("button", { name: "Answer" }).click();
  }
  for (const p of [one, two]) await p.answers.getByText("Answer 1: Ada Answer 2: blue").waitFor();
});

test("of two answers to one question one wins, and the other window is told", async () => {
  const page = await visit();
  const panes = await windows(page);
  await panes[0].say("/ask more");
  const cards = panes.map((p) => p.root.locator(".question"));
  for (const c of cards) await c.waitFor();
  // In one breath: neither window can hear of the other's answer before it gives its own.
  assert.equal(await page.evaluate(() => {
    const buttons = [...document.querySelectorAll(".question .approve")];
    for (const b of buttons) b.click();
    return buttons.length;
  }), 2);
  for (const p of panes) await p.answers.getByText("You approved it: the bell rang. more").waitFor();
  const lines = await Promise.all(panes.map((p) => p.root.locator(".lines").innerText()));
  assert.equal(lines.join("").match(/UNKNOWN_RUN/g)?.length, 1, lines.join(" | "));
  for (const c of cards) assert.equal(await c.count(), 0);
  await same(panes);
});

test("a client tool is answered at the page", async () => {
  const [one, two] = await windows(await visit());
  await one.say('/client ask_window {"question": "Where are you?"}');
  const card = two.root.locator(".question").filter({ hasText: "Where are you?" });
  await card.getByRole("textbox").fill('{"city": "Oslo"');
  await card.getByLabel("as JSON").check();
  await card.getByRole("button", { name: "Answer" }).click();
  await card.getByRole("textbox").fill('{"city": "Oslo"}');
  await card.getByRole("button", { name: "Answer" }).click();
  for (const p of [one, two]) await p.answers.getByText('ask_window answered: {"city":').waitFor();
});

test("a reload in mid-run shows the partial sentence and goes on", async () => {
  const page = await visit();
  const before = await windows(page);
  await before[0].say(sentence);
  const had = await before[0].partial(30);
  await page.reload();
  const [one, two] = await windows(page);
  for (const p of [one, two]) {
    const has = await p.partial(had.length);
    assert.ok(has.startsWith(had.trim()) && sentence.startsWith(has.trim()), `${had} | ${has}`);
    assert.notEqual(has.trim(), sentence, "the run was over already");
    await p.root.locator(".lines").getByText("Joined in mid-run").waitFor();
  }
  for (const p of [one, two]) await p.answers.getByText(sentence, { exact: true }).waitFor();
  await same([one, two]);
});

test("a window that left in mid-sentence joins late and misses nothing", async () => {
  const page = await visit();
  const [one, two] = await windows(page);
  await one.say(`${sentence} /think /tool done`);
  await two.partial(10);
  await two.link.click();
  await two.root.getByText("disconnected").waitFor();
  const left = (await two.answers.last().innerText()).length;
  await one.partial(left + 30);
  assert.equal((await two.answers.last().innerText()).length, left, "it went on without a socket");
  await shot(page, "left");
  await two.link.click();
  await two.live();
  assert.ok(Number(await two.root.getAttribute("data-replayed")) > 3, "no replay");
  assert.ok((await two.partial(left + 30)).startsWith("word0 word1"));
  for (const p of [one, two]) await p.answers.getByText("said again. done").or(p.answers.getByText("comes back. done")).waitFor();
  await same([one, two]);
});

test("tools, reasoning, a plan and a failure are shown", async () => {
  const page = await visit();
  const panes = await windows(page);
  await panes[0].say("/think /tool /plan /fail");
  for (const p of panes) {
    await p.sees("told to fail");
    await p.root.locator(".plan").getByText("Say it again").waitFor();
    await p.log.getByText("Reasoning").click();
    await p.sees("The words were heard.");
    await p.log.getByText("lookup").click();
    await p.sees("a sound that comes back");
  }
  await shot(page, "all");
  await same(panes);
  // The other window now has it from a history.
  await panes[0].say("and on");
  for (const p of panes) await p.answers.getByText("and on").waitFor();
  await same(panes);
});

test("a question that a new message withdraws is nowhere, and its call has no result", async () => {
  const panes = await windows(await visit());
  await panes[0].say("/ask first");
  for (const p of panes) await p.root.locator(".badge").getByText("waiting").waitFor();
  await panes[1].say("never mind");
  for (const p of panes) {
    await p.answers.getByText("never mind").waitFor();
    await p.root.locator(".badge").getByText("no result").waitFor();
    assert.equal(await p.root.locator(".question").count(), 0);
  }
  await same(panes);
});

test("a subagent goes to the background from either window", async () => {
  const page = await visit();
  const [one, two] = await windows(page);
  await one.say("/sub");
  await two.button("Send to background").click();
  for (const p of [one, two]) await p.answers.getByText("The subagent goes on in the background.").waitFor();
  for (const p of [one, two]) await p.sees("finished in the background");
  await shot(page, "background");
  const parent = page.url();
  await two.button("Open its thread").click();
  const [child] = await windows(page);
  assert.notEqual(page.url(), parent);
  await child.root.getByText(/Background task: .*finished/).waitFor();
});

test("an edited message replaces what followed it, in both windows", async () => {
  const panes = await windows(await visit());
  await panes[0].say("first");
  await panes[1].answers.getByText("first").waitFor();
  await panes[0].quiet();
  await panes[0].say("second");
  await panes[1].answers.getByText("second").waitFor();
  await panes[1].quiet();
  await panes[1].root.getByRole("button", { name: "Edit “first”" }).click();
  await panes[1].say("another");
  for (const p of panes) {
    await p.answers.getByText("another").waitFor();
    await until(async () => (await p.log.locator(".user").count()) === 1, "one message");
  }
  await same(panes);
});

test("what the gateway refuses is shown as a line, and the text is kept", async () => {
  const [one, two] = await windows(await visit());
  await one.say("/slow");
  await two.button("Stop").waitFor();
  await two.say("too early");
  await two.root.locator(".lines").getByText("INVALID_COMMAND").waitFor();
  assert.equal(await two.root.locator(".lines li").count(), 1);
  assert.equal(await two.root.getByRole("textbox", { name: /^Message/ }).inputValue(), "too early");
  assert.equal(await one.root.locator(".lines li").count(), 0);
  await one.button("Stop").click();
  await one.log.getByText("Stopped", { exact: true }).waitFor();
});

test("an image is sent and shown", async () => {
  const page = await visit();
  const [one, two] = await windows(page);
  const png = Buffer.from("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==", "base64");
  await one.root.locator("input[type=file]").setInputFiles({ name: "dot.png", mimeType: "image/png", buffer: png });
  await one.root.locator(".files").getByText("dot.png").waitFor();
  await one.button("Send").click();
  for (const p of [one, two]) {
    await p.answers.getByText("I received a file of type image/png.").waitFor();
    const img = p.log.getByRole("img", { name: "dot.png" });
    // The log is drawn anew while the answer is written, and the image with it.
    await until(() => img.evaluate((i) => {
      i.scrollIntoView();
      return i.complete && i.naturalWidth === 1;
    }), "the image");
  }
});

test("what an agent says is text and never markup", async () => {
  const page = await visit();
  const panes = await windows(page);
  const evil = '<img src=x onerror="document.title=1"> <b>bold</b>';
  await panes[0].say(evil);
  for (const p of panes) {
    await p.answers.getByText(evil, { exact: true }).waitFor();
    assert.equal(await p.log.locator("b, img").count(), 0);
  }
  assert.equal(await page.title(), "Parlance: one thread, two windows");
});

test("another browser is not shown the thread", async () => {
  const page = await visit();
  await windows(page);
  const stranger = await visit(page.url());
  for (const n of [1, 2]) await new Pane(stranger, n).root.getByText("does not exist").waitFor();
  await stranger.getByRole("button", { name: "New thread" }).click();
  await windows(stranger);
});

for (const colorScheme of ["light", "dark"]) {
  test(`the page fits a phone, ${colorScheme}`, async () => {
    const page = await visit(address, { viewport: { width: 390, height: 780 }, colorScheme, hasTouch: true, isMobile: true });
    const [one, two] = await windows(page);
    await one.say("Hello there /tool");
    await two.answers.getByText("comes back").waitFor();
    const [a, b] = [await one.root.boundingBox(), await two.root.boundingBox()];
    assert.ok(b.y >= a.y + a.height && a.width <= 390, "the windows do not stack");
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
    await shot(page, `phone-${colorScheme}`);
  });
}

test("the browser's console holds no error", async () => {
  assert.deepEqual(complaints, []);
});

await run();
