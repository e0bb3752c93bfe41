// Package check judges a history of the fault suite. Each check is a pure function of the
// history. It says how much it examined, what must not have happened, and what it
// excused: a fault was active under which that is not promised (docs/guarantees.md).
// Everything that is excused is counted.
package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/audit"
	"github.com/holdfast-go/holdfast/verify/history"
)

// Result is what one check says.
type Result struct { //nolint:recvcheck // filled in by its check, and then only read
	Name       string    `json:"name"`
	Promise    string    `json:"promise"`          // what must be, in words
	Guarantees string    `json:"guarantees"`       // of docs/guarantees.md
	Examined   int       `json:"examined"`         // so many holds, changes or whatever it is about
	Excused    int       `json:"excused"`          // not as promised, under a fault under which it is not promised
	Undecided  int       `json:"undecided"`        // neither shown nor refuted; no proof of anything
	Figure     string    `json:"figure,omitempty"` // what was measured on the way
	Violations []Finding `json:"violations,omitempty"`
}

// Passed reports that nothing was found.
func (r Result) Passed() bool { return len(r.Violations) == 0 }

// Finding is something that must not be.
type Finding struct {
	At   int64  `json:"at,omitempty"`
	Lock string `json:"lock,omitempty"`
	Text string `json:"text"`
}

// findf notes a violation.
func (r *Result) findf(at int64, lock, format string, args ...any) {
	r.Violations = append(r.Violations, Finding{At: at, Lock: lock, Text: fmt.Sprintf(format, args...)})
}

// Hold is a hold as its client saw it.
type Hold struct {
	Client  string
	Proc    int
	Passing bool  // its process passes locks on among its goroutines
	Since   int64 // when the attempt was first asked for: passed on, a hold is older than its lease
	*history.Event
	Over *history.Event // how it ended; nil if the process did not live to say so
}

// Trusted is the last instant at which the client was seen to trust the hold;
// before its beginning if it never was.
func (h *Hold) Trusted() int64 {
	if h.Over == nil {
		return 0
	}
	return h.Over.Trusted
}

// Run is a history in the order that checks need.
type Run struct {
	Setup  history.Setup
	Events []history.Event
	Faults []history.FaultSpan
	Holds  map[string][]*Hold      // by lock, in the order in which they were got
	Notes  map[string][]audit.Note // by key, in the server's order
	Limits map[string]int          // of semaphores, by lock
	Procs  map[string]int          // by the library's id of a client

	meant map[string]map[uint64]int64 // by lock and token of the server: when an eviction was about to be made

	names   []string // of the locks in Holds, in order
	records []string // the keys of Notes, in order
	clock   clock    // of the one server
	unread  []string // notes that could not be read
	account *followed
}

// unsettled prolongs a change of the primary that nobody saw the end of: it lasts until
// the servers were next seen to have settled, at the end of another, or to the end.
func (r *Run) unsettled() {
	role := func(f history.FaultSpan) bool { return f.Loses && (f.Name == "crash" || f.Name == "failover") }
	for i := range r.Faults {
		f := &r.Faults[i]
		if f.Err == "" || !role(*f) || !r.replicated() {
			continue
		}
		till := f.Till
		for i := range r.Events {
			till = max(till, r.Events[i].At)
		}
		for _, next := range r.Faults[i+1:] {
			if next.Err == "" && role(next) && next.Till > f.Till {
				till = min(till, next.Till)
			}
		}
		f.Till = till
	}
}

// holdID finds a hold's other events.
type holdID struct {
	client string
	id     uint64
}

