// The page: it follows the stream of the server, and passes what changed to the table and
// to the detail. It writes text only as text, so that no lock's name is ever markup.

import * as table from "./table.js";
import * as detail from "./detail.js";
import { byId, el, say, setClock, state, stop, time, timeOfDay } from "./util.js";

// --- the stream ---------------------------------------------------------------------

let stream, seq = -1, heard = Date.now(), retry = 500;
let lost = false; // the stream is
let last = null; // the last news

// silence is longer than the server ever says nothing.
const silence = 8000;

function connect() {
  stream?.close();
  seq = -1;
  heard = Date.now();
  stream = new EventSource("api/events");
  const on = (name, f) => stream.addEventListener(name, (e) => {
    heard = Date.now();
    retry = 500;
    const news = JSON.parse(e.data);
    setClock(news.now, news.read.at);
    lost = false;
    last = news;
    judge();
    f(news);
    heading(news);
  });
  on("snapshot", (news) => {
    seq = news.seq;
    state.locks = new Map(news.locks.map((l) => [l.id, l]));
    state.about = { title: news.title, version: news.version, evict: news.allow_evict, who: news.who };
    byId("where").textContent = news.title;
    document.title = news.title ? `Holdfast: ${news.title}` : "Holdfast";
    detail.refresh();
    schedule(null);
  });
  on("change", (news) => {
    if (news.seq !== seq + 1) { connect(); return; }
    seq = news.seq;
    for (const l of news.locks) state.locks.set(l.id, l);
    for (const id of news.gone) state.locks.delete(id);
    const ids = [...news.locks.map((l) => l.id), ...news.gone];
    detail.changed(ids);
    schedule(ids);
  });
  on("tick", () => {});
  stream.onerror = () => {
    lost = true;
    judge();
    if (stream.readyState === EventSource.CLOSED) again();
  };
}

// again connects again later. If the token is no longer right, it shows the form for it.
let waits = false;
function again() {
  if (waits) return;
  waits = true;
  setTimeout(async () => {
    waits = false;
    try {
      const answer = await fetch("api/locks");
      if (answer.status === 401) { location.assign("login"); return; }
    } catch { /* no server: the stream finds out when there is one */ }
    connect();
  }, retry);
  retry = Math.min(retry * 2, 5000);
}

// judge says whether the page is live. If not, nothing counts on: what the page shows is what was read then.
function judge() {
  const read = last?.read, away = read && (read.error || read.late || !read.at);
  let since = null, why = "";
  if (away) {
    since = time(read.at);
    why = `the server of the locks does not answer${read.error ? `: ${read.error}` : ""}`;
  } else if (lost) {
    since = time(last?.now);
    why = "the connection to holdfast serve is lost";
  }
  stop(since);
  const text = !why ? "" : since ? `Not live since ${timeOfDay(since)}: ${why}. You see what was true then.` : `Not live: ${why}.`;
  if (byId("stale").textContent !== text) {
    byId("stale").textContent = text;
    byId("stale").hidden = !text;
    document.body.classList.toggle("stale", Boolean(text));
    // A short interruption is no news for a screen reader.
    say(text || "The page is live again.", text ? 3000 : 0);
    schedule(null); // every row shows the same moment
    detail.beat();
  }
  byId("live").dataset.state = away ? "bad" : lost ? "off" : last ? "on" : "wait";
  const short = lost ? "reconnecting" : away ? "the server does not answer" : last ? "live" : "connecting";
  if (byId("live-text").textContent !== short) byId("live-text").textContent = short;
}

// nodes shows the servers of a quorum. The list opens by itself when one of them is in trouble.
let nodesWell = true, nodesDrawn = "";
function nodes(list) {
  byId("nodes-box").hidden = !list.length;
  const text = JSON.stringify(list);
  if (!list.length || nodesDrawn === text) return;
  nodesDrawn = text;
  const counting = list.filter((n) => n.answers && n.counts).length, well = counting === list.length;
  const summary = `Quorum: ${counting} of ${list.length} servers count`;
  byId("nodes-state").textContent = summary;
  byId("nodes-box").dataset.counting = well ? "all" : counting > list.length / 2 ? "most" : "few";
  if (nodesWell !== well) {
    byId("nodes-box").open = !well;
    say(`${summary}.`);
  }
  nodesWell = well;
  const ms = (n) => `${n < 10 ? n.toFixed(1) : Math.round(n)} ms`;
  byId("nodes").replaceChildren(...list.map((n) => {
    const what = !n.answers ? "does not answer" : !n.counts ? `answers in ${ms(n.round_trip_ms)}, ${n.why}`
      : `counts, answers in ${ms(n.round_trip_ms)}, its clock within ${ms(Math.abs(n.clock_offset_ms) + n.clock_error_ms)} of ours`;
    const dot = el("span", "dot");
    dot.setAttribute("aria-hidden", "true");
    const li = el("li", "", dot, el("span", "", el("strong", "", n.address), ` ${what}`));
    li.dataset.state = !n.answers ? "bad" : n.counts ? "on" : "off";
    return li;
  }));
}

