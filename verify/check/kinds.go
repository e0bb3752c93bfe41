package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/audit"
	"github.com/holdfast-go/holdfast/verify/history"
)

// Owners checks locks that are taken in a name: entries of one owner share its
// hold and its token, and the lock is given to the next only after the last of
// them is out. That two owners are never in at once is said by the checks of
// exclusion, which know entries from strangers.
func (r *Run) Owners() Result {
	res := Result{
		Name: "owners", Guarantees: "G29 G30",
		Promise: "the entries of an owner share one hold and one token until the last entry leaves",
	}
	var together int
	for _, lock := range r.locks() {
		known := r.byAttempt(lock)
		for _, h := range r.Holds[lock] {
			if h.Name == "" {
				continue
			}
			res.Examined++
			if g := known.of(h.Owner, h.Token); g != nil && g.name == "" {
				res.findf(h.At, lock, "client %d entered as %q, and the server has %s as nobody's entry",
					h.Proc, h.Name, h.Owner)
			}
		}
		together += r.stay(&res, lock)
	}
	res.Figure = fmt.Sprintf("entered beside another: %d", together)
	return res
}

// stay judges the notes on one lock, and returns how many entries joined others.
func (r *Run) stay(res *Result, lock string) (beside int) {
	for _, n := range r.Notes[r.key(lock)] {
		before, after := r.holders(n.Before, n), r.holders(n.After, n)
		for _, g := range after {
			if g.name != "" && !slices.ContainsFunc(before, g.same) && slices.ContainsFunc(before, g.together) {
				beside++
			}
		}
		// An entry that leaves ends no other entry.
		if n.Before.Holder == audit.Kept || !n.Before.Named || !giving[n.Action] {
			continue
		}
		for _, h := range before {
			if n.For(h.attempt) || slices.ContainsFunc(after, h.same) || h.over(n, 1) {
				continue
			}
			res.findf(r.machine(n.At), lock, "%s by %s took out %s too, another entry of %s",
				n.Action, n.Caller, h.attempt, h.name)
		}
	}
	return beside
}

// Least checks locks with a minimum time: a hold that is released earlier ends neither
// before that time nor later.
func (r *Run) Least() Result {
	res := Result{
		Name: "least", Guarantees: "G32",
		Promise: "a lock that is released before its minimum time is kept until then, and is free soon after",
	}
	var latest time.Duration
	for _, lock := range r.locks() {
		least := make(map[string]time.Duration) // by attempt
		for _, h := range r.Holds[lock] {
			if h.Least > 0 {
				least[h.Owner] = h.Least
			}
		}
		if len(least) == 0 {
			continue
		}
		var released *kept
		for _, n := range r.Notes[r.key(lock)] {
			if released != nil && n.After.Fence != n.Before.Fence {
				latest = max(latest, released.next(r, &res, lock, n))
				released = nil
			}
			d, known := least[n.Before.Holder]
			if known && n.Action == "release_after" && n.After.Holder == audit.Kept {
				released = keeps(r, &res, lock, n, d)
			}
		}
	}
	res.Figure = fmt.Sprintf("granted again at the latest %v after the minimum time", latest.Round(time.Millisecond))
	return res
}

// kept is a lock that was released and is kept.
type kept struct {
	from, till int64 // of the server's clock, in ms: its grant, and the end of its minimum time
	ahead      int64 // by how much that clock had been moved
	waited     bool  // somebody waited already
	about      int64 // by how many ms till may be late
}

// keeps judges a note by which a lock is kept.
func keeps(r *Run, res *Result, lock string, n audit.Note, least time.Duration) *kept {
	res.Examined++
	var first *kept
	for _, clock := range r.readings(n) {
		k := &kept{from: int64(n.Before.Fence / 1000), ahead: n.Ahead, waited: n.After.Queue.Waiting > 0}
		// A token runs ahead of a clock that was set back: then the time counts from
		// when the script read the clock, which was just before the note did.
		if now := clock / 1000; now < k.from {
			k.from, k.about = now, unsaid/int64(time.Millisecond)
		}
		k.till = k.from + least.Milliseconds()
		if more := n.After.Expiry - k.till; more <= 0 && more >= -k.about {
			return k
		}
		if first == nil {
			first = k
		}
	}
	res.findf(r.machine(n.At), lock, "%s released it, and it is kept for %d ms more than its minimum time",
		n.Caller, n.After.Expiry-first.till)
	return first
}

