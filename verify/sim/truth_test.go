package sim

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/script"
)

// truth is what happened at the server: the holders of each lock, by its clock, read from
// the records before and after every action.
type truth struct {
	locks map[string]*record // by key
}

// record is one lock's.
type record struct {
	holds   map[string]held // by attempt
	line    []string        // attempts, in order
	silent  []string        // clients that did not confirm what was pushed to them
	until   int64           // until when waiters may answer who is there
	absent  []string        // attempts that have not answered that
	skipped []string        // attempts that a step does not visit before they ask
	highest int64           // token
	free    time.Duration   // since when nobody holds it, by the scheduler's clock
}

// held is one hold.
type held struct {
	mode   byte
	weight int64
	token  int64
	expiry int64 // ms of the server's clock
	kept   bool  // released
	ending bool  // an operator has asked for its end
}

func (w *world) serverNow() int64 { return w.serverClock().UnixMilli() }

func (w *world) lock(key string) *record {
	r := w.locks[key]
	if r == nil {
		r = &record{holds: map[string]held{}}
		w.locks[key] = r
	}
	return r
}

// execute is an action at the server, and the judgement of what it did.
func (w *world) execute(c *call) reply {
	answer, err := w.store.Run(context.Background(), c.action, c.keys, c.args)
	w.counts[c.action.Name]++
	if err != nil {
		w.violatef("the server refuses %s: %v", c.says, err)
		return reply{err: err}
	}
	for i, key := range c.keys {
		if c.action != script.RegisterClient && c.action != script.ReadClient {
			w.judge(c, i, key, answer)
		}
	}
	return reply{answer: answer}
}

// judge asserts the invariants on one record after an action.
func (w *world) judge(c *call, i int, key, answer string) {
	r, now := w.lock(key), w.serverNow()
	before, line, skipped := r.holds, r.line, r.skipped
	fields := w.store.Dump(key)
	r.holds, r.line, r.silent = holdsOf(fields), queueOf(fields), silentOf(fields)
	r.skipped = skippedOf(fields, r.line)
	open := r.until > now
	if r.until, r.absent = askedOf(fields, r.line); open {
		r.absent = nil // while waiters may answer, nobody is passed over
	}
	if life := w.store.TTL(key); fields != nil && (life < 0 || life > w.longest()) {
		w.violatef("I2: %s lives for %v after %s", key, life, c.says)
	}
	w.excluded(key, r, now)
	w.ended(c, i, key, before, r, now)
	for _, id := range slices.Sorted(maps.Keys(r.holds)) {
		h, was := r.holds[id], before[id]
		switch {
		case h.token == was.token:
			if h.expiry < was.expiry && c.action != script.ReleaseAfter && c.action != script.Lessen {
				w.violatef("I5: the lease of %s was shortened by %s", id, c.says)
			}
			if h.expiry > was.expiry && was.ending {
				w.violatef("the lease of %s, which is to end, was made longer by %s", id, c.says)
			}
			if h.expiry > was.expiry && was.expiry <= now && c.action == script.Renew {
				w.violatef("I4: the lease of %s was over, and renewed by %s", id, c.says)
			}
			continue
		case h.token <= r.highest:
			w.violatef("I3: token %d was granted after %d by %s", h.token, r.highest, c.says)
		case was.expiry > now && c.action != script.Convert:
			w.violatef("I5: %s held token %d and was granted %d by %s", id, was.token, h.token, c.says)
		}
		if c.action != script.Convert {
			w.inOrder(id, slices.DeleteFunc(slices.Clone(line), func(other string) bool {
				return other != id && slices.Contains(skipped, other)
			}), r, c, i)
		}
	}
	for _, h := range r.holds {
		r.highest = max(r.highest, h.token)
	}
	if c.action != script.Release || len(before) > 0 { // a repeated release ends nothing, and serves nobody
		w.served(c, key, r, answer, now)
	}
	w.said(c, key, r, answer)
	live := false
	for _, h := range r.holds {
		live = live || h.expiry > now
	}
	if live {
		r.free = 0
	} else if r.free == 0 {
		r.free = w.now()
	}
}

