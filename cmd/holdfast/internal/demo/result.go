package demo

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
)

// Result is what a run has shown. Its JSON form is a contract: fields may be
// added, and are never renamed, removed or given another type.
type Result struct {
	OK            bool     `json:"ok"`       // everything was as it must be
	Problems      []string `json:"problems"` // what was not
	Server        string   `json:"server"`   // the program, or "miniredis"
	ServerVersion string   `json:"server_version"`
	Address       string   `json:"address"`
	Embedded      bool     `json:"embedded"`

	Workers      int   `json:"workers"`
	DurationMS   int64 `json:"duration_ms"`
	LeaseMS      int64 `json:"lease_ms"`
	Acquisitions int   `json:"acquisitions"` // grants, by the server's account

	Handovers     int   `json:"handovers"` // those that the latencies are of
	HandoverP50US int64 `json:"handover_p50_us"`
	HandoverP99US int64 `json:"handover_p99_us"`

	Overlaps            int   `json:"overlaps"`              // at the server
	Writes              int   `json:"writes"`                // that the fenced register took
	LostUpdates         int64 `json:"lost_updates"`          // of these
	StaleWritesRefused  int   `json:"stale_writes_refused"`  // by the fenced register
	LostUpdatesUnfenced int64 `json:"lost_updates_unfenced"` // the same work without fencing

	Killed     int   `json:"killed"`
	TakeoverMS int64 `json:"takeover_ms"` // from the kill to the next grant
	Paused     int   `json:"paused"`
	Missed     int   `json:"missed"` // turns that failed and were tried again

	rows       []row
	from, till int64
}

// judge sums the run up.
func (r *run) judge(ctx context.Context) (*Result, error) {
	end, err := serverTime(ctx, r.rdb)
	if err != nil {
		return nil, err
	}
	fenced, plain, err := filesIn(r.dir).read(math.MaxInt64)
	if err != nil {
		return nil, err
	}
	grants, losses := r.account.grants, lossesOf(r.events, fenced, plain)
	latencies := handovers(grants, holdsOf(r.events))
	res := &Result{
		Server: r.server.Name, ServerVersion: r.server.Version,
		Address: r.server.Addr, Embedded: r.server.Embedded,
		Workers: r.opts.Workers, DurationMS: (end - r.zero) / 1000,
		LeaseMS:      r.opts.lease().Milliseconds(),
		Acquisitions: len(grants),
		Handovers:    len(latencies),

		HandoverP50US: percentile(latencies, 50) / int64(time.Microsecond),
		HandoverP99US: percentile(latencies, 99) / int64(time.Microsecond),

		Overlaps:    overlaps(grants),
		Writes:      losses.Taken,
		LostUpdates: losses.Fenced,

		StaleWritesRefused:  losses.Refused,
		LostUpdatesUnfenced: losses.Plain,

		Killed: len(r.killed), TakeoverMS: r.takeover(grants), Paused: len(r.stopped), Missed: r.missed,
		rows: r.rows(grants), from: r.zero, till: end,
	}
	res.Problems = res.problems()
	res.Problems = append(res.Problems, r.account.problems...)
	res.OK = len(res.Problems) == 0
	return res, nil
}

