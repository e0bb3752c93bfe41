// What all parts of the page share.

export function byId(id) { return document.getElementById(id); }

export function el(name, className, ...content) {
  const node = document.createElement(name);
  if (className) node.className = className;
  node.append(...content);
  return node;
}

// who names a holder or a waiter.
export function who(c) {
  return c.app || c.host ? `${c.app}@${c.host}:${c.pid}` : `client ${c.client_id}`;
}

// tagsOf are the tags of a holder or a waiter, each as a text.
export function tagsOf(c) {
  const word = (text) => (/[\s="]/.test(text) ? JSON.stringify(text) : text);
  return Object.entries(c.tags).map(([key, value]) => `${word(key)}=${word(value)}`);
}

// tagList shows each tag by itself, so that one can tell where a long one ends.
export function tagList(tags) {
  const list = el("span", "tags");
  for (const tag of tags) list.append(el("span", "tag", tag), " ");
  return list;
}

// span writes a length of time as people read it.
export function span(ms) {
  if (ms < 0) return "0s";
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m ${String(s % 60).padStart(2, "0")}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h ${String(Math.floor(s / 60) % 60).padStart(2, "0")}m`;
  return `${Math.floor(s / 86400)}d ${Math.floor(s / 3600) % 24}h`;
}

let clock = 0; // the server's clock is ahead of this browser's by this
let readAt = 0; // when the last read of the locks began, by the server's clock
let stopped = null; // since when the page is not live, by the server's clock

// now is the time of the server's clock. It stands still while the page is not live.
export function now() { return stopped ?? Date.now() + clock; }

// ago is how long ago a time of the server's clock was.
export function ago(time) { return now() - time; }

export function setClock(now, read) {
  clock = Date.parse(now) - Date.now();
  readAt = time(read);
}

// stop makes the clock stand still at a time, and go on with null.
export function stop(at) { stopped = at; }

// leaseLeft is what is left of a lease. Only a read tells that a lease has expired: it may have been renewed since
// the last one.
export function leaseLeft(expires) {
  const left = -ago(expires);
  return left > 0 ? span(left) : expires <= readAt ? "expired" : "0s";
}

// leaseOf says when a holder's lease ends, in the words of holdfast status.
export function leaseOf(h) {
  const left = leaseLeft(time(h.expires)), trust = leaseLeft(time(h.trusted_until));
  if (left === "expired") return left;
  if (h.released) return `released, and kept for another ${left}`;
  if (h.ending) return `ends in ${left} at the latest, because an operator has asked for that`;
  if (h.trusted_until === h.expires) return `expires in ${left} unless renewed`;
  if (trust === "expired") return `not renewed in time: others get the lock in ${left}`;
  return `expires in ${left} unless renewed, trusted for ${trust}`;
}

// trustLeft is the part of its lease that a holder may still trust: 1 after a renewal, 0 at the end.
export function trustLeft(h) {
  return Math.max(0, Math.min(1, -ago(time(h.trusted_until)) / Math.max(1, h.lease_ms - h.lock_delay_ms)));
}

// Times are those of the viewer, and say in which zone.
export const dateTime = (at) => new Date(at).toLocaleString(undefined, { timeZoneName: "short" });
export const timeOfDay = (at) => new Date(at).toLocaleTimeString(undefined, { timeZoneName: "short" });

export const time = (text) => (text ? Date.parse(text) : 0);

// say tells it to a screen reader.
let sayTimer;
export function say(text, after = 0) {
  clearTimeout(sayTimer);
  sayTimer = setTimeout(() => { byId("say").textContent = text; }, after);
}

// state is what the stream has told.
export const state = { locks: new Map(), about: {} };
