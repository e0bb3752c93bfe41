package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"pgregory.net/rapid"
)

// machine takes random steps, like clients that keep to the protocol.
type machine struct {
	*world
	model
	before  map[string]string // the record before the step
	at      int64             // when the last step was taken, ms
	pushed  []int64           // tokens that the last step pushed
	numbers map[string]int
	setBack time.Duration // by how much the clock was set back in sum
}

var (
	clients = []string{"c1", "c2", "c3", "c4"}
	wants   = []string{"x", "x", "x", "s", "s", "p:1:3", "p:2:3", "p:3:3", "p:1:2"}
)

const (
	retention  = 60_000
	mostBack   = 50 * time.Second // less than the retention, or tokens may repeat
	mostLeases = 3
)

func newMachine(w *world) *machine {
	return &machine{
		world:   w,
		model:   model{rt: w.rt, attempts: map[string]*attempt{}},
		numbers: map[string]int{},
	}
}

// step takes one step, twice if it is one that must not matter twice, and
// judges what it showed.
func (m *machine) step(twice bool, action *script.Script, words ...any) string {
	w := m.world
	var asks *attempt
	switch action {
	case script.Acquire, script.Poll, script.Convert, script.AcquireAll:
		asks = m.attempts[words[0].(string)]
	}
	w.micros += rapid.SampledFrom([]int64{0, 0, 1, 700, 1500}).Draw(w.rt, "micros")
	m.before = w.spec.Dump(key)
	args := make([]string, len(words))
	for i, word := range words {
		args[i] = fmt.Sprint(word)
	}
	keys := []string{key}
	if action == script.Renew {
		keys = slices.Repeat(keys, len(args)-2)
	}
	now := w.now()
	m.at = now
	o := w.run(action, keys, args)
	if action == script.AcquireFree && strings.HasSuffix(o.answer, " 1") {
		asks = m.attempts[args[2]]
	}
	if action == script.Convert && strings.HasPrefix(o.answer, "granted") {
		m.stepped(asks, args[2], number(strings.Fields(o.answer)[1]), now, number(args[3]))
		asks = nil
	}
	m.told(asks, o, now)
	m.order(action, o, now)
	if twice && w.now() == now {
		again := w.run(action, keys, args)
		if again.answer != o.answer {
			w.rt.Fatalf("I5: answered %q, and to the same request again %q", o.answer, again.answer)
		}
		if !maps.Equal(again.fields, o.fields) || len(again.pushes) > 0 {
			w.rt.Fatalf("I5: the same request again changed the record or pushed %q", again.pushes)
		}
	}
	return o.answer
}

// grant is one that a step told of.
type grant struct {
	attempt *attempt
	token   int64
	lease   int64 // ms
}

// toldWatchers asserts that watchers are told nothing false: nobody holds the lock
// exclusively now, or nobody held it when this step began.
func (m *machine) toldWatchers(words []string, push string, o outcome, now int64) {
	if !strings.HasSuffix(m.before["lock"], "!") {
		m.world.rt.Fatalf("pushed %q, and nobody watched", push)
	}
	switch {
	case words[0] == "sooner":
	case len(words) != 5 || words[0] != "free":
		m.world.rt.Fatalf("pushed %q", push)
	case words[4] != m.before["birth"]:
		m.world.rt.Fatalf("pushed %q, of a record that was born at %s", push, m.before["birth"])
	case holderOf(o.fields) != "" && len(recorded(m.before, now)) > 0:
		m.world.rt.Fatalf("pushed %q, and %s has got the lock", push, holderOf(o.fields))
	}
}

