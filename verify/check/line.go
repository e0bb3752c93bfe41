package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/verify/audit"
	"github.com/holdfast-go/holdfast/verify/history"
)

// Order checks the waiting line, by the server's own account: at a grant nobody
// stands before the one who gets the lock, but those of whom nobody listened at
// that very moment. The goroutines of one process wait inside it; for them
// the clients' views are compared, with a margin for what lies between
// asking and standing in line.
func (r *Run) Order() Result {
	res := Result{
		Name: "order", Guarantees: "G8 G9 G15",
		Promise: "nobody overtakes a waiter that listens; the goroutines of a process are served in order",
	}
	q := queue{run: r, res: &res}
	for _, key := range r.keys() {
		q.begin(key)
		for _, n := range r.Notes[key] {
			q.step(n)
		}
	}
	longest := r.inside(&res)
	res.Figure = fmt.Sprintf("from the line: %d; before some of whom nobody listened: %d, at most %d at once; "+
		"longest wait: %v; %s", q.served, q.past, q.most, longest.Round(time.Millisecond), r.crowding())
	return res
}

// queue follows the line of one record after the other.
type queue struct {
	run                *Run
	res                *Result
	key                string
	places             map[string]place // by attempt: those who stand
	joined             map[string]int64 // when an attempt was first given a place
	served, past, most int
}

type place struct{ number, since int64 }

func (q *queue) begin(key string) {
	q.key, q.places, q.joined = key, make(map[string]place), make(map[string]int64)
}

// step takes in one note: who was granted the lock, who joined, and who left.
func (q *queue) step(n audit.Note) {
	var names []string
	before := q.run.holders(n.Before, n)
	for _, g := range q.run.holders(n.After, n) {
		// Of those who come in together in one owner's name only the first had to
		// stand in line, and whoever steps stands in none.
		together := g.name != "" && slices.Contains(names, g.name) || slices.ContainsFunc(before, g.together)
		names = append(names, g.name)
		if slices.ContainsFunc(before, g.same) || n.Action == "convert" || g.attempt == audit.Kept {
			continue
		}
		if !together {
			q.granted(n, g)
		}
		delete(q.places, g.attempt)
	}
	if last := n.After.Queue.Last; last != n.Before.Queue.Last && last.Attempt != "-" && last.Attempt != "" {
		q.places[last.Attempt] = place{last.Place, n.At}
		if _, known := q.joined[last.Attempt]; !known {
			q.joined[last.Attempt] = n.At
		}
	}
	if n.Action == "cancel" {
		delete(q.places, n.Caller)
	}
	// Of a place that was taken while the account was silent, this is the first word.
	if first := n.After.Heard; first.Place != 0 && q.places[first.Attempt].number == 0 {
		q.places[first.Attempt] = place{first.Place, n.At}
	}
	for attempt, p := range q.places {
		if n.After.Queue.Waiting == 0 || p.number < n.After.Queue.Head {
			delete(q.places, attempt)
		}
	}
}

// granted judges one grant.
func (q *queue) granted(n audit.Note, g *granted) {
	at := q.run.machine(n.At)
	own, stood := q.places[g.attempt]
	passed := 0
	for _, p := range q.places {
		if p.number < own.number || !stood && g.attempt != n.Caller {
			passed++
		}
	}
	passed = min(passed, int(n.After.Queue.Waiting))
	q.res.Examined++
	if stood {
		q.served++
	}
	if passed > 0 {
		q.past++
		q.most = max(q.most, passed)
	}
	first := n.After.Heard
	if first.Place == 0 || stood && own.number < first.Place {
		return
	}
	if last := n.After.Queue.Last; first == last && last != n.Before.Queue.Last {
		return // it joined in this same step, after the grant
	}
	// Of a record that was lost, and of what a killed server did not say, the
	// places are not known.
	since := at - 2*int64(q.run.Setup.TTL)
	if stood {
		since = q.run.machine(own.since)
	} else if first, ever := q.joined[g.attempt]; ever { // a failover may have brought its place back
		since = min(since, q.run.machine(first))
	} else if g.attempt != n.Caller || n.Action == "poll" {
		since = 0 // it joined, and that was not said
	}
	if q.run.parted(at) || q.run.untold(at) || q.run.lossBetween(since, at) || q.run.blindBetween(since, at) {
		q.res.Excused++
		return
	}
	q.res.findf(at, lockOf(q.key), "%s by %s granted it to %s (place %d) before %s, who listened at place %d",
		n.Action, n.Caller, g.attempt, own.number, first.Attempt, first.Place)
}

