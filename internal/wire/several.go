package wire

import (
	"strings"
	"time"
)

// AllAnswer is the answer of acquire_all.
type AllAnswer struct {
	Locks  []Answer // granted ones, in order; nil: one was busy and none is held
	Busy   int      // index of the lock that was not free, from 0
	Left   time.Duration
	Holder string // empty unless exclusive
}

// ParseAll reads the answer of an acquire_all of n locks.
func ParseAll(answer string, n int) (AllAnswer, error) {
	r := reader{words: strings.Fields(answer)}
	var g AllAnswer
	switch r.word() {
	case "granted":
		for range n {
			g.Locks = append(g.Locks, Answer{Kind: Granted, Token: r.token(), Waiting: r.count()})
		}
	case "busy":
		g.Busy = r.count() - 1
		g.Left, g.Holder = r.left(), r.name()
		r.bad = r.bad || g.Busy < 0 || g.Busy >= n
	default:
		r.bad = true
	}
	if r.bad || len(r.words) > 0 {
		return AllAnswer{}, BadAnswer(answer)
	}
	return g, nil
}

// RunAnswer is the answer of begin_run.
type RunAnswer struct {
	Granted bool
	Busy    bool   // due, but an earlier run goes on
	Token   uint64 // of a grant
	Left    time.Duration
	Attempt string // the run of this period; empty if unknown, or for a grant
	Other   *Plan  // the job's plan, if the request had another one
}

// Plan is the period and the offset of a job.
type Plan struct {
	Period  time.Duration
	Aligned bool          // they begin at fixed times
	Offset  time.Duration // from 1970 to the beginning of one of these
}

// plan reads the two words of a plan.
func (r *reader) plan() (p Plan) {
	p.Period = r.left()
	if len(r.words) > 0 && r.words[0] == "-" {
		r.words = r.words[1:]
		return p
	}
	p.Aligned, p.Offset = true, r.offset()
	return p
}

// ParseRun reads the answer of begin_run.
func ParseRun(answer string) (RunAnswer, error) {
	r := reader{words: strings.Fields(answer)}
	var t RunAnswer
	switch kind := r.word(); kind {
	case "granted":
		t.Granted, t.Token, t.Left = true, r.token(), r.left()
	case "busy", "early":
		t.Busy, t.Left, t.Attempt = kind == "busy", r.left(), r.name()
	case "other":
		p := r.plan()
		t.Other = &p
	default:
		r.bad = true
	}
	if r.bad || len(r.words) > 0 {
		return RunAnswer{}, BadAnswer(answer)
	}
	return t, nil
}

// LeaderLine is the answer of read_leader.
type LeaderLine struct {
	Known   bool
	Token   uint64
	Since   time.Time // by the server's clock
	Left    time.Duration
	Attempt string
	Value   string
}

// ParseLeader reads the answer of read_leader.
func ParseLeader(answer string) (LeaderLine, error) {
	r := reader{words: strings.Fields(answer)}
	kind := r.word()
	l := LeaderLine{Known: kind == "leader"}
	if l.Known {
		l.Token, l.Since = r.token(), r.instant()
	}
	l.Left = r.left()
	if l.Known {
		l.Attempt = r.word()
		value, marked := strings.CutPrefix(r.word(), "=")
		l.Value = Decode(value)
		r.bad = r.bad || !marked
	}
	if !l.Known && kind != "none" || r.bad || len(r.words) > 0 {
		return LeaderLine{}, BadAnswer(answer)
	}
	return l, nil
}

// ResumeLine is the answer of resume.
type ResumeLine struct {
	Held    bool // if not, there is nothing to resume
	Token   uint64
	Waiting int
	Left    time.Duration // until the former lease has ended, at most
	Value   string
}

// ParseResume reads the answer of resume.
func ParseResume(answer string) (ResumeLine, error) {
	if answer == "gone" {
		return ResumeLine{}, nil
	}
	r := reader{words: strings.Fields(answer)}
	kind := r.word()
	l := ResumeLine{Held: true, Token: r.token(), Waiting: r.count(), Left: r.left()}
	value, marked := strings.CutPrefix(r.word(), "=")
	l.Value = Decode(value)
	if kind != "resumed" || !marked || r.bad || len(r.words) > 0 {
		return ResumeLine{}, BadAnswer(answer)
	}
	return l, nil
}

// Value writes a leader's value as one word, which is never empty.
func Value(value string) string { return "=" + Encode(value) }

// PeriodicKey is the name of the record of a periodic job. No lock's record has this name,
// because that ends with a brace. So a lock of the same name cannot shorten its TTL.
func PeriodicKey(prefix, name string) string { return prefix + ":{" + Encode(name) + "}:periodic" }

// Watch is the channel of an election's observers. In a Cluster it is in the lock's slot.
// The byte before the name occurs in no prefix, so each election has its own channel.
func Watch(prefix, name string, sharded bool) string {
	if sharded {
		return prefix + ":{" + Encode(name) + "}:watch"
	}
	return prefix + ":watch=" + Encode(name)
}