// told notes the grants that a step pushed, and the one that it answered, in
// the order of their tokens.
func (m *machine) told(asks *attempt, o outcome, now int64) {
	var grants []grant
	m.pushed = nil
	for _, push := range o.pushes {
		// CLIENT granted ATTEMPT TOKEN WAITING NOW LEASE, CLIENT kept ATTEMPT LEFT, or
		// CLIENT evicted ATTEMPT
		words := strings.Fields(push)
		if words[0] == news {
			m.toldWatchers(words[1:], push, o, now)
			continue
		}
		if words[1] == "evicted" && recorded(m.before, now)[words[2]] != 0 {
			continue
		}
		a := m.attempts[words[2]]
		if words[1] == "kept" && a.client() == words[0] && slices.Contains(queued(o.fields), a.id) {
			continue
		}
		if words[1] != "granted" || a.client() != words[0] {
			m.world.rt.Fatalf("pushed %q", push)
		}
		if number(words[5]) != now || number(words[6]) > a.ttl {
			m.world.rt.Fatalf("pushed %q at %d to an attempt that asked for %d", push, now, a.ttl)
		}
		grants = append(grants, grant{a, number(words[3]), number(words[6])})
		m.pushed = append(m.pushed, number(words[3]))
	}
	if words := strings.Fields(o.answer); words[0] == "granted" && asks != nil {
		grants = append(grants, grant{asks, number(words[1]), asks.ttl})
	}
	// The other grants of a token came with the exclusive one.
	slices.SortStableFunc(grants, func(a, b grant) int {
		return cmp.Or(cmp.Compare(a.token, b.token), -cmp.Compare(a.attempt.want, b.attempt.want))
	})
	for _, g := range grants {
		m.granted(g.attempt, g.token, now, g.lease)
	}
}

// Check is done after every step.
func (m *machine) Check(*rapid.T) {
	m.check(outcome{fields: m.spec.Dump(key), life: m.spec.TTL(key)}, m.now())
}

// order asserts I6 and I7. A grant, from the queue or without waiting, skips no waiter
// that listens; a further entry of an owner need not wait. If a lock is free after a
// script that serves the queue, no waiter in it listens, unless waiters may still answer who is there.
func (m *machine) order(action *script.Script, o outcome, now int64) {
	waited, waiting := queued(m.before), queued(o.fields)
	open, _, _ := asking(m.before) // while waiters may answer, nobody is passed over
	attentive := func(id string) bool {
		client := m.attempts[id].client()
		return m.listening[client] != nil && !slices.Contains(silent(o.fields), client) &&
			patience(o.fields, id) > now && (open > now || !passedOver(o.fields, id, now))
	}
	held := recorded(o.fields, now)
	heldBefore := recorded(m.before, now)
	for id := range held {
		entry := slices.Index(strings.Fields(o.fields["entries"]), id)
		// An attempt that released a kept lock is not granted it, not even after its lease.
		kept := holderOf(o.fields) == "%kept" || holderOf(o.fields) == "@%kept"
		if action == script.Resume && len(heldBefore) > 0 {
			continue // past the queue, which waits for that leader anyway
		}
		if heldBefore[id] != 0 || m.enters(id, waited, heldBefore, held) || entry > 0 || kept && entry == 0 {
			continue
		}
		front := waiting // everybody is in front of a newcomer
		if i := slices.Index(waited, id); i >= 0 {
			front = waited[:i]
		}
		for _, other := range front {
			if slices.Contains(waiting, other) && attentive(other) {
				m.world.rt.Fatalf("I6: %s was granted past %s", id, other)
			}
		}
	}
	if until, _, _ := asking(o.fields); len(held) == 0 && until <= now && m.served(action, o) {
		for _, id := range waiting {
			if slices.Contains(waited, id) && attentive(id) {
				m.world.rt.Fatalf("I7: the lock is free, and %s waits", id)
			}
		}
	}
}

// served says whether a step served the queue. A request for the lock does, unless it is
// refused. A release does, if there was a hold and no other entry of its owner remains.
func (m *machine) served(action *script.Script, o outcome) bool {
	switch action {
	case script.Acquire:
		return !strings.HasPrefix(o.answer, "conflict")
	case script.Poll, script.AcquireAll, script.AwaitFree:
		return true
	case script.Lessen:
		return o.answer != "gone"
	case script.SetLimit:
		return o.answer != "idle" || !maps.Equal(m.before, o.fields)
	case script.Evict:
		return !strings.HasPrefix(o.answer, "changed")
	case script.Release, script.Cancel, script.ReleaseAfter:
		return !maps.Equal(m.before, o.fields) && holderOf(o.fields) == ""
	}
	return false
}

// enters says whether an attempt need not wait in the queue: its owner holds the lock,
// and held it before or was granted it from the queue just now.
func (m *machine) enters(id string, waited []string, before, after map[string]int64) bool {
	for other := range after {
		a, b := m.attempts[id], m.attempts[other]
		was := before[other] != 0 || slices.Contains(waited, other)
		if was && other != id && a.owner != "" && a.owner == b.owner {
			return true
		}
	}
	return false
}

