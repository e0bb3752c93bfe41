package contract_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// job counts the runs of one name.
type job struct {
	mu   sync.Mutex
	runs []time.Time
	busy bool
	t    *testing.T
	take time.Duration // of one run
	err  error         // of each
}

func (j *job) run(ctx context.Context) error {
	j.mu.Lock()
	assert.False(j.t, j.busy, "two runs at once")
	j.busy = true
	j.runs = append(j.runs, time.Now())
	j.mu.Unlock()
	select {
	case <-time.After(j.take):
	case <-ctx.Done():
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.busy = false
	return j.err
}

func (j *job) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.runs)
}

// do runs the job if it is due.
func (j *job) do(p *holdfast.Periodic) holdfast.RunResult {
	j.t.Helper()
	turn, err := p.Do(j.t.Context(), j.run)
	assert.NoError(j.t, err)
	return turn
}

func TestAJobRunsOncePerPeriodWhoeverComesFirst(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		j := &job{t: t}
		a, b := w.client().Periodic("job", time.Hour), w.client().Periodic("job", time.Hour)
		first := j.do(a)
		assert.True(t, first.Ran && first.Next == time.Hour && first.HolderID != "" && first.Token != 0,
			"the first: %+v", first)
		time.Sleep(time.Minute)
		for _, p := range []*holdfast.Periodic{a, b} {
			turn := j.do(p)
			assert.True(t, !turn.Ran && turn.HolderID == first.HolderID && turn.Next == 59*time.Minute && !turn.Busy,
				"in the same period: %+v", turn)
		}
		time.Sleep(59*time.Minute - time.Millisecond)
		turn := j.do(b)
		assert.True(t, !turn.Ran && turn.Next == time.Millisecond, "just before the next: %+v", turn)
		time.Sleep(time.Millisecond)
		turn = j.do(b)
		assert.True(t, turn.Ran && turn.Token > first.Token, "in the next period: %+v", turn)
		// A lock with the same name is independent.
		release(t, mustLock(t, w.client().Mutex("job")))
	})
}

func TestARunLongerThanItsPeriodIsFollowedWhenItEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		j := &job{t: t, take: 90 * time.Second}
		long, other := w.client().Periodic("job", time.Minute), w.client().Periodic("job", time.Minute)
		done := make(chan struct{})
		go func() { defer close(done); j.do(long) }()
		time.Sleep(75 * time.Second)
		turn := j.do(other)
		assert.True(t, !turn.Ran && turn.Busy && turn.HolderID != "" && turn.Next <= ttl, "while it runs: %+v", turn)
		<-done
		turn = j.do(other)
		assert.True(t, turn.Ran, "after it: %+v", turn)
	})
}

func TestAFailedRunCountsUnlessItIsRetried(t *testing.T) {
	errJob := errors.New("no luck")
	bubble(t, func(t *testing.T, w *world) {
		for name, options := range map[string][]holdfast.PeriodicOption{
			"counts": nil, "again": {holdfast.RetryOnError()},
		} {
			events := &recorder{}
			p := w.client(holdfast.Config{Observer: events}).Periodic(name, time.Hour, options...)
			turn, err := p.Do(t.Context(), func(context.Context) error { return errJob })
			assert.Is(t, err, errJob)
			assert.True(t, turn.Ran, "%+v", turn)
			j := &job{t: t}
			next := j.do(w.client().Periodic(name, time.Hour))
			assert.True(t, next.Ran == (name == "again"), "%s: %+v", name, next)
			if n := len(events.all(holdfast.EventRelease)); n != 1 || len(events.all(holdfast.EventLost)) > 0 {
				t.Errorf("%s: events %+v", name, events.all())
			}
		}
	})
}

func TestAPanicOfARunCountsAndIsReleased(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client().Periodic("job", time.Hour, holdfast.RetryOnError())
		func() {
			defer func() {
				assert.True(t, recover() != nil, "no panic")
			}()
			_, _ = p.Do(t.Context(), func(context.Context) error { panic("oh") })
		}()
		j := &job{t: t}
		turn := j.do(p)
		assert.True(t, !turn.Ran && !turn.Busy, "%+v", turn)
		time.Sleep(time.Hour)
		turn = j.do(p)
		assert.True(t, turn.Ran, "%+v", turn)
	})
}

