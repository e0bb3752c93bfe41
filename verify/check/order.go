package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/audit"
	"github.com/holdfast-go/holdfast/verify/history"
)

// Order checks the wait queue, by the server's own account. A grant skips a waiter only
// if that waiter's client has no subscription at that moment. The goroutines of one
// process wait inside it: for them the check compares what the clients saw, with a
// margin for the time from the call to the wait queue.
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
	res.Figure = fmt.Sprintf("from the queue: %d; before some of whom nobody listened: %d, at most %d at once; "+
		"longest wait: %v; %s", q.served, q.past, q.most, longest.Round(time.Millisecond), r.crowding())
	return res
}

// queue follows the wait queue of one record after the other.
type queue struct {
	run                *Run
	res                *Result
	key                string
	positions          map[string]position // by attempt: the waiters
	joined             map[string]int64    // when an attempt first got a position
	served, past, most int
}

type position struct{ number, since int64 }

func (q *queue) begin(key string) {
	q.key, q.positions, q.joined = key, make(map[string]position), make(map[string]int64)
}

// step takes in one note: who was granted the lock, who joined, and who left.
func (q *queue) step(n audit.Note) {
	var names []string
	before := q.run.holders(n.Before, n)
	for _, g := range q.run.holders(n.After, n) {
		// Only the first entry of an owner had to wait in the queue, and a conversion
		// does not wait there.
		together := g.name != "" && slices.Contains(names, g.name) || slices.ContainsFunc(before, g.together)
		names = append(names, g.name)
		if slices.ContainsFunc(before, g.same) || n.Action == "convert" || g.attempt == audit.Kept {
			continue
		}
		if !together {
			q.granted(n, g)
		}
		delete(q.positions, g.attempt)
	}
	if last := n.After.Queue.Last; last != n.Before.Queue.Last && last.Attempt != "-" && last.Attempt != "" {
		q.positions[last.Attempt] = position{last.Position, n.At}
		if _, known := q.joined[last.Attempt]; !known {
			q.joined[last.Attempt] = n.At
		}
	}
	if n.Action == "cancel" {
		delete(q.positions, n.Caller)
	}
	// This is the first that is heard of a position that was taken while the account was
	// silent.
	if first := n.After.Heard; first.Position != 0 && q.positions[first.Attempt].number == 0 {
		q.positions[first.Attempt] = position{first.Position, n.At}
	}
	for attempt, p := range q.positions {
		if n.After.Queue.Waiting == 0 || p.number < n.After.Queue.Head {
			delete(q.positions, attempt)
		}
	}
}

// granted judges one grant.
func (q *queue) granted(n audit.Note, g *granted) {
	at := q.run.machine(n.At)
	own, waited := q.positions[g.attempt]
	passed := 0
	for _, p := range q.positions {
		if p.number < own.number || !waited && g.attempt != n.Caller {
			passed++
		}
	}
	passed = min(passed, int(n.After.Queue.Waiting))
	q.res.Examined++
	if waited {
		q.served++
	}
	if passed > 0 {
		q.past++
		q.most = max(q.most, passed)
	}
	first := n.After.Heard
	if first.Position == 0 || waited && own.number < first.Position {
		return
	}
	if last := n.After.Queue.Last; first == last && last != n.Before.Queue.Last {
		return // it joined in this same step, after the grant
	}
	// The positions are not known if the record was lost, or if a killed server did not
	// tell of them.
	since := at - 2*int64(q.run.Setup.TTL)
	if waited {
		since = q.run.machine(own.since)
	} else if first, ever := q.joined[g.attempt]; ever { // a failover may have brought its position back
		since = min(since, q.run.machine(first))
	} else if g.attempt != n.Caller || n.Action == "poll" {
		since = 0 // it joined, and that was not said
	}
	if q.run.parted(at) || q.run.mayNotPublish(at) || q.run.lossBetween(since, at) || q.run.blindBetween(since, at) {
		q.res.Excused++
		return
	}
	q.res.findf(at, lockOf(q.key), "%s by %s granted it to %s (position %d) before %s, which listened at position %d",
		n.Action, n.Caller, g.attempt, own.number, first.Attempt, first.Position)
}

// mayNotPublish reports whether a server may not publish at an instant. Then it can push no
// grant, and the lock goes to a client that asks.
func (r *Run) mayNotPublish(at int64) bool {
	return slices.ContainsFunc(r.Faults, func(f history.FaultSpan) bool {
		push := strings.HasPrefix(f.Text, "publish") || strings.HasPrefix(f.Text, "spublish")
		return f.Name == "no-perm" && push && f.From-unsaid <= at && at <= f.Till+unsaid
	})
}

// inside compares the goroutines of each process with one another: if one asked a TTL
// before another, it gets the lock first. It returns the longest wait.
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
		latest := make(map[string]*Hold) // by client: of the holds so far, the one that was asked for last
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
			// If its requests are lost, a goroutine is in the queue later than it asked. If the
			// queue is lost, it joins a new one.
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
		return met && f.From <= till && from <= f.Till+int64(aftermath(f))
	})
}

// crowding says how fair it was for the goroutine that waited most: how many asked later
// and were served earlier. This is no promise: processes are served in turn, however
// many goroutines wait in each.
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