// fresh makes a new attempt.
func (m *machine) fresh(rt *rapid.T) *attempt {
	client := rapid.SampledFrom(clients).Draw(rt, "client")
	m.numbers[client]++
	delay := rapid.SampledFrom([]string{"", "", "~2000"}).Draw(rt, "delay") // of its lock; no script reads it
	a := &attempt{
		id:    client + "/" + strconv.Itoa(m.numbers[client]) + delay,
		owner: rapid.SampledFrom([]string{"", "", "alice", "bob"}).Draw(rt, "owner"),
		want:  rapid.SampledFrom(wants).Draw(rt, "want"),
		ttl:   rapid.SampledFrom([]int64{1, 2000, 10_000, 30_000}).Draw(rt, "ttl"),
	}
	m.attempts[a.id] = a
	return a
}

// known picks an attempt made before, more often one that holds or waits.
func (m *machine) known(rt *rapid.T) *attempt {
	var near []string
	for _, h := range m.holds {
		near = append(near, slices.Collect(maps.Keys(h.entries))...)
	}
	near = append(near, queued(m.spec.Dump(key))...)
	slices.Sort(near)
	all := slices.Sorted(maps.Keys(m.attempts))
	if len(all) == 0 {
		rt.Skip("no attempt yet")
	}
	if len(near) > 0 && rapid.IntRange(0, 3).Draw(rt, "near") > 0 {
		all = near
	}
	return m.attempts[rapid.SampledFrom(all).Draw(rt, "attempt")]
}

// owned puts the owner behind the words, if there is one.
func owned(a *attempt, words ...any) []any {
	if a.owner != "" {
		words = append(words, a.owner)
	}
	return words
}

func (m *machine) ask(rt *rapid.T, a *attempt) {
	patience := rapid.SampledFrom([]int64{0, 3000, 20_000, 60_000, 60_000}).Draw(rt, "patience")
	if waits := slices.Contains(queued(m.spec.Dump(key)), a.id); waits && patience == 0 {
		patience = 3000 // a waiter does not ask for no position
	}
	answer := m.step(true, script.Acquire, owned(a, a.id, a.ttl, a.ttl+retention, a.want, patience, base)...)
	m.refused(a, answer)
}

// refused asserts that a holder is not told that it does not hold.
func (m *machine) refused(a *attempt, answer string) {
	if !strings.HasPrefix(answer, "granted") && m.lasts(m.of(a.id), m.at) {
		m.world.rt.Fatalf("I5: %s holds and is answered %q", a.id, answer)
	}
}

// lasts reports whether a hold is live and may be prolonged: no operator has asked for its end.
func (m *machine) lasts(h *hold, now int64) bool { return m.live(h, now) && !h.asked }

// Acquire and Again are the requests of a new attempt and of an old one.
func (m *machine) Acquire(rt *rapid.T) { m.ask(rt, m.fresh(rt)) }
func (m *machine) Again(rt *rapid.T)   { m.ask(rt, m.known(rt)) }

// AcquireFree and ReleaseIdle are what a request becomes in a batch. A later copy does
// nothing and says so, unlike the first: the sender then asks with acquire or release.
func (m *machine) AcquireFree(rt *rapid.T) {
	a := m.fresh(rt)
	a.want, a.owner = "x", ""
	m.step(false, script.AcquireFree, a.ttl, a.ttl+retention, a.id)
}

func (m *machine) ReleaseIdle(rt *rapid.T) {
	a := m.known(rt)
	answer := m.step(false, script.ReleaseIdle, a.id)
	h := m.of(a.id)
	switch {
	case answer == "released 1":
		m.ends(a.id)
	case m.live(h, m.at) && h.mode == "x" && a.owner == "" && len(queued(m.before)) == 0 &&
		!strings.HasSuffix(m.before["lock"], "!"): // a watcher is told by a release of its own
		rt.Fatalf("%s held alone, and its release is answered %q", a.id, answer)
	}
}

func (m *machine) Poll(rt *rapid.T) {
	a := m.known(rt)
	m.refused(a, m.step(true, script.Poll, owned(a, a.id, a.ttl, retention, 20_000, base)...))
}

func (m *machine) Release(rt *rapid.T) {
	a := m.known(rt)
	if a.token == 0 {
		rt.Skip("never granted")
	}
	answer := m.step(true, script.Release, owned(a, a.id, a.token, retention, base)...)
	if answer == "gone" && m.live(m.of(a.id), m.at) {
		rt.Fatalf("%s held and was told that it did not", a.id)
	}
	m.ends(a.id)
}

