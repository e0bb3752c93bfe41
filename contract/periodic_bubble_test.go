// Once per period (G20), at fixed times of the server's clock (G21).

package contract_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/observe"
)

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

// failures are the ways in which a run ends without a success.
var failures = map[string]func(w *world, options ...holdfast.PeriodicOption){
	"error": func(w *world, options ...holdfast.PeriodicOption) {
		events, errJob := &recorder{}, errors.New("no luck")
		p := w.client(holdfast.Config{Observer: events}).Periodic("job", time.Hour, options...)
		turn, err := p.Do(w.t.Context(), func(context.Context) error { return errJob })
		assert.Is(w.t, err, errJob)
		assert.True(w.t, turn.Ran, "%+v", turn)
		n := len(events.all(observe.EventRelease))
		assert.True(w.t, n == 1 && len(events.all(observe.EventLost)) == 0, "events %+v", events.all())
	},
	"panic": func(w *world, options ...holdfast.PeriodicOption) {
		defer func() { assert.True(w.t, recover() != nil, "no panic") }()
		_, _ = w.client().Periodic("job", time.Hour, options...).
			Do(w.t.Context(), func(context.Context) error { panic("oh") })
	},
	"lost lease": func(w *world, options ...holdfast.PeriodicOption) {
		stalled := make(chan func(), 1)
		time.AfterFunc(time.Second, func() { stalled <- w.Stall() })
		time.AfterFunc(time.Minute, func() { (<-stalled)() })
		_, err := w.client().Periodic("job", time.Hour, options...).Do(w.t.Context(), func(ctx context.Context) error {
			<-ctx.Done()
			return nil // a success that came too late
		})
		assert.Is(w.t, err, holdfast.ErrNotHeld)
		time.Sleep(time.Minute)
	},
	"evicted": func(w *world, options ...holdfast.PeriodicOption) {
		other := w.client()
		_, err := w.client().Periodic("job", time.Hour, options...).Do(w.t.Context(), func(ctx context.Context) error {
			n, err := other.Evict(ctx, "job", holdfast.Eviction{By: "a test", Reason: "it hangs", Job: true})
			assert.True(w.t, n == 1 && err == nil, "ended %d, %v", n, err)
			<-ctx.Done()
			return nil
		})
		assert.Is(w.t, err, holdfast.ErrNotHeld)
		time.Sleep(ttl)
	},
	"client closed": func(w *world, options ...holdfast.PeriodicOption) {
		c := w.client()
		_, err := c.Periodic("job", time.Hour, options...).Do(w.t.Context(), func(ctx context.Context) error {
			go func() { _ = c.Close(context.Background()) }()
			<-ctx.Done()
			return ctx.Err()
		})
		assert.True(w.t, err != nil, "no error")
		time.Sleep(ttl)
	},
}

func TestARunWithoutASuccessCountsUnlessTheOptionSaysOtherwise(t *testing.T) {
	for name, fail := range failures {
		runBubble(t, name, func(t *testing.T, w *world) {
			j := &job{t: t}
			fail(w)
			turn := j.do(w.client().Periodic("job", time.Hour))
			assert.True(t, !turn.Ran && !turn.Busy, "the period is used: %+v", turn)
		})
		runBubble(t, name+", done on success", func(t *testing.T, w *world) {
			j, again := &job{t: t}, holdfast.DoneOnSuccess(3)
			p := w.client().Periodic("job", time.Hour, again)
			fail(w, again)
			fail(w, again)
			info, err := w.client().InspectJob(t.Context(), "job")
			assert.Must(t, err)
			assert.True(t, info.Due == 0 && info.Runs == 2 && info.Tries == 3, "after two failures: %+v", info)
			turn := j.do(p)
			assert.True(t, turn.Ran, "the third try: %+v", turn)
			turn = j.do(p)
			assert.True(t, !turn.Ran && !turn.Busy && turn.Next > 50*time.Minute, "after the success: %+v", turn)
			time.Sleep(turn.Next)
			for range 3 {
				fail(w, again)
			}
			turn = j.do(p)
			assert.True(t, !turn.Ran && !turn.Busy, "after three failures: %+v", turn)
			time.Sleep(time.Hour)
			turn = j.do(p)
			assert.True(t, turn.Ran, "in the next period: %+v", turn)
		})
	}
}