func TestARunOfUnknownOutcomeIsCancelledWithItsPeriod(t *testing.T) {
	for name, fault := range map[string]func(w *world){
		"reply lost":   func(w *world) { w.LoseReply(only("begin_run", 4, errLink)) },
		"request lost": func(w *world) { w.FailRequest(only("begin_run", 4, errLink)) },
		"request late": func(w *world) { w.net.slow(slowly("begin_run", 10*time.Second, 0)) },
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			fault(w)
			j := &job{t: t}
			_, err := w.client().Periodic("job", time.Hour).Do(t.Context(), j.run)
			assert.Is(t, err, holdfast.ErrUnknownOutcome)
			time.Sleep(12 * time.Second)
			w.net.slow(nil)
			turn := j.do(w.client().Periodic("job", time.Hour))
			assert.True(t, turn.Ran && j.count() == 1, "%+v after %d runs", turn, j.count())
		})
	}
}

// A connection that broke costs no run: the period of the first request is given back before the second.
func TestARunIsAskedForOnceMoreAfterABrokenConnection(t *testing.T) {
	for name, fault := range map[string]func(w *world){
		"reply lost":   func(w *world) { w.LoseReply(only("begin_run", 1, errLink)) },
		"request lost": func(w *world) { w.FailRequest(only("begin_run", 1, errLink)) },
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			fault(w)
			j := &job{t: t}
			turn := j.do(w.client().Periodic("job", time.Hour))
			assert.True(t, turn.Ran && j.count() == 1, "%+v after %d runs", turn, j.count())
			turn = j.do(w.client().Periodic("job", time.Hour))
			assert.True(t, !turn.Ran && j.count() == 1, "%+v after %d runs", turn, j.count())
		})
	}
}

// A server that was stopped carries out what it had received. That may be after any lease that
// the request would have given, and the cancels have not arrived.
func TestARunThatAStoppedServerGrantsLaterIsCancelledWithItsPeriod(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		j := &job{t: t}
		c := w.client()
		j.do(c.Periodic("warm", time.Hour))
		grantedLater(w, 5*time.Minute, func() {
			assert.Is(t, assert.Err(c.Periodic("job", time.Hour).Do(t.Context(), j.run)), holdfast.ErrUnknownOutcome)
		})
		turn := j.do(w.client().Periodic("job", time.Hour))
		assert.True(t, turn.Ran && j.count() == 2, "%+v after %d runs", turn, j.count())
	})
}

func TestALoopRunsInThePeriodThatAStoppedServerGaveToItsOldRequest(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		j := &job{t: t}
		c := w.client()
		j.do(c.Periodic("warm", time.Hour))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		grantedLater(w, 5*time.Minute, func() {
			go func() { ended <- c.Periodic("job", 24*time.Hour).Loop(ctx, j.run) }()
		})
		time.Sleep(time.Minute) // each of its requests in the meantime is cancelled, ten in a second
		assert.Equal(t, j.count(), 2, "runs")
		cancel()
		assert.Is(t, <-ended, context.Canceled)
	})
}

func TestARunThatLosesItsLeaseIsToldAndKeepsItsPeriod(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		j := &job{t: t, take: time.Hour}
		stalled := make(chan func(), 1)
		time.AfterFunc(time.Minute, func() { stalled <- w.Stall() })
		time.AfterFunc(2*time.Minute, func() { (<-stalled)() })
		_, err := c.Periodic("job", 24*time.Hour, holdfast.RetryOnError()).Do(t.Context(), j.run)
		assert.Is(t, err, holdfast.ErrNotHeld)
		time.Sleep(2 * time.Minute)
		turn := j.do(w.client().Periodic("job", 24*time.Hour))
		assert.True(t, !turn.Ran, "%+v", turn)
	})
}

