// How smoothly a browser shows a page that is being measured: node measure.mjs URL [SECONDS].
// The URL is the one that BenchmarkPage in bench prints.
import { launch } from "./launch.mjs";

const [url, seconds = "20"] = process.argv.slice(2);
const { context, close } = await launch({ viewport: { width: 1280, height: 900 } });
const page = context.pages()[0] ?? await context.newPage();
await page.goto(url);
await page.waitForFunction(() => document.querySelectorAll("#rows tr").length >= 500);
const cdp = await context.newCDPSession(page);
await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
const metrics = async () => Object.fromEntries((await cdp.send("Performance.getMetrics")).metrics.map((m) => [m.name, m.value]));
const before = await metrics();
const result = await page.evaluate((ms) => new Promise((done) => {
  const gaps = [];
  let tasks = 0, longest = 0;
  new PerformanceObserver((list) => {
    for (const e of list.getEntries()) { tasks++; longest = Math.max(longest, e.duration); }
  }).observe({ type: "longtask" });
  const began = performance.now();
  let last = began;
  const frame = (now) => {
    gaps.push(now - last);
    last = now;
    if (now - began < ms) requestAnimationFrame(frame);
    else {
      gaps.sort((a, b) => a - b);
      done({ frames: gaps.length, p50: gaps[gaps.length >> 1], p99: gaps[Math.floor(gaps.length * 0.99)], worst: gaps.at(-1), longTasks: tasks, longest });
    }
  };
  requestAnimationFrame(frame);
}), seconds * 1000);
const after = await metrics();
console.log(result);
// Processor time, which does not depend on what else the machine does.
for (const name of ["TaskDuration", "ScriptDuration", "LayoutDuration", "RecalcStyleDuration"]) {
  console.log(name, `${(100 * (after[name] - before[name]) / seconds).toFixed(1)}% of a core`);
}
console.log("heap MB", await page.evaluate(() => performance.memory.usedJSHeapSize / 1e6));
await close();
