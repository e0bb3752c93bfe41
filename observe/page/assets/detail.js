// The detail of one lock: its holders, the wait queue, and the last minutes. The server reads the
// lock anew for each answer; this asks when the stream says that the lock has changed, and
// at most once a second.

import { ago, byId, dateTime, el, leaseOf, say, span, state, tagList, tagsOf, time, timeOfDay, trustLeft, who } from "./util.js";
import { focusRow, mark } from "./table.js";
import { draw } from "./timeline.js";

let id = null; // the lock that is shown
let answer = null;
let asked = 0, waiting = null;
let evicting = null; // the holder in the dialog

export function opened() { return id; }

export function open(lock, from) {
  if (lock === id && from) { close(); return; }
  id = lock;
  answer = null;
  for (const name of ["detail-cycle", "detail-holders", "detail-line", "detail-timeline", "detail-events", "detail-facts"]) {
    byId(name).replaceChildren();
    drawn[name] = "";
  }
  byId("detail").hidden = false;
  document.body.classList.add("has-detail");
  byId("detail-name").textContent = nameOf(lock);
  byId("detail-state").textContent = "reading";
  byId("detail-deadlock").hidden = true;
  byId("detail-error").hidden = true;
  byId("detail").scrollTop = 0;
  mark(id);
  history.replaceState(null, "", "#" + encodeURIComponent(id));
  if (from) byId("detail-name").focus({ preventScroll: true });
  ask();
}

export function close() {
  if (!id) return;
  const was = id, inside = byId("detail").contains(document.activeElement) || document.activeElement === document.body;
  id = null;
  clearTimeout(waiting);
  waiting = null;
  byId("detail").hidden = true;
  document.body.classList.remove("has-detail");
  mark(null);
  history.replaceState(null, "", location.pathname + location.search);
  if (inside) focusRow(was);
}

const nameOf = (lock) => lock.slice(lock.indexOf(":") + 1);

export function refresh() {
  let linked = "";
  try { linked = decodeURIComponent(location.hash.slice(1)); } catch { /* such a link is none of ours */ }
  if (!id && /^(lock|job):./.test(linked)) open(linked);
  else if (id) later();
}

export function changed(ids) { if (id && ids.includes(id)) later(); }

function later() { waiting ??= setTimeout(ask, Math.max(0, 1000 - (Date.now() - asked))); }

async function ask() {
  waiting = null;
  asked = Date.now();
  const lock = id;
  if (!lock) return;
  try {
    const kind = lock.startsWith("job:") ? "job" : "lock";
    const response = await fetch(`api/lock?kind=${kind}&name=${encodeURIComponent(nameOf(lock))}`);
    const body = await response.json();
    if (lock !== id) return;
    if (!response.ok) throw new Error(body.error);
    answer = body;
    byId("detail-error").hidden = true;
    show();
  } catch (err) {
    if (lock !== id) return;
    byId("detail-error").textContent = `This lock cannot be read: ${err.message}`;
    byId("detail-error").hidden = false;
  }
}

// Parts are drawn anew only if what they show has changed, so that the focus, and text that
// the user has selected, stay.
const drawn = {};
function part(name, key, make) {
  const text = JSON.stringify(key);
  if (drawn[name] === text) return;
  drawn[name] = text;
  byId(name).replaceChildren(...make());
}

function show() {
  const l = answer.lock;
  const without = (list) => list.map(({ age_ms, remaining_ms, waited_ms, ...rest }) => rest);
  const holders = without(l.holders).map(({ expires, trusted_until, lease_ms, ...rest }) => rest);
  part("detail-holders", [holders, state.about.evict], () => l.holders.length ? l.holders.map(holderCard) : [el("li", "none", l.job ? "It does not run." : "Nobody: it is free.")]);
  part("detail-line", [without(l.waiters), l.waiting], () => l.waiters.length ? waiterItems(l) : [el("li", "none", "Nobody waits.")]);
  part("detail-facts", [l.kind, l.fence, l.limit, l.used, l.leader, l.job, l.last_eviction], () => facts(l));
  byId("detail-deadlock").hidden = !l.deadlock.length;
  part("detail-cycle", l.deadlock, () => l.deadlock.map(cycleItem));
  const holds = answer.timeline.holds;
  part("detail-events", answer.timeline.holds, () => events(holds));
  draw(byId("detail-timeline"), answer.timeline);
  if (evicting && !l.holders.some((h) => h.token === evicting.token)) byId("evict-over").hidden = false;
  beat();
}

