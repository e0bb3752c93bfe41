// What the page looks like in each state, for eyes, screen readers and a browser's search: make test-beside BESIDE=browser.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { launch } from "./launch.mjs";
import { tool, World } from "./world.mjs";

let world, browser, page, cdp, axe;

before(async () => {
  world = await World.start();
  await world.serve(["--allow-evict"]);
  browser = await launch({ viewport: { width: 1280, height: 800 }, timezoneId: "Asia/Kolkata" });
  page = browser.context.pages()[0] ?? await browser.context.newPage();
  page.setDefaultTimeout(30_000);
  axe = await readFile(new URL("node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
  cdp = await browser.context.newCDPSession(page);
  await page.goto(world.link);
  await text("#live-text", "live");
});

after(async () => {
  await browser?.close();
  await world?.close();
});

const row = (name) => page.locator("#rows tr").filter({ has: page.getByRole("button", { name, exact: true }) });
const text = (selector, want) => page.waitForFunction(
  ([s, w]) => document.querySelector(s)?.textContent.trim() === w, [selector, want]);
const names = () => page.locator("#rows tr .name").allTextContents();
const count = (n) => page.waitForFunction((want) => document.querySelectorAll("#rows tr").length === want, n);
const tile = (name) => page.getByRole("button", { name: new RegExp(`^\\S+ ${name}`) });
const header = (name) => page.getByRole("columnheader", { name }).getByRole("button");
const inZone = /GMT\+5:30/;

// wide are the elements that stand out of the screen.
const wide = () => page.evaluate(() => (document.documentElement.scrollWidth <= innerWidth ? []
  : [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).map((e) => e.outerHTML.slice(0, 120))));

// clean asks axe about the page, on a wide and on a narrow screen, in light and in dark. axe looks at each cell, so
// that a large page gets two of the four.
const each = [[1280, "dark"], [1280, "light"], [390, "dark"], [390, "light"]], large = [[1280, "dark"], [390, "light"]];
async function clean(what, looks = each) {
  for (const [width, colorScheme] of looks) {
    await page.setViewportSize({ width, height: 800 });
    await page.emulateMedia({ colorScheme });
    // The page's own rules let no other script in; a debugger may.
    if (!await page.evaluate(() => Boolean(window.axe))) await cdp.send("Runtime.evaluate", { expression: axe });
    const found = await page.evaluate(async () => (await window.axe.run({ resultTypes: ["violations"] })).violations
      .map((v) => `${v.id}: ${v.nodes.map((n) => `${n.html} ${n.failureSummary}`).slice(0, 3).join("\n")}`));
    assert.deepEqual(found, [], `${what}, ${width} pixels, ${colorScheme}`);
    assert.deepEqual(await wide(), [], `${what}: wider than ${width} pixels`);
  }
  await page.setViewportSize({ width: 1280, height: 800 });
}

test("no lock", async () => {
  await page.getByText("No lock is held, and nobody waits.").waitFor();
  await clean("no lock");
});

test("five locks", async () => {
  for (const n of [1, 2, 3, 4]) world.hold(`order/${n}`, "--app", "shop");
  world.hold("catalog", "--shared", "--app", "reader");
  await count(5);
  await clean("five locks");
});

test("headers sort, and tiles filter, by the keyboard too", async () => {
  assert.deepEqual(await names(), ["catalog", "order/1", "order/2", "order/3", "order/4"]);
  await header("Name").click();
  await page.waitForFunction(() => document.querySelector("#rows .name").textContent === "order/4");
  assert.equal(await page.getByRole("columnheader", { name: "Name" }).getAttribute("aria-sort"), "descending");
  await header("Kind").focus();
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("#rows .kind").textContent === "exclusive");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector("#rows .name").textContent === "catalog");
  assert.equal(await page.getByRole("columnheader", { name: "Name" }).getAttribute("aria-sort"), null);
  const waiter = world.hold("order/3", "--app", "waiter");
  await text("#total-waiting", "1");
  await header("Waiting").click();
  await page.waitForFunction(() => document.querySelector("#rows .name").textContent === "order/3");
  for (const name of ["Age", "Lease left", "Holder", "Token"]) {
    await header(name).click();
    assert.match(await page.getByRole("columnheader", { name }).getAttribute("aria-sort"), /^(ascending|descending)$/);
  }
  await header("Name").click();
  await tile("waiting").click();
  await count(1);
  assert.deepEqual(await names(), ["order/3"]);
  assert.equal(await tile("waiting").getAttribute("aria-pressed"), "true");
  assert.equal(await page.locator("#show").inputValue(), "waiting");
  await tile("held").focus();
  await page.keyboard.press("Space");
  await count(5);
  await page.keyboard.press("Space"); // once more: all that is in use
  assert.equal(await page.locator("#show").inputValue(), "used");
  await world.end(waiter);
  await text("#total-waiting", "0");
});