func TestPeriodsAtFixedTimesAreThoseOfTheServersClock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		// The server's clock is not this process's, which is 2000-01-01 here.
		start := time.Now()
		server := time.Date(2031, 5, 6, 11, 59, 0, 0, time.UTC)
		w.SetClock(func() time.Time { return server.Add(time.Since(start)) })
		noon := func() *holdfast.Periodic {
			return w.client().Periodic("lottery", 24*time.Hour, holdfast.StartAt(12*time.Hour))
		}
		j := &job{t: t}
		if turn := j.do(noon()); !turn.Ran || turn.Next != time.Minute {
			t.Errorf("before noon: %+v", turn)
		}
		time.Sleep(time.Minute)
		if turn := j.do(noon()); !turn.Ran || turn.Next != 24*time.Hour {
			t.Errorf("at noon: %+v", turn)
		}
		time.Sleep(23*time.Hour + 59*time.Minute)
		if turn := j.do(noon()); turn.Ran || turn.Next != time.Minute {
			t.Errorf("before the next noon: %+v", turn)
		}
		// A copy whose clock is ahead waits for the server's noon.
		early := time.Now()
		turn, err := w.client().Periodic("lottery", 24*time.Hour, holdfast.StartAt(12*time.Hour),
			holdfast.MaxWait(5*time.Minute)).Do(t.Context(), j.run)
		if late := time.Since(early) - time.Minute; err != nil || !turn.Ran || late < 0 || late > 100*time.Millisecond {
			t.Errorf("%+v, %v, %v after noon", turn, err, late)
		}
		// A copy that does not wait so long gives up without an error, and at once.
		asked := time.Now()
		turn, err = w.client().Periodic("lottery", 24*time.Hour, holdfast.MaxWait(time.Minute)).Do(t.Context(), j.run)
		assert.True(t, err == nil && !turn.Ran, "want no run and no error, got %+v, %v", turn, err)
		assert.AtMost(t, time.Since(asked), time.Second, "the wait for a period that cannot come in time")
	})
}

// The mark of a grant whose reply was lost may still be there when the call asks again.
func TestARunThatWaitsIsNotKeptOutByItsOwnLostGrant(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.LoseReply(only("begin_run", 1, errLink))
		w.FailRequest(only("cancel_run", 3, errLink))
		j := &job{t: t}
		turn := j.do(w.client().Periodic("job", time.Hour, holdfast.MaxWait(time.Minute)))
		assert.True(t, turn.Ran && j.count() == 1, "%+v after %d runs", turn, j.count())
	})
}

func TestALoopOfManyProcessesRunsTheJobOnceAtEachFixedTime(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const processes, days = 5, 4
		start := time.Now()
		server := time.Date(2031, 5, 6, 9, 30, 0, 0, time.UTC)
		w.SetClock(func() time.Time { return server.Add(time.Since(start)) })
		j := &job{t: t, take: 10 * time.Minute}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range processes {
			c := w.client()
			if i == 0 { // one of them dies in the first run or before
				time.AfterFunc(2*time.Hour+35*time.Minute, c.Abandon)
			}
			all.Go(func() {
				err := c.Periodic("lottery", 24*time.Hour, holdfast.StartAt(12*time.Hour)).Loop(ctx, j.run)
				assert.False(t, !errors.Is(err, context.Canceled) && !errors.Is(err, holdfast.ErrClosed),
					"the loop ended: %v", err)
			})
			time.Sleep(time.Minute)
		}
		time.Sleep(days*24*time.Hour - time.Hour)
		cancel()
		all.Wait()
		assert.MustTrue(t, j.count() == days, "%d runs in %d days", j.count(), days)
		for i, at := range j.runs {
			noon := time.Date(2031, 5, 6+i, 12, 0, 0, 0, time.UTC)
			late := server.Add(at.Sub(start)).Sub(noon)
			assert.True(t, late >= 0 && late <= 100*time.Millisecond, "run %d came %v after noon", i, late)
		}
		assert.AtMost(t, w.net.count("begin_run"), processes*days*8, "requests")
	})
}

func TestALoopGoesOnWhileTheServerIsAwayAndEndsWithItsJob(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		j := &job{t: t, take: 5 * time.Second}
		errJob := errors.New("no luck")
		done := make(chan error, 1)
		c := w.client()
		go func() {
			done <- c.Periodic("job", 5*time.Minute).Loop(t.Context(), func(ctx context.Context) error {
				err := j.run(ctx)
				if j.count() == 4 {
					return errJob
				}
				return err
			})
		}()
		time.Sleep(150 * time.Second) // one run
		w.FailRequest(func(string, []string) error { return errLink })
		time.Sleep(10 * time.Minute) // two periods
		assert.Equal(t, j.count(), 1, "runs without a server")
		w.FailRequest(nil)
		time.Sleep(50 * time.Second)
		assert.Equal(t, j.count(), 2, "runs when it is back")
		time.Sleep(250 * time.Second) // the third is under way, or begins soon
		err := <-done
		assert.Is(t, err, errJob)
		assert.Equal(t, j.count(), 4, "runs")
	})
}

