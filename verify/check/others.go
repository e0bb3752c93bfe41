package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/verify/history"
)

// Periods checks jobs by the server's account: each period is begun once. A run
// that gave its period back does not count.
func (r *Run) Periods() Result {
	res := Result{
		Name: "once-per-period", Guarantees: "G20 G21",
		Promise: "at most one run of a job begins in each period",
	}
	for _, key := range r.keys() {
		begun := make(map[int64]string) // end of a period: whose run
		for _, n := range r.Notes[key] {
			switch {
			case n.Action == "cancel_run" && n.Before.Run != "" && n.After.Run == "":
				delete(begun, n.Before.Next)
			case n.Action == "begin_run" && n.After.Run != "" && n.After.Run != n.Before.Run:
				res.Examined++
				before, twice := begun[n.After.Next]
				begun[n.After.Next] = n.After.Run
				at := r.machine(n.At)
				switch {
				case !twice:
				case r.lossBetween(at-2*int64(r.Setup.TTL), at), r.setBack(at),
					r.blindBetween(at-2*int64(r.Setup.TTL), at):
					// A clock that is set back has the same times twice.
					res.Excused++
				default:
					res.findf(at, lockOf(key), "%s began the period that %s had begun", n.After.Run, before)
				}
			}
		}
	}
	return res
}

// Terms checks what observers of an election were told.
func (r *Run) Terms() Result {
	res := Result{
		Name: "terms", Guarantees: "G22 G23",
		Promise: "an observer of an election sees terms that never fall, each with the value of its own leader",
	}
	last := make(map[string]uint64)
	for _, e := range r.Events {
		if e.Kind != history.Term {
			continue
		}
		res.Examined++
		if e.How != "" {
			res.findf(e.At, e.Lock, "client %d: %s", e.Proc, e.Err)
		}
		if e.Token < last[e.Client] {
			if r.parted(e.At) || r.excuse(0, e.At, e.Proc) {
				res.Excused++
			} else {
				res.findf(e.At, e.Lock, "client %d saw term %d after %d", e.Proc, e.Token, last[e.Client])
			}
		}
		last[e.Client] = max(last[e.Client], e.Token)
	}
	return res
}

// Gap is how long a lock that everybody wants stood still after a fault.
type Gap struct {
	Fault history.FaultSpan `json:"fault"`
	After time.Duration     `json:"after"` // from the end of the fault to the next grant
	Lock  string            `json:"lock"`
}

// Gaps lists for each fault the lock that came back last, slowest first. A fault
// that is followed by another before anything was granted is left out: what it
// took cannot be told from what the next one cost.
func (r *Run) Gaps() []Gap {
	var gaps []Gap
	// Other locks are one process's own, or nobody may have asked for them.
	wanted := slices.DeleteFunc(slices.Clone(r.locks()), func(lock string) bool { return strings.Contains(lock, "/") })
	for i, f := range r.Faults {
		if f.Err != "" {
			continue
		}
		next := int64(1<<63 - 1)
		for j, o := range r.Faults {
			if i != j && o.Err == "" && o.Till > f.Till {
				next = min(next, max(o.From, f.Till))
			}
		}
		gap := Gap{Fault: f}
		for _, lock := range wanted {
			at := r.grantAfter(lock, f.Till)
			if at == 0 || at > next {
				continue // nobody asked, or the run ended
			}
			if after := time.Duration(at - f.Till); after > gap.After {
				gap.After, gap.Lock = after, lock
			}
		}
		if gap.Lock != "" {
			gaps = append(gaps, gap)
		}
	}
	slices.SortFunc(gaps, func(a, b Gap) int { return cmp.Compare(b.After, a.After) })
	return gaps
}

// grantAfter is the first grant of a lock after an instant, 0 if there is none.
func (r *Run) grantAfter(lock string, at int64) int64 {
	list := r.Holds[lock]
	i, _ := slices.BinarySearchFunc(list, at, func(h *Hold, at int64) int { return cmp.Compare(h.At, at) })
	if i == len(list) {
		return 0
	}
	return list[i].At
}

// patience is what a recovery may take beyond a lease: connections are made
// anew, and the machine has other things to do.
const patience = 15 * time.Second