test("a lease is readable on a phone, and with letters twice as large", async () => {
  const cut = () => page.evaluate(() => [...document.querySelectorAll("#rows .c-lease, thead .c-lease, thead .c-lease button")]
    .filter((e) => e.scrollWidth > e.clientWidth + 1 || e.scrollHeight > e.clientHeight + 2).map((e) => e.outerHTML));
  // A long lease, and its lock-delay: the text is wider than that of seconds.
  world.hold("long", "--ttl", "23h59m", "--lock-delay", "23h59m", "--app", "patient");
  await row("long").locator(".c-lease").filter({ hasText: /23h 5\dm/ }).waitFor();
  // Zoomed to 200 %, a screen of 1280 pixels has 640. The other way is a larger font in the browser's settings.
  for (const [width, size] of [[1280, 16], [640, 16], [390, 16], [1280, 32], [640, 32], [390, 32]]) {
    const where = `${width} pixels, letters of ${size}`;
    await page.setViewportSize({ width, height: 800 });
    await cdp.send("Page.setFontSizes", { fontSizes: { standard: size } });
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/lease-${width}-${size}.png` });
    assert.equal(await page.evaluate(() => getComputedStyle(document.documentElement).fontSize), `${size}px`);
    assert.deepEqual(await cut(), [], where);
    assert.ok(await row("long").getByText(/23h 5\dm/).last().isVisible(), where);
    assert.deepEqual(await wide(), [], where);
  }
  await cdp.send("Page.setFontSizes", { fontSizes: { standard: 16 } });
  await page.setViewportSize({ width: 1280, height: 800 });
});

test("300 locks: every name is in the document", async () => {
  const all = Array.from({ length: 300 }, (_, i) => `bulk/${String(i).padStart(3, "0")}`);
  for (const first of [0, 100, 200]) {
    world.spawn(tool, ["run", "--app", "bulk", ...all.slice(first, first + 100), "--", "sleep", "600"]);
  }
  await count(306);
  const rows = await page.locator("#rows tr").evaluateAll((list) => list.map((tr) => [...tr.children].map((td) => td.textContent)));
  assert.deepEqual(rows.filter((cells) => cells.some((c) => !c)), [], "rows with a cell without text");
  assert.deepEqual(rows.map((cells) => cells[0]).filter((n) => n.startsWith("bulk/")).sort(), all);
  assert.ok(await page.evaluate(() => window.find("bulk/287")), "the browser's search does not find it");
  await clean("300 locks", large);
});

test("a queue of 1,000", async () => {
  const crowd = world.spawn(new URL("../../../bin/crowd", import.meta.url).pathname, ["order/1", "1000"]);
  await text("#total-waiting", "1,000");
  await row("order/1").click();
  await page.locator("#detail-line li").getByText("and 500 more").waitFor();
  await page.getByText("held, 1000 waiting").waitFor();
  await clean("a queue of 1,000", large);
  await page.keyboard.press("Escape");
  await world.end(crowd, "SIGKILL");
});

test("a deadlock", async () => {
  const { a, b } = await world.deadlock("left", "right");
  await text("#total-deadlocks", "1");
  await tile("deadlocks").click();
  await count(2);
  await row("left").click();
  await page.locator("#detail-deadlock").waitFor();
  await clean("a deadlock");
  await page.keyboard.press("Escape");
  await Promise.all([world.end(a), world.end(b)]);
  await text("#total-deadlocks", "0");
  await tile("deadlocks").click();
});

test("an eviction, with times that say their zone", async () => {
  await page.locator("#search").fill("order/"); // few rows, for axe
  await row("order/2").click();
  assert.match(await page.locator("#detail-holders dd").filter({ hasText: "GMT" }).first().textContent(), inZone);
  await page.getByRole("button", { name: "Evict…" }).click();
  await page.getByLabel("Type the name of the lock").fill("order/2");
  await page.getByLabel("Your name").fill("ann");
  await page.getByLabel("Reason, which others will read").fill("hangs since noon");
  await clean("the dialog of an eviction");
  await page.getByRole("button", { name: "Evict", exact: true }).click();
  await page.locator("#detail-timeline .hold.lost").first().waitFor();
  assert.match(await page.locator("#detail-facts").textContent(), inZone);
  assert.match(await page.locator("#h-past").textContent(), /^Since the first read, .*GMT\+5:30$/);
  await page.getByText("As a list").click();
  assert.match(await page.locator("#detail-events li").first().textContent(), inZone);
  await clean("after an eviction");
  await page.keyboard.press("Escape");
  await page.locator("#search").fill("");
});

// What is shown must be what was true at one moment: nothing counts on.
const times = () => page.locator("#rows tr").evaluateAll((list) => list.map((tr) => tr.textContent).filter((t) => !t.startsWith("order/1")));
async function standsStill(child, since) {
  child.kill("SIGSTOP");
  try {
    await sameTimes(since);
  } catch (err) {
    child.kill("SIGCONT"); // the next test needs it
    throw err;
  }
}

async function sameTimes(since) {
  await page.locator("body.stale #stale").filter({ hasText: since }).waitFor();
  await page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
  const first = await times();
  assert.ok(first.length >= 4 && !first.some((t) => t.includes("expired")), "a healthy lease looks expired");
  await page.waitForTimeout(6000); // longer than the page ever waits before it draws all rows anew
  assert.equal((await times()).join("\n"), first.join("\n"));
}

test("while serve hangs, the page is not live, and says since when", async () => {
  await standsStill(world.page, /^Not live since .*GMT\+5:30: the connection to holdfast serve is lost\./);
  await text("#live-text", "reconnecting");
  await clean("serve hangs", large);
  world.page.kill("SIGCONT");
  await text("#live-text", "live");
  assert.ok(await page.locator("#stale").isHidden());
  assert.equal(await page.locator("body.stale").count(), 0);
});

test("while the server of the locks hangs, the page is not live, either", async () => {
  await standsStill(world.redis, /^Not live since .*GMT\+5:30: the server of the locks does not answer/);
  await text("#live-text", "the server does not answer");
  world.redis.kill("SIGCONT");
  await text("#live-text", "live");
  assert.ok(await page.locator("#stale").isHidden());
});
