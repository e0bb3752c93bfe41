// Periodic: a job, at most once in each period.

package holdfast

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/script"
)

// maxPeriod bounds a period. The server keeps the mark of a period for two periods.
const maxPeriod = 10 * 365 * 24 * time.Hour

// Periodic is a job that runs at most once per period over all processes. The first process
// to ask in a period runs it. The server marks the period in the step that grants the run.
// It keeps the mark even if the run is short, fails, or its process dies. So at most one
// run begins in a period, unless [DoneOnSuccess] allows more. Periods are measured by the
// server's clock, and the clocks of the processes do not matter.
//
// A run holds a lease that the client renews. If a run lasts longer than the period, the
// next run begins when it ends. So there is never more than one run at a time. If the
// process of a run dies, the job runs again in the next period, or with [DoneOnSuccess] in
// the same one.
//
// A Periodic and a lock of the same name are separate: Mutex("a") and Periodic("a", …) do
// not affect each other. Like a Mutex, it is a name and options.
type Periodic struct {
	lock   lock
	period time.Duration
}

// Periodic names a job that runs once per period. It does no I/O. If an argument is
// invalid, the first use returns an [ErrInvalid].
//
// The period is at least the TTL of the run's lease. It begins with its run, unless this
// process or the process of the last run uses [StartAt]. With MaxWait, a Do that comes too
// early waits that long for the next period.
//
// All processes must use the same period. If a process uses another one, its error is an
// [ErrPeriod], and it runs nothing. That holds for as long as the server remembers the
// job: two periods and [Config.Retention] after the last run. [Periodic.Reschedule] changes
// the period.
func (c *Client) Periodic(name string, period time.Duration, options ...PeriodicOption) *Periodic {
	// Every goroutine asks the server, because any of them may be the first. There is
	// nothing to hand over between them.
	chosen, err := choose(c, name, lockOptions{want: wire.Exclusive, noLocalQueue: true}, options)
	p := &Periodic{lock: newLock(c, name, chosen, cmp.Or(err, checkPeriod(period, &chosen))), period: period}
	p.lock.oneKey[0] = wire.PeriodicKey(c.cfg.Prefix, name) // in the lock's slot, so in its group
	return p
}

func checkPeriod(period time.Duration, o *lockOptions) error {
	lease, what := o.onServer(o.ttl), "TTL"
	if o.delay > 0 {
		what = "TTL and the LockDelay together"
	}
	switch {
	case period < lease:
		return invalid("the period (%v) is shorter than the %s (%v): if a run crashes, it blocks the next one; "+
			"use a longer period or a shorter TTL", period, what, lease)
	case period > maxPeriod:
		return invalid("the period is %v: it must be at most %v", period, maxPeriod)
	case period%time.Millisecond != 0:
		return invalid("the period is %v: the server counts in whole milliseconds: use %v",
			period, period.Truncate(time.Millisecond))
	}
	return nil
}

// Name returns the job's name.
func (p *Periodic) Name() string { return p.lock.name }

// RunResult is the result of a [Periodic.Do].
type RunResult struct {
	Ran      bool          // this call ran the function
	HolderID string        // the attempt that runs, or ran, in this period; empty if unknown
	Token    uint64        // the token of the run, if this call ran it; rises with every run of the job
	Busy     bool          // a run goes on: of an earlier period, or one that another follows if it fails
	Next     time.Duration // until the next period begins; with Busy, until the run's lease ends if it is not renewed
}

// Do runs f if the job has not run in this period. Otherwise it returns at once without an
// error, and Ran is false. With [MaxWait], Do waits that long for a period that begins in
// that time, and for a server that is away.
//
// The context of f is a child of ctx. It also ends when the run's lease is lost.
//
// The error joins f's error and the error of the lease, like that of [Mutex.Do]. If f did
// not run, the error is one of [Mutex.TryLock]. If the period may have been marked, the
// library gives it back in the background. If the server did not answer before the end of
// the wait, the error is a [*HeldError] that says why.
func (p *Periodic) Do(ctx context.Context, f func(ctx context.Context) error) (RunResult, error) {
	lk := &p.lock
	if _, err := lk.checkOrReenter(ctx); err != nil {
		return RunResult{}, err
	}
	if f == nil {
		return RunResult{}, errNoFunction
	}
	waits, cancel := ctx, func() {}
	if lk.maxWait > 0 {
		waits, cancel = bounded(ctx, lk.maxWait)
	}
	defer cancel()
	retry := &retries{c: lk.client, lock: lk, try: lk.maxWait <= 0}
	end := lk.client.now() + lk.maxWait
	var seen *RunResult
	var back givenBack
	for {
		result, l, err := p.begin(waits, ctx, "now")
		now := lk.client.now()
		if err != nil {
			back.add(result.HolderID, now, lk.onServer(lk.ttl))
		}
		switch {
		case err != nil && lk.client.isTransient(err) && retry.pauseAfter(waits, err):
			continue
		case err != nil && seen != nil && waitOver(waits, ctx):
			return *seen, nil
		case err != nil:
			return RunResult{}, lk.asHeldError(waits, ctx, retry.ended(waits, err))
		case l != nil:
			_, err = p.run(ctx, l, f)
			return result, err
		}
		seen = &result
		next := result
		next.Busy = next.Busy || back.has(next.HolderID) // until the period is given back
		tooLate := !next.Busy && next.Next > end-now
		if lk.maxWait <= 0 || tooLate || !p.until(waits, next, now) {
			return result, lk.interrupted(ctx)
		}
	}
}

