package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/audit"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/verify/history"
)

// Told checks that no script has told a client what it then did not do: a script that
// fails half-way has published nothing.
func (r *Run) Told() Result {
	res := Result{
		Name: "told-after-written", Guarantees: "G1 G4",
		Promise: "a script that fails has published nothing",
	}
	failed := 0
	for _, key := range r.keys() {
		for _, n := range r.Notes[key] {
			if n.Failed != "" {
				failed++
			}
			if n.Told == 0 && n.Failed == "" {
				continue
			}
			res.Examined++
			if n.Told > 0 && n.Failed != "" {
				res.findf(r.machine(n.At), lockOf(key), "%s by %s published %d messages, and failed: %s",
					n.Action, n.Caller, n.Told, n.Failed)
			}
		}
	}
	res.Figure = fmt.Sprintf("actions that failed half-way: %d", failed)
	return res
}

// Free checks that a free lock is granted to a waiter: by the release, by the expiry, or
// by a waiter's next poll. It judges exclusive grants from the queue, by the server's
// account: for how long the lock had been free, and the waiter in the queue.
func (r *Run) Free() Result {
	res := Result{
		Name: "free-is-granted", Guarantees: "G9 G10",
		Promise: "a free lock with a waiter is granted within one heartbeat of the waiter",
	}
	limit := int64(leasetime.Heartbeat(r.Setup.TTL) + time.Second)
	var longest int64
	for _, key := range r.keys() {
		longest = max(longest, r.freeLock(key, limit, &res))
	}
	res.Figure = fmt.Sprintf("free without a fault for at most %v", time.Duration(longest)*time.Microsecond)
	return res
}

// freeLock judges one lock, and returns for how long it was free at most without a fault.
func (r *Run) freeLock(key string, limit int64, res *Result) (longest int64) {
	joined := make(map[string]int64) // by attempt: since when it is in the queue
	free := int64(0)                 // since when it has been
	i, holds := 0, r.follow().holds[key]
	for _, n := range r.Notes[key] {
		for ; i < len(holds) && holds[i].from < n.At; i++ {
			free = max(free, holds[i].till)
		}
		for _, g := range r.holders(n.After, n) {
			since, stood := joined[g.attempt]
			delete(joined, g.attempt)
			if !stood || g.mode != "x" || g.name != "" || free > n.At ||
				slices.ContainsFunc(r.holders(n.Before, n), g.same) {
				continue
			}
			res.Examined++
			longest = max(longest, r.freeUntil(n, g.attempt, max(since, free), limit, res))
		}
		if last := n.After.Queue.Last; last != n.Before.Queue.Last && last.Attempt != "" && last.Attempt != "-" {
			joined[last.Attempt] = n.At
		}
		if n.Action == "cancel" {
			delete(joined, n.Caller)
		}
		if n.After.Queue == (audit.Queue{}) {
			clear(joined)
		}
	}
	return longest
}

// freeUntil judges one grant of a lock that was free since then. It returns how long the
// lock was free, 0 if a fault was active.
func (r *Run) freeUntil(n audit.Note, attempt string, since, limit int64, res *Result) int64 {
	late := (n.At-since)*1000 > limit
	if r.anyFault(r.machine(since), r.machine(n.At)) || r.setBack(r.machine(n.At)) {
		if late {
			res.Excused++
		}
		return 0
	}
	if late {
		res.findf(r.machine(n.At), lockOf(n.Key), "%s by %s was granted it %v after it was free",
			n.Action, attempt, time.Duration(n.At-since)*time.Microsecond)
	}
	return n.At - since
}

// anyFault reports whether any fault was about between two instants, or until so
// shortly before that somebody still connects anew.
func (r *Run) anyFault(from, till int64) bool {
	return slices.ContainsFunc(r.Faults, func(f history.FaultSpan) bool {
		return f.From <= till && from <= f.Till+int64(r.Setup.TTL+aftermath(f))
	})
}

// Veto checks that no minority of a quorum keeps a lock from everybody. While faults hit
// only one or two servers, a lock that several clients want is granted again within two
// leases, once nobody trusts it. It judges what the clients saw, and allows for the time
// that requests take.
func (r *Run) Veto() Result {
	res := Result{
		Name: "no-veto", Guarantees: "Q1 Q2",
		Promise: "on a quorum, a lock is granted within two leases, even if a minority does not grant it",
	}
	if !r.mute() {
		return res
	}
	limit := 2*int64(r.Setup.TTL) + int64(patience)/3
	var longest int64
	for _, lock := range r.locks() {
		free := int64(0)
		for _, h := range r.Holds[lock] {
			since := max(free, h.Asked)
			if h.Mode == "x" && free != 0 && since < h.At && r.onlyMinority(since, h.At) {
				res.Examined++
				longest = max(longest, h.At-since)
				if h.At-since > limit {
					res.findf(h.At, lock, "client %d waited for %v though nobody had it, and a majority was well",
						h.Proc, time.Duration(h.At-since))
				}
			}
			// If the client died, its lease was over by then.
			end := h.At + int64(r.Setup.TTL)
			if h.Over != nil {
				end = h.Over.At
			}
			free = max(free, end)
		}
	}
	res.Figure = fmt.Sprintf("longest: %v", time.Duration(longest).Round(time.Millisecond))
	return res
}

