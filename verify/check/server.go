package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/audit"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// granted is a hold by the server's account. Times are of the server's clock,
// in µs, as if it had never been moved; a lease is over by the clock that the
// server has.
type granted struct {
	attempt, mode string
	name          string // of the owner that it is an entry of
	weight        int
	token         uint64
	by            string // the script that granted it
	from, till    int64
	due           int64 // till, as the server says it; 0 once it was released
	trust         int64 // till, if the clock had not been moved after the last confirmation
	released      bool  // it ended by its own release
	evicted       bool  // an operator ended it
	forgotten     bool  // it was excused: its record was lost
}

// same says whether two are one hold.
func (g *granted) same(o *granted) bool { return g.attempt == o.attempt && g.token == o.token }

// together says whether two are entries of one owner's hold.
func (g *granted) together(o *granted) bool {
	return g.name != "" && g.name == o.name && g.token == o.token
}

// over reports whether the lease had run out at a note, by a clock that counts
// units of so many µs: by the server's clock, or, if that has been set back since
// the lease was last confirmed, by the truth. Longer nobody trusts it.
func (g *granted) over(n audit.Note, unit int64) bool {
	return g.due/unit <= n.Clock()/unit || g.trust/unit <= n.At/unit
}

// holders are the holds in a record at the time of a note, in the order of their
// tokens: what one step grants, it grants in that order.
func (r *Run) holders(rec audit.Record, n audit.Note) []*granted {
	var all []*granted
	add := func(g granted, expiry int64) {
		g.from, g.due = n.At, expiry*1000
		g.till, g.trust = r.till(g.due, n), g.due-n.Ahead
		if g.attempt != audit.Kept { // whoever comes in under a lease from before a step trusts his own time
			g.trust = min(g.trust, n.At+(r.Setup.TTL+wire.Delay(g.attempt)).Microseconds()+1000)
		}
		all = append(all, &g)
	}
	exclusive := granted{attempt: rec.Holder, mode: "x", token: rec.Fence}
	switch {
	case rec.Holder == "":
	case rec.Named && rec.Holder != audit.Kept:
		for _, entry := range rec.Entries {
			g := exclusive
			g.attempt, g.name = entry, rec.Holder
			add(g, rec.Expiry)
		}
	default:
		add(exclusive, rec.Expiry)
	}
	for _, s := range rec.Shares {
		add(granted{attempt: s.Attempt, mode: s.Mode, weight: s.Weight, token: s.Token}, s.Expiry)
	}
	slices.SortStableFunc(all, func(a, b *granted) int { return cmp.Compare(a.token, b.token) })
	return all
}

// account follows one record through its notes. It judges by the rules of a lease and
// trusts no script: a hold lasts until its own attempt releases it, or until the last
// expiry that the record had. A grant does not end the hold before it, so a grant that
// comes too early shows as an overlap.
type account struct {
	run    *Run
	lock   string
	holds  []*granted // all, in the order of their grants
	live   []*granted // those that may last still
	last   audit.Record
	lastAt int64
	token  uint64 // the highest that was granted

	granted int64 // when that was

	exclusion, continuity, tokens *Result
}

// followed is what the server's account says.
type followed struct {
	exclusion, continuity, tokens Result
	holds                         map[string][]*granted      // by key
	evicted                       map[string]map[string]bool // by lock and attempt
}

