// The page in a real browser, with real processes: make test-page.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { launch } from "./launch.mjs";
import { World } from "./world.mjs";

let world, browser, page;
let allowed = []; // errors that the test itself causes
const problems = [];

before(async () => {
  world = await World.start();
  await world.serve(["--allow-evict"]);
  browser = await launch({ viewport: { width: 1280, height: 800 } });
  page = browser.context.pages()[0] ?? await browser.context.newPage();
  page.setDefaultTimeout(30_000);
  const report = (text) => { if (!allowed.some((a) => text.includes(a))) problems.push(text); };
  page.on("console", (m) => { if (m.type() === "error" || m.type() === "warning") report(m.text()); });
  page.on("pageerror", (err) => report(String(err)));
});

after(async () => {
  await browser?.close();
  await world?.close();
});

const row = (name) => page.locator("#rows tr").filter({ has: page.getByRole("button", { name, exact: true }) });
const names = () => page.locator("#rows tr .name").allTextContents();
// The count alone may be that of the search before.
const shows = (...want) => page.waitForFunction((w) =>
  [...document.querySelectorAll("#rows tr .name")].map((n) => n.textContent).join("\n") === w, want.join("\n"));
const text = (selector, want) => page.waitForFunction(
  ([s, w]) => document.querySelector(s)?.textContent.trim() === w, [selector, want]);
const cell = (name, column, want) => page.waitForFunction(
  ([n, c, w]) => [...document.querySelectorAll("#rows tr")].some((tr) => tr.querySelector(".name").textContent === n &&
    new RegExp(w).test(tr.querySelector(c).textContent)), [name, column, want.source]);
const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent);

test("it loads, and shows the locks that are held", async () => {
  world.hold("nightly", "--app", "report");
  await page.goto(world.link);
  await text("#live-text", "live");
  await cell("nightly", ".c-holder", /^report@.+:\d+$/);
  await cell("nightly", ".c-kind", /^exclusive$/);
  await cell("nightly", ".c-lease", /^\d+s$/);
  assert.equal(await page.locator("table thead th").count(), 7);
});

test("it updates live", async () => {
  const holder = world.hold("order/42", "--app", "first");
  await cell("order/42", ".c-holder", /^first@/);
  const waiter = world.hold("order/42", "--app", "second");
  await cell("order/42", ".c-waiting", /^1$/);
  await text("#total-waiting", "1");
  await world.end(holder);
  await cell("order/42", ".c-holder", /^second@/);
  await cell("order/42", ".c-waiting", /^–$/);
  await world.end(waiter);
  await cell("order/42", ".c-kind", /^free$/);
});

test("it filters, by the keyboard too", async () => {
  world.hold("order/7", "--app", "first");
  world.hold("zebra", "--app", "animal");
  await cell("order/7", ".c-holder", /^first@/);
  await cell("zebra", ".c-holder", /^animal@/);
  await page.locator("body").press("/");
  assert.equal(await focused(), "search");
  await page.keyboard.type("order/7");
  await shows("order/7");
  await text("#count", "1 lock");
  await page.keyboard.press("Escape");
  await page.keyboard.type("ANIMAL"); // a holder's name
  await shows("zebra");
  await text("#count", "1 lock");
  await page.keyboard.press("Escape");
  await page.keyboard.type("nothing like this");
  await page.getByText("No lock matches the search.").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await page.selectOption("#show", "all");
  await shows("nightly", "order/42", "order/7", "zebra");
  await page.selectOption("#show", "used");
});

test("the keyboard reaches everything", async () => {
  await page.locator("#where").click();
  await page.keyboard.press("ArrowDown");
  assert.equal(await focused(), "nightly");
  await page.keyboard.press("End");
  assert.equal(await focused(), "zebra");
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Home");
  assert.equal(await focused(), "nightly");
  await page.keyboard.press("Enter");
  await page.locator("#detail").waitFor();
  assert.equal(await focused(), "detail-name");
  await page.getByText("held, 0 waiting").waitFor();
  await page.keyboard.press("Escape");
  await page.locator("#detail").waitFor({ state: "hidden" });
  assert.equal(await focused(), "nightly");
  await page.keyboard.press("?");
  await page.locator("dialog#help").waitFor();
  await page.keyboard.press("Escape");
  await page.locator("dialog#help").waitFor({ state: "hidden" });
  const theme = () => page.evaluate(() => [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]);
  const [, light] = await theme();
  await page.keyboard.press("t");
  const [name, dark] = await theme();
  assert.equal(name, "dark");
  assert.notEqual(dark, light);
  await page.keyboard.press("t");
  await page.keyboard.press("t");
});

test("rows stay in their place while the pointer is at the table", async () => {
  await page.locator("#where").click();
  await row("order/7").hover();
  const stays = await names();
  const added = world.hold("aaa");
  await page.waitForFunction(() => document.querySelectorAll("#rows tr").length > 3 && [...document.querySelectorAll("#rows .name")].some((n) => n.textContent === "aaa"));
  assert.deepEqual(await names(), [...stays, "aaa"]);
  const at = await row("order/7").boundingBox();
  await page.mouse.move(5, 5);
  await page.waitForFunction(() => document.querySelector("#rows .name").textContent === "aaa");
  assert.ok((await row("order/7").boundingBox()).y > at.y);
  await world.end(added);
});

