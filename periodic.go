// Periodic: a job, at most once in each period.

package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// maxPeriod bounds a period: the server keeps its mark for two of them.
const maxPeriod = 10 * 365 * 24 * time.Hour

// Periodic is a job that runs at most once per period over all processes,
// whoever comes first. The period is marked in the same step in which the run
// is granted, and kept though the run is short, fails, or its process dies: at
// most one run begins in a period. It is counted by the server's clock; those
// of the processes do not matter.
//
// While it runs, the run holds a lease that is renewed. A run that is longer
// than the period is followed by the next when it ends, so that there is never
// more than one at a time. A run whose process dies is not made up for before
// the next period.
//
// The name is none of a lock's: Mutex("a") and Periodic("a", …) have nothing to do
// with each other. Like a Mutex it is a name and options.
type Periodic struct {
	lock   lock
	period time.Duration
}

// Periodic names a job that runs once per period; a period must be at least the
// TTL of the run's lease. All processes must name the same period: who names
// another one is told by a [*PeriodError], and runs nothing, for as long as the
// job is remembered (two periods and [Config.Retention] after its last run).
// [Periodic.Reschedule] changes it. A period begins with its run, unless [StartAt] says
// otherwise, here or where the job has run last. It does no I/O. What cannot
// work is reported by the first use, as an [ErrInvalid].
//
// MaxWait makes a Do that comes too early wait for the next period for so long.
func (c *Client) Periodic(name string, period time.Duration, options ...PeriodicOption) *Periodic {
	// Each goroutine that asks is one more who may come first: there is
	// nothing to pass on between them.
	chosen, err := choose(c, name, lockOptions{want: wire.Exclusive, noLocalQueue: true}, options)
	e := &Periodic{lock: newLock(c, name, chosen, cmp.Or(err, checkPeriod(period, chosen.ttl))), period: period}
	e.lock.one[0] = wire.PeriodicKey(c.cfg.Prefix, name) // of the lock's slot, and so of its group
	return e
}

func checkPeriod(period, ttl time.Duration) error {
	switch {
	case period%time.Millisecond != 0:
		return invalid("the period is %v: the server counts whole milliseconds, use %v",
			period, period.Truncate(time.Millisecond))
	case period < ttl:
		return invalid("the period of %v is shorter than the TTL of %v: a run that died would keep the next out; "+
			"give a longer period, or a shorter TTL by the option", period, ttl)
	case period > maxPeriod:
		return invalid("the period is %v: at most %v make sense", period, maxPeriod)
	}
	return nil
}

// Name is the job's name.
func (e *Periodic) Name() string { return e.lock.name }

// RunResult says what a [Periodic.Do] found.
type RunResult struct {
	Ran      bool          // the function ran, here
	HolderID string        // whose run it is that this period has; empty if nobody's is known
	Token    uint64        // of the run, if it ran here: rises with every run of the job
	Busy     bool          // a run goes on that began in an earlier period; the next one follows it
	Next     time.Duration // until the next period begins; with Busy, until the run ends unless renewed
}

// Do runs f if this period has had no run yet. Else it returns at once with
// Ran unset, which is no error, or waits for the next period as long as the
// option [MaxWait] says.
//
// The context that f is given is ctx's child, and is also done when the run's
// lease is lost. The error joins f's error and what went wrong with the lease,
// as that of [Mutex.Do]. If f did not run, the error is one of those of
// [Mutex.TryLock], and the period, if it may have been marked, is given back in
// the background. While [MaxWait] lasts it also waits for a server that is away; if that
// never answers, the error is a [*HeldError] that says why.
func (e *Periodic) Do(ctx context.Context, f func(ctx context.Context) error) (RunResult, error) {
	t := &e.lock
	if err := t.checkDeadlock(ctx); err != nil {
		return RunResult{}, err
	}
	if f == nil {
		return RunResult{}, errNoFunction
	}
	waits, cancel := ctx, func() {}
	if t.wait > 0 {
		waits, cancel = bounded(ctx, t.wait)
	}
	defer cancel()
	away := &outage{c: t.client, name: t.name, try: t.wait <= 0}
	var seen *RunResult
	for {
		turn, l, err := e.begin(waits, ctx, "now")
		now := t.client.now()
		switch {
		case err != nil && wavering(err) && away.outlast(waits, err):
			continue
		case err != nil && seen != nil && waitOver(waits, ctx):
			return *seen, nil
		case err != nil:
			return RunResult{}, t.heldError(waits, ctx, away.ended(waits, err))
		case l != nil:
			return turn, e.run(ctx, l, f)
		}
		seen = &turn
		if t.wait <= 0 || !e.until(waits, turn, now) {
			return turn, t.interrupted(ctx)
		}
	}
}

// interrupted is the error of a wait that its limit did not end.
func (t *lock) interrupted(ctx context.Context) error {
	switch {
	case t.client.life.IsClosing():
		return ErrClosed
	case ctx.Err() != nil:
		return fmt.Errorf("holdfast: %q: %w", t.name, ctx.Err())
	}
	return nil
}

