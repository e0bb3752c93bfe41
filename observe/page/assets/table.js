// The table of locks. A row keeps its element for as long as it is shown, and only what
// differs is written, so that the table stays calm while the locks change.

import { ago, byId, el, leaseLeft, now, span, tagsOf, time, trustLeft, who } from "./util.js";

const lingers = 30_000; // how long a lock that is free again stays in the view "in use"
const pageSize = 500;

const rows = new Map(); // by id
const visible = new Set();
const body = byId("rows");
let order = [];
let limit = pageSize;
let pointer = false;
let current = null; // the id of the row that the keyboard is at

export const view = { search: "", show: "used", sort: "name", reverse: false };

// Each row has its text wherever it is, so that a search of the browser and a screen reader find it. Only rows that can
// be seen count on each second.
const seen = new IntersectionObserver((entries) => {
  for (const e of entries) {
    const row = rows.get(e.target.dataset.id);
    if (!row) continue;
    if (e.isIntersecting) { visible.add(row); beat(row); } else visible.delete(row);
  }
}, { rootMargin: "200px" });

function frozen() { return pointer || body.contains(document.activeElement); }

export function watchTable(changed, open) {
  body.addEventListener("pointerenter", (e) => { if (e.pointerType === "mouse") { pointer = true; note(); } });
  body.addEventListener("pointerleave", () => { if (pointer) { pointer = false; changed(); } });
  body.addEventListener("focusin", (e) => {
    const tr = e.target.closest("tr");
    if (tr) move(tr.dataset.id, false);
    note();
  });
  body.addEventListener("focusout", () => setTimeout(changed));
  body.addEventListener("click", (e) => {
    const tr = e.target.closest("tr");
    if (tr && !getSelection().toString()) open(tr.dataset.id, tr);
  });
  byId("more").addEventListener("click", () => { limit += pageSize; changed(); });
}

function note() { byId("order-note").hidden = !(frozen() && view.sort !== "name"); }

// sortBy sorts by a column. The same one again reverses the order.
export function sortBy(name) {
  view.reverse = name === view.sort && !view.reverse;
  view.sort = name;
  showOrder();
  begin();
}

export function showOrder() {
  for (const button of document.querySelectorAll("thead button")) {
    const chosen = button.dataset.sort === view.sort, down = Boolean(sorts[button.dataset.sort].down) !== view.reverse;
    if (chosen) button.parentElement.setAttribute("aria-sort", down ? "descending" : "ascending");
    else button.parentElement.removeAttribute("aria-sort");
  }
}

// begin forgets the order: the user asked for another one.
export function begin() { order = []; limit = pageSize; }

function make(lock) {
  const tr = el("tr");
  tr.dataset.id = lock.id;
  tr.setAttribute("role", "row"); // on a phone the rows are no table for CSS, and stay one for a screen reader
  const button = el("button", "name");
  button.type = "button";
  button.tabIndex = -1;
  const bar = () => {
    const fill = el("span", "fill"), box = el("span", "bar", fill), text = el("span", "num");
    box.setAttribute("aria-hidden", "true");
    return { fill, box, text };
  };
  const age = bar(), lease = bar();
  const cell = (name, label, ...content) => {
    const td = el(name === "c-name" ? "th" : "td", name, ...content);
    td.setAttribute("role", name === "c-name" ? "rowheader" : "cell");
    if (name === "c-name") td.scope = "row";
    td.dataset.label = label;
    tr.append(td);
    return td;
  };
  cell("c-name", "Name", button);
  const kind = el("span", "kind");
  cell("c-kind", "Kind", kind);
  const holder = cell("c-holder", "Holder");
  cell("c-age", "Age", age.text, age.box);
  const delay = el("span", "delay num");
  cell("c-lease", "Lease left", lease.text, delay, lease.box);
  const waiting = cell("c-waiting", "Waiting");
  const token = cell("c-token", "Token");
  const row = { tr, button, kind, holder, age, lease, delay, waiting, token, lock, dirty: true, used: 0 };
  seen.observe(tr);
  return row;
}

function text(node, value) { if (node.textContent !== value) node.textContent = value; }