// onlyMinority reports that, between two instants, faults hit at least one server of a
// quorum, no more than a minority, and nothing else.
func (r *Run) onlyMinority(from, till int64) bool {
	hurt := make(map[string]bool)
	for _, f := range r.Faults {
		// A server that has forgotten its records does not count for a while.
		if f.From > till || from > f.Till+3*int64(r.Setup.TTL) {
			continue
		}
		if len(f.Servers) == 0 {
			return false
		}
		for _, s := range f.Servers {
			hurt[s] = true
		}
	}
	return len(hurt) > 0 && len(hurt) <= 2
}

// Dropped checks that a lease whose handle was dropped does not end before its time: only
// its renewal stops.
func (r *Run) Dropped() Result {
	res := Result{
		Name: "dropped-handles", Guarantees: "G7",
		Promise: "a lease that its program has dropped lasts until its time is over",
	}
	if r.mute() {
		return res
	}
	closed := make(map[string]bool) // by attempt: what its client gave back as it was closed
	for _, e := range r.Events {
		closed[e.Owner] = closed[e.Owner] || e.Kind == history.Drop && e.How == history.Stopped
	}
	for _, e := range r.Events {
		if e.Kind != history.Drop || closed[e.Owner] {
			continue
		}
		g := r.byAttempt(e.Lock).of(e.Owner, e.Token)
		switch {
		case g == nil:
			if r.lossBetween(e.Asked, e.At) || r.blindBetween(e.Asked, e.At) {
				res.Excused++
			}
		case g.evicted, r.excuse(e.Asked, e.At+int64(r.Setup.TTL), e.Proc):
			res.Excused++
		case g.released:
			res.Examined++
			res.findf(r.machine(g.till), e.Lock, "client %d lost sight of %s, and it was released", e.Proc, e.Owner)
		default:
			res.Examined++
		}
	}
	return res
}

// Frozen checks that a process which is stopped delays a line once: while it does not
// answer, at most one of its waiters is granted a lock that it then cannot use. What it
// had asked before it was stopped may come to the server much later, on a machine that
// has too much to do. By that the client shows life, and may be granted the lock anew.
func (r *Run) Frozen() Result {
	res := Result{
		Name: "frozen-once", Guarantees: "G9",
		Promise: "a stopped client with many waiters delays the wait queue once, not once per waiter",
	}
	if r.mute() {
		return res
	}
	for _, f := range r.Faults {
		if f.Name != "stop" || f.Err != "" || len(f.Procs) != 1 {
			continue
		}
		for _, key := range r.keys() {
			granted := r.grantedTo(key, f)
			switch {
			case len(granted) == 0:
				continue
			case r.mostUnasked(key, f.Procs[0], granted) < 2:
			case r.lossBetween(f.From, f.Till), r.blindBetween(f.From, f.Till):
				res.Excused++ // and with it who does not answer, or what was asked for
			default:
				res.findf(r.machine(granted[1].from), lockOf(key),
					"client %d was stopped for %v, and was granted it %d times",
					f.Procs[0], since(f.From, f.Till), r.mostUnasked(key, f.Procs[0], granted))
			}
			res.Examined++
		}
	}
	return res
}

// mostUnasked is how many of a client's grants were made, at most, without a request of its
// own between them that the server carried out.
func (r *Run) mostUnasked(key string, proc int, all []*granted) (most int) {
	notes, count := r.Notes[key], 0
	for _, g := range all {
		for len(notes) > 0 && notes[0].At <= g.from {
			if slices.ContainsFunc(strings.Split(notes[0].Caller, ","), func(attempt string) bool {
				return r.proc(attempt) == proc
			}) {
				count = 0
			}
			notes = notes[1:]
		}
		count++
		most = max(most, count)
	}
	return most
}

// grantedTo is the exclusive grants of a lock to the client that a fault has stopped.
func (r *Run) grantedTo(key string, f history.FaultSpan) (list []*granted) {
	for _, g := range r.follow().holds[key] {
		at := r.machine(g.from)
		if at <= f.From+unsaid || at >= f.Till || g.evicted { // an operator delays nobody
			continue
		}
		if g.mode == "x" && g.name == "" && r.proc(g.attempt) == f.Procs[0] {
			list = append(list, g)
		}
	}
	return list
}