// Loop runs f in every period that this process comes first in, until ctx ends
// or f returns an error. While the server is away it goes on trying. A run
// whose lease was lost is no reason to end: f's error is taken to be a
// consequence of that.
//
// Periods are counted from their beginning, however long a run takes: a run
// that is shorter than the period delays no other. After a longer one the next
// begins at once, in the period that it is then.
//
// With [StartAt], a job that nobody has run lately is begun with the next period,
// as a cron job is; without it, at once. A period whose beginning nobody saw is
// begun by whoever comes in it, if the run before is still remembered (for a
// period and [Config.Retention]).
func (e *Periodic) Loop(ctx context.Context, f func(ctx context.Context) error) error {
	t := &e.lock
	if err := t.checkDeadlock(ctx); err != nil {
		return err
	}
	if f == nil {
		return errNoFunction
	}
	first := e.first(false)
	var back givenBack
	for failures := 0; ; {
		turn, l, err := e.begin(ctx, ctx, first)
		seen := t.client.now() // before the run, which takes its time
		if err != nil {
			back.add(turn.HolderID, seen, t.ttl)
			again := wavering(err) || errors.Is(err, ErrLost)
			if ctx.Err() != nil || !again || !t.client.sender.Pause(ctx, failures) {
				return err
			}
			failures++
			continue
		}
		failures = 0
		if l != nil {
			var failed error
			err = e.run(ctx, l, func(ctx context.Context) error {
				failed = f(ctx)
				return failed
			})
			// What became of the release is no matter: the next request will show.
			if failed != nil && (ctx.Err() != nil || !errors.Is(err, ErrNotHeld)) {
				return err
			}
		}
		first = e.first(turn.Next <= closeBy)
		if l == nil && back.has(turn.HolderID) {
			turn.Busy = true // until it has been given back
		}
		if !e.until(ctx, turn, seen) {
			return t.interrupted(ctx)
		}
	}
}

// givenBack are attempts that got no answer, so that their periods are being
// given back: who finds one of these marked is not to wait for the next.
type givenBack []unanswered

type unanswered struct {
	attempt string
	until   time.Duration // by then it is given back, or cannot be
}

func (g *givenBack) add(attempt string, now, ttl time.Duration) {
	*g = slices.DeleteFunc(*g, func(u unanswered) bool { return u.until < now })
	if attempt != "" {
		*g = append(*g, unanswered{attempt, now + ttl})
	}
}

func (g *givenBack) has(attempt string) bool {
	return slices.ContainsFunc(*g, func(u unanswered) bool { return u.attempt == attempt })
}

// first says what is to be done where no period is remembered. Periods at fixed
// times are begun at their beginning, and then by all who have waited for it.
func (e *Periodic) first(beginning bool) string {
	if e.lock.aligned && !beginning {
		return "next"
	}
	return "now"
}

// closeBy is how near a period is waited for in one go. Over longer times the
// clocks of server and client may drift apart, and timers stand still while the
// machine sleeps: so it asks again before, in ever smaller steps.
const closeBy = 2 * time.Second

// until waits until it makes sense to ask again: turn was seen at that time. It
// reports false if ctx ended or the client closes before.
func (e *Periodic) until(ctx context.Context, turn RunResult, seen time.Duration) bool {
	c := e.lock.client
	wait := max(turn.Next-(c.now()-seen), 0)
	switch {
	case turn.Busy:
		wait = min(wait, e.lock.ttl/3, time.Second)
	case wait > closeBy:
		wait -= max(wait/64, time.Second)
	case e.lock.aligned:
		wait += wait / 50 // rather late than in the period before, which nobody may remember
	}
	spread := time.Millisecond + time.Duration(c.chance()*float64(10*time.Millisecond))
	for at := c.now() + wait + spread; ; {
		left := at - c.now()
		if left <= 0 {
			return true
		}
		if !c.life.Sleep(ctx, min(left, time.Minute)) {
			return false
		}
	}
}

// begin asks for the run of this period. Without a lease and an error, the
// turn says who has it. ctx bounds the request; parent is what the lease's own
// context descends from.
func (e *Periodic) begin(ctx, parent context.Context, first string) (RunResult, *Lease, error) {
	c, s := e.lock.client, &e.lock
	if !c.life.Enter() {
		return RunResult{}, nil, ErrClosed
	}
	defer c.life.Exit()
	start := c.now()
	turn, h, err := e.ask(ctx, first)
	if err != nil {
		c.events.observe(Event{Kind: EventFail, Name: s.name, Wait: c.now() - start, Err: err})
		return turn, nil, err
	}
	if h == nil {
		return turn, nil, nil
	}
	l := h.newLease(parent)
	if l == nil {
		// Closed meanwhile, or lost: f did not run.
		err = h.endReason()
		c.canceller.CancelBy(script.CancelRun, s.attempt(h.attempt), c.now()+s.ttl)
		c.events.observe(Event{Kind: EventFail, Name: s.name, Wait: c.now() - start, Err: err})
		return RunResult{HolderID: h.attempt}, nil, err
	}
	turn.Ran, turn.HolderID, turn.Token = true, h.attempt, l.Token()
	c.events.tellGrant(l.state, Event{Wait: c.now() - start})
	return turn, l, nil
}