// follow goes through the server's account of all records, once.
func (r *Run) follow() *followed {
	if r.account != nil {
		return r.account
	}
	exclusion := Result{
		Name: "server-exclusion", Guarantees: "G1 G4 G24 G28",
		Promise: "in the server's own record, no two incompatible holds exist at the same time, " +
			"and no client ends another's hold",
	}
	continuity := Result{
		Name: "record-continuity", Guarantees: "G4",
		Promise: "only the scripts change a record, and no record is lost while a client holds the lock",
	}
	tokens := Result{
		Name: "tokens-rise", Guarantees: "G3",
		Promise: "every grant has a higher token than all grants before, even after a loss of the record",
	}
	holds, evicted := make(map[string][]*granted), make(map[string]map[string]bool)
	for _, text := range r.unread {
		continuity.findf(0, "", "%s", text)
	}
	for _, key := range r.keys() {
		a := &account{run: r, lock: lockOf(key), exclusion: &exclusion, continuity: &continuity, tokens: &tokens}
		for _, n := range r.Notes[key] {
			a.step(n)
		}
		holds[key], evicted[a.lock] = a.holds, make(map[string]bool)
		for _, h := range a.holds {
			if h.evicted {
				evicted[a.lock][h.attempt] = true
			}
		}
	}
	r.account = &followed{exclusion, continuity, tokens, holds, evicted}
	return r.account
}

// Grant is a hold by the server's account. Times are of the server's clock, in µs.
type Grant struct {
	Attempt    string
	Token      uint64 // as in the record
	By         string // the script that granted it
	From, Till int64
	Released   bool // by its own holder; else Till is the end of the lease
}

// Grants lists the holds of a lock by the server's account, in its order.
func (r *Run) Grants(lock string) (list []Grant) {
	for _, g := range r.follow().holds[r.key(lock)] {
		list = append(list, Grant{g.attempt, g.token, g.by, g.from, g.till, g.released})
	}
	return list
}

// attempts are the grants of a lock by the server's account, in its order, by attempt.
type attempts map[string][]*granted

// byAttempt lists them.
func (r *Run) byAttempt(lock string) attempts {
	found := make(attempts)
	for _, g := range r.follow().holds[r.key(lock)] {
		found[g.attempt] = append(found[g.attempt], g)
	}
	return found
}

// of is the grant behind a hold with a token: the one with that token, or what conversions have made of it; nil
// if there is none. When the hold is over, a late copy of a request may have granted the lock to the attempt once
// more, for nobody. If the token is that of no grant, the last one counts.
func (a attempts) of(attempt string, token uint64) *granted {
	all := a[attempt]
	at := slices.IndexFunc(all, func(g *granted) bool { return g.token == token>>10 })
	if at < 0 {
		at = len(all) - 1
	}
	if at < 0 {
		return nil
	}
	for at+1 < len(all) && all[at+1].by == "convert" {
		at++
	}
	return all[at]
}

// evicted reports whether an operator ended a hold; where the server's account may
// lack that, whether one was about to.
func (r *Run) evicted(h *Hold) bool {
	at, meant := r.meant[h.Lock][h.Token>>10]
	return r.follow().evicted[h.Lock][h.Owner] || meant && r.blindBetween(at, at+int64(r.Setup.TTL))
}

// ServerExclusion checks holds against each other by the server's account.
func (r *Run) ServerExclusion() Result { return r.follow().exclusion }

// Continuity checks that each change begins where the one before ended.
func (r *Run) Continuity() Result { return r.follow().continuity }

// TokensRise checks the order of the tokens at the server.
func (r *Run) TokensRise() Result { return r.follow().tokens }

// step takes in one note.
func (a *account) step(n audit.Note) {
	at := a.run.machine(n.At)
	a.continuity.Examined++
	if !same(n.Before, a.last) {
		a.gap(n, at)
	}
	before, after := a.run.holders(n.Before, n), a.run.holders(n.After, n)
	for _, h := range before {
		if !slices.ContainsFunc(after, h.same) {
			a.end(n, h)
		}
	}
	for _, h := range after {
		// A lease that was over when a step granted is left in the record if the step had
		// read the time before: no later step grants what it leaves as it is.
		left := slices.ContainsFunc(before, func(b *granted) bool { return b.same(h) && b.due == h.due })
		if !left || a.find(h) != nil || a.run.setBack(a.run.machine(n.At)) {
			a.begin(n, h)
		}
	}
	a.last, a.lastAt = n.After, n.At
}