// Index puts a history in order. limits are those of the semaphores in it.
func Index(events []history.Event, limits map[string]int) *Run {
	r := &Run{
		Events: events, Limits: limits, Holds: make(map[string][]*Hold), Notes: make(map[string][]audit.Note),
		Procs: make(map[string]int), meant: make(map[string]map[uint64]int64),
	}
	passing := make(map[string]bool)
	holds := make(map[holdID]*Hold)
	first := make(map[string]int64) // by attempt
	seen := make(map[string]bool)   // replicas and other nodes repeat notes
	var notes []*history.Event
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case history.Began:
			r.Setup = *e.Setup
		case history.Ready:
			passing[e.Client] = e.Local
			r.Procs[e.Client] = e.Proc
		case history.Got:
			h := &Hold{Client: e.Client, Proc: e.Proc, Passing: passing[e.Client], Event: e}
			holds[holdID{e.Client, e.ID}] = h
			if _, known := first[e.Lock+e.Owner]; !known {
				first[e.Lock+e.Owner] = e.Asked
			}
			first[e.Lock+e.Owner] = min(first[e.Lock+e.Owner], e.Asked)
			r.Holds[e.Lock] = append(r.Holds[e.Lock], h)
		case history.End:
			if h := holds[holdID{e.Client, e.ID}]; h != nil {
				h.Over = e
			}
		case history.Evict:
			if r.meant[e.Lock] == nil {
				r.meant[e.Lock] = make(map[uint64]int64)
			}
			r.meant[e.Lock][e.Token>>10] = e.At
		case history.Fault:
			r.Faults = append(r.Faults, *e.Fault)
		case history.Note:
			if !seen[e.Text] {
				seen[e.Text] = true
				notes = append(notes, e)
			}
		default: // told of elsewhere
		}
	}
	r.clock = clockOf(r.Faults)
	r.notes(notes)
	for _, list := range r.Holds {
		slices.SortStableFunc(list, func(a, b *Hold) int { return cmp.Compare(a.At, b.At) })
		for _, h := range list {
			h.Since = first[h.Lock+h.Owner]
		}
	}
	slices.SortFunc(r.Faults, func(a, b history.FaultSpan) int { return cmp.Compare(a.From, b.From) })
	r.unsettled()
	r.names, r.records = slices.Sorted(maps.Keys(r.Holds)), slices.Sorted(maps.Keys(r.Notes))
	return r
}

// notes reads the account. What one server says is heard in its order, and so are the
// steps of its clock found. Where several servers speak, each is heard over a connection
// of its own: then their clocks put the notes in order.
func (r *Run) notes(events []*history.Event) {
	var all []audit.Note
	var readings []reading
	said := make(map[string][]int) // by server: its notes in all
	for _, e := range events {
		n, err := audit.Parse(e.Text)
		if err != nil {
			r.unread = append(r.unread, err.Error())
			continue
		}
		said[n.Server] = append(said[n.Server], len(all))
		all, readings = append(all, n), append(readings, reading{r.machine(n.At), e.At})
	}
	for server, mine := range said {
		steps := r.clock.of(server)
		if len(steps) == 0 {
			continue
		}
		heard := make([]reading, len(mine))
		for i, n := range mine {
			heard[i] = readings[n]
		}
		for i, ahead := range steps.follow(heard) {
			all[mine[i]].Ahead = ahead / 1000
		}
	}
	for _, n := range all {
		n.At -= n.Ahead
		r.Notes[n.Key] = append(r.Notes[n.Key], n)
	}
	if !r.replicated() {
		return
	}
	for _, list := range r.Notes {
		slices.SortStableFunc(list, func(a, b audit.Note) int { return cmp.Compare(a.At, b.At) })
	}
}

// machine is an instant of the server's clock, in µs, on that of the events.
func (r *Run) machine(micros int64) int64 { return micros*1000 - r.Setup.Skew }

// proc is the process that made an attempt, 0 if it is none of the run's.
func (r *Run) proc(attempt string) int {
	client, _, _ := strings.Cut(attempt, "/")
	return r.Procs[client]
}

// key is the record of a lock.
func (r *Run) key(lock string) string { return r.Setup.Prefix + ":{" + lock + "}" }

// lockOf is the lock of a record.
func lockOf(key string) string {
	_, name, _ := strings.Cut(key, "{")
	return strings.TrimSuffix(name, "}")
}

// excuse reports whether a hold that was asked for at since, and ought still to
// have been exclusive at now, may have lost its record: a fault that loses
// records came between, and the leases from before it were not over yet. A client
// that was stopped meanwhile learns of it a lease after it goes on.
func (r *Run) excuse(since, now int64, proc int) bool {
	return r.excuseFor(since, now, proc, r.Setup.TTL, 0)
}

// excuseFor is excuse for a hold whose lease lasts for so long without a renewal. The clock of a server that steps
// by less than its lock-delay excuses nothing.
func (r *Run) excuseFor(since, now int64, proc int, lease, delay time.Duration) bool {
	return slices.ContainsFunc(r.Faults, func(f history.FaultSpan) bool {
		if !f.Loses || since > f.Till+underWay(f) || now < f.From {
			return false
		}
		if len(f.Steps) > 0 && r.clock.spread(since-around, now, r.replicated() || r.mute()) < delay {
			return false
		}
		over := f.Till + int64(lease)
		for _, s := range r.Faults {
			if slices.Contains(s.Procs, proc) && f.From <= s.Till && s.From <= over {
				over = max(over, s.Till+int64(lease))
			}
		}
		return now <= over
	})
}