// longest is how long a record may live: for a lease or a waiter's patience, the
// retention, and what the server's clock was set back.
func (w *world) longest() time.Duration {
	return 6*max(2*w.ttl, time.Second) + 4*w.ttl + w.delayed() + w.retention + setBack
}

// excluded asserts I1.
func (w *world) excluded(key string, r *record, now int64) {
	var live []held
	used := int64(0)
	for _, h := range r.holds {
		if h.expiry > now {
			live, used = append(live, h), used+h.weight
		}
	}
	for _, h := range live {
		if len(live) > 1 && (h.mode == 'x' || h.mode != live[0].mode) {
			w.violatef("I1: %s is held by %d at a time, by one as %c", key, len(live), h.mode)
		}
	}
	if o := w.object(key); o.kind == 's' && used > int64(o.limit) {
		w.violatef("I1: %d of %d permits of %s are held", used, o.limit, key)
	}
}

// ended asserts I4: a hold whose lease is not over ends by an action of its own.
func (w *world) ended(c *call, i int, key string, before map[string]held, r *record, now int64) {
	for id, was := range before {
		if _, still := r.holds[id]; still || was.expiry <= now {
			continue
		}
		switch c.action {
		case script.Release, script.Cancel, script.ReleaseAfter:
			if c.args[0] == id {
				continue
			}
		case script.ReleaseIdle:
			if c.args[i] == id {
				continue
			}
		case script.Evict:
			if len(c.args) < 8 || was.kept { // else it asks, and ends nothing
				continue
			}
		}
		w.violatef("I4: the hold of %s on %s was ended by %s", id, key, c.says)
	}
}

// attentive says whether the client of an attempt listens for grants of the lock.
func (w *world) attentive(key, id string) bool {
	client, _, _ := strings.Cut(id, "/")
	channel := "holdfast:push:" + client
	if w.sharded {
		channel = "holdfast:push:" + strings.TrimPrefix(key, "holdfast:") + ":" + client
	}
	for _, l := range w.links {
		if l.client.ID() == client {
			return slices.ContainsFunc(l.subs, func(s *sub) bool { return s.unsub != nil && s.channel == channel })
		}
	}
	return false
}

// inOrder asserts I6: a grant skips no waiter that listens.
func (w *world) inOrder(id string, line []string, r *record, c *call, i int) {
	w.counts["grants"]++
	for _, other := range line {
		if other == id {
			return
		}
		if slices.Contains(r.line, other) && w.attentive(c.keys[i], other) && !r.hushed(other) &&
			!slices.Contains(r.absent, other) {
			w.violatef("I6: %s was granted past %s by %s", id, other, c.says)
		}
	}
}

// served asserts I7: a script that serves the queue leaves no lock free that has a waiter
// that listens.
func (w *world) served(c *call, key string, r *record, answer string, now int64) {
	switch c.action {
	case script.Acquire, script.Poll, script.Release, script.Cancel:
	default:
		return
	}
	refused := answer == "gone" || answer == "none" || strings.HasPrefix(answer, "conflict")
	if refused || len(r.holds) > 0 || r.until > now {
		return
	}
	for _, id := range r.line {
		if w.attentive(key, id) && !r.hushed(id) && !slices.Contains(r.absent, id) {
			w.violatef("I7: the lock is free, and %s waits, after %s", id, c.says)
		}
	}
}

// said asserts that an answer is the record's.
func (w *world) said(c *call, key string, r *record, answer string) {
	words := strings.Fields(answer)
	switch c.action {
	case script.Acquire, script.Poll, script.Convert:
		if words[0] == "granted" && r.holds[c.args[0]].token != number(words[1]) {
			w.violatef("%s is told %q, and holds %+v", c.args[0], answer, r.holds[c.args[0]])
		}
		if words[0] == "queued" && !slices.Contains(r.line, c.args[0]) {
			w.violatef("%s is told %q, and does not wait for %s", c.args[0], answer, key)
		}
	}
}

// forget is the server's loss of memory, or an operator's act: what was true is no more.
func (w *world) forget() {
	for _, r := range w.locks {
		r.holds, r.line = map[string]held{}, nil
	}
	w.excuse = max(w.excuse, w.now()+4*w.ttl)
}