func TestAPeriodThatCannotWorkIsRefusedBeforeAnythingIsSent(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		for name, p := range map[string]*holdfast.Periodic{
			"under the TTL":       c.Periodic("job", ttl-time.Millisecond),
			"under the own TTL":   c.Periodic("job", 59*time.Second, holdfast.TTL(time.Minute)),
			"none":                c.Periodic("job", 0),
			"negative":            c.Periodic("job", -time.Hour),
			"of microseconds":     c.Periodic("job", time.Hour+time.Microsecond),
			"too long":            c.Periodic("job", 20*365*24*time.Hour),
			"at microseconds":     c.Periodic("job", time.Hour, holdfast.StartAt(time.Microsecond)),
			"without a name":      c.Periodic("", time.Hour),
			"with a bad option":   c.Periodic("job", time.Hour, holdfast.TTL(0)),
			"waiting below zero":  c.Periodic("job", time.Hour, holdfast.MaxWait(-1)),
			"with too long a TTL": c.Periodic("job", time.Hour, holdfast.TTL(2*time.Hour)),
		} {
			turn, err := p.Do(t.Context(), func(context.Context) error { return errors.New("ran") })
			assert.Is(t, err, holdfast.ErrInvalid)
			assert.Is(t, p.Loop(t.Context(), nil), holdfast.ErrInvalid)
			assert.Equal(t, turn, (holdfast.RunResult{}), "%s", name)
		}
		assert.True(t, len(w.net.sent) == 0, "sent %v", w.net.sent)
	})
}

func TestAJobIsNotBegunWithinItself(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		p := w.client().Periodic("job", time.Minute)
		_, err := p.Do(t.Context(), func(ctx context.Context) error {
			_, err := p.Do(ctx, func(context.Context) error { return nil })
			return err
		})
		assert.Is(t, err, holdfast.ErrDeadlock)
	})
}

func TestAWaitForARunEndsWithItsContextAndItsClient(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		j := &job{t: t}
		j.do(w.client().Periodic("job", time.Hour))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		c := w.client()
		p := c.Periodic("job", time.Hour, holdfast.MaxWait(2*time.Hour))
		_, err := p.Do(ctx, j.run)
		assert.Is(t, err, context.DeadlineExceeded)
		done := make(chan error, 2)
		go func() { _, err := p.Do(t.Context(), j.run); done <- err }()
		go func() { done <- p.Loop(t.Context(), j.run) }()
		synctest.Wait()
		assert.NoError(t, c.Close(t.Context()))
		assert.Is(t, <-done, holdfast.ErrClosed)
		assert.Is(t, <-done, holdfast.ErrClosed)
		assert.Equal(t, j.count(), 1, "runs")
	})
}

// Many goroutines of many processes ask all the time. Their clocks, and the clock of the
// store, do not matter. Each period has one run.
func TestNoPeriodHasTwoRuns(t *testing.T) {
	for _, at := range []bool{false, true} {
		runBubble(t, fmt.Sprint("at fixed times ", at), func(t *testing.T, w *world) {
			const period = time.Minute
			var options []holdfast.PeriodicOption
			if at {
				options = append(options, holdfast.StartAt(17*time.Second))
			}
			w.LoseReply(only("release", -1, errLink))
			j := &job{t: t, take: 3 * time.Second}
			var all sync.WaitGroup
			for range 4 {
				c := w.client()
				for range 3 {
					all.Go(func() {
						for range 200 {
							_, _ = c.Periodic("job", period, options...).Do(t.Context(), j.run)
							time.Sleep(5 * time.Second)
						}
					})
				}
			}
			all.Wait()
			index := func(at time.Time) int64 { return (at.UnixMilli() - 17_000) / period.Milliseconds() }
			for i := 1; i < j.count(); i++ {
				last, next := j.runs[i-1], j.runs[i]
				assert.False(t, at && index(last) == index(next) || !at && next.Sub(last) < period,
					"runs at %v and %v", last, next)
			}
			assert.AtLeast(t, j.count(), 15, "runs")
		})
	}
}
