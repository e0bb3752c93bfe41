// Draws the images of docs/page.md: HOLDFAST=../../../bin/holdfast node shots.mjs DIR [SECONDS].
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { launch } from "./launch.mjs";
import { World } from "./world.mjs";

const [dir, seconds = "240"] = process.argv.slice(2);
const tool = process.env.HOLDFAST;
const world = await World.start();
await world.serve(["--allow-evict", "--keep-watching"]);
const { context, close } = await launch({ viewport: { width: 1280, height: 860 } });
const page = context.pages()[0] ?? await context.newPage();

world.hold("nightly-report", "--app", "report");
world.hold("invoice/2026-11", "--app", "billing", "--tag", "tenant=acme", "--tag", "run=118");
for (const n of [1, 2]) world.hold("catalog", "--shared", "--app", `reader-${n}`);
for (const n of [1, 2, 3]) world.hold("partner-api", "--permits", 5, "--app", `sync-${n}`);
world.spawn(tool, ["elect", "scheduler", "10.0.0.7:8080", "--", "sleep", "600"]);
world.spawn(tool, ["every", "1h", "cleanup", "--", "sleep", "600"]);
world.hold("mail/outbox", "--app", "mailer");
world.hold("mail/outbox", "--app", "mailer-2");
await world.deadlock("account/7", "account/9");

// Three clients take turns at one lock; one of them is killed, and its lease expires.
let going = true;
const turns = ["checkout-1", "checkout-2", "checkout-3"].map(async (app, i) => {
  for (let n = 0; going; n++) {
    const c = world.spawn(tool, ["run", "--ttl", "10s", "--app", app, "--tag", `attempt=${n + 1}`, "order/1042", "--", "sleep", 9 + 4 * i + (n % 3) * 5]);
    if (i === 1 && n === 2) {
      for (;;) {
        const { lock } = await (await fetch(world.url + "api/lock?name=order/1042", { headers: { Authorization: `Bearer ${world.token}` } })).json();
        if (lock.holders[0]?.app === app) break;
        await sleep(500);
      }
      await sleep(5000);
      c.kill("SIGKILL");
    }
    await c.ended;
  }
});

await page.goto(world.link);
await page.waitForFunction(() => document.querySelector("#live-text").textContent === "live");
await sleep(seconds * 1000);
await page.screenshot({ path: join(dir, "page-light.png") });
await page.getByRole("button", { name: "order/1042" }).click();
await page.locator("#detail-timeline svg").waitFor();
await page.locator("#detail-line li:not(.none)").first().waitFor();
await page.emulateMedia({ colorScheme: "dark" });
await page.screenshot({ path: join(dir, "page-dark.png") });
await page.keyboard.press("Escape");
await page.setViewportSize({ width: 390, height: 844 });
await page.screenshot({ path: join(dir, "page-phone.png") });
await page.emulateMedia({ colorScheme: "light" });
await page.getByRole("button", { name: "order/1042" }).click();
await page.locator("#detail-timeline svg").waitFor();
await page.locator("#h-past").scrollIntoViewIfNeeded();
await page.getByText("As a list").click();
await page.screenshot({ path: join(dir, "page-phone-detail.png") });
going = false;
await close();
await world.close();
await Promise.all(turns);
