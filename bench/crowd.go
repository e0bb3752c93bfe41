package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast"
)

// enter takes the lock, or the token, and answers its number and how to give
// it back.
type enter func(ctx context.Context) (seq uint64, leave func(context.Context) error, err error)

func enterLock(mu *holdfast.Mutex) enter {
	return func(ctx context.Context) (uint64, func(context.Context) error, error) {
		l, err := mu.Lock(ctx)
		if err != nil {
			return 0, nil, err
		}
		return l.Token(), l.Release, nil
	}
}

// enterToken waits for the one token that is in the list, a number, and gives
// it back as the next number.
func enterToken(r raw, list string) enter {
	return func(ctx context.Context) (uint64, func(context.Context) error, error) {
		token, err := r.Pop(ctx, list)
		if err != nil {
			return 0, nil, err
		}
		n, err := strconv.ParseUint(token, 10, 64)
		leave := func(ctx context.Context) error { return r.Push(ctx, list, strconv.FormatUint(n+1, 10)) }
		return n, leave, err
	}
}

// shift says for how long, and how, a crowd comes and goes.
type shift struct {
	Start  time.Duration // when the first member comes
	Step   time.Duration // and how much later each next one
	For    time.Duration // nobody begins a turn after that
	Hold   time.Duration // each one holds the lock for that long, until the shift ends
	Pause  time.Duration // and comes back after that
	Record bool          // note every turn
}

// tally is what became of a shift.
type tally struct {
	Counts []int         // turns of each member
	Worst  time.Duration // the longest wait for a turn
	Took   time.Duration // from the first one's coming to the last one's going
	Turns  []turn
}

// add takes another tally of the same crowd, later, or of another crowd, at
// the same time, into this one.
func (t *tally) add(o tally, later bool) {
	switch {
	case !later:
		t.Counts = append(t.Counts, o.Counts...)
		t.Took = max(t.Took, o.Took)
	case t.Counts == nil:
		t.Counts, t.Took = o.Counts, o.Took
	default:
		for i, n := range o.Counts {
			t.Counts[i] += n
		}
		t.Took += o.Took
	}
	t.Worst = max(t.Worst, o.Worst)
	t.Turns = append(t.Turns, o.Turns...)
}

// rate is the number of turns a second.
func (t *tally) rate() float64 {
	sum := 0
	for _, n := range t.Counts {
		sum += n
	}
	return float64(sum) / t.Took.Seconds()
}

// crowd has one goroutine for each of members take turns.
func crowd(ctx context.Context, members []enter, s shift) (tally, error) {
	t := tally{Counts: make([]int, len(members))}
	var mu sync.Mutex // guards t and failed
	var failed error
	var group sync.WaitGroup
	start := mono()
	for i, member := range members {
		group.Go(func() {
			wait(s.Start + time.Duration(i)*s.Step)
			count, worst, turns, err := s.work(ctx, member, start+s.For)
			mu.Lock()
			defer mu.Unlock()
			t.Counts[i], t.Worst, t.Turns = count, max(t.Worst, worst), append(t.Turns, turns...)
			if err != nil {
				failed = fmt.Errorf("member %d: %w", i, err)
			}
		})
	}
	group.Wait()
	t.Took = mono() - start
	return t, failed
}

func (s shift) work(ctx context.Context, member enter, end time.Duration) (
	count int, worst time.Duration, turns []turn, err error,
) {
	for {
		asked := mono()
		if asked >= end {
			return count, worst, turns, nil
		}
		seq, leave, err := member(ctx)
		if err != nil {
			return count, worst, turns, err
		}
		got := mono()
		worst = max(worst, got-asked)
		count++
		wait(min(s.Hold, end-got))
		left := mono()
		if err := leave(ctx); err != nil {
			return count, worst, turns, err
		}
		if s.Record {
			turns = append(turns, turn{Seq: seq, Asked: int64(asked), Got: int64(got), Left: int64(left)})
		}
		wait(min(s.Pause, end-left))
	}
}

// wait lets time pass that is part of the workload.
func wait(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// mono reads CLOCK_MONOTONIC, which all processes of a machine share.
func mono() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("BUG: no monotonic clock: " + err.Error())
	}
	return time.Duration(ts.Nano())
}