// While a run goes on whose success is awaited, others know that they may be next, and a loop takes over.
func TestALoopTakesARunOverThatFails(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		again := holdfast.DoneOnSuccess(3)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ran := make(chan time.Time, 1)
		ended := make(chan error, 1)
		_, err := w.client().Periodic("job", time.Hour, again).Do(t.Context(), func(context.Context) error {
			go func() {
				ended <- w.client().Periodic("job", time.Hour, again).Loop(ctx, func(context.Context) error {
					ran <- time.Now()
					return nil
				})
			}()
			time.Sleep(10 * time.Minute)
			return errors.New("no luck")
		})
		assert.True(t, err != nil, "no error")
		failed := time.Now()
		assert.AtMost(t, (<-ran).Sub(failed), 2*time.Second, "the time until the loop has taken over")
		cancel()
		assert.Is(t, <-ended, context.Canceled)
	})
}

// A grant that was lost is no try.
func TestARunThatDidNotHappenIsNoTry(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		j := &job{t: t}
		p := w.client().Periodic("job", time.Hour, holdfast.DoneOnSuccess(1))
		for range 2 {
			w.LoseReply(only("begin_run", 4, errLink))
			_, err := p.Do(t.Context(), j.run)
			assert.Is(t, err, holdfast.ErrUnknownOutcome)
			time.Sleep(12 * time.Second)
		}
		turn := j.do(p)
		assert.True(t, turn.Ran && j.count() == 1, "%+v after %d runs", turn, j.count())
	})
}

func TestAgainMakesAJobDue(t *testing.T) {
	for name, options := range map[string][]holdfast.PeriodicOption{
		"done on start": nil, "done on success": {holdfast.DoneOnSuccess(1)},
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			j := &job{t: t}
			p := w.client().Periodic("job", time.Hour, options...)
			assert.NoError(t, p.Again(t.Context())) // of a job that nobody knows
			_, err := p.Do(t.Context(), func(ctx context.Context) error {
				assert.Is(t, w.client().Periodic("job", time.Hour).Again(ctx), holdfast.ErrHeld)
				return errors.New("no luck")
			})
			assert.True(t, err != nil, "no error")
			assert.False(t, j.do(p).Ran, "a used period has another run")
			for range 2 { // may be repeated
				assert.NoError(t, w.client().Periodic("job", 2*time.Hour).Again(t.Context()))
			}
			assert.True(t, j.do(p).Ran && !j.do(p).Ran, "not one run after Again")
		})
	}
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
		_, err := c.Periodic("job", 24*time.Hour).Do(t.Context(), j.run)
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

// A job may ask for another schedule, and needs no run of itself for that.
func TestAJobIsRescheduledByItsRun(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		_, err := c.Periodic("job", time.Hour).Do(t.Context(), func(ctx context.Context) error {
			assert.Is(t, c.Periodic("job", time.Hour).Again(ctx), holdfast.ErrHeld)
			return c.Periodic("job", 2*time.Hour).Reschedule(ctx)
		})
		assert.NoError(t, err)
		_, err = c.Periodic("job", time.Hour).Do(t.Context(), func(context.Context) error { return nil })
		assert.Is(t, err, holdfast.ErrPeriod)
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

// late is how long after its time a run may begin: a waiting process adds a random pause,
// and polls a little later.
const late = 60 * time.Millisecond

func TestALoopCountsPeriodsFromTheirBeginning(t *testing.T) {
	const period, periods = time.Minute, 1000
	for name, options := range map[string][]holdfast.PeriodicOption{
		"each with its run": nil, "at fixed times": {holdfast.StartAt(17 * time.Second)},
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			j := &job{t: t, take: 40 * time.Second}
			p := w.client().Periodic("job", period, options...)
			assert.Is(t, loop(t, p, periods*period+time.Second, j.run), context.DeadlineExceeded)
			// A period that begins with its run is longer by the time until a process
			// sees that it is due: 11 ms at most, here.
			n := j.count()
			assert.True(t, n >= periods-1 && n <= periods+1, "%d runs in %d periods", n, periods)
			for i := 1; i < j.count(); i++ {
				gap := j.runs[i].Sub(j.runs[i-1])
				if options == nil && (gap < period || gap > period+late) {
					t.Fatalf("run %d came %v after the one before", i, gap)
				}
				past := j.runs[i].Add(-17*time.Second).UnixMilli() % period.Milliseconds()
				if options != nil && past > late.Milliseconds() {
					t.Fatalf("run %d came %d ms after its time", i, past)
				}
			}
		})
	}
}

