package memstore

import (
	"cmp"
	"fmt"
)

// mark remembers that a period has had its run.
type mark struct {
	till    int64  // when the next period begins, ms
	attempt string // whose run it was
}

// turn begins the run of a period, if nobody has begun it.
//
// Answers: granted TOKEN LEFT · early LEFT ATTEMPT · busy LEFT HOLDER.
func turn(t *step, args *arguments) string {
	r := request{attempt: args.text(), ttl: args.whole(), mode: exclusive, weight: 1}
	t.retention = args.whole()
	period, offset, aligned := args.period()
	first := args.text()
	t.base = args.text()

	t.settle()
	var last mark
	if t.mark != nil {
		last = *t.mark
	}
	if token, held := t.again(r.attempt, "", r.ttl, true); held {
		return fmt.Sprintf("granted %d %d", token, max(last.till-t.now, 0))
	}
	upcoming := t.now + period
	if aligned {
		upcoming -= modulo(t.now-offset, period)
	}
	if t.mark == nil && first == "next" {
		return fmt.Sprintf("early %d -", upcoming-t.now)
	}
	if last.till > t.now+period {
		// Made with a longer period, or before the clock was set back.
		last.till = upcoming
		t.mark = &last
	}
	if last.till > t.now {
		return fmt.Sprintf("early %d %s", last.till-t.now, cmp.Or(last.attempt, "-"))
	}
	if _, blocked := t.advance(""); blocked || !t.fits(exclusive, 1) {
		return fmt.Sprintf("busy %d %s", t.left(), t.holderName())
	}
	token := t.grant(r)
	t.mark = &mark{till: upcoming, attempt: r.attempt}
	t.keep(upcoming - t.now + period)
	return fmt.Sprintf("granted %d %d", token, upcoming-t.now)
}

// modulo is the remainder that is never negative.
func modulo(n, by int64) int64 { return (n%by + by) % by }

// period reads the length of a period and where one begins, which may be left
// to the run.
func (a *arguments) period() (length, offset int64, aligned bool) {
	if length = a.whole(); length == 0 {
		a.blame("is no period")
		length = 1
	}
	if a.read < len(a.words) && a.words[a.read] == "-" {
		a.read++
		return length, 0, false
	}
	return length, a.whole(), true
}

// forgo gives the period of a run back.
//
// Answers: released · none.
func forgo(t *step, args *arguments) string {
	attempt := args.text()
	t.retention, t.base = args.whole(), args.text()

	known := t.mark != nil && t.mark.attempt == attempt
	if known {
		t.mark = nil
	}
	if t.holder != nil && t.holder.is(attempt, "") {
		t.holder = nil
		known = true
	}
	if !known {
		return "none"
	}
	t.settle()
	t.advance("")
	return "released"
}
