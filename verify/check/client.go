package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/verify/history"
)

// ClientExclusion compares the intervals in which clients trusted their holds. An interval
// begins after the call has returned, and ends when the client last saw that it held the
// lease. So each is shorter than the true one, and an overlap is real.
func (r *Run) ClientExclusion() Result {
	res := Result{
		Name: "client-exclusion", Guarantees: "G1 G2 G24 G28",
		Promise: "no two clients trust incompatible holds at the same time",
	}
	for _, lock := range r.locks() {
		var live []*Hold
		for _, h := range r.Holds[lock] {
			if h.Trusted() < h.At {
				continue
			}
			res.Examined++
			live = slices.DeleteFunc(live, func(o *Hold) bool { return o.Trusted() < h.At })
			r.beside(&res, lock, h, live)
			live = append(live, h)
		}
	}
	return res
}

// beside compares a hold with those that last while it begins.
func (r *Run) beside(res *Result, lock string, h *Hold, live []*Hold) {
	used, oldest := h.Weight, h
	for _, o := range live {
		if o.Since < oldest.Since {
			oldest = o
		}
		if o.Mode == "p" && h.Mode == "p" {
			used += o.Weight
		}
		if o.Mode == h.Mode && o.Mode != "x" || o.Name != "" && o.Name == h.Name {
			continue
		}
		// Entering again under a hold is as old as the hold. And an answer that was
		// under way for long may be that to the older grant of the two.
		older := o
		if h.Token < o.Token {
			older = h
		}
		lost := r.excuseFor(older.Since, h.At, older.Proc, r.Setup.TTL, wire.Delay(older.Owner)) ||
			h.Local && r.excuse(h.Since, h.At, h.Proc)
		if lost || r.evicted(o) || r.evicted(h) {
			res.Excused++
			continue
		}
		res.findf(h.At, lock, "client %d got it as %s while client %d trusted its hold %s for another %v",
			h.Proc, h.Mode, o.Proc, o.Owner, since(h.At, o.Trusted()))
	}
	if limit := r.Limits[lock]; h.Mode == "p" && used > limit {
		if r.excuse(oldest.Since, h.At, oldest.Proc) {
			res.Excused++
			return
		}
		res.findf(h.At, lock, "client %d made %d of %d permits", h.Proc, used, limit)
	}
}

// slack is how much the times of a client and of the server may differ.
func (r *Run) slack() int64 { return r.Setup.SkewError + int64(2*time.Millisecond) }

// Backed compares what clients trust with the server's account: the server granted each
// hold, and no client trusted a hold for longer than it lasted there.
func (r *Run) Backed() Result {
	res := Result{
		Name: "trust-is-backed", Guarantees: "G2 G7",
		Promise: "a client trusts a hold only while the server has it",
	}
	if r.mute() {
		return res
	}
	slack := r.slack()
	for _, lock := range r.locks() {
		byAttempt := r.byAttempt(lock)
		for _, h := range r.Holds[lock] {
			if h.Trusted() < h.At {
				continue
			}
			res.Examined++
			g := byAttempt.of(h.Owner, h.Token)
			switch {
			case r.blindBetween(h.Since, h.Trusted()) && (g == nil || h.Trusted() > r.machine(g.till)+slack),
				g == nil && r.lossBetween(h.Since, h.At):
				res.Excused++
			case g == nil:
				res.findf(h.At, lock, "client %d was given %s, and the server knows of no such grant", h.Proc, h.Owner)
			case h.Trusted() <= r.machine(g.till)+slack:
			case g.evicted, r.excuse(h.Since, h.Trusted(), h.Proc): // Evictions has more to say
				res.Excused++
			default:
				res.findf(h.Trusted(), lock, "client %d trusted %s %v after it was over at the server",
					h.Proc, h.Owner, since(r.machine(g.till), h.Trusted()))
			}
		}
	}
	return res
}

// manyAimed is of how many holders that are stopped before they write some lose an update
// for sure: of two in a run one time in ten none did.
const manyAimed = 4