// gap judges a record that is not as the last script left it: it may have expired after
// its last lease, or a fault has lost the last changes.
func (a *account) gap(n audit.Note, at int64) {
	over := true
	for _, h := range a.live {
		over = over && h.over(n, 1)
	}
	switch {
	case a.run.lossBetween(a.run.machine(a.lastAt), at):
		a.continuity.Excused++
	case a.run.blindBetween(a.run.machine(a.lastAt), at):
		a.continuity.Excused++
		// Nothing is lost, but something may have ended unsaid.
		a.live = slices.DeleteFunc(a.live, func(h *granted) bool {
			return !slices.ContainsFunc(a.run.holders(n.Before, n), h.same)
		})
	case n.Before.Fence == 0 && over:
	default:
		a.continuity.findf(at, a.lock, "before %s by %s the record was %s, and had been left as %s",
			n.Action, n.Caller, describe(n.Before), describe(a.last))
	}
	// The record may have been lost, and made anew, without a word: then its tokens are
	// those of a clock that was set back.
	if n.Before.Fence > 0 && n.Before.Fence < a.token && int64(a.token) >= n.Clock() && a.run.setBack(at) {
		a.tokens.Excused++
		a.token = n.Before.Fence
	}
	// The holds in the record count, even if no script wrote them.
	for _, h := range a.run.holders(n.Before, n) {
		a.adopt(h)
	}
}

// adopt takes in a hold whose grant was not noted, or whose end is lost: a server that is killed after a release
// that it has not written yet has the hold again, under its old token, when it starts.
func (a *account) adopt(g *granted) {
	a.live = slices.DeleteFunc(a.live, func(h *granted) bool { return h.same(g) && (h.released || h.evicted) })
	if a.find(g) == nil {
		a.holds = append(a.holds, g)
		a.live = append(a.live, g)
	}
	a.token = max(a.token, g.token)
}

// find is what is known of a hold that is live.
func (a *account) find(g *granted) *granted {
	if i := slices.IndexFunc(a.live, g.same); i >= 0 {
		return a.live[i]
	}
	return nil
}

// giving are the scripts by which an attempt ends its own hold.
var giving = map[string]bool{
	"release": true, "release_idle": true, "cancel": true, "cancel_run": true, "convert": true, "release_after": true,
}

// end closes a hold that is no longer in the record. Only its own attempt ends
// it before its time.
func (a *account) end(n audit.Note, g *granted) {
	h := a.find(g)
	if h == nil {
		return
	}
	switch {
	case h.over(n, 1) && h.till <= n.At:
		h.due = 0 // also if the clock is set back behind its end
	case giving[n.Action] && n.For(h.attempt):
		h.till, h.due, h.released = n.At, 0, true
	case n.Action == "evict":
		h.till, h.due, h.evicted = n.At, 0, true
	case h.over(n, 1):
		h.due = 0
	case a.excuse(h, a.run.machine(n.At)):
		a.exclusion.Excused++
	case n.Clock()/1000 < h.due/1000:
		a.exclusion.findf(a.run.machine(n.At), a.lock, "%s by %s ended the hold of %s, %v before its lease",
			n.Action, n.Caller, h.attempt, since(n.Clock()*1000, h.due*1000))
	}
}