// unnoticed is how long a client may take to notice that a connection is dead, and to get over another one what it
// needs: the library promises that (docs/runbook.md). What a fault has forgotten stays dead after the fault.
// This is the one place for that bound.
const unnoticed = 5 * time.Second

// aftermath is for how long after its end a fault still hurts its clients.
func aftermath(f history.FaultSpan) time.Duration {
	if f.Name == "forget" {
		return unnoticed
	}
	return 0
}

// recovers is within what time after a fault each lock must be granted again. After a fault that has only forgotten
// connections, nothing has to recover but its clients, unless there was another one.
func (r *Run) recovers(f history.FaultSpan) time.Duration {
	only := f.Name == "forget" && !slices.ContainsFunc(r.Faults, func(o history.FaultSpan) bool {
		return o.Name != f.Name && o.From <= f.Till && f.Till <= o.Till+int64(r.Setup.TTL+patience)
	})
	if only {
		return r.Setup.TTL + unnoticed
	}
	return r.Setup.TTL + patience
}

// Recovery checks that locks are granted again after each fault, and that their new holders learn of it.
func (r *Run) Recovery() Result {
	res := Result{
		Name: "recovery", Guarantees: "G9 G10",
		Promise: "after a fault, every lock is granted again within one TTL and the time to connect; " +
			"a client learns of a grant within 5 s, although its connections are dead",
	}
	gaps, learned := r.Gaps(), r.grantLearned(&res)
	res.Examined += len(gaps)
	for _, g := range gaps {
		if g.After > r.recovers(g.Fault) {
			res.findf(g.Fault.Till, g.Lock, "it stood still for %v after %s", g.After, g.Fault.Name)
		}
	}
	if len(gaps) > 0 {
		at := func(p int) time.Duration { // nearest rank, and the list falls
			return gaps[len(gaps)-max((len(gaps)*p+99)/100, 1)].After.Round(time.Millisecond)
		}
		res.Figure = fmt.Sprintf("p50 %v, p99 %v, longest %v; ", at(50), at(99), at(100))
	}
	res.Figure += fmt.Sprintf("a grant was learned of after %v at the latest", learned.Round(time.Millisecond))
	// A lock for which all wait and which nobody gets is the end of the run: the
	// last fault is healed a while before. A fault that the end of the run interrupted was
	// not healed before it.
	healed := slices.DeleteFunc(slices.Clone(r.Faults), func(f history.FaultSpan) bool { return f.Err != "" })
	if n := len(healed); n > 0 {
		for _, lock := range r.locks() {
			if last := healed[n-1]; !strings.Contains(lock, "/") && r.grantAfter(lock, last.Till) == 0 {
				res.findf(last.Till, lock, "nobody got it any more after the last fault")
			}
		}
	}
	return res
}

// grantLearned judges how long clients did not know of a grant, where only connections were dead: a push was lost,
// or an answer. It returns the longest time. What a half-open link holds back arrives when that is over.
func (r *Run) grantLearned(res *Result) (longest time.Duration) {
	if r.mute() {
		return 0
	}
	known := make(map[string]bool)
	for _, lock := range r.locks() {
		grants := r.byAttempt(lock)
		for _, h := range r.Holds[lock] {
			g := grants.of(h.Owner, h.Token)
			if g == nil || h.Passing || h.Local || h.Name != "" || known[h.Owner] {
				continue // others of its process knew of it before
			}
			known[h.Owner] = true
			from, onlyDead := r.machine(g.from), true
			for _, f := range r.Faults {
				switch {
				case f.From > h.At:
				case f.Name == "half-open" && f.Till >= from:
					from = f.Till
				case f.Name != "half-open" && f.Name != "forget" && from <= f.Till+int64(r.Setup.TTL+patience):
					onlyDead = false
				}
			}
			late := time.Duration(h.At - from - r.slack())
			if late > unnoticed {
				late -= time.Duration(r.stalled(h.Proc, from, h.At)) // looks at all events
			}
			switch {
			case onlyDead:
				res.Examined++
				longest = max(longest, late)
				if late > unnoticed {
					res.findf(h.At, lock, "client %d learned of the grant to %s only after %v", h.Proc, h.Owner, late)
				}
			case late > unnoticed:
				res.Excused++
			}
		}
	}
	return longest
}