// problems says what must not be. A run in which the blows did not land has
// shown nothing, so that is one too.
func (res *Result) problems() []string {
	problems := []string{} // never nil: it is a list in JSON, too
	add := func(broken bool, format string, args ...any) {
		if broken {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	add(res.Overlaps > 0, "%d times the server had two holders at once", res.Overlaps)
	add(res.LostUpdates != 0, "%d updates were lost despite fencing", res.LostUpdates)
	add(res.Killed == 0, "no holder was killed")
	add(res.Paused == 0, "no holder was paused")
	add(res.StaleWritesRefused == 0, "the paused holder's late write was not refused")
	add(res.Acquisitions == 0, "no worker got the lock")
	return problems
}

// takeover is how long the lock of the killed holder stood still, in ms.
func (r *run) takeover(grants []grant) int64 {
	for _, k := range r.killed {
		for _, h := range grants {
			if h.From > k.From {
				return (h.From - k.From) / 1000
			}
		}
	}
	return 0
}

// rows arranges holds and blows by worker.
func (r *run) rows(grants []grant) []row {
	rows := make([]row, r.opts.Workers)
	for i := range rows {
		rows[i].Name = fmt.Sprintf("worker %d", i+1)
	}
	for _, h := range grants {
		if number := r.workerOf(h.Attempt); number > 0 {
			rows[number-1].Holds = append(rows[number-1].Holds, span{h.From, h.Till})
		}
	}
	for _, m := range r.killed {
		rows[m.worker-1].Killed = append(rows[m.worker-1].Killed, m.From)
	}
	for _, m := range r.stopped {
		rows[m.worker-1].Stopped = append(rows[m.worker-1].Stopped, m.span)
	}
	for _, m := range r.late {
		rows[m.worker-1].Refused = append(rows[m.worker-1].Refused, m.From)
	}
	return rows
}

// Look is how a result is written.
type Look struct {
	Unicode bool // else ASCII only
	Color   bool
}

// columns is the width of the timeline: with the names it fits 80.
const columns = 66

// Text is the result for a reader: who held when, the figures, and what they
// prove.
func (res *Result) Text(look Look) string {
	g := asciiGlyphs
	if look.Unicode {
		g = unicodeGlyphs
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\nWho held the lock, as the server recorded it. One sample per column, every %d ms:\n\n",
		(res.till-res.from)/columns/1000)
	b.WriteString(timeline(res.rows, res.from, res.till, columns, g))
	fmt.Fprintf(&b, "\n  %c holds  %c killed  %c dead, lease not expired  %c paused  %c late write refused\n\n",
		g.holds, g.killed, g.dead, g.stopped, g.refused)
	res.figures(&b, look)
	res.verdict(&b, look)
	return b.String()
}

func (res *Result) figures(b *strings.Builder, look Look) {
	line := func(name, value, text string, bad bool) {
		value = fmt.Sprintf("%9s", value)
		if bad {
			value = look.paint(red, value)
		}
		fmt.Fprintf(b, "  %-26s%s   %s\n", name, value, text)
	}
	count := func(n int) string { return fmt.Sprint(n) }
	line("acquisitions", count(res.Acquisitions),
		fmt.Sprintf("by %d processes in %.1fs", res.Workers, float64(res.DurationMS)/1000), res.Acquisitions == 0)
	line("hand-over p50", millis(res.HandoverP50US),
		"from Release to the next process's Lock", false)
	line("hand-over p99", millis(res.HandoverP99US), fmt.Sprintf("of %d hand-overs by push", res.Handovers), false)
	line("overlaps at the server", count(res.Overlaps), "grants before the earlier hold had ended", res.Overlaps > 0)
	line("lost updates, fenced", fmt.Sprint(res.LostUpdates),
		fmt.Sprintf("of %d writes, checked by token", res.Writes), res.LostUpdates != 0)
	line("stale writes refused", count(res.StaleWritesRefused), "from a holder whose lease had expired",
		res.StaleWritesRefused == 0)
	line("lost updates, not fenced", fmt.Sprint(res.LostUpdatesUnfenced),
		"same work, a file without that check", false)
}

func (res *Result) verdict(b *strings.Builder, look Look) {
	if !res.OK {
		fmt.Fprintf(b, "\n%s\n", look.paint(red, "Something went wrong:"))
		for _, p := range res.Problems {
			fmt.Fprintf(b, "  %s\n", p)
		}
		return
	}
	fmt.Fprintf(b, "\n%s the server never had two holders at once. The next worker got the lock\n"+
		"of the killed holder after %.2fs. With tokens, no update was lost.\n"+
		"%s that a lock alone protects a file. No lock can do that: a paused\n"+
		"process writes when it wakes, even if its lease has expired. Only the resource\n"+
		"can refuse that write, by its token. The last figure is the loss without tokens.\n",
		look.paint(green, "Shown:"), float64(res.TakeoverMS)/1000, look.paint(green, "Not shown:"))
	if res.Embedded {
		b.WriteString("The embedded server is not Redis: these times say nothing about a real server.\n")
	}
}

func millis(us int64) string { return fmt.Sprintf("%.2f ms", float64(us)/1000) }

const (
	red   = "\x1b[31m"
	green = "\x1b[32m"
	reset = "\x1b[0m"
)

func (l Look) paint(color, text string) string {
	if !l.Color {
		return text
	}
	return color + text + reset
}