test("it evicts only with every step", async () => {
  await row("zebra").click();
  world.hold("zebra", "--app", "next");
  await page.locator("#detail-line li").filter({ hasText: "next@" }).waitFor();
  const token = await page.locator("#detail-holders code").first().textContent();
  await page.getByRole("button", { name: "Evict…" }).click();
  const go = page.getByRole("button", { name: "Evict", exact: true });
  assert.ok((await page.locator("#evict-facts").textContent()).includes(token));
  assert.ok(await go.isDisabled());
  await page.getByLabel("Your name").fill("ann");
  await page.getByLabel("Reason, which others will read").fill("hangs since noon");
  assert.ok(await go.isDisabled(), "without a typed name");
  await page.getByLabel("Type the name of the lock").fill("zebr");
  assert.ok(await go.isDisabled(), "with another name");
  await page.keyboard.press("Enter");
  assert.ok(await page.locator("dialog#evict").isVisible());
  await page.getByLabel("Type the name of the lock").fill("zebra");
  await page.getByLabel("Your name").fill(" ");
  assert.ok(await go.isDisabled(), "without a person");
  await page.getByLabel("Your name").fill("ann");
  assert.ok(await page.getByLabel("Ask it to end").isChecked(), "the safe way is the default");
  await page.getByLabel("At once").check();
  await go.click();
  await page.locator("dialog#evict").waitFor({ state: "hidden" });
  await page.locator("#detail-holders strong").filter({ hasText: "next@" }).waitFor();
  await page.getByText("by ann: hangs since noon").waitFor();
  await page.locator("#detail-timeline .hold.lost").first().waitFor();
  await text("#total-lost", "1");
  await page.keyboard.press("Escape");
});

test("an eviction that names a hold that has ended does nothing", async () => {
  allowed = ["409"]; // the refusal, which the browser reports
  const holder = world.hold("late", "--app", "one");
  await cell("late", ".c-holder", /^one@/);
  await row("late").click();
  await page.getByRole("button", { name: "Evict…" }).click();
  await world.end(holder);
  world.hold("late", "--app", "two");
  await page.getByText("This hold has ended in the meantime.").waitFor();
  await page.getByLabel("Type the name of the lock").fill("late");
  await page.getByLabel("Reason, which others will read").fill("x");
  await page.getByRole("button", { name: "Evict", exact: true }).click();
  await page.locator("#evict-error").filter({ hasText: "no holder has this token" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await cell("late", ".c-holder", /^two@/);
  allowed = [];
});

test("a name is never markup", async () => {
  const name = `<img src=x onerror="document.title='broken'">`;
  world.hold(name);
  await cell(name, ".c-kind", /^exclusive$/);
  await row(name).click();
  await text("#detail-name", name);
  assert.notEqual(await page.title(), "broken");
  await page.keyboard.press("Escape");
});

test("it survives a restart of the page's server, and of the locks' server", async () => {
  allowed = ["net::ERR_"]; // while there is no server
  await world.end(world.page);
  await text("#live-text", "reconnecting");
  world.hold("while-away");
  assert.ok((await names()).includes("nightly"), "what was known stays");
  await world.serve(["--allow-evict"]);
  await text("#live-text", "live");
  await cell("while-away", ".c-kind", /^exclusive$/);
  allowed = [];
  await world.end(world.redis, "SIGKILL");
  await text("#live-text", "the server does not answer");
  assert.ok(await page.locator("#stale").isVisible());
  await world.startRedis();
  await text("#live-text", "live");
  await page.locator("#stale").waitFor({ state: "hidden" });
});

test("on a phone nothing is wider than the screen", async () => {
  await page.setViewportSize({ width: 360, height: 740 });
  const wide = () => page.evaluate(() => document.documentElement.scrollWidth > innerWidth);
  assert.ok(!await wide());
  await row("nightly").click();
  await page.locator("#detail-timeline svg").waitFor();
  assert.ok(!await wide());
  await page.getByRole("button", { name: "Close" }).click();
  await page.locator("#detail").waitFor({ state: "hidden" });
  // The rows are cards there, and still rows of a table for a screen reader.
  assert.ok(await page.getByRole("row").filter({ has: page.getByRole("rowheader", { name: "nightly" }) }).isVisible());
  await page.setViewportSize({ width: 1280, height: 800 });
});

test("with a token, it asks for the token", async () => {
  allowed = ["403", "401", "net::ERR_"]; // a wrong token, and the stream that it ends
  await world.end(world.page);
  await world.serve(["--keep-watching"], { HOLDFAST_TOKEN: "correct horse battery" });
  await page.goto(world.url);
  await page.getByLabel("Token").fill("wrong horse");
  await page.keyboard.press("Enter");
  await page.getByText("That is not the token.").waitFor();
  allowed = [];
  await page.getByLabel("Token").fill("correct horse battery");
  await page.keyboard.press("Enter");
  await text("#live-text", "live");
  await cell("nightly", ".c-kind", /^exclusive$/);
  await row("nightly").click();
  await page.locator("#detail-holders strong").waitFor();
  assert.equal(await page.getByRole("button", { name: "Evict…" }).count(), 0, "eviction was not allowed");
});

test("it shows the tags of holders and waiters, each by itself", async () => {
  await world.hold("tagged", "--tag", "order=42", "--tag", "customer=Ann Lee");
  await cell("tagged", ".c-kind", /^exclusive$/);
  await world.hold("tagged", "--tag", "urgent=no");
  await cell("tagged", ".c-waiting", /^1$/);
  await row("tagged").click();
  await page.waitForFunction(() => [...document.querySelectorAll("#detail-line .tag")].map((t) => t.textContent).join() === "urgent=no");
  assert.deepEqual(await page.locator("#detail-holders .tag").allTextContents(), ['customer="Ann Lee"', "order=42"]);
  await page.setViewportSize({ width: 390, height: 844 });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "wider than a phone");
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.keyboard.press("Escape");
});

test("a lease in its lock-delay is not renewed, and others get the lock later", async () => {
  const holder = world.hold("delayed", "--ttl", "5s", "--lock-delay", "10m");
  await cell("delayed", ".c-lease", /^[0-5]s\+10m 00s$/);
  await row("delayed").click();
  const lease = (want) => page.locator("#detail-holders .left").filter({ hasText: want }).waitFor();
  await lease(/^expires in 10m 0[0-5]s unless renewed, trusted for [0-5]s$/);
  await world.end(holder, "SIGKILL");
  await cell("delayed", ".c-lease", /^0snot renewed, others in 9m [0-5]\ds$/);
  await lease(/^not renewed in time: others get the lock in 9m [0-5]\ds$/);
  await page.selectOption("#show", "late");
  await shows("delayed");
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/delayed.png` });
  await page.setViewportSize({ width: 390, height: 844 });
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/delayed-phone.png` });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "wider than a phone");
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.keyboard.press("Escape");
  await page.selectOption("#show", "used");
});

