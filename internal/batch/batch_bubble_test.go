package batch_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/batch"
)

type ride = batch.Item[int, string]

// road is a way whose batches are out until the test calls them back.
type road struct {
	*batch.Batcher[int, string]
	out  chan []int
	back chan struct{}
}

func newRoad(run func(func()) bool) *road {
	r := &road{out: make(chan []int, 8), back: make(chan struct{})}
	r.Batcher = batch.New(func(batch []*ride) {
		var numbers []int
		for _, b := range batch {
			numbers = append(numbers, b.Request)
		}
		r.out <- numbers
		<-r.back
		for _, b := range batch {
			b.Answer <- "sent"
		}
	}, run)
	return r
}

func spawn(f func()) bool {
	go f()
	return true
}

// crowd enters requests until some gather; those are answered.
func (r *road) crowd(t *testing.T, n int) (alone int, rides []*ride) {
	t.Helper()
	for i := range n {
		if b := r.Enter(i); b == nil {
			alone++
		} else {
			rides = append(rides, b)
		}
	}
	return alone, rides
}

// Few go alone at once; what comes behind them leaves together as soon as one
// of them is back, and what comes meanwhile waits for that batch.
func TestManyTravelTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoad(spawn)
		alone, rides := r.crowd(t, 10)
		if alone != 4 || len(rides) != 6 {
			t.Fatalf("%d went alone and %d gathered", alone, len(rides))
		}
		r.Exit()
		if got := <-r.out; !slices.Equal(got, []int{4, 5, 6, 7, 8, 9}) {
			t.Errorf("together went %v", got)
		}
		late := r.Enter(10)
		for range 3 {
			r.Exit()
		}
		synctest.Wait()
		if late == nil || len(r.out) > 0 {
			t.Error("somebody left while a batch was out")
		}
		r.back <- struct{}{}
		for _, b := range rides {
			if got := <-b.Answer; got != "sent" {
				t.Errorf("answered %q", got)
			}
		}
		if got := <-r.out; !slices.Equal(got, []int{10}) {
			t.Errorf("then went %v", got)
		}
		r.back <- struct{}{}
		<-late.Answer
		synctest.Wait()
		if r.Enter(11) != nil {
			t.Error("on a clear road nobody waits")
		}
	})
}

func TestABatchIsNoLongerThanItMayBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoad(spawn)
		_, rides := r.crowd(t, 4+32+5)
		r.Exit()
		if first := <-r.out; len(first) != 32 {
			t.Errorf("%d travelled together", len(first))
		}
		r.back <- struct{}{}
		if second := <-r.out; len(second) != 5 {
			t.Errorf("%d travelled together", len(second))
		}
		r.back <- struct{}{}
		for _, b := range rides {
			<-b.Answer
		}
	})
}

// A server that is silent delays what gathers by no more than the patience.
func TestSilenceDelaysNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoad(spawn)
		_, rides := r.crowd(t, 6)
		start := time.Now()
		if got := <-r.out; len(got) != 2 || time.Since(start) != 10*time.Millisecond {
			t.Errorf("%v left after %v", got, time.Since(start))
		}
		start = time.Now()
		rides = append(rides, r.Enter(6), r.Enter(7))
		if got := <-r.out; !slices.Equal(got, []int{6, 7}) || time.Since(start) != 10*time.Millisecond {
			t.Errorf("behind a silent batch %v left after %v", got, time.Since(start))
		}
		close(r.back)
		for _, b := range rides {
			<-b.Answer
		}
	})
}

// Who leaves in time is not sent; who was sent cannot leave.
func TestWhoLeavesIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoad(spawn)
		_, rides := r.crowd(t, 7)
		if !rides[1].Leave() {
			t.Error("could not leave")
		}
		r.Exit()
		if got := <-r.out; !slices.Equal(got, []int{4, 6}) {
			t.Errorf("together went %v", got)
		}
		if rides[0].Leave() {
			t.Error("left although it was sent")
		}
		close(r.back)
		<-rides[0].Answer
		<-rides[2].Answer
	})
}

// When nothing may run any more, everybody is told to go alone.
func TestWithoutAGoroutineEverybodyIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoad(func(func()) bool { return false })
		_, rides := r.crowd(t, 4+40)
		r.Exit()
		for _, b := range rides {
			if got := <-b.Answer; got != "" {
				t.Errorf("answered %q", got)
			}
		}
	})
}