// Runs of every length, many of them longer than a period. The next run begins with its
// period, or at once if the period has begun.
func TestALoopOfRunsOfEveryLengthKeepsItsTimes(t *testing.T) {
	const period, runs = time.Minute, 1000 / few
	for name, options := range map[string][]holdfast.PeriodicOption{
		"each with its run": nil, "at fixed times": {holdfast.StartAt(17 * time.Second)},
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			random := rand.New(rand.NewPCG(1, 2))
			var due, last time.Time
			n := 0
			done := errors.New("done")
			p := w.client().Periodic("job", period, options...)
			err := p.Loop(t.Context(), func(context.Context) error {
				at := time.Now()
				assert.False(t, n > 0 && (at.Before(due) || at.Sub(due) > late),
					"run %d came %v after it was due", n, at.Sub(due))
				if n++; n == runs || t.Failed() {
					return done
				}
				last = at
				if due = last.Add(period); options != nil {
					due = last.Add(-17 * time.Second).Truncate(period).Add(period + 17*time.Second)
				}
				time.Sleep(time.Duration(random.Int64N(int64(5 * period / 2))))
				if now := time.Now(); now.After(due) {
					due = now
				}
				return nil
			})
			assert.Is(t, err, done)
		})
	}
}

// What the function says of another lock is no loss of its run.
func TestALoopEndsWithItsJobThatLostAnotherLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, operator, runs := w.client(), w.client(), 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		err := c.Periodic("job", 5*time.Minute).Loop(ctx, func(ctx context.Context) error {
			runs++
			return c.Mutex("a").Do(ctx, func(ctx context.Context) error {
				takeAway(t, operator, "a", 0)
				<-ctx.Done()
				return nil
			})
		})
		assert.Is(t, err, holdfast.ErrNotHeld)
		assert.True(t, runs == 1 && ctx.Err() == nil, "%d runs: %v", runs, ctx.Err())
	})
}

// If a job fails, any process runs it again in its period, also a loop that waits for
// fixed times.
func TestAFailedRunOfALoopIsRetriedInItsPeriod(t *testing.T) {
	const period, periods = time.Hour, 300 / few
	errJob := errors.New("no luck")
	bubble(t, func(t *testing.T, w *world) {
		done := make(map[int64]int) // successes by period
		tries := 0
		ctx, cancel := context.WithTimeout(t.Context(), periods*period)
		defer cancel()
		p := w.client().Periodic("job", period, holdfast.StartAt(0), holdfast.DoneOnSuccess(3))
		for ctx.Err() == nil {
			err := p.Loop(ctx, func(context.Context) error {
				index := time.Now().UnixMilli() / period.Milliseconds()
				time.Sleep(time.Minute)
				if tries++; tries%3 != 0 {
					return errJob
				}
				done[index]++
				return nil
			})
			if !errors.Is(err, errJob) && !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			if err == errJob { //nolint:errorlint // it is f's own error, as it is
				continue
			} else if errors.Is(err, errJob) {
				t.Fatalf("f's error came as %#v", err)
			}
		}
		for index, n := range done {
			assert.Equal(t, n, 1, "runs of period %d that succeeded", index)
		}
		assert.True(t, len(done) >= periods-2 && tries >= 3*len(done),
			"%d periods of %d had their run, after %d tries", len(done), periods, tries)
	})
}

// Processes die within runs, again and again; others go on.
func TestAProcessThatDiesInItsRunCostsItsPeriodOnly(t *testing.T) {
	const period, periods = time.Hour, 300
	bubble(t, func(t *testing.T, w *world) {
		seen := make(map[int64]bool)
		errDied := errors.New("died")
		ctx, cancel := context.WithTimeout(t.Context(), periods*period)
		defer cancel()
		for ctx.Err() == nil {
			c := w.client()
			n := 0
			err := c.Periodic("job", period, holdfast.StartAt(0)).Loop(ctx, func(context.Context) error {
				index := time.Now().UnixMilli() / period.Milliseconds()
				assert.False(t, seen[index], "period %d has two runs", index)
				seen[index] = true
				if n++; n < 5 {
					return nil
				}
				c.Abandon()
				return errDied
			})
			if ctx.Err() == nil {
				assert.Is(t, err, errDied)
			}
		}
		assert.AtLeast(t, len(seen), periods-2, "periods of %d with a run", periods)
	})
}