function scale(bar, part) {
  const value = `scaleX(${part.toFixed(3)})`;
  if (bar.fill.style.transform !== value) bar.fill.style.transform = value;
}

// paint writes what has changed in a row.
function paint(row) {
  const l = row.lock;
  if (row.dirty) {
    row.dirty = false;
    text(row.button, l.name);
    text(row.kind, l.kind);
    row.kind.dataset.kind = l.kind;
    row.tr.classList.toggle("free", !l.held && l.waiting === 0);
    row.tr.classList.toggle("lost", l.lost > 0);
    let by = l.holders.length ? who(l.holders[0]) : "–";
    if (l.holders.length > 1) by += ` +${l.holders.length - 1}`;
    if (l.limit) by = `${l.used} of ${l.limit}: ${by}`;
    if (l.leader) by = `${l.leader.value} · ${by}`;
    text(row.holder, by);
    row.holder.title = by;
    row.button.title = l.name;
    text(row.waiting, l.deadlock.length ? `${l.waiting} deadlock` : l.waiting ? String(l.waiting) : "–");
    row.waiting.classList.toggle("some", l.waiting > 0);
    row.waiting.classList.toggle("deadlock", l.deadlock.length > 0);
    text(row.token, l.holders.length ? l.holders[0].token : "–");
  }
  beat(row);
}

function beat(row) {
  const l = row.lock;
  if (!l.holders.length) {
    text(row.age.text, "–");
    text(row.lease.text, l.lost ? "lost" : "–");
    text(row.delay, "");
    row.age.box.hidden = row.lease.box.hidden = true;
    row.lease.box.dataset.level = "";
    return;
  }
  const age = ago(oldest(l)), h = nextToEnd(l), part = trustLeft(h);
  row.age.box.hidden = row.lease.box.hidden = false;
  text(row.age.text, span(age));
  // From a second to a day, on a logarithmic scale: it moves slowly, and tells old from new.
  scale(row.age, Math.min(1, Math.log10(1 + age / 1000) / Math.log10(86400)));
  const [left, delay] = leaseTexts(h);
  text(row.lease.text, left);
  text(row.delay, delay);
  scale(row.lease, part);
  const level = part < 0.1 ? "bad" : part < 1 / 3 ? "late" : "good";
  if (row.lease.box.dataset.level !== level) row.lease.box.dataset.level = level;
}

function oldest(l) { return Math.min(...l.holders.map((h) => time(h.since))); }
function nextToEnd(l) { return l.holders.reduce((a, b) => (a.trusted_until < b.trusted_until ? a : b)); }

// leaseTexts are what is left of a lease, and what is known of its lock-delay.
function leaseTexts(h) {
  const left = leaseLeft(time(h.expires)), trust = leaseLeft(time(h.trusted_until));
  if (h.trusted_until === h.expires || left === "expired") return [left, ""];
  return trust === "expired" ? ["0s", `not renewed, others in ${left}`] : [trust, `+${span(h.lock_delay_ms)}`];
}

// What each column sorts by, and whether the largest comes first. A lock without a value is last in both orders.
const ifHeld = (f) => (l) => (l.holders.length ? f(l) : null);
const sorts = {
  name: { of: (l) => l.name },
  kind: { of: (l) => l.kind },
  holder: { of: ifHeld((l) => who(l.holders[0])) },
  age: { of: ifHeld((l) => -oldest(l)), down: true },
  lease: { of: ifHeld((l) => nextToEnd(l).trusted_until) },
  waiting: { of: (l) => l.waiting, down: true },
  token: { of: ifHeld((l) => l.holders[0].token.padStart(20, "0")), down: true }, // too large for a number
};

function compare(a, b) {
  const { of, down } = sorts[view.sort], x = of(a), y = of(b);
  if (x === null || y === null) return (x === null) - (y === null);
  const order = x < y ? -1 : x > y ? 1 : 0;
  return Boolean(down) !== view.reverse ? -order : order;
}