// ask asks the server. Without a hold and an error the period is not ours. On
// error neither run nor period is ours, or is being given back in the
// background: a cancel alone would leave the period marked and nobody running.
// Of which attempt that is the turn says then.
func (e *Periodic) ask(ctx context.Context, first string) (RunResult, *hold, error) {
	c, s := e.lock.client, &e.lock
	if err := s.prepare(ctx); err != nil {
		if end := request.Ended(ctx); end != nil && request.Transient(err) {
			err = end
		}
		return RunResult{}, nil, wrap("turn of", s.name, err)
	}
	c.registration.Start()
	attempt, _ := c.attempt()
	undo := func() { c.canceller.CancelBy(script.CancelRun, s.attempt(attempt), c.now()+s.ttl) }
	sent := c.now()
	line, err := e.turn(ctx, attempt, first)
	if request.Definite(err) {
		return RunResult{}, nil, wrap("turn of", s.name, err)
	}
	if err != nil {
		undo()
		if end := request.Ended(ctx); end != nil {
			err = end
		}
		return RunResult{HolderID: attempt}, nil, wrap("turn of", s.name, err)
	}
	if line.Other != nil {
		return RunResult{}, nil, &PeriodError{Name: s.name, InUse: Schedule(*line.Other), Asked: e.schedule()}
	}
	turn := RunResult{HolderID: line.Attempt, Busy: line.Busy, Next: line.Left}
	if !line.Granted {
		return turn, nil, nil
	}
	h, err := newHold(s, grant{attempt: attempt, token: line.Token, since: sent})
	if err != nil {
		undo()
		return RunResult{HolderID: attempt}, nil, err
	}
	if s.ack.Wanted() {
		if err := h.confirm(ctx); err != nil { // which has given the run back, but not its period
			undo()
			return RunResult{HolderID: attempt}, nil, err
		}
	}
	return turn, h, nil
}

// turn sends one request.
func (e *Periodic) turn(ctx context.Context, attempt, first string) (wire.RunAnswer, error) {
	c, s, offset := e.lock.client, &e.lock, "-"
	if asked := e.schedule(); asked.Aligned {
		offset = wire.Millis(asked.Offset)
	}
	answer, err := c.sender.Run(ctx, script.BeginRun, s.keys(), []string{
		attempt, s.ttlMS, c.retention, wire.Millis(e.period), offset, first, s.base,
	})
	if err != nil {
		return wire.RunAnswer{}, err
	}
	return wire.ParseRun(answer)
}

// schedule is what is asked for. The offset is less than a period: so that all
// who mean the same instants say the same.
func (e *Periodic) schedule() Schedule {
	s := Schedule{Period: e.period, Aligned: e.lock.aligned}
	if s.Aligned {
		s.Offset = (e.lock.offset%e.period + e.period) % e.period
	}
	return s
}

// Reschedule gives the job the period, and the beginning by [StartAt], of this
// Periodic. Who asks by the old ones is told so by a [*PeriodError] from then on.
// A period that is due stays due; otherwise the next begins a period from now,
// or with the next of the fixed times. It runs nothing. Where no period of the
// job is remembered there is nothing to change.
//
// It can be repeated: after an [ErrUnknownOutcome] the job may have either.
func (e *Periodic) Reschedule(ctx context.Context) error {
	t := &e.lock
	if err := t.checkDeadlock(ctx); err != nil {
		return err
	}
	c := t.client
	if !c.life.Enter() {
		return ErrClosed
	}
	defer c.life.Exit()
	if err := t.prepare(ctx); err != nil {
		return wrap("period of", t.name, err)
	}
	attempt, _ := c.attempt()
	line, err := e.turn(ctx, attempt, "change")
	switch {
	case err != nil:
		return wrap("period of", t.name, err)
	case line.Granted || line.Busy || line.Other != nil:
		return wrap("period of", t.name, wire.BadAnswer("another kind to a change of the period"))
	}
	return nil
}

// run runs f under the lease, and gives the period back if it is to be.
func (e *Periodic) run(ctx context.Context, l *Lease, f func(ctx context.Context) error) error {
	r := &run{Lease: l}
	return do(ctx, r, func(ctx context.Context) error {
		err := f(ctx)
		r.reopen = err != nil && e.lock.again
		return err
	})
}

// run is the lease of one run of a job.
type run struct {
	*Lease
	reopen bool // the period goes back: the run has failed
}

// Release ends the run.
func (r *run) Release(ctx context.Context) error {
	return r.release(ctx, releaseMode{reopen: r.reopen})
}