func TestAClockThatIsSetBackRepeatsNoRun(t *testing.T) {
	for name, test := range map[string]struct {
		by   time.Duration
		wait time.Duration // until the next run, from the step on
	}{
		"by a moment":  {2 * time.Second, 24*time.Hour + 2*time.Second - time.Minute},
		"by an hour":   {time.Hour, 25*time.Hour - time.Minute},
		"by a weekend": {3 * 24 * time.Hour, 48*time.Hour - time.Minute}, // and no more than that
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			start := time.Now()
			server := time.Date(2031, 5, 6, 12, 0, 0, 0, time.UTC)
			var back atomic.Int64
			w.SetClock(func() time.Time { return server.Add(time.Since(start) - time.Duration(back.Load())) })
			j := &job{t: t}
			p := w.client().Periodic("lottery", 24*time.Hour, holdfast.StartAt(12*time.Hour))
			turn := j.do(p)
			assert.MustTrue(t, turn.Ran, "%+v", turn)
			time.Sleep(time.Minute)
			back.Store(int64(test.by))
			stepped := time.Now()
			assert.Is(t, loop(t, p, test.wait+time.Minute, j.run), context.DeadlineExceeded)
			assert.MustEqual(t, j.count(), 2, "runs")
			if off := j.runs[1].Sub(stepped) - test.wait; off < 0 || off > late {
				t.Errorf("the next run came %v after the step, want %v", j.runs[1].Sub(stepped), test.wait)
			}
		})
	}
}

func TestAnotherPeriodOfAJobIsRefusedAndItsMarkKept(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		j := &job{t: t}
		hourly := w.client().Periodic("job", time.Hour)
		others := map[string]*holdfast.Periodic{
			"24h0m0s":        w.client().Periodic("job", 24*time.Hour),
			"1m0s":           w.client().Periodic("job", time.Minute),
			"1h0m0s at 5m0s": w.client().Periodic("job", time.Hour, holdfast.StartAt(5*time.Minute)),
			"24h0m0s at 0s":  w.client().Periodic("job", 24*time.Hour, holdfast.StartAt(0)),
			"24h0m0s at 5h0m": w.client().Periodic("job", 24*time.Hour,
				holdfast.StartAt(5*time.Hour), holdfast.MaxWait(time.Hour)),
		}
		const hours = 50
		for range hours {
			turn := j.do(hourly)
			assert.MustTrue(t, turn.Ran, "%+v", turn)
			for range 6 {
				for asked, p := range others {
					_, err := p.Do(t.Context(), j.run)
					var other *holdfast.MismatchError
					if !errors.Is(err, holdfast.ErrPeriod) || !errors.As(err, &other) ||
						other.Got != (holdfast.Schedule{Period: time.Hour}) {
						t.Fatalf("%s: %v", asked, err)
					}
					if text := err.Error(); !strings.Contains(text, "1h0m0s,") || !strings.Contains(text, asked) {
						t.Errorf("%s: %v", asked, err)
					}
					assert.Contains(t, holdfast.Hint(err), "Reschedule")
					assert.Is(t, p.Loop(t.Context(), j.run), holdfast.ErrPeriod)
				}
				time.Sleep(10 * time.Minute)
			}
		}
		assert.True(t, j.count() == hours, "%d runs in %d hours", j.count(), hours)
		// While a run goes on too.
		j.take = time.Minute
		done := make(chan struct{})
		go func() { defer close(done); j.do(hourly) }()
		synctest.Wait()
		_, err := others["1m0s"].Do(t.Context(), j.run)
		assert.Is(t, err, holdfast.ErrPeriod)
		<-done
		// There was no run for two periods and the retention: the record has expired.
		time.Sleep(2*time.Hour + 10*time.Minute)
		turn := j.do(others["24h0m0s"])
		assert.True(t, turn.Ran, "%+v", turn)
	})
}

