package batch_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/batch"
)

type item = batch.Item[int, string]

// sender keeps each batch under way until the test answers it.
type sender struct {
	*batch.Batcher[int, string]
	out  chan []int
	back chan struct{}
}

func newSender(run func(func()) bool) *sender {
	s := &sender{out: make(chan []int, 8), back: make(chan struct{})}
	s.Batcher = batch.New(func(batch []*item) {
		var numbers []int
		for _, b := range batch {
			numbers = append(numbers, b.Request)
		}
		s.out <- numbers
		<-s.back
		for _, b := range batch {
			b.Answer <- "sent"
		}
	}, run)
	return s
}

func spawn(f func()) bool {
	go f()
	return true
}

// crowd enters n requests. It returns how many may go alone, and those that are queued.
func (s *sender) crowd(t *testing.T, n int) (alone int, items []*item) {
	t.Helper()
	for i := range n {
		if b := s.Offer(i); b == nil {
			alone++
		} else {
			items = append(items, b)
		}
	}
	return alone, items
}

// A few requests go alone. The next ones are sent in one batch as soon as one of the first
// has its answer. Requests that come meanwhile wait for that batch.
func TestManyRequestsAreBatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(spawn)
		alone, items := s.crowd(t, 10)
		assert.MustTrue(t, alone == 4 && len(items) == 6, "%d went alone and %d are queued", alone, len(items))
		s.DoneAlone()
		assert.EqualSlices(t, <-s.out, []int{4, 5, 6, 7, 8, 9}, "the batch")
		late := s.Offer(10)
		for range 3 {
			s.DoneAlone()
		}
		synctest.Wait()
		assert.False(t, late == nil || len(s.out) > 0, "a request was sent while a batch was under way")
		s.back <- struct{}{}
		for _, b := range items {
			assert.Equal(t, <-b.Answer, "sent", "answered")
		}
		assert.EqualSlices(t, <-s.out, []int{10}, "then went")
		s.back <- struct{}{}
		<-late.Answer
		synctest.Wait()
		assert.True(t, s.Offer(11) == nil, "a request queues although none is under way")
	})
}

// While a batch is under way, a second one is sent as soon as half a batch is queued, and no
// third one.
func TestASecondBatchIsSentBesideTheFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(spawn)
		_, items := s.crowd(t, 4+1)
		s.DoneAlone()
		<-s.out
		_, few := s.crowd(t, 15)
		synctest.Wait()
		assert.True(t, len(s.out) == 0, "too few were sent beside a batch")
		_, more := s.crowd(t, 1+31)
		if second := <-s.out; len(second) != 16 {
			t.Errorf("%d in the second batch", len(second))
		}
		synctest.Wait()
		assert.True(t, len(s.out) == 0, "a third batch was sent beside two")
		s.back <- struct{}{}
		if third := <-s.out; len(third) != 31 {
			t.Errorf("%d in the third batch", len(third))
		}
		close(s.back)
		for _, b := range slices.Concat(items, few, more) {
			<-b.Answer
		}
	})
}

func TestABatchIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(spawn)
		_, items := s.crowd(t, 4+32+5)
		s.DoneAlone()
		if first := <-s.out; len(first) != 32 {
			t.Errorf("%d in a batch", len(first))
		}
		s.back <- struct{}{}
		if second := <-s.out; len(second) != 5 {
			t.Errorf("%d in a batch", len(second))
		}
		s.back <- struct{}{}
		for _, b := range items {
			<-b.Answer
		}
	})
}

// A silent server delays a queued request by no more than 10 ms.
func TestASilentServerDelaysNoRequestForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(spawn)
		_, items := s.crowd(t, 6)
		start := time.Now()
		if got := <-s.out; len(got) != 2 || time.Since(start) != 10*time.Millisecond {
			t.Errorf("%v left after %v", got, time.Since(start))
		}
		start = time.Now()
		items = append(items, s.Offer(6), s.Offer(7))
		if got := <-s.out; !slices.Equal(got, []int{6, 7}) || time.Since(start) != 10*time.Millisecond {
			t.Errorf("behind a silent batch %v left after %v", got, time.Since(start))
		}
		close(s.back)
		for _, b := range items {
			<-b.Answer
		}
	})
}

// If more is queued than a batch takes, the rest waits no longer for a silent server than the batch did.
func TestASilentServerDoesNotKeepTheRestOfAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(spawn)
		_, items := s.crowd(t, 4+32+5)
		start := time.Now()
		for i, want := range []int{32, 5} {
			assert.Equal(t, len(<-s.out), want, "requests in batch %d", i+1)
			assert.Equal(t, time.Since(start), time.Duration(i+1)*10*time.Millisecond, "batch %d was sent after", i+1)
		}
		close(s.back)
		for _, b := range items {
			<-b.Answer
		}
	})
}

// A request that leaves in time is not sent. One that was sent cannot leave.
func TestACancelledRequestIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(spawn)
		_, items := s.crowd(t, 7)
		assert.True(t, items[1].Withdraw(), "could not be withdrawn")
		s.DoneAlone()
		assert.EqualSlices(t, <-s.out, []int{4, 6}, "the batch")
		assert.False(t, items[0].Withdraw(), "withdrawn although it was sent")
		close(s.back)
		<-items[0].Answer
		<-items[2].Answer
	})
}

// When no goroutine can be started any more, every request gets the zero answer.
func TestWithoutAGoroutineEveryRequestGoesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(func(func()) bool { return false })
		_, items := s.crowd(t, 4+40)
		s.DoneAlone()
		for _, b := range items {
			assert.Equal(t, <-b.Answer, "", "answered")
		}
	})
}

// An item serves another request once its answer was received, and not before.
func TestAnItemIsUsedAgainAfterItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(spawn)
		_, items := s.crowd(t, 4+2)
		s.DoneAlone()
		<-s.out
		gone := make(chan struct{})
		close(gone)
		_, answered := s.Await(items[0], gone)
		later := s.Offer(7)
		assert.True(t, !answered && later != items[0], "a request that waits lost its item to another one")
		close(s.back)
		for _, b := range append(items, later) {
			if got, answered := s.Await(b, nil); got != "sent" || !answered {
				t.Errorf("answered %q: %v", got, answered)
			}
		}
		synctest.Wait()
		_, again := s.crowd(t, 1+3)
		s.DoneAlone()
		for _, b := range again {
			if got, answered := s.Await(b, t.Context().Done()); got != "sent" || !answered {
				t.Errorf("once more, answered %q: %v", got, answered)
			}
		}
	})
}

// An answer that has arrived counts, although its caller has given up.
func TestAnAnswerThatHasArrivedCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSender(spawn)
		_, items := s.crowd(t, 4+20)
		close(s.back)
		s.DoneAlone()
		<-s.out
		synctest.Wait()
		gone := make(chan struct{})
		close(gone)
		for _, b := range items {
			got, answered := s.Await(b, gone)
			assert.True(t, got == "sent" && answered, "answered %q: %v", got, answered)
		}
	})
}