func (m *machine) ReleaseAfter(rt *rapid.T) {
	a := m.known(rt)
	if a.token == 0 || a.want != "x" {
		rt.Skip("never granted, or a share")
	}
	h := m.of(a.id)
	if h != nil && h.mode != "x" {
		rt.Skip("it has downgraded")
	}
	least := rapid.SampledFrom([]int64{0, 1, 3000, 40_000}).Draw(rt, "least")
	after := rapid.SampledFrom([]int64{0, 0, 2000, 20_000}).Draw(rt, "after")
	args := owned(a, a.id, a.token, least, after, retention, base)
	answer := strings.Fields(m.step(true, script.ReleaseAfter, args...))
	switch {
	case answer[0] == "gone" && m.live(h, m.at):
		rt.Fatalf("%s held and was told that it did not", a.id)
	case answer[0] == "kept" && h != nil && h.asked:
		rt.Fatalf("%s was asked to end, and the lock is kept", a.id)
	case answer[0] == "kept":
		m.keep(a, m.at+number(answer[1]))
	case answer[0] == "held" && h != nil && !h.asked:
		h.expiry = max(h.expiry, m.at+after, min(m.at, h.token/1000)+least)
	}
	m.ends(a.id)
}

func (m *machine) Cancel(rt *rapid.T) {
	a := m.known(rt)
	answer := m.step(false, script.Cancel, owned(a, a.id, retention, base)...)
	if answer != "released" && m.live(m.of(a.id), m.at) {
		rt.Fatalf("%s held, and its cancel was answered %q", a.id, answer)
	}
	m.ends(a.id)
}

func (m *machine) Renew(rt *rapid.T) {
	var words []any
	var asked []*attempt
	for range rapid.IntRange(1, mostLeases).Draw(rt, "leases") {
		a := m.known(rt)
		asked = append(asked, a)
		if words == nil {
			words = []any{retention, a.ttl}
		}
		words = append(words, wire.LeaseWord(a.id, fmt.Sprint(a.ttl), a.owner, fmt.Sprint(words[1])))
	}
	answers := strings.Fields(m.step(true, script.Renew, words...))[1:]
	for i, a := range asked {
		h := m.of(a.id)
		renewed := answers[i] != "-" && answers[i] != "evicted"
		if renewed != m.lasts(h, m.at) {
			rt.Fatalf("the renewal of %s is answered %q, its client believed in %+v", a.id, answers[i], h)
		}
		if renewed {
			h.expiry = max(h.expiry, m.at+a.ttl)
		}
	}
}

// Step goes down and up, under the token that the client knows.
func (m *machine) Convert(rt *rapid.T) {
	a := m.known(rt)
	if a.token == 0 {
		rt.Skip("never granted")
	}
	h, want := m.of(a.id), pick(rt, "s", "x")
	was := ""
	if h != nil {
		was = h.mode
	}
	others := len(m.holds)
	answer := m.step(true, script.Convert, owned(a, a.id, a.token, want, a.ttl, retention, base)...)
	word, _, _ := strings.Cut(answer, " ")
	mine := m.lasts(h, m.at) && was != "p"
	if mine == (word == "gone") {
		rt.Fatalf("a step of %s to %s is answered %q, its client believed in %+v", a.id, want, answer, h)
	}
	if word == "busy" && others == 1 && len(h.entries) == 1 {
		rt.Fatalf("a step of %s, who is alone, is answered %q", a.id, answer)
	}
}

// Limit changes how many permits there are.
func (m *machine) SetLimit(rt *rapid.T) {
	m.step(true, script.SetLimit, pick(rt, 1, 2, 3, 4), retention, base)
}

// Lessen never makes more of a hold, and keeps a hold that lives.
func (m *machine) Lessen(rt *rapid.T) {
	a := m.known(rt)
	if a.owner != "" {
		rt.Skip("a named owner's hold is not lessened")
	}
	h := m.of(a.id)
	ttl, permits := pick(rt, 0, 0, 1, 2000, 40_000), pick(rt, 0, 0, 1, 2, 5)
	if h != nil && permits > 0 {
		h.weight = min(h.weight, int64(permits)) // the same step may grant the others
	}
	answer := strings.Fields(m.step(true, script.Lessen, a.id, ttl, permits, retention, base))
	if lives := answer[0] != "gone"; lives != m.live(h, m.at) {
		rt.Fatalf("%s, which believes in %+v, is answered %q", a.id, h, answer)
	}
	if h != nil && ttl > 0 && answer[0] != "gone" {
		h.expiry = min(h.expiry, m.at+int64(ttl))
	}
}