// The same instants can be written in several ways. A request without an offset takes the
// offset of the job.
func TestOffsetsOfTheSameInstantsAreTheSamePeriod(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		j := &job{t: t}
		for _, at := range []time.Duration{5 * time.Minute, 65 * time.Minute, -55 * time.Minute} {
			j.do(w.client().Periodic("job", time.Hour, holdfast.StartAt(at)))
		}
		assert.Equal(t, j.count(), 1, "runs")
		p := w.client().Periodic("job", time.Hour)
		time.Sleep(45 * time.Minute)
		if turn := j.do(p); !turn.Ran || time.Now().Add(turn.Next).Minute() != 5 {
			t.Errorf("%+v at %v", turn, time.Now())
		}
	})
}

func TestAJobIsRescheduledOnPurpose(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		j := &job{t: t}
		hourly, daily := w.client().Periodic("job", time.Hour), w.client().Periodic("job", 24*time.Hour)
		noon := w.client().Periodic("job", 24*time.Hour, holdfast.StartAt(12*time.Hour))
		reschedule := func(p *holdfast.Periodic) {
			t.Helper()
			for range 2 { // once more changes nothing
				assert.Must(t, p.Reschedule(t.Context()))
			}
		}
		reschedule(daily) // the server has no record of it yet
		j.do(hourly)
		time.Sleep(10 * time.Minute)
		reschedule(daily)
		_, err := hourly.Do(t.Context(), j.run)
		assert.Is(t, err, holdfast.ErrPeriod)
		turn := j.do(daily)
		assert.True(t, !turn.Ran && turn.Next == 24*time.Hour, "%+v", turn)
		time.Sleep(24 * time.Hour) // it is due, and remains due
		reschedule(hourly)
		turn = j.do(hourly)
		assert.True(t, turn.Ran, "%+v", turn)
		reschedule(noon)
		turn = j.do(noon)
		assert.True(t, !turn.Ran && turn.Next > 0 && turn.Next <= 24*time.Hour, "%+v", turn)
		time.Sleep(j.do(noon).Next)
		if turn := j.do(noon); !turn.Ran || time.Now().UTC().Hour() != 12 {
			t.Errorf("%+v at %v", turn, time.Now().UTC())
		}
		w.FailRequest(only("begin_run", 1, errLink))
		assert.Is(t, daily.Reschedule(t.Context()), holdfast.ErrUnknownOutcome)
		assert.Is(t, w.client().Periodic("", time.Hour).Reschedule(t.Context()), holdfast.ErrInvalid)
		c := w.client()
		late := c.Periodic("job", time.Hour)
		_ = c.Close(t.Context())
		assert.Is(t, late.Reschedule(t.Context()), holdfast.ErrClosed)
	})
}

// A run whose release gets no answer has happened, and the loop goes on. If a grant gets
// no answer, its period becomes due again. The loop does not wait for the next period
// then, even if it sees the mark before the cancel.
func TestALoopOutlivesRequestsWithoutAnswer(t *testing.T) {
	const period, periods = time.Hour, 200
	for _, action := range []string{"begin_run", "release"} {
		runBubble(t, action, func(t *testing.T, w *world) {
			j := &job{t: t, take: time.Minute}
			turns := 0
			var forgoes atomic.Int32 // by several goroutines
			w.LoseReply(func(asked string, _ []string) error {
				switch {
				case asked == "begin_run":
					turns++
					if action == "begin_run" && turns%3 == 0 {
						return errLink
					}
				case asked == "release" && action == "release" && j.count()%3 == 0:
					return errLink // each time that it is sent
				}
				return nil
			})
			w.FailRequest(func(asked string, _ []string) error {
				if asked == "cancel_run" {
					if forgoes.Add(1)%5 != 0 {
						return errLink
					}
				}
				return nil
			})
			p := w.client().Periodic("job", period, holdfast.StartAt(0))
			assert.Is(t, loop(t, p, periods*period, j.run), context.DeadlineExceeded)
			n := j.count()
			assert.True(t, n >= periods-1 && n <= periods, "%d runs in %d periods", n, periods)
			for i, at := range j.runs {
				assert.AtMost(t, at.UnixMilli()%period.Milliseconds(), 5000, "run %d came so many ms after its time", i)
			}
		})
	}
}