test("it shows a deadlock, and the way around it", async () => {
  const { a, b } = await world.deadlock("left", "right");
  await cell("left", ".c-waiting", /^1 deadlock$/);
  await page.locator("#show").selectOption("deadlock");
  await page.waitForFunction(() => document.querySelectorAll("#rows tr").length === 2);
  await row("left").click();
  await page.locator("#detail-deadlock").waitFor();
  const waits = (await page.locator("#detail-cycle li").allTextContents()).sort();
  assert.equal(waits.length, 2);
  assert.match(waits[0], /^first@.* holds left and waits for right$/);
  assert.match(waits[1], /^second@.* holds right and waits for left$/);
  assert.match(await page.locator("#detail-line li").first().textContent(), / holds right$/);
  for (const colorScheme of ["dark", "light"]) {
    await page.emulateMedia({ colorScheme });
    if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/deadlock-${colorScheme}.png` });
  }
  await page.setViewportSize({ width: 390, height: 844 });
  assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "wider than a phone");
  if (process.env.SHOTS) await page.screenshot({ path: `${process.env.SHOTS}/deadlock-phone.png` });
  await page.setViewportSize({ width: 1280, height: 800 });
  // The locks in it lead to each other, by the keyboard too.
  await page.locator("#detail-cycle button", { hasText: "right" }).first().focus();
  await page.keyboard.press("Enter");
  await text("#detail-name", "right");
  await page.locator("#detail-deadlock").waitFor();
  await Promise.all([world.end(a), world.end(b)]);
  await page.waitForFunction(() => document.querySelector("#detail-deadlock").hidden);
  await page.keyboard.press("Escape");
  await page.locator("#show").selectOption("used");
});

test("it shows the servers of a quorum, and opens the list when one of them is down", async () => {
  assert.equal(await page.locator("#nodes-box").isVisible(), false, "one server is no quorum");
  const urls = await world.startQuorum();
  // The first lock makes a quorum of them.
  await world.lock("first", urls);
  await world.end(world.page);
  await world.serve([], { HOLDFAST_REDIS: urls });
  allowed = ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED", "ERR_EMPTY_RESPONSE", "ERR_CONNECTION_RESET"];
  await page.goto(world.link);
  await text("#nodes-state", "Quorum: 3 of 3 servers count");
  await text("#where", "a quorum of 3 servers");
  assert.equal(await page.locator("#nodes").isVisible(), false);
  world.quorum[1].kill("SIGKILL");
  await text("#nodes-state", "Quorum: 2 of 3 servers count");
  await page.locator("#nodes").waitFor();
  assert.deepEqual(await page.locator("#nodes li").evaluateAll((list) => list.map((li) => li.dataset.state)), ["on", "bad", "on"]);
  assert.match(await page.locator("#nodes li").nth(1).textContent(), /^redis:.* does not answer$/);
});

test("no error was reported on the console", () => assert.deepEqual(problems, []));