// NothingLeft checks what the servers and the clients have at the end.
func (r *Run) NothingLeft() Result {
	res := Result{
		Name: "nothing-left", Guarantees: "G13",
		Promise: "every key has a TTL and does not outlive it, and a closed client has released all that it used",
	}
	kept := int64(0)
	for _, e := range r.Events {
		if e.Kind != history.Stats {
			continue
		}
		if n := r.orphans(e); n > 0 {
			kept += n
			res.Excused++
			continue
		}
		for name, n := range e.Counts {
			if name == "fenced" || name == "plain" {
				continue
			}
			res.Examined++
			// A key is made before it can be given a life time. The next action does that.
			if n > 0 && name == "keys without a life time" && r.unexpiring() {
				res.Excused++
				continue
			}
			if n > 0 {
				which := ""
				if e.Proc == 0 {
					which = e.Text
				}
				res.findf(e.At, "", "client %d: %d %s too many (0: the servers) %s", e.Proc, n, name, which)
			}
		}
	}
	if kept > 0 {
		res.Figure = fmt.Sprintf("connections that the client library keeps after it was closed: %d", kept)
	}
	return res
}

// unexpiring reports whether the clients could not give keys a life time for a while.
func (r *Run) unexpiring() bool {
	return slices.ContainsFunc(r.Faults, func(f history.FaultSpan) bool {
		return f.Name == "no-perm" && strings.HasPrefix(f.Text, "pexpire")
	})
}

// orphans is how many files a process has left that belong to its client library: nothing
// runs in it but connections of rueidis. If rueidis makes a connection while its primary
// is replaced, it uses that connection in place of the closed one and never closes it. A
// connection that was used has a goroutine that reads and one that writes.
func (r *Run) orphans(e history.Event) int64 {
	if !slices.Contains([]string{"sentinel", "cluster"}, r.Setup.Topology) {
		return 0
	}
	theirs := false
	for stack := range strings.SplitSeq(e.Text, "\n\n") {
		switch {
		case !strings.Contains(stack, "#\t"): // no goroutine
		case strings.Contains(stack, "workload.running+"), strings.Contains(stack, "childproc.(*Orders).Obey+"):
		case strings.Contains(stack, "rueidis.(*pipe)."):
			theirs = true
		default:
			return 0
		}
	}
	if !theirs {
		return 0
	}
	return e.Counts["files"]
}

// Ends checks that the processes ended as they were told to, and that no error
// came to a caller that a correct program never sees.
func (r *Run) Ends() Result {
	res := Result{
		Name: "orderly-ends", Guarantees: "G10 G18",
		Promise: "every process ends when it is told to, and every error is of a known kind",
	}
	for _, e := range r.Events {
		switch {
		case e.Kind == history.Gone:
			res.Examined++
			if e.How == history.Broken {
				res.findf(e.At, "", "client %d: %s", e.Proc, e.Err)
			}
		case e.How == history.Broken && e.Kind != history.Term:
			res.findf(e.At, e.Lock, "client %d, %s: %s", e.Proc, e.Kind, e.Err)
		}
	}
	return res
}

// Bite checks that the run was one: that each fault happened, and that clients
// and server had something to say.
func (r *Run) Bite() Result {
	res := Result{
		Name:    "faults-bite",
		Promise: "each requested fault was injected, and each workload acquired its locks",
	}
	done := make(map[string]int)
	for _, f := range r.Faults {
		res.Examined++
		if f.Err == "" {
			done[f.Name]++
		} else {
			res.Undecided++
		}
	}
	for _, name := range r.Setup.Faults {
		if done[name] == 0 && r.Setup.Asked {
			res.findf(0, "", "%s was never injected: give the run more time", name)
		}
	}
	worked := make(map[string]bool)
	for _, e := range r.Events {
		if e.Kind == history.Got || e.Kind == history.Run {
			worked[e.Work] = true
		}
	}
	for _, name := range r.Setup.Works {
		if !worked[name] {
			res.findf(0, "", "%s never got what it wanted", name)
		}
	}
	return res
}
