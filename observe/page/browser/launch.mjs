// A browser for the tests: Debian's chromium, or the one that CHROMIUM names.
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const places = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export async function launch(options = {}) {
  const executablePath = places.find((p) => p && existsSync(p));
  if (!executablePath) throw new Error("there is no chromium: make test-page installs one, or set CHROMIUM");
  const dir = await mkdtemp(join(tmpdir(), "holdfast-page-"));
  const context = await chromium.launchPersistentContext(dir, {
    executablePath, headless: true, ...options,
    args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
      "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  const close = async () => { await context.close(); await rm(dir, { recursive: true, force: true, maxRetries: 5 }); };
  return { context, close };
}
