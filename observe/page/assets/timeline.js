// The timeline of a lock: holds in lanes, and below them how many waited.

import { byId, el, span, time, timeOfDay } from "./util.js";

const ns = "http://www.w3.org/2000/svg";
const laneHeight = 22, gap = 4, waitHeight = 40, axisHeight = 18, maxLanes = 6;

function svg(name, attributes, ...content) {
  const node = document.createElementNS(ns, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...content);
  return node;
}

// The processes of one program on one machine have one colour, the same each time.
const group = (who) => who.replace(/:\d+$/, "");
function hue(text) {
  let n = 7;
  for (const c of text) n = (n * 31 + c.codePointAt(0)) >>> 0;
  return n % 8;
}

const least = 30_000, tenMinutes = 600_000;
const steps = [10_000, 30_000, 60_000, 120_000, 300_000]; // of the axis

const words = { expired: "lease expired", evicted: "evicted", gone: "record gone" };

export function draw(box, t) {
  const width = Math.max(260, box.clientWidth), from = time(t.from), to = time(t.to);
  const end = Math.max(to, from + least); // a young timeline grows from the left
  const x = (at) => Math.max(0, Math.min(width, ((at - from) / (end - from)) * width));
  const whole = to - from >= tenMinutes;
  const title = whole ? "The last 10 minutes" : `Since the first read, ${timeOfDay(from)}`;
  if (byId("h-past").textContent !== title) byId("h-past").textContent = title;
  const lanes = [];
  const placed = t.holds.filter((h) => !h.end || time(h.end) > from).map((h) => {
    const start = time(h.start), end = h.end ? time(h.end) : to;
    let lane = lanes.findIndex((free) => free <= start);
    if (lane < 0) lane = lanes.length < maxLanes ? lanes.push(0) - 1 : maxLanes - 1;
    lanes[lane] = end;
    return { ...h, start, end, lane, lost: h.how in words };
  });
  const heldHeight = Math.max(1, lanes.length) * (laneHeight + gap), height = heldHeight + waitHeight + axisHeight + gap;
  const root = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", class: "past" });
  root.setAttribute("aria-label", summary(placed, t, title));
  let unwatched = from, gaps = false;
  for (const w of [...t.watched, { from: t.to, to: "" }]) { // where nobody looked, little is known
    const start = time(w.from);
    if (start - unwatched > 1000) gaps = true, root.append(svg("rect", { class: "unwatched", x: x(unwatched), y: 0, width: x(start) - x(unwatched), height: heldHeight + waitHeight }));
    unwatched = w.to ? time(w.to) : to;
  }
  const step = steps.find((s) => (end - from) / s <= (width < 420 ? 2 : 5)) ?? tenMinutes;
  for (let past = 0; past <= to - from; past += step) {
    const at = x(to - past);
    root.append(svg("line", { class: "grid", x1: at, x2: at, y1: 0, y2: heldHeight + waitHeight }));
    const anchor = at < 30 ? "start" : at > width - 30 ? "end" : "middle";
    const label = past >= 60_000 ? `−${past / 60_000} min` : past ? `−${past / 1000} s` : "now";
    root.append(svg("text", { class: "tick", x: at, y: height - 4, "text-anchor": anchor }, label));
  }
  for (const h of placed) {
    const left = x(h.start), w = Math.max(1.5, x(h.end) - left), y = h.lane * (laneHeight + gap) + 1;
    const title = `${h.who}, token ${h.token}, ${span(h.end - h.start)}${h.how ? ", " + (words[h.how] ?? h.how) : ""}`;
    const bar = svg("rect", { class: `hold c${hue(group(h.who))}${h.lost ? " lost" : ""}`, x: left, y, width: w, height: laneHeight, rx: 3 });
    bar.append(svg("title", {}, title));
    root.append(bar);
    const chars = Math.floor((w - 8) / 6.6);
    if (chars >= 4) {
      const text = h.who.length > chars ? h.who.slice(0, chars - 1) + "…" : h.who;
      root.append(svg("text", { class: "label", x: left + 5, y: y + 15 }, text));
    }
    if (h.lost) {
      const at = x(h.end);
      root.append(svg("path", { class: "loss", d: `M${at - 4} ${y + 7}l8 8m0 -8l-8 8M${at} ${y - 1}v${laneHeight + 2}` }, svg("title", {}, title)));
    }
  }
  root.append(...waiting(t, x, from, to, heldHeight));
  const names = [...new Set(placed.map((h) => group(h.who)))];
  const legend = el("p", "legend");
  for (const name of names.slice(0, 8)) legend.append(el("span", `key c${hue(name)}`, name));
  if (names.length > 8) legend.append(el("span", "key", `and ${names.length - 8} more`));
  if (placed.some((h) => h.lost)) legend.append(el("span", "key lost", "✕ lease lost"));
  if (gaps) legend.append(el("span", "key unwatched", "nobody looked"));
  box.replaceChildren(root, legend);
}

function waiting(t, x, from, to, top) {
  const most = Math.max(1, ...t.waiting.map((c) => c.n));
  const y = (n) => top + waitHeight - (n / most) * (waitHeight - 12);
  let n = 0, path = "";
  for (const c of t.waiting) {
    const at = x(time(c.at));
    path += path ? `L${at} ${y(n)}L${at} ${y(c.n)}` : `M${at} ${y(0)}L${at} ${y(c.n)}`;
    n = c.n;
  }
  const parts = [svg("text", { class: "tick", x: 2, y: top + 10 }, t.waiting.length ? `waiting, at most ${most}` : "waiting: none")];
  if (path) parts.unshift(svg("path", { class: "waits", d: `${path}L${x(to)} ${y(n)}L${x(to)} ${y(0)}Z` }));
  return parts;
}

function summary(holds, t, title) {
  const lost = holds.filter((h) => h.lost).length;
  const most = Math.max(0, ...t.waiting.map((c) => c.n));
  return `Timeline. ${title}: ${holds.length} holds, ${lost} of them lost, at most ${most} waiting. The list below says the same in words.`;
}