// interrupted returns the error of a wait that ended before its limit.
func (lk *lock) interrupted(ctx context.Context) error {
	switch {
	case lk.client.life.IsClosing():
		return ErrClosed
	case ctx.Err() != nil:
		return errorf("holdfast: %q: %w", lk.name, ctx.Err())
	}
	return nil
}

// Loop runs f in each period in which this process is the first, until ctx ends or f
// returns an error. While the server is away or out of memory, or replicas do not
// acknowledge, Loop keeps trying. It ends when the server refuses for another reason, for
// example a missing permission. If a run lost its lease, Loop continues, and treats f's error
// as a consequence of the loss.
//
// A period is measured from its beginning, however long a run takes. So a run that is
// shorter than the period delays no later run. After a longer run the next one begins at
// once, in the period of that moment.
//
// If the server remembers no run of the job, the first run begins at once. With [StartAt]
// it begins with the next period, like a cron job. If the server still remembers the last
// run, the first process to ask in a period runs the job. It need not have seen the period
// begin. The server remembers a run for a period and [Config.Retention].
func (p *Periodic) Loop(ctx context.Context, f func(ctx context.Context) error) error {
	lk := &p.lock
	if _, err := lk.checkOrReenter(ctx); err != nil {
		return err
	}
	if f == nil {
		return errNoFunction
	}
	first := p.first(false)
	var back givenBack
	for failures := 0; ; {
		result, l, err := p.begin(ctx, ctx, first)
		seen := lk.client.now() // before the run, which may take long
		if err != nil {
			back.add(result.HolderID, seen, lk.onServer(lk.ttl))
			if ctx.Err() != nil || !lk.loopOutlasts(ctx, err, failures) || !lk.client.sender.Pause(ctx, failures) {
				return err
			}
			failures++
			continue
		}
		failures = 0
		if l != nil {
			var failed error
			lost, err := p.run(ctx, l, func(ctx context.Context) error {
				failed = f(ctx)
				return failed
			})
			// The outcome of the release does not matter here: the next request shows it.
			if failed != nil && (ctx.Err() != nil || !lost) {
				return err
			}
		}
		first = p.first(result.Next <= closeBy)
		if l == nil && back.has(result.HolderID) {
			result.Busy = true // until the period is given back
		}
		if !p.until(ctx, result, seen) {
			return lk.interrupted(ctx)
		}
	}
}

// givenBack are attempts without an answer. The client gives their periods back in the
// background. So a period that one of them has marked is no reason to wait for the next.
type givenBack []unanswered

type unanswered struct {
	attempt string
	until   time.Duration // by then the period is given back, or cannot be
}

func (g *givenBack) add(attempt string, now, ttl time.Duration) {
	*g = slices.DeleteFunc(*g, func(u unanswered) bool { return u.until < now })
	if attempt != "" {
		*g = append(*g, unanswered{attempt, now + ttl + request.Outage})
	}
}

func (g *givenBack) has(attempt string) bool {
	return slices.ContainsFunc(*g, func(u unanswered) bool { return u.attempt == attempt })
}

// first tells the server what to do if it remembers no period. With fixed times, a process
// runs the job only if it has waited for the beginning of a period.
func (p *Periodic) first(beginning bool) string {
	if p.lock.aligned && !beginning {
		return "next"
	}
	return "now"
}

// closeBy is the longest wait for a period without a question in between. Over longer times
// the clocks of server and client may drift apart, and timers stop while the machine
// sleeps. So the client asks earlier, after ever shorter waits.
const closeBy = 2 * time.Second