// AwaitFree says that a try would get the lock: then a try gets it. A try of a silent client
// may wake its waiters, which come first.
func (m *machine) AwaitFree(rt *rapid.T) {
	want := rapid.SampledFrom(wants).Draw(rt, "want")
	watches := pick(rt, "0", "1")
	// If there is news and nobody hears it, the mark of this watch goes with it.
	heard := watches == "0" || m.listening[news] != nil
	if m.step(heard, script.AwaitFree, want, watches, retention, base) != "free" {
		return
	}
	a := m.fresh(rt)
	a.owner, a.want = "", want
	quiet := slices.Contains(silent(m.spec.Dump(key)), a.client())
	answer := m.step(true, script.Acquire, a.id, a.ttl, a.ttl+retention, a.want, 0, base)
	if !quiet && !strings.HasPrefix(answer, "granted ") {
		rt.Fatalf("the lock was free for %s, and a try is answered %q", want, answer)
	}
}

// Gather asks for the lock as one of several, of which it is the only one here.
func (m *machine) AcquireAll(rt *rapid.T) {
	a := m.fresh(rt)
	a.owner, a.want = "", "x"
	m.step(true, script.AcquireAll, a.id, a.ttl, retention, base)
}

// Proclaim is heard only if the attempt holds with the token that it was granted.
func (m *machine) Proclaim(rt *rapid.T) {
	a := m.known(rt)
	answer := m.step(true, script.Proclaim, a.id, a.token, pick(rt, 1, 2, 3), pick(rt, "", "=a", "=b"),
		"oracle:watch", retention)
	h := m.of(a.id)
	if leads := m.live(h, m.at) && h.mode == "x" && h.owner == ""; leads != (answer != "gone") {
		rt.Fatalf("%s, which believes in %+v, is answered %q", a.id, h, answer)
	}
}

// Resume takes over from an attempt that holds with the token that it was granted, and from
// no other. The former holds no more.
func (m *machine) Resume(rt *rapid.T) {
	former := m.known(rt)
	h := m.of(former.id)
	leads := h != nil && h.mode == "x" && h.owner == "" && !h.kept
	a := m.fresh(rt)
	a.want, a.owner = "x", ""
	if leads {
		m.ends(former.id) // its client may believe in it: the caller waits until it cannot
	}
	args := []any{a.id, former.id, former.token, a.ttl, retention, "oracle:watch", base}
	answer := strings.Fields(m.step(false, script.Resume, args...))
	lives := leads && h.expiry > m.at && !h.asked
	if lives != (answer[0] == "resumed") {
		rt.Fatalf("%s resumes %+v and is answered %q", a.id, h, answer)
	}
	if !lives {
		if leads { // it has expired, and is live again if the clock is set back
			h.entries[former.id] = true
			m.holds = append(m.holds, h)
		}
		return
	}
	left := number(answer[3])
	if left < h.expiry-m.at {
		rt.Fatalf("the former believes for %d ms, and is said to do so for %d", h.expiry-m.at, left)
	}
	m.granted(a, number(answer[1]), m.at, max(a.ttl, left))
	again := strings.Fields(m.step(true, script.Resume, args...)) // perhaps later, and then too late
	if again[0] == "gone" && h.expiry <= m.at {
		return
	}
	if again[0] != "resumed" || again[1] != answer[1] || number(again[3]) < h.expiry-m.at {
		rt.Fatalf("the same request again is answered %q after %q", again, answer)
	}
	if mine := m.of(a.id); mine != nil {
		mine.expiry = max(mine.expiry, m.at+a.ttl)
	}
	if other := m.fresh(rt); m.step(true, script.Resume, other.id, former.id, former.token, other.ttl, retention,
		"oracle:watch", base) != "gone" {
		rt.Fatal("two have resumed the same term")
	}
}