function wants(l, words, used) {
  switch (view.show) {
    case "used": if (!l.held && !l.waiting && now() - used > lingers) return false; break;
    case "held": if (!l.held) return false; break;
    case "waiting": if (!l.waiting) return false; break;
    case "deadlock": if (!l.deadlock.length) return false; break;
    case "late": if (!l.holders.length || trustLeft(nextToEnd(l)) >= 1 / 3) return false; break;
    case "lost": if (!l.lost) return false; break;
  }
  if (!words.length) return true;
  const text = [l.name, l.kind, l.leader?.value, ...l.holders.flatMap((h) => [who(h), h.owner, h.token, h.client_id, ...tagsOf(h)])]
    .join(" ").toLowerCase();
  return words.every((w) => text.includes(w));
}

const lastUsed = new Map(); // when a lock was in use, by the clock that stops

// render brings the table in line with the locks.
export function render(locks, changedIds) {
  const words = view.search.toLowerCase().split(/\s+/).filter(Boolean);
  const wanted = [];
  for (const l of locks.values()) {
    if (l.held || l.waiting) lastUsed.set(l.id, now());
    if (wants(l, words, lastUsed.get(l.id) ?? 0)) wanted.push(l);
  }
  for (const id of lastUsed.keys()) if (!locks.has(id)) lastUsed.delete(id);
  wanted.sort((a, b) => compare(a, b) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0) || (a.id < b.id ? -1 : 1));
  const ids = wanted.map((l) => l.id), set = new Set(ids);
  const keep = frozen() && order.length > 0;
  if (keep) {
    const shown = new Set(order);
    order = [...order, ...ids.filter((id) => !shown.has(id))];
  } else order = ids;
  const shown = order.slice(0, limit), want = new Set(shown);
  for (const [id, row] of rows) if (!want.has(id)) drop(id, row);
  for (const id of shown) {
    const l = locks.get(id);
    let row = rows.get(id);
    if (!row) {
      row = make(l);
      rows.set(id, row);
    } else if (l && (row.lock !== l || !changedIds || changedIds.has(id))) {
      row.lock = l;
      row.dirty = true;
    }
    row.tr.classList.toggle("left", !l || !set.has(id));
  }
  shown.forEach((id, i) => {
    const { tr } = rows.get(id);
    if (body.children[i] !== tr) body.insertBefore(tr, body.children[i] ?? null);
  });
  if (!current || !rows.has(current)) current = shown[0] ?? null;
  for (const [id, row] of rows) row.button.tabIndex = id === current ? 0 : -1;
  for (const row of rows.values()) if (row.dirty || visible.has(row)) paint(row);
  const more = order.length - limit;
  byId("more").hidden = more <= 0;
  byId("more").textContent = `Show ${Math.min(more, pageSize).toLocaleString("en")} more`;
  note();
  return { shown: Math.min(shown.length, ids.length), matching: ids.length };
}

function drop(id, row) {
  seen.unobserve(row.tr);
  visible.delete(row);
  rows.delete(id);
  row.tr.remove();
}

export function beatAll() { for (const row of visible) beat(row); }

export function mark(id) {
  for (const [key, row] of rows) {
    row.tr.classList.toggle("open", key === id);
    if (key === id) row.button.setAttribute("aria-expanded", "true");
    else row.button.removeAttribute("aria-expanded");
  }
}

function move(id, focus) {
  const before = rows.get(current), after = rows.get(id);
  if (before) before.button.tabIndex = -1;
  if (!after) return;
  current = id;
  after.button.tabIndex = 0;
  if (focus) {
    after.button.focus({ preventScroll: true });
    after.tr.scrollIntoView({ block: "nearest" });
  }
}

// step moves the keyboard: by one row, or to the first or the last one.
export function step(by) {
  const ids = [...body.children].map((tr) => tr.dataset.id);
  if (!ids.length) return;
  const at = ids.indexOf(current), inside = body.contains(document.activeElement);
  const to = by === "first" ? 0 : by === "last" ? ids.length - 1
    : !inside ? Math.max(at, 0) : Math.max(0, Math.min(ids.length - 1, at + by));
  move(ids[to], true);
}

export function focusRow(id) { move(rows.has(id) ? id : current, true); }