// cycleItem is one wait of a deadlock. The list draws the cycle: a line leads from each wait to
// the next one, and from the last one back to the first.
function cycleItem(w) {
  const name = (lock) => {
    const button = el("button", "name", lock);
    button.type = "button";
    button.addEventListener("click", () => { if (lock !== nameOf(id)) open(`lock:${lock}`); });
    return button;
  };
  const li = el("li", "", el("strong", "who", w.client));
  if (w.holds) li.append(" holds ", name(w.holds), " and");
  li.append(" waits for ", name(w.waits_for));
  return li;
}

function holderCard(h) {
  const fill = el("span", "fill"), bar = el("span", "bar", fill);
  bar.setAttribute("aria-hidden", "true");
  const li = el("li", "", el("strong", "who", who(h)));
  li.dataset.token = h.token;
  const list = [["for", el("span", "age")], ["since", dateTime(h.since)], [h.released ? "kept" : "lease", el("span", "left")], ["token", el("code", "", h.token)], ["mode", h.mode]];
  if (h.owner) list.push(["owner", h.owner]);
  if (h.mode === "permits") list.push(["permits", String(h.permits)]);
  if (h.entries > 1) list.push(["entries", String(h.entries)]);
  const tags = tagsOf(h);
  if (tags.length) list.push(["tags", tagList(tags)]);
  if (h.version) list.push(["version", h.version]);
  list.push(["client", el("code", "", h.client_id)]);
  const delay = h.lock_delay_ms;
  if (delay) list.push(["lock-delay", `its holder trusts the lease for ${delay < 60000 ? `${delay / 1000}s` : span(delay)} less`]);
  li.append(bar, pairs(list));
  if (state.about.evict && !h.released) {
    const button = el("button", "danger evict", "Evict…");
    button.type = "button";
    button.addEventListener("click", () => askEvict(h));
    li.append(button);
  }
  return li;
}

function waiterItems(l) {
  const items = l.waiters.map(waiterItem), more = l.waiting - l.waiters.length;
  return more > 0 ? [...items, el("li", "none", `and ${more.toLocaleString("en")} more`)] : items;
}

function waiterItem(w) {
  const waited = el("span", "waited");
  waited.dataset.since = w.since;
  const li = el("li", "", el("span", "who", who(w)), " ", waited);
  if (w.mode !== "exclusive") li.append(el("span", "kind", w.mode));
  if (w.owner) li.append(` owner ${w.owner}`);
  if (w.holds.length) li.append(` holds ${w.holds.join(", ")}`);
  const tags = tagsOf(w);
  if (tags.length) li.append(tagList(tags));
  return li;
}

function pairs(list) {
  const dl = el("dl", "facts");
  for (const [name, value] of list) dl.append(el("div", "", el("dt", "", name), el("dd", "", value)));
  return dl;
}

function facts(l) {
  const list = [["kind", l.kind], ["highest token", el("code", "", l.fence)]];
  if (l.limit) list.push(["permits", `${l.used} of ${l.limit}`]);
  if (l.leader) list.push(["leader's value", l.leader.value], ["term", el("code", "", l.leader.term)]);
  if (l.job?.period_ms) list.push(["period", span(l.job.period_ms)], ["next", dateTime(l.job.next)]);
  if (l.last_eviction) list.push(["last eviction", `${dateTime(l.last_eviction.at)} by ${l.last_eviction.by}: ${l.last_eviction.reason}`]);
  return [...pairs(list).childNodes];
}

const endings = {
  "": "holds it", released: "released it", expired: "lost it: the lease expired", evicted: "was evicted",
  gone: "lost it: the record is gone", unseen: "held it until some time between two reads",
};