function heading(news) {
  nodes(news.nodes);
  const problem = byId("problem");
  const bad = news.read.unreadable, others = news.totals.unreadable - bad.length;
  const text = bad.length ? `Cannot be read: ${bad.map((b) => b.name).join(", ")}${others ? ` and ${others} more` : ""}. `
      + bad[0].error + (bad[0].hint ? ` (${bad[0].hint})` : "")
    : news.read.cut ? "There are more locks than this page shows. Some of them are left out." : "";
  if (problem.textContent !== text) problem.textContent = text;
  problem.hidden = !text;
  byId("total-held").textContent = news.totals.held.toLocaleString("en");
  byId("total-waiting").textContent = news.totals.waiting.toLocaleString("en");
  byId("total-lost").textContent = news.totals.lost.toLocaleString("en");
  byId("total-deadlocks").textContent = news.totals.deadlocks.toLocaleString("en");
  byId("total-lost").parentElement.classList.toggle("some", news.totals.lost > 0);
  byId("total-deadlocks").parentElement.classList.toggle("some", news.totals.deadlocks > 0);
  byId("total-read").textContent = `${news.read.took_ms < 10 ? news.read.took_ms.toFixed(1) : Math.round(news.read.took_ms)} ms`;
}

// --- drawing ------------------------------------------------------------------------

let drawn, pending = new Set(), everything = true;

export function schedule(ids) {
  if (ids) for (const id of ids) pending.add(id); else everything = true;
  drawn ??= requestAnimationFrame(draw);
}

function draw() {
  drawn = undefined;
  const { shown, matching } = table.render(state.locks, everything ? null : pending);
  pending = new Set();
  everything = false;
  table.mark(detail.opened());
  const text = shown < matching ? `the first ${shown} of ${matching} locks` : `${matching} ${matching === 1 ? "lock" : "locks"}`;
  if (byId("count").textContent !== text) byId("count").textContent = text;
  const empty = byId("empty");
  empty.hidden = matching > 0 || seq < 0;
  const why = table.view.search ? "No lock matches the search."
    : table.view.show === "used" ? "No lock is held, and nobody waits." : "There is no such lock.";
  if (empty.textContent !== why) empty.textContent = why;
}

setInterval(() => {
  if (Date.now() - heard > silence) {
    lost = true;
    judge();
    connect();
  }
  if (document.hidden) return;
  table.beatAll();
  detail.beat();
}, 1000);
setInterval(() => { if (!document.hidden) schedule(null); }, 5000); // what is in use, or late, changes with time

// --- what the user does -------------------------------------------------------------

table.watchTable(() => schedule([]), (id, tr) => detail.open(id, tr));
detail.watchDetail();

// changeView draws the table anew after a change of the user's.
function changeView(f) { f(); schedule(null); told(); }
function show(what) {
  byId("show").value = table.view.show = what;
  for (const tile of document.querySelectorAll("[data-show]")) tile.setAttribute("aria-pressed", String(tile.dataset.show === what));
  table.begin();
}
byId("show").addEventListener("change", (e) => changeView(() => show(e.target.value)));
for (const button of document.querySelectorAll("thead button")) {
  button.addEventListener("click", () => changeView(() => table.sortBy(button.dataset.sort)));
}
for (const tile of document.querySelectorAll("[data-show]")) {
  tile.addEventListener("click", () => changeView(() => show(table.view.show === tile.dataset.show ? "used" : tile.dataset.show)));
}
table.showOrder();
show(byId("show").value); // the browser may have kept it
byId("search").addEventListener("input", (e) => { table.view.search = e.target.value; table.begin(); schedule(null); told(); });
table.view.search = byId("search").value;
byId("filters").addEventListener("submit", (e) => { e.preventDefault(); table.step("first"); });

function told() { setTimeout(() => say(byId("count").textContent + " shown", 600), 100); }

const themes = ["auto", "dark", "light"];
function theme(name) {
  document.documentElement.dataset.theme = name;
  byId("theme").textContent = `Theme: ${name}`;
  try { localStorage.setItem("holdfast-theme", name); } catch { /* it is for this visit, then */ }
}
function nextTheme() {
  const now = document.documentElement.dataset.theme;
  theme(themes[(themes.indexOf(now) + 1) % themes.length]);
}
let stored = null;
try { stored = localStorage.getItem("holdfast-theme"); } catch { /* none */ }
theme(themes.includes(stored) ? stored : "auto");
byId("theme").addEventListener("click", nextTheme);
byId("help-open").addEventListener("click", () => byId("help").showModal());

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
  const typing = e.target.matches("input, select, textarea");
  const search = byId("search");
  if (e.key === "Escape") {
    if (e.target === search && search.value) { search.value = ""; search.dispatchEvent(new Event("input")); }
    else if (e.target === search) search.blur();
    else detail.close();
    return;
  }
  if (typing && !(e.target === search && (e.key === "ArrowDown" || e.key === "ArrowUp"))) return;
  const keys = {
    "/": () => search.select(), "?": () => byId("help").showModal(), t: nextTheme,
    ArrowDown: () => table.step(1), ArrowUp: () => table.step(-1), j: () => table.step(1), k: () => table.step(-1),
    Home: () => table.step("first"), End: () => table.step("last"),
  };
  // In the detail, the arrows scroll.
  if (keys[e.key] && !(e.key.length > 1 && byId("detail").contains(e.target))) { e.preventDefault(); keys[e.key](); }
});

connect();