// underWay is for how long after a fault somebody may be granted what it has ended: an
// action that was at work when the clock was moved goes on by the time from before.
func underWay(f history.FaultSpan) int64 {
	if len(f.Steps) > 0 {
		return around
	}
	return 0
}

// lossBetween reports whether records may have been lost between two instants.
func (r *Run) lossBetween(from, till int64) bool {
	return slices.ContainsFunc(r.Faults, func(f history.FaultSpan) bool {
		return f.Loses && f.From <= till && from <= f.Till+underWay(f)
	})
}

// unsaid is for how long before it is killed a server may keep what it has to
// say: an answer can have left it, and the note of it not.
const unsaid = int64(100 * time.Millisecond)

// blindBetween reports whether notes may be missing between two instants: those of the
// last scripts before a server was killed or, if it was stopped before, before the stop.
func (r *Run) blindBetween(from, till int64) bool {
	return slices.ContainsFunc(r.Faults, func(f history.FaultSpan) bool {
		return f.Blind && from <= f.Till && r.stopped(f.From)-unsaid <= till
	})
}

// stopped is since when a server has stood still at an instant: the instant itself if
// none has.
func (r *Run) stopped(at int64) int64 {
	since := at
	for _, f := range r.Faults {
		if f.Name == "server-stop" && f.From <= at && at-unsaid <= f.Till {
			since = min(since, f.From)
		}
	}
	return since
}

// parted reports whether two servers may both have been primaries at an instant.
func (r *Run) parted(at int64) bool {
	return r.replicated() && r.lossBetween(at, at)
}

// replicated reports whether a record may be taken over by a server that has an older one.
func (r *Run) replicated() bool {
	return r.Setup.Topology == "sentinel" || r.Setup.Topology == "cluster"
}

// reverts reports whether a record may be again what it was a while ago: by another
// server that has an older one, or by a log of which the end is lost.
func (r *Run) reverts() bool { return r.replicated() || r.Setup.Topology == "everysec" }

// mute reports whether the servers give no account: in a quorum no server knows alone
// which attempt holds a lock. Then the checks judge only what the clients saw.
func (r *Run) mute() bool { return r.Setup.Topology == "quorum" }

// locks lists the locks that clients held, in order.
func (r *Run) locks() []string { return r.names }

// keys lists the records that there are notes of, in order.
func (r *Run) keys() []string { return r.records }

// since is a duration between two instants, for people.
func since(from, till int64) time.Duration { return time.Duration(till - from).Round(time.Microsecond) }

// All runs every check. A check fails if it has examined nothing although the history has
// something for it.
func All(r *Run) []Result {
	all := []Result{
		r.ServerExclusion(), r.Continuity(), r.ClientExclusion(), r.Backed(), r.TokensRise(), r.TokensInTime(),
		r.Updates(), r.LossSignalled(), r.ReleasesTrue(), r.Periods(), r.Terms(), r.Linearizable(),
		r.Order(), r.Owners(), r.Least(), r.Evictions(), r.Refused(), r.Told(), r.Free(), r.Veto(), r.Dropped(),
		r.Frozen(), r.Recovery(), r.NothingLeft(), r.Ends(), r.Bite(),
	}
	subjects := r.subjects()
	for i := range all {
		if c := &all[i]; c.Examined == 0 && c.Excused == 0 && c.Passed() && subjects[c.Name] {
			c.findf(0, "", "it looked at nothing, though there was something to look at")
		}
	}
	return all
}

// subjects names the checks for which a history must have something.
func (r *Run) subjects() map[string]bool {
	s := make(map[string]bool)
	for _, e := range r.Events {
		switch e.Kind {
		case history.Got:
			s["client-exclusion"], s["tokens-in-time"] = true, true
			s["server-exclusion"], s["record-continuity"], s["tokens-rise"] = !r.mute(), !r.mute(), !r.mute()
			s["owners"] = s["owners"] || e.Name != ""
			s["order"] = s["order"] || e.Mode == "x" && e.Name == "" && !e.Local
		case history.End:
			s["trust-is-backed"] = s["trust-is-backed"] || !r.mute() && e.Trusted > e.At-int64(time.Millisecond)
		case history.Write:
			s["updates"] = s["updates"] || !e.Stale
		case history.Run:
			s["once-per-period"] = !r.mute()
		case history.Term:
			s["terms"] = true
		case history.Try:
			s["refused"] = true
		case history.Drop:
			s["dropped-handles"] = !r.mute()
		case history.Fault:
			s["faults-bite"] = true
		case history.Stats: // of the end
			s["nothing-left"] = true
		case history.Gone:
			s["orderly-ends"] = true
		default: // there is no check of it alone
		}
	}
	return s
}
