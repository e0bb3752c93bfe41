package contract_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// late is how long after its time a run may begin: a waiting process adds a random pause,
// and polls a little later.
const late = 60 * time.Millisecond

// loop runs a job in a loop for some time and returns its error.
func loop(t *testing.T, p *holdfast.Periodic, during time.Duration, f func(ctx context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	return p.Loop(ctx, f)
}

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
		p := w.client().Periodic("job", period, holdfast.StartAt(0), holdfast.RetryOnError())
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
			turns, forgoes := 0, 0
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
					if forgoes++; forgoes%5 != 0 {
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