function events(holds) {
  if (!holds.length) return [el("li", "none", "The page saw no hold.")];
  return holds.toReversed().map((h) => {
    const text = `${timeOfDay(h.start)}${h.end ? " – " + timeOfDay(h.end) : ""} ${h.who} ${endings[h.how] ?? h.how}`;
    const li = el("li", ["expired", "evicted", "gone"].includes(h.how) ? "lost" : "", text + (h.note ? ` (${h.note})` : ""));
    li.append(" ", el("code", "", h.token));
    return li;
  });
}

export function beat() {
  if (!id || !answer) return;
  const l = answer.lock;
  const summary = l.holders.length ? `${l.job ? "runs" : "held"}, ${l.waiting} waiting` : l.waiting ? `free, ${l.waiting} waiting` : l.job ? "does not run" : "free";
  if (byId("detail-state").textContent !== summary) byId("detail-state").textContent = summary;
  for (const h of l.holders) {
    const li = byId("detail-holders").querySelector(`[data-token="${CSS.escape(h.token)}"]`), part = trustLeft(h);
    li.querySelector(".age").textContent = span(ago(time(h.since)));
    li.querySelector(".left").textContent = leaseOf(h);
    li.querySelector(".fill").style.transform = `scaleX(${part.toFixed(3)})`;
    li.querySelector(".bar").dataset.level = part < 0.1 ? "bad" : part < 1 / 3 ? "late" : "good";
  }
  for (const node of byId("detail-line").querySelectorAll(".waited")) node.textContent = `waits ${span(ago(time(node.dataset.since)))}`;
  if (Date.now() - asked > 5000) later(); // the timeline moves on, whether or not the lock has changed
}

// --- eviction -----------------------------------------------------------------------

function askEvict(h) {
  evicting = { name: nameOf(id), token: h.token, job: !id.startsWith("lock:") };
  byId("evict-facts").replaceChildren(...pairs([
    [evicting.job ? "job" : "lock", el("strong", "", evicting.name)], ["holder", who(h)], ["held for", span(ago(time(h.since)))], ["token", el("code", "", h.token)],
  ]).childNodes);
  byId("evict-typed").value = byId("evict-reason").value = "";
  byId(h.ending ? "evict-at-once" : "evict-ask").checked = true;
  byId("evict-by").readOnly = state.about.who !== "";
  if (state.about.who) byId("evict-by").value = state.about.who;
  try { byId("evict-by").value ||= localStorage.getItem("holdfast-by") ?? ""; } catch { /* then the user types it */ }
  byId("evict-error").hidden = byId("evict-over").hidden = true;
  ready();
  byId("evict").showModal();
  byId("evict-typed").focus();
}

function ready() {
  byId("evict-go").disabled = !evicting || byId("evict-typed").value !== evicting.name
    || !byId("evict-by").value.trim() || !byId("evict-reason").value.trim();
}

async function evict(e) {
  e.preventDefault();
  if (byId("evict-go").disabled) return;
  byId("evict-go").disabled = true;
  const by = byId("evict-by").value.trim(), name = evicting.name, atOnce = byId("evict-at-once").checked;
  try { localStorage.setItem("holdfast-by", by); } catch { /* then it is typed again */ }
  try {
    const response = await fetch("api/evict", {
      method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ name, typed: byId("evict-typed").value, by, reason: byId("evict-reason").value.trim(), token: evicting.token, job: evicting.job, at_once: atOnce }),
    });
    const body = await response.json();
    if (!response.ok) throw new Error(body.hint ? `${body.error}: ${body.hint}` : body.error);
    byId("evict").close();
    say(atOnce ? `The holder of ${name} was evicted.` : `The holder of ${name} was asked to end.`);
    later();
  } catch (err) {
    byId("evict-error").textContent = `Not evicted: ${err.message}`;
    byId("evict-error").hidden = false;
    ready();
  }
}

export function watchDetail() {
  byId("detail-close").addEventListener("click", close);
  byId("evict-form").addEventListener("submit", evict);
  byId("evict-form").addEventListener("input", ready);
  byId("evict-cancel").addEventListener("click", () => byId("evict").close());
  byId("evict").addEventListener("close", () => { evicting = null; });
  new ResizeObserver(() => { if (answer && id) draw(byId("detail-timeline"), answer.timeline); }).observe(byId("detail-timeline"));
}