// TokensInTime checks tokens as users see them: if a client asks for a hold after another
// hold is over, it gets a higher token. For readers only the order to writers is promised.
func (r *Run) TokensInTime() Result {
	res := Result{
		Name: "tokens-in-time", Guarantees: "G3",
		Promise: "a client that asks after the end of another hold gets a higher token",
	}
	for _, lock := range r.locks() {
		var ended []*Hold
		for _, h := range r.Holds[lock] {
			if h.Over != nil {
				ended = append(ended, h)
			}
		}
		slices.SortFunc(ended, func(a, b *Hold) int { return cmp.Compare(a.Over.At, b.Over.At) })
		asking := slices.Clone(r.Holds[lock])
		slices.SortFunc(asking, func(a, b *Hold) int { return cmp.Compare(a.Asked, b.Asked) })
		// After a local hand-over a hold has a token of the grant to its process, which the
		// first goroutine asked for. Entries of an owner have the token of the grant to the
		// owner's first entry.
		first, lost := make(map[grantID]int64), make(map[grantID]bool)
		var over highest
		for _, h := range asking {
			if _, known := first[grantOf(h)]; !known {
				first[grantOf(h)] = h.Asked
			}
			for len(ended) > 0 && ended[0].Over.At < h.Asked {
				over.add(ended[0])
				ended = ended[1:]
			}
			res.Examined++
			before := over.before(h)
			switch {
			case before == nil || h.Token > before.Token:
			case h.Token == before.Token && h.Name != "" && h.Name == before.Name: // entries of one owner
			case r.parted(h.At) || r.parted(before.At), r.behind(before, h, first[grantOf(h)]):
				res.Excused++
			case first[grantOf(h)] < h.Asked && (lost[grantOf(h)] || r.excuse(first[grantOf(h)], h.At, h.Proc)):
				// It joined a hold that had ended, and that a loss of the record has brought
				// back. So do the entries after it.
				lost[grantOf(h)] = true
				res.Excused++
			default:
				res.findf(h.At, lock, "client %d got token %d after the hold of client %d with token %d was over",
					h.Proc, h.Token, before.Proc, before.Token)
			}
		}
	}
	return res
}

// grantID names the grant that a hold goes back to: by its attempt, or by the owner's
// name and the token that all entries under that name have.
type grantID struct {
	who   string
	token uint64
}

func grantOf(h *Hold) grantID {
	if h.Name != "" {
		return grantID{"@" + h.Name, h.Token}
	}
	return grantID{who: h.Owner}
}

// highest are the holds with the highest tokens of those that are over.
type highest struct{ all, writers *Hold }

func (t *highest) add(h *Hold) {
	if t.all == nil || h.Token > t.all.Token {
		t.all = h
	}
	if h.Mode == "x" && (t.writers == nil || h.Token > t.writers.Token) {
		t.writers = h
	}
}

// before is the hold of which the token must be lower than that of h.
func (t *highest) before(h *Hold) *Hold {
	if h.Mode == "s" {
		return t.writers
	}
	return t.all
}

// Updates counts the updates that were lost. With fencing there are none. Without it there
// must be some once holders were stopped before they wrote, or the fault had no effect.
func (r *Run) Updates() Result {
	res := Result{
		Name: "updates", Guarantees: "G5",
		Promise: "no write that a fenced register took is lost; without fencing, some are lost " +
			"when a holder is stopped before it writes",
	}
	l := r.Losses()
	if l.Written == 0 {
		return res
	}
	res.Examined = l.Taken
	if !l.Known {
		res.findf(0, "", "nobody read the registers at the end")
		return res
	}
	res.Figure = fmt.Sprintf("lost with fencing: %d of %d; without: %d of %d; late writes refused: %d",
		l.Fenced, l.Taken, l.Plain, l.Written, l.Refused)
	// Where two servers may grant, tokens that run ahead of their clocks can be equal.
	excused := min(l.Ahead, max(l.Fenced, 0))
	res.Excused = excused
	if l.Fenced != excused {
		res.findf(0, "", "%d updates were lost in spite of fencing", l.Fenced-excused)
	}
	aimed := 0
	for _, f := range r.Faults {
		if f.Aimed {
			aimed++
		}
	}
	// A stopped holder loses an update only if another holder writes meanwhile.
	if aimed >= manyAimed && l.Plain <= 0 {
		res.findf(0, "", "%d holders were stopped before they wrote, and no update was lost without fencing: "+
			"the fault did not bite", aimed)
	}
	return res
}

// Losses counts the read-modify-writes, and those that were lost.
type Losses struct {
	Written int  // so many were done
	Taken   int  // of them, by the fenced register
	Refused int  // by the fenced register
	Known   bool // the registers were read at the end
	Ahead   int  // updates twice taken, with tokens ahead of the clock behind a failover
	Fenced  int  // updates that the fenced register has lost, if Known
	Plain   int  // and the plain one
}