// untold reports whether a server may not publish at an instant: then nobody can be told
// of a grant, and the lock is for who asks.
func (r *Run) untold(at int64) bool {
	return slices.ContainsFunc(r.Faults, func(f history.FaultSpan) bool {
		push := strings.HasPrefix(f.Text, "publish") || strings.HasPrefix(f.Text, "spublish")
		return f.Name == "no-perm" && push && f.From-unsaid <= at && at <= f.Till+unsaid
	})
}

// inside compares the goroutines of each process with one another: whoever asked
// a lease earlier gets the lock earlier. It answers the longest wait.
func (r *Run) inside(res *Result) (longest time.Duration) {
	margin := max(int64(r.Setup.TTL), int64(time.Second))
	unanswered := make(map[int][]int64) // by process
	for _, e := range r.Events {
		if e.Kind == history.Fail && e.How == history.Unknown {
			unanswered[e.Proc] = append(unanswered[e.Proc], e.At)
		}
	}
	lost := func(h *Hold) bool {
		list := unanswered[h.Proc]
		i, _ := slices.BinarySearch(list, h.Asked)
		return i < len(list) && list[i] <= h.At || r.troubled(h.Proc, h.Asked, h.At)
	}
	for _, lock := range r.locks() {
		latest := make(map[string]*Hold) // by client: who asked last of those who were served
		for _, h := range r.Holds[lock] {
			if h.Mode != "x" || h.Name != "" || h.Local {
				continue
			}
			longest = max(longest, time.Duration(h.At-h.Asked))
			res.Examined++
			last := latest[h.Client]
			if last == nil || h.Asked > last.Asked {
				latest[h.Client] = h
			}
			if last == nil || last.Asked-h.Asked <= margin {
				continue
			}
			// Whose requests are lost stands in line later than it asked, and a line that
			// was lost is joined anew.
			if lost(h) {
				res.Excused++
				continue
			}
			res.findf(h.At, lock, "client %d: a goroutine that asked %v before another got it after that one",
				h.Proc, since(h.Asked, last.Asked))
		}
	}
	return longest
}

// troubled reports whether a fault met a process or its server between two instants.
func (r *Run) troubled(proc int, from, till int64) bool {
	return slices.ContainsFunc(r.Faults, func(f history.FaultSpan) bool {
		met := len(f.Procs) == 0 || slices.Contains(f.Procs, proc)
		return met && f.From <= till && from <= f.Till
	})
}

// crowding says how fair it was for those who waited most: how many who asked
// later were served earlier. Processes are served by turns, however many
// goroutines wait in each, so that is no promise.
func (r *Run) crowding() string {
	worst, where := 0, ""
	for _, lock := range r.locks() {
		var asked []int64
		for _, h := range r.Holds[lock] {
			if h.Mode != "x" || h.Name != "" {
				continue
			}
			i, _ := slices.BinarySearch(asked, h.Asked)
			if later := len(asked) - i; later > worst {
				worst, where = later, lock
			}
			asked = slices.Insert(asked, i, h.Asked)
		}
	}
	if worst == 0 {
		return "nobody came later and was served earlier"
	}
	return fmt.Sprintf("at most %d came later and were served earlier (lock %q)", worst, where)
}
