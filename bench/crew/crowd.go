package crew

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Enter acquires the lock, or the token. It returns its number and a function that
// releases it. The number rises from holder to holder; it is 0 for a lock without
// numbers.
type Enter func(ctx context.Context) (seq uint64, leave func(context.Context) error, err error)

// Shift says how a crowd works, and for how long.
type Shift struct {
	Start  time.Duration // when the first member comes
	Step   time.Duration // and how much later each next one
	For    time.Duration // no member begins a turn after that
	Grace  time.Duration // and no member waits for longer than this after that; 0: without a limit
	Hold   time.Duration // each member holds the lock for this long, until the shift ends
	Pause  time.Duration // and comes back after this time
	Record bool          // note every turn
	Sample bool          // note how long each turn took, from the request to the end of the release
}

// Tally is the result of a shift.
type Tally struct {
	Counts  []int           // turns of each member that began before the end
	Late    int             // turns that began after it, of goroutines that waited then
	Starved int             // members whose last wait ended without a turn
	Worst   time.Duration   // the longest wait for a turn
	Took    time.Duration   // how long the shift was
	Mallocs uint64          // allocations of the process meanwhile
	Turns   []Turn          // if they were to be recorded
	Samples []time.Duration // if they were to be sampled
}

// Add adds another tally to this one: of the same crowd later, or of another crowd at the
// same time.
func (t *Tally) Add(o Tally, later bool) {
	switch {
	case !later:
		t.Counts = append(t.Counts, o.Counts...)
		t.Took = max(t.Took, o.Took)
	case t.Counts == nil:
		t.Counts, t.Took = slices.Clone(o.Counts), o.Took
	default:
		for i, n := range o.Counts {
			t.Counts[i] += n
		}
		t.Took += o.Took
	}
	t.Late += o.Late
	t.Starved += o.Starved
	t.Worst = max(t.Worst, o.Worst)
	t.Mallocs += o.Mallocs
	t.Turns = append(t.Turns, o.Turns...)
	t.Samples = append(t.Samples, o.Samples...)
}

// Sum is the number of turns.
func (t *Tally) Sum() int {
	sum := 0
	for _, n := range t.Counts {
		sum += n
	}
	return sum
}

// Rate is the number of turns a second.
func (t *Tally) Rate() float64 { return float64(t.Sum()) / t.Took.Seconds() }

// Work lets the members take turns, each in its own goroutine.
func Work(ctx context.Context, members []Enter, s Shift) (Tally, error) {
	if s.Grace > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.For+s.Grace)
		defer cancel()
	}
	t := Tally{Counts: make([]int, len(members)), Took: s.For}
	var mu sync.Mutex // guards t and failed
	var failed error
	var group sync.WaitGroup
	before := mallocs()
	start := Mono()
	for i, member := range members {
		group.Go(func() {
			Wait(s.Start + time.Duration(i)*s.Step)
			one, err := s.work(ctx, member, start+s.For)
			mu.Lock()
			defer mu.Unlock()
			t.Counts[i] = one.Counts[0]
			t.Worst = max(t.Worst, one.Worst)
			t.Late += one.Late
			t.Starved += one.Starved
			t.Turns = append(t.Turns, one.Turns...)
			t.Samples = append(t.Samples, one.Samples...)
			if err != nil {
				failed = fmt.Errorf("member %d: %w", i, err)
			}
		})
	}
	group.Wait()
	t.Mallocs = mallocs() - before
	return t, failed
}

// work is the shift of one member.
func (s Shift) work(ctx context.Context, member Enter, end time.Duration) (Tally, error) {
	t := Tally{Counts: []int{0}}
	for {
		asked := Mono()
		if asked >= end {
			return t, nil
		}
		seq, leave, err := member(ctx)
		got := Mono()
		t.Worst = max(t.Worst, got-asked)
		if err != nil {
			if s.Grace > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Starved++
				return t, nil
			}
			return t, err
		}
		if got < end {
			t.Counts[0]++
		} else {
			t.Late++
		}
		Wait(min(s.Hold, end-got))
		left := Mono()
		if err := leave(context.WithoutCancel(ctx)); err != nil {
			return t, err
		}
		if s.Sample {
			t.Samples = append(t.Samples, Mono()-asked-(left-got))
		}
		if s.Record {
			t.Turns = append(t.Turns, Turn{Seq: seq, Asked: int64(asked), Got: int64(got), Left: int64(left)})
		}
		Wait(min(s.Pause, end-left))
	}
}

// AnyOf enters one of several locks at random. The same seed gives the same sequence.
func AnyOf(enters []Enter, seed uint64) Enter {
	dice := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // which lock is next is no secret
	return func(ctx context.Context) (uint64, func(context.Context) error, error) {
		return enters[dice.IntN(len(enters))](ctx)
	}
}

// Wait waits for a time that is part of the workload.
func Wait(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// origin is the instant at which both clocks were read. Go's own clock is the same one,
// read without a system call. Three system calls would matter in a turn of some
// microseconds.
var origin, started = monotonic(), time.Now()

// Mono reads CLOCK_MONOTONIC, which all processes of a machine share.
func Mono() time.Duration { return origin + time.Since(started) }

func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic("BUG: no monotonic clock: " + err.Error())
	}
	return time.Duration(ts.Nano())
}

func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