// Leader shows nobody but the holder.
func (m *machine) ReadLeader(rt *rapid.T) {
	words := strings.Fields(m.step(true, script.ReadLeader))
	if words[0] != "leader" {
		return
	}
	if a := m.attempts[words[4]]; a == nil || !m.live(m.of(a.id), m.at) || a.token != number(words[1]) {
		rt.Fatalf("shown as the leader: %v", words)
	}
}

// CheckToken finds the hold of a token exactly while it lives.
func (m *machine) CheckToken(rt *rapid.T) {
	if len(m.holds) == 0 {
		m.step(true, script.Check, 5)
		return
	}
	token := rapid.SampledFrom(m.holds).Draw(rt, "hold").token
	got := m.step(true, script.Check, token)
	live := slices.ContainsFunc(m.holds, func(h *hold) bool { return h.token == token && !h.kept && m.live(h, m.at) })
	if live != (got == "live" || got == "unknown") {
		rt.Fatalf("token %d is checked as %q at %d", token, got, m.at)
	}
}

func (m *machine) Inspect(*rapid.T) {
	m.step(true, script.Inspect)
}

func (m *machine) Evict(rt *rapid.T) {
	var only int64
	if len(m.holds) > 0 && rapid.Bool().Draw(rt, "one") {
		only = rapid.SampledFrom(m.holds).Draw(rt, "hold").token
	}
	ask := rapid.Bool().Draw(rt, "ask")
	if ask {
		m.numbers["operator"]++
		request := fmt.Sprint("operator/", m.numbers["operator"])
		seen, _, _ := strings.Cut(m.spec.Dump(key)["lock"], " ")
		m.step(true, script.Evict, "ann", "test", only, retention, base, request, cmp.Or(seen, "0"), wire.Ask)
	} else {
		m.step(false, script.Evict, "ann", "test", only, retention, base)
	}
	m.holds = slices.DeleteFunc(m.holds, func(h *hold) bool {
		meant := only == h.token || only == 0 && !slices.Contains(m.pushed, h.token)
		if asked := meant && ask && m.live(h, m.at) && !h.kept; asked {
			h.asked = true
			return false
		}
		return meant
	})
}

func (m *machine) Advance(rt *rapid.T) {
	// To the instant at which something ends, too: there the two sides could
	// differ by one.
	var ends []int64
	fields := m.spec.Dump(key)
	for _, expiry := range recorded(fields, m.now()) {
		ends = append(ends, expiry-m.now())
	}
	for _, id := range queued(fields) {
		ends = append(ends, patience(fields, id)-m.now())
	}
	ends = slices.DeleteFunc(ends, func(ms int64) bool { return ms <= 0 })
	slices.Sort(ends)
	by := rapid.SampledFrom(append([]int64{1, 500, 2000, 10_000, 90_000}, ends...)).Draw(rt, "ms")
	exact := rapid.SampledFrom([]int64{-1, 0, 0, 1}).Draw(rt, "off")
	m.advance(time.Duration(max(by+exact, 1)) * time.Millisecond)
}

// SetBack sets the server's clock back. What is over by then remains over, unless
// the record still has it: then it is held again.
func (m *machine) SetBack(rt *rapid.T) {
	by := rapid.SampledFrom([]time.Duration{3 * time.Second, 20 * time.Second}).Draw(rt, "back")
	if m.setBack+by > mostBack || !rapid.Bool().Draw(rt, "really") {
		rt.Skip("often enough")
	}
	m.setBack += by
	still := recorded(m.spec.Dump(key), 0)
	for _, h := range slices.Clone(m.holds) {
		for id := range maps.Clone(h.entries) {
			switch {
			case still[id] == h.expiry:
			case h.kept:
				h.entries = nil
			default:
				m.ends(id)
			}
		}
	}
	m.ends("") // holds without entries go
	m.advance(-by)
}

func (m *machine) Listen(rt *rapid.T) { m.listen(rapid.SampledFrom(clients).Draw(rt, "client")) }

// Watch listens for the lock to become free.
func (m *machine) Watch(*rapid.T) { m.listen(news) }

// Crash is a client that stops listening. It may come back by Listen; its
// attempts may still be asked about, as by a process that only reconnects.
func (m *machine) Crash(rt *rapid.T) {
	if !rapid.Bool().Draw(rt, "really") {
		rt.Skip("often enough")
	}
	m.deafen(rapid.SampledFrom(append(slices.Clip(clients), news)).Draw(rt, "client"))
}