// begin takes in a hold that is in the record: a grant, a renewal, or nothing
// new.
func (a *account) begin(n audit.Note, g *granted) {
	// An entry of an owner that has left may come back under the same token, by a late copy of its request.
	if h := a.find(g); h != nil && !h.released {
		own := n.Action == "lessen" && n.For(h.attempt) // as of a lost lease with a lock-delay, when it is released
		if g.due < h.due && !own && !a.excuse(h, a.run.machine(n.At)) {
			a.exclusion.findf(a.run.machine(n.At), a.lock, "%s by %s shortened the lease of %s",
				n.Action, n.Caller, g.attempt)
		}
		if g.due != h.due { // else it is only still there
			h.till, h.due, h.trust = g.till, g.due, g.trust
		}
		return
	}
	at := a.run.machine(n.At)
	if a.run.setBack(at) {
		if i := slices.IndexFunc(a.holds, g.same); i >= 0 {
			a.live = append(a.live, a.holds[i]) // it was over, and by the server's clock is not any more
			return
		}
	}
	a.exclusion.Examined++
	a.tokens.Examined++
	// What goes on under the token of the hold before it is no new grant: one more
	// entry, and a lock that was released and is kept.
	goesOn := g.attempt == audit.Kept && g.token == n.Before.Fence || slices.ContainsFunc(a.live, g.together)
	if g.token <= a.token && !goesOn {
		switch {
		case a.run.parted(at):
			a.tokens.Excused++
		case (n.Before.Fence == 0 || a.run.reverts() && a.run.lossBetween(a.granted, at)) &&
			int64(a.token) >= n.Clock() && a.run.setBack(at):
			// The record is gone, or what came last, and with it the only thing that
			// knew of tokens ahead of a clock that was set back.
			a.tokens.Excused++
			a.token = 0
		default:
			a.tokens.findf(at, a.lock, "%s granted token %d to %s after token %d",
				n.Action, g.token, g.attempt, a.token)
		}
	}
	if g.token > a.token {
		a.token, a.granted = g.token, at
	}
	a.conflicts(n, g)
	g.by = n.Action
	a.holds = append(a.holds, g)
	a.live = append(a.live, g)
}

// conflicts compares a grant with what lasts.
func (a *account) conflicts(n audit.Note, g *granted) {
	at := a.run.machine(n.At)
	keep := a.live[:0]
	used := g.weight
	for _, h := range a.live {
		// The server counts whole milliseconds: a lease is over in the one in
		// which it ends.
		if h.over(n, 1000) {
			continue
		}
		keep = append(keep, h)
		if h.mode == "p" && g.mode == "p" {
			used += h.weight
		}
		if h.mode == g.mode && h.mode != "x" || h.together(g) {
			continue
		}
		a.overlap(at, g, fmt.Sprintf("while %s had it for another %v", h.attempt, since(n.Clock()*1000, h.due*1000)), h)
	}
	a.live = keep
	if limit := a.run.Limits[a.lock]; g.mode == "p" && used > limit {
		oldest := g
		for _, h := range a.live {
			if h.from < oldest.from {
				oldest = h
			}
		}
		a.overlap(at, g, fmt.Sprintf("which made %d of %d permits", used, limit), oldest)
	}
}

func (a *account) overlap(at int64, g *granted, what string, other *granted) {
	if a.excuse(other, at) {
		if !other.forgotten {
			a.exclusion.Excused++
		}
		other.forgotten = true
		return
	}
	a.exclusion.findf(at, a.lock, "%s was granted it as %s %s", g.attempt, g.mode, what)
}

// excuse reports whether a hold's record may have been lost.
func (a *account) excuse(h *granted, at int64) bool {
	if h.attempt == audit.Kept && a.run.lossBetween(a.run.machine(h.from), at) {
		return true // that is not bound by a lease
	}
	lease := a.run.Setup.TTL + wire.Delay(h.attempt)
	return a.run.excuseFor(a.run.machine(h.from), at, a.run.proc(h.attempt), lease, 0)
}

// same compares records.
func same(a, b audit.Record) bool {
	return a.Fence == b.Fence && a.Holder == b.Holder && a.Expiry == b.Expiry &&
		slices.Equal(a.Shares, b.Shares) && slices.Equal(a.Entries, b.Entries)
}

// describe is a record for people.
func describe(r audit.Record) string {
	if r.Fence == 0 {
		return "absent"
	}
	text := fmt.Sprintf("at token %d", r.Fence)
	if r.Holder != "" {
		text += ", held by " + r.Holder
	}
	if len(r.Shares) > 0 {
		text += fmt.Sprintf(", %d shares", len(r.Shares))
	}
	return text
}