// until waits until the next question makes sense. result is the last answer, received at
// seen. It reports false if ctx ends or the client closes first.
func (p *Periodic) until(ctx context.Context, result RunResult, seen time.Duration) bool {
	c := p.lock.client
	wait := max(result.Next-(c.now()-seen), 0)
	switch {
	case result.Busy:
		wait = min(wait, p.lock.ttl/3, time.Second)
	case wait > closeBy:
		wait -= max(wait/64, time.Second)
	case p.lock.aligned:
		wait += wait / 50 // a little late is better than early: the server may have forgotten the period before
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

// begin asks for the run of this period. If it returns neither a lease nor an error, the
// result names the run of this period. ctx bounds the request. parent is the parent of the
// lease's context.
func (p *Periodic) begin(ctx, parent context.Context, first string) (RunResult, *Lease, error) {
	c, lk := p.lock.client, &p.lock
	if !c.life.BeginCall() {
		return RunResult{}, nil, ErrClosed
	}
	defer c.life.EndCall()
	told := &call{ctx: parent, start: c.now()}
	result, h, err := p.ask(ctx, first)
	if err != nil {
		if c.life.IsClosing() && request.Transient(err) {
			err = ErrClosed
		}
		lk.reportFailure(told, err)
		return result, nil, err
	}
	if h == nil {
		return result, nil, nil
	}
	l := h.newLease(parent)
	if l == nil {
		// The client has closed, or the lease is lost. f did not run.
		err = h.endReason()
		c.canceller.CancelRun(lk.toCancel(h.attemptID()))
		lk.reportFailure(told, err)
		return RunResult{HolderID: h.attemptID()}, nil, err
	}
	result.Ran, result.HolderID, result.Token = true, h.attemptID(), l.Token()
	c.events.tellGrant(l.state, observe.Event{Wait: c.now() - told.start})
	return result, l, nil
}

// ask asks the server. If it returns neither a hold nor an error, another attempt has the
// period. After an error this attempt has neither the run nor the period, or the client
// gives both back in the background. The result then names the attempt. A plain cancel
// would leave the period marked without a run.
func (p *Periodic) ask(ctx context.Context, first string) (RunResult, *hold, error) {
	c, lk := p.lock.client, &p.lock
	if err := lk.prepare(ctx); err != nil {
		if over := alreadyOver(ctx, "running", lk.name); over != nil && request.Transient(err) {
			return RunResult{}, nil, over // nothing was asked
		}
		return RunResult{}, nil, wrap("running", lk.name, err)
	}
	c.registration.Start()
	attempt, number := lk.newAttemptID()
	cancelRun := func() { c.canceller.CancelRun(lk.toCancel(attempt)) }
	sent := c.now()
	anew := again{began: sent}
	line, err := p.askRun(ctx, attempt, first)
	for isBreak(err) && anew.may(lk) && lk.withdraw(ctx, script.CancelRun, attempt) {
		cancelRun() // for a late copy
		attempt, number = lk.newAttemptID()
		sent = c.now()
		line, err = p.askRun(ctx, attempt, first)
	}
	if request.Definite(err) {
		if request.MayRunLate(err) {
			cancelRun() // a late copy would begin the run for nobody, and take the period
		}
		return RunResult{HolderID: attempt}, nil, wrap("running", lk.name, err)
	}
	if err != nil {
		cancelRun()
		if end := request.Ended(ctx); end != nil && !errors.Is(err, end) {
			err = end
		}
		return RunResult{HolderID: attempt}, nil, wrap("running", lk.name, err)
	}
	if line.Other != nil {
		return RunResult{}, nil, &MismatchError{lk.name, p.schedule(), Schedule(*line.Other)}
	}
	result := RunResult{HolderID: line.Attempt, Busy: line.Busy, Next: line.Left}
	if !line.Granted {
		return result, nil, nil
	}
	h, err := newHold(lk, grant{number: number, token: line.Token, since: sent})
	if err != nil {
		cancelRun()
		return RunResult{HolderID: attempt}, nil, err
	}
	if lk.ack.Wanted() {
		if err := h.confirm(ctx); err != nil { // confirm has released the run, but not its period
			cancelRun()
			return RunResult{HolderID: attempt}, nil, err
		}
	}
	return result, h, nil
}

// askRun sends one request for the run, or for a change of the schedule.
func (p *Periodic) askRun(ctx context.Context, attempt, first string) (wire.RunAnswer, error) {
	c, lk, offset := p.lock.client, &p.lock, "-"
	if asked := p.schedule(); asked.Aligned {
		offset = wire.Millis(asked.Offset)
	}
	args := []string{attempt, lk.ttlMS, c.retention, wire.Millis(p.period), offset, first, lk.channelPrefix}
	if lk.runs > 0 {
		args = append(args, wire.Number(uint64(lk.runs)))
	}
	answer, err := c.sender.RunWithin(ctx, lk.requestLimit(), script.BeginRun, lk.keys(), args)
	if err != nil {
		return wire.RunAnswer{}, err
	}
	return wire.ParseRun(answer)
}

// schedule returns the schedule of this Periodic. The offset is less than a period, so that
// processes with the same fixed times send the same schedule.
func (p *Periodic) schedule() Schedule {
	s := Schedule{Period: p.period, Aligned: p.lock.aligned}
	if s.Aligned {
		s.Offset = (p.lock.offset%p.period + p.period) % p.period
	}
	return s
}

// Reschedule gives the job the period, and the beginning by [StartAt], of this Periodic. It
// runs nothing. If a process uses the old ones, its error is an [ErrPeriod] from then on.
//
// If a period is due, it stays due. Otherwise the next period begins one period from now,
// or at the next of the fixed times. If the server remembers no period of the job, there is
// nothing to change.
//
// Reschedule may be repeated. After an [ErrUnknownOutcome] the job may have the old
// schedule or the new one.
func (p *Periodic) Reschedule(ctx context.Context) error {
	lk := &p.lock
	if err := lk.check(ctx); err != nil {
		return err
	}
	c := lk.client
	if !c.life.BeginCall() {
		return ErrClosed
	}
	defer c.life.EndCall()
	if err := lk.prepare(ctx); err != nil {
		return wrap("changing the period of", lk.name, err)
	}
	attempt, _ := lk.newAttemptID()
	line, err := p.askRun(ctx, attempt, "change")
	switch {
	case err != nil:
		return wrapChange("changing the period of", lk.name, err)
	case line.Granted || line.Busy || line.Other != nil:
		return wrap("changing the period of", lk.name, wire.OtherAnswer("begin_run"))
	}
	return nil
}

// Again makes the job due again: the next caller runs it, although it has run in this
// period. Again runs nothing. It needs no period: that of this Periodic is not compared.
//
// If the job is running, the error is a [*HeldError]: wait for its end, or end the run with
// [Client.Evict] and Eviction.Job. If the server remembers no run of the job, it is due
// already. Again may be repeated.
func (p *Periodic) Again(ctx context.Context) error {
	lk := &p.lock
	if err := lk.check(ctx); err != nil {
		return err
	}
	c := lk.client
	if err := lk.prepare(ctx); err != nil {
		return wrap("making due", lk.name, err)
	}
	job, err := c.InspectJob(ctx, lk.name)
	switch {
	case err != nil:
		return err
	case job.Run != nil:
		return &HeldError{Name: lk.name, HeldBy: job.Run.HolderID, Remaining: job.Run.Remaining}
	case job.HolderID == "":
		return nil
	}
	// The run has ended, and no attempt is used twice. So this cannot end a later run.
	a, err := c.sender.Ask(ctx, script.CancelRun, lk.keys(), []string{job.HolderID, c.retention, lk.channelPrefix})
	switch {
	case err != nil:
		return wrapChange("making due", lk.name, err)
	case a.Kind != wire.Released && a.Kind != wire.None: // None: another run has begun
		return wrap("making due", lk.name, wire.OtherAnswer("cancel_run"))
	}
	return nil
}

// run runs f under the lease. With DoneOnSuccess, the release says whether the run has succeeded. The
// server takes any other end for a failure. lost says that the run has lost its lease; the error alone does not
// say that, because f may return what another lock has told it.
func (p *Periodic) run(ctx context.Context, l *Lease, f func(ctx context.Context) error) (lost bool, err error) {
	r := &run{Lease: l}
	err = do(ctx, r, func(ctx context.Context) error {
		err := f(ctx)
		r.done = err == nil && p.lock.runs > 0 && l.Err() == nil
		return err
	})
	return r.lost, err
}

// run is the lease of one run of a job.
type run struct {
	*Lease
	done bool // the run has succeeded, and uses its period
	lost bool // its release found that the lease had ended
}

// Release ends the run.
func (r *run) Release(ctx context.Context) error {
	err := r.release(ctx, releaseMode{done: r.done})
	r.lost = errors.Is(err, ErrNotHeld)
	return err
}
