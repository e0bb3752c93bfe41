package memstore

import "fmt"

// mark notes that a period has had its run.
type mark struct {
	till    int64  // when the next period begins, ms
	attempt string // the run; - if none is known
	plan    plan
}

func (m *mark) String() string { return text(m.till) + " " + m.attempt + " " + m.plan.String() }

// tries are the runs of a period without a success, and how many there may be.
type tries struct{ begun, most int64 }

func (t tries) String() string { return fmt.Sprint(t.begun, " ", t.most) }

// plan is the period and the offset of a job.
type plan struct {
	period  int64 // ms
	aligned bool  // they begin at fixed times
	offset  int64 // where one of these is, ms since 1970
}

func (p plan) String() string {
	if !p.aligned {
		return text(p.period) + " -"
	}
	return text(p.period) + " " + text(p.offset)
}

// upcoming returns when the next period begins, and the latest begin of a period that a
// mark may name.
func (p plan) upcoming(now int64) (next, limit int64) {
	next = now + p.period
	if !p.aligned {
		return next, next
	}
	next -= modulo(now-p.offset, p.period)
	return next, next + p.period
}

// beginRun begins the run of a period, unless this period has had one.
//
// Answers: granted TOKEN LEFT · early LEFT ATTEMPT · busy LEFT HOLDER ·
// other PERIOD OFFSET.
func beginRun(st *step, args *arguments) string {
	r := request{attempt: args.text(), ttl: args.whole(), mode: exclusive, weight: 1}
	st.retention = args.whole()
	asked := args.plan()
	first := args.text()
	st.channelPrefix = args.text()
	now := tries{begun: 1}
	if args.left() {
		now.most = args.whole()
	}

	st.expire()
	last := mark{attempt: "-", plan: asked}
	if st.mark != nil {
		last = *st.mark
		if !asked.aligned && asked.period == last.plan.period && first != "change" {
			asked = last.plan
		}
	}
	if token, held := st.reacquire(r.attempt, "", r.ttl, true); held {
		return fmt.Sprintf("granted %d %d", token, max(last.till-st.now, 0))
	}
	upcoming, limit := asked.upcoming(st.now)
	if last.plan != asked {
		if first != "change" {
			return "other " + last.plan.String()
		}
		last.plan = asked
		if last.till > st.now {
			last.till = upcoming
		}
		st.mark = &last
		st.extendRecord(upcoming - st.now + asked.period)
	}
	if st.mark == nil && (first == "next" || first == "change") {
		return fmt.Sprintf("early %d -", upcoming-st.now)
	}
	if first == "change" {
		return fmt.Sprintf("early %d %s", max(last.till-st.now, 0), last.attempt)
	}
	if last.till > limit { // the clock was set back
		last.till = limit
		st.mark = &last
	}
	if last.till > st.now {
		now.begun = st.tries.begun + 1
		if now.begun > st.tries.most {
			return fmt.Sprintf("early %d %s", last.till-st.now, last.attempt)
		}
	}
	if _, blocked := st.serveQueue(""); blocked || !st.compatible(exclusive, 1) {
		return fmt.Sprintf("busy %d %s", st.msUntilFree(), st.holderName())
	}
	token := st.grant(r)
	st.mark = &mark{till: upcoming, attempt: r.attempt, plan: asked}
	if st.tries = now; now.most == 0 {
		st.tries = tries{}
	}
	st.extendRecord(upcoming - st.now + asked.period)
	return fmt.Sprintf("granted %d %d", token, upcoming-st.now)
}

// modulo is the remainder that is never negative.
func modulo(n, by int64) int64 { return (n%by + by) % by }

// plan reads the period and the offset, which may be - for none.
func (a *arguments) plan() (p plan) {
	if p.period = a.whole(); p.period == 0 {
		a.blame("is not a period")
		p.period = 1
	}
	if a.read < len(a.words) && a.words[a.read] == "-" {
		a.read++
		return p
	}
	p.aligned, p.offset = true, a.whole()
	return p
}