// nothingHeld asserts that everything was given back.
func (w *world) nothingHeld() {
	for _, o := range w.objects {
		key := "holdfast:{" + o.name + "}"
		fields := w.store.Dump(key)
		for id, h := range holdsOf(fields) {
			if h.expiry > w.serverNow() {
				w.violatef("I7: %s still holds %s", id, key)
			}
		}
	}
}

// object is the lock at a key.
func (w *world) object(key string) *object {
	for _, o := range w.objects {
		if key == "holdfast:{"+o.name+"}" {
			return o
		}
	}
	panic("no lock at " + key)
}

// holdsOf are the holds in a record, live or not.
func holdsOf(fields map[string]string) map[string]held {
	holds := map[string]held{}
	if words := strings.Fields(fields["lock"]); len(words) > 2 && words[2] != "-" {
		token, ids := number(words[0]), words[2]
		if entries := fields["entries"]; entries != "" { // given up, and left taken for a while
			ids = entries
		}
		for id := range strings.FieldsSeq(ids) {
			holds[id] = held{
				mode: 'x', weight: 1, token: token, expiry: token/1000 + number(words[1]),
				kept:   fields["entries"] != "",
				ending: strings.HasPrefix(strings.TrimPrefix(words[1], "-"), "00"),
			}
		}
	}
	for field, value := range fields {
		if id, ok := strings.CutPrefix(field, "h:"); ok {
			words := strings.Fields(value) // MODE EXPIRY WEIGHT TOKEN SINCE
			holds[id] = held{
				mode: words[0][0], expiry: number(words[1]), weight: number(words[2]), token: number(words[3]),
				ending: strings.HasPrefix(words[1], "00"),
			}
		}
	}
	return holds
}

// queueOf is the attempts in the queue of a record, in order.
func queueOf(fields map[string]string) (ids []string) {
	if words := strings.Fields(fields["lock"]); len(words) == 9 { // the only waiter is part of the field lock
		return words[8:]
	}
	positions := map[string]int64{}
	for field, id := range fields {
		if position, ok := strings.CutPrefix(field, "#"); ok {
			positions[id] = number(position)
		}
	}
	return slices.SortedFunc(maps.Keys(positions), func(a, b string) int { return int(positions[a] - positions[b]) })
}

// skippedOf are the attempts between the places near HEAD and CURSOR, see docs/protocol.md.
// Earlier steps have skipped them. They are visited again after they have asked.
func skippedOf(fields map[string]string, line []string) (ids []string) {
	words := strings.Fields(fields["queue"])
	for _, word := range words {
		cursor, ok := strings.CutPrefix(word, ">")
		if !ok {
			continue
		}
		for _, id := range line {
			place := number(strings.Fields(fields["w:"+id])[0])
			if place >= number(words[1])+nearHead && place < number(cursor) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// askedOf says until when waiters may answer who is there, and who of them has not done so.
func askedOf(fields map[string]string, line []string) (until int64, ids []string) {
	for word := range strings.FieldsSeq(fields["queue"]) {
		words, ok := strings.CutPrefix(word, "?")
		if !ok {
			continue
		}
		all := strings.Split(words, ":") // UNTIL END PLACE…
		until = number(all[0])
		for _, id := range line {
			place := strings.Fields(fields["w:"+id])[0]
			if number(place) < number(all[1]) && !slices.Contains(all[2:], place) {
				ids = append(ids, id)
			}
		}
	}
	return until, ids
}

// nearHead is how many places from HEAD on each step visits.
const nearHead = 64

// silentOf are the clients in a record that did not confirm what was pushed to them.
func silentOf(fields map[string]string) (clients []string) {
	for i, word := range strings.Fields(fields["queue"]) {
		if i > 2 && !strings.ContainsAny(word[:1], "~>?") {
			clients = append(clients, word)
		}
	}
	return clients
}

// hushed says whether the client of an attempt was silent: it is skipped until it asks.
func (r *record) hushed(id string) bool {
	client, _, _ := strings.Cut(id, "/")
	return slices.Contains(r.silent, client)
}

func number(word string) int64 {
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		panic("not a number: " + strconv.Quote(word))
	}
	return n
}