// next judges the next grant, which must not come before the minimum time is over. It
// returns how long after that time it came.
func (k *kept) next(r *Run, res *Result, lock string, n audit.Note) time.Duration {
	if n.Action == "evict" {
		return 0
	}
	at := r.machine(n.At)
	late := time.Duration(n.Clock()/1000-k.till) * time.Millisecond
	switch {
	case r.lossBetween(r.machine(k.from*1000-k.ahead), at), n.Ahead != k.ahead:
		res.Excused++
		return 0
	case late < -time.Duration(k.about)*time.Millisecond:
		res.findf(at, lock, "%s by %s was granted it %v before its least time was over", n.Action, n.Caller, -late)
	case k.waited && late > r.Setup.TTL+patience && r.anyFault(r.machine(k.till*1000-k.ahead), at):
		res.Excused++ // as where a lock is free, see freeUntil
	case k.waited && late > r.Setup.TTL+patience:
		res.findf(at, lock, "%s by %s was granted it only %v after its least time, though somebody waited",
			n.Action, n.Caller, late)
	case k.waited:
		return late
	}
	return 0
}

// Evictions checks what operators do: an eviction ends the hold that it names and no
// other, the fence rises, and the holder learns of it before its lease would have expired.
func (r *Run) Evictions() Result {
	res := Result{
		Name: "evictions", Guarantees: "G2 G3 G4",
		Promise: "an eviction ends only the holds that it names, and raises the fence; " +
			"the holder learns of it within one TTL",
	}
	if len(r.meant) == 0 || r.mute() {
		return res
	}
	for _, key := range r.keys() {
		for _, n := range r.Notes[key] {
			if n.Action == "evict" && r.cuts(n) && n.After.Fence <= n.Before.Fence {
				res.findf(r.machine(n.At), lockOf(key), "an eviction left the fence at %d", n.After.Fence)
			}
		}
		for _, g := range r.follow().holds[key] {
			if g.evicted {
				res.Examined++
				lock := lockOf(key)
				if _, meant := r.meant[lock][g.token]; !meant {
					res.findf(r.machine(g.till), lock, "%s was evicted from token %d, which nobody meant",
						g.attempt, g.token)
				}
			}
		}
	}
	res.Figure = fmt.Sprintf("learned after %v at the latest", r.learned(&res).Round(time.Millisecond))
	return res
}

// learned judges how long evicted holders trusted their holds, and returns the longest
// time.
func (r *Run) learned(res *Result) (longest time.Duration) {
	for _, lock := range r.locks() {
		known := r.byAttempt(lock)
		for _, h := range r.Holds[lock] {
			g := known.of(h.Owner, h.Token)
			if g == nil || !g.evicted || h.Trusted() < h.At {
				continue
			}
			late := time.Duration(h.Trusted() - r.machine(g.till))
			longest = max(longest, late)
			if late > r.Setup.TTL+time.Duration(r.Setup.SkewError) {
				res.findf(h.Trusted(), lock, "client %d trusted %s for %v after it was evicted", h.Proc, h.Owner, late)
			}
		}
	}
	return longest
}

// Refused checks that a request without a hold changes none: a second or a late release,
// the renewal of a lease that is over, and requests for an attempt that holds nothing.
func (r *Run) Refused() Result {
	res := Result{
		Name: "refused", Guarantees: "G4 G18",
		Promise: "a request to end or extend another client's hold is refused, and changes nothing",
	}
	stranger := make(map[string]bool)
	for _, e := range r.Events {
		if e.Kind != history.Try {
			continue
		}
		res.Examined++
		if e.How == history.Released {
			res.findf(e.At, e.Lock, "client %d, %s as %s: it was let do so", e.Proc, e.Text, e.Owner)
		}
		if e.ID == 0 { // it is of no hold
			stranger[e.Owner] = true
		}
	}
	for _, key := range r.keys() {
		for _, n := range r.Notes[key] {
			if stranger[n.Caller] && !r.onlyOver(n) {
				res.findf(r.machine(n.At), lockOf(key), "%s by %s, who holds nothing, changed the record from %s to %s",
					n.Action, n.Caller, describe(n.Before), describe(n.After))
			}
		}
	}
	return res
}

// onlyOver reports that a change of a record is what any script may do: end holds that
// have expired, and grant the lock to waiters.
func (r *Run) onlyOver(n audit.Note) bool {
	mine := func(g *granted) bool { return n.For(g.attempt) }
	return !r.cuts(n) && !slices.ContainsFunc(r.holders(n.After, n), mine)
}

// cuts reports that a change ends or alters a hold that is not over.
func (r *Run) cuts(n audit.Note) bool {
	after := r.holders(n.After, n)
	return slices.ContainsFunc(r.holders(n.Before, n), func(h *granted) bool {
		kept := slices.ContainsFunc(after, func(g *granted) bool { return g.same(h) && g.due == h.due })
		return !kept && !h.over(n, 1000)
	})
}