// Losses counts them.
func (r *Run) Losses() (l Losses) {
	var fenced, plain []int64
	var final map[string]int64
	ahead := make(map[int64]bool) // by value: whether its token ran ahead
	for _, e := range r.Events {
		switch {
		case e.Kind == history.Write:
			plain = append(plain, e.Plain)
			if e.Stale {
				l.Refused++
			} else {
				fenced = append(fenced, e.Value)
				early := r.replicated() && int64(e.Token>>10) > (e.At+r.Setup.Skew)/1000
				if was, twice := ahead[e.Value]; twice && was && early {
					l.Ahead++
				}
				ahead[e.Value] = early
			}
		case e.Kind == history.Stats && e.Proc == 0:
			final, l.Known = e.Counts, true
		}
	}
	l.Written, l.Taken = len(plain), len(fenced)
	if l.Known && l.Written > 0 {
		l.Fenced, l.Plain = int(missing(fenced, final["fenced"])), int(missing(plain, final["plain"]))
	}
	return l
}

// missing is how many updates of a counter were lost. written has the value of every
// write that was taken, each meant to be one more than the value before; final is the
// counter at the end. A value between 1 and the highest that nobody reports was written
// by a process that died before its report, and counts as an update too.
func missing(written []int64, final int64) int64 {
	distinct := make(map[int64]bool, len(written))
	highest := final
	for _, v := range written {
		distinct[v] = true
		highest = max(highest, v)
	}
	return int64(len(written)) + highest - int64(len(distinct)) - final
}

// LossSignalled checks that losses are signalled in time. It leaves out processes that
// were stopped.
func (r *Run) LossSignalled() Result {
	res := Result{
		Name: "loss-signalled", Guarantees: "G2",
		Promise: "a client signals the loss of a lease within one TTL of the last confirmation",
	}
	limit := max(r.Setup.TTL, time.Second)
	var latest int64
	for _, e := range r.Events {
		if e.Kind != history.Lost {
			continue
		}
		stopped := slices.ContainsFunc(r.Faults, func(f history.FaultSpan) bool {
			return slices.Contains(f.Procs, e.Proc) && f.From <= e.At && e.Trusted-int64(r.Setup.TTL) <= f.Till
		})
		if stopped {
			res.Excused++
			continue
		}
		res.Examined++
		late := e.At - e.Trusted - r.stalled(e.Proc, e.Trusted, e.At)
		latest = max(latest, late)
		if late > int64(limit) {
			res.findf(e.At, e.Lock, "client %d was told of the loss of %s %v late",
				e.Proc, e.Owner, time.Duration(late))
		}
	}
	res.Figure = fmt.Sprintf("latest: %v after a whole lease", max(since(0, latest), 0))
	return res
}

// stalled is how long, between two instants, a client process got no processor. It is the
// process's own account, and so never too long.
func (r *Run) stalled(proc int, from, till int64) (sum int64) {
	for _, e := range r.Events {
		if e.Kind == history.Stall && e.Proc == proc {
			sum += max(min(e.At, till)-max(e.Asked, from), 0)
		}
	}
	return sum
}

// ReleasesTrue checks that no unknown outcome is taken for a success: a release without an
// error has ended the hold at the server.
func (r *Run) ReleasesTrue() Result {
	res := Result{
		Name: "releases-true", Guarantees: "G6 G12",
		Promise: "a release without an error has ended the hold at the server",
	}
	if r.mute() {
		return res
	}
	slack := r.slack()
	for _, lock := range r.locks() {
		byAttempt := r.byAttempt(lock)
		for _, h := range r.Holds[lock] {
			if h.Over == nil || h.Over.How != history.Released || h.Passing || h.Over.Local || h.Mode == "s" {
				continue
			}
			res.Examined++
			g := byAttempt.of(h.Owner, h.Token)
			switch {
			case g != nil && r.machine(g.till) <= h.Over.At+slack:
			case r.excuse(h.Since, h.Over.At, h.Proc), r.blindBetween(h.Over.Asked, h.Over.At):
				res.Excused++
			case g == nil: // Backed says so
			default:
				res.findf(h.Over.At, lock, "client %d released %s, and the server has it for another %v",
					h.Proc, h.Owner, since(h.Over.At, r.machine(g.till)))
			}
		}
	}
	return res
}
