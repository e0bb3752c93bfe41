// A server, the page over it, and clients: each is a process, as for a user.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export const tool = process.env.HOLDFAST ?? join(import.meta.dirname, "../../../bin/holdfast");
const server = process.env.REDIS_SERVER ?? "redis-server";

async function freePort() {
  const s = createServer().listen(0, "127.0.0.1");
  await once(s, "listening");
  const { port } = s.address();
  s.close();
  await once(s, "close");
  return port;
}

async function answers(port) {
  for (;;) {
    const s = connect(port, "127.0.0.1");
    try {
      await once(s, "connect");
      s.destroy();
      return;
    } catch { await new Promise((f) => setTimeout(f, 20)); } // it is still starting
  }
}

export class World {
  children = new Set();

  static async start() {
    const w = new World();
    w.dir = await mkdtemp(join(tmpdir(), "holdfast-world-"));
    w.redisPort = await freePort();
    w.pagePort = await freePort();
    w.url = `http://127.0.0.1:${w.pagePort}/`;
    w.token = "a token of the tests"; // the same after a restart of the page
    w.link = `${w.url}login?token=${encodeURIComponent(w.token)}`;
    await w.startRedis();
    return w;
  }

  // startQuorum starts three more servers, and returns their URLs for the tool.
  async startQuorum() {
    this.quorum = [];
    for (let i = 0; i < 3; i++) {
      const port = await freePort();
      this.quorum.push(this.spawn(server, ["--port", port, "--dir", this.dir, "--save", ""]));
      this.quorum[i].url = `redis://127.0.0.1:${port}`;
      await answers(port);
    }
    return this.quorum.map((s) => s.url).join(" ");
  }

  async startRedis() {
    this.redis = this.spawn(server, ["--port", this.redisPort, "--dir", this.dir, "--appendonly", "yes"]);
    await answers(this.redisPort);
  }

  spawn(command, args, env = {}) {
    const child = spawn(command, args.map(String), {
      env: { ...process.env, HOLDFAST_REDIS: `redis://127.0.0.1:${this.redisPort}`, ...env }, stdio: "ignore",
    });
    child.ended = new Promise((done, failed) => { child.on("exit", done); child.on("error", failed); });
    child.ended.catch((err) => { console.error(command, err); process.exitCode = 1; });
    this.children.add(child);
    child.on("exit", () => this.children.delete(child));
    return child;
  }

  // hold holds a lock, or waits for it, until the process is ended.
  hold(name, ...flags) { return this.spawn(tool, ["run", ...flags, name, "--", "sleep", "600"]); }

  // deadlock starts two runs that hold a lock each, and wait for that of the other.
  async deadlock(left, right) {
    const run = (app, one, two) => this.spawn(tool, ["run", "--app", app, "--ttl", "3s", one, "--", "sh", "-c",
      'until holdfast status -q "$2"; [ $? = 75 ]; do sleep 0.1; done; exec holdfast run --app "$1" --ttl 3s "$2" -- true'
        .replaceAll("holdfast", '"$0"'), tool, app, two]);
    return { a: run("first", left, right), b: run("second", right, left) };
  }

  // lock holds a lock of other servers for a moment.
  async lock(name, urls) { await this.spawn(tool, ["run", name, "--", "true"], { HOLDFAST_REDIS: urls }).ended; }

  async serve(args = [], env = {}) {
    env = { HOLDFAST_TOKEN: this.token, ...env };
    this.page = this.spawn(tool, ["serve", "--listen", `127.0.0.1:${this.pagePort}`, "--interval", "200ms", ...args], env);
    await answers(this.pagePort);
  }

  async end(child, signal = "SIGTERM") {
    child.kill(signal);
    child.kill("SIGCONT"); // a test may have stopped it
    await child.ended;
  }

  async close() {
    // Clients first: they release what they hold while the server is there.
    for (const c of [...this.children]) if (c !== this.redis) await this.end(c);
    await this.end(this.redis);
    await rm(this.dir, { recursive: true, force: true });
  }
}
