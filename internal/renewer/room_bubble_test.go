package renewer

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/leasetime"
)

// worker is a server that carries out one lease after the other, also those for which nobody waits any
// more.
type worker struct {
	now       func() time.Duration
	each      time.Duration // what one lease takes
	roundTrip time.Duration

	mu     sync.Mutex
	until  time.Duration // when it will have carried out all that it has received
	runs   int           // leases that it has received
	inVain int           // of these, those whose answer came too late
}

// work makes a worker the server of s.
func (s *server) work(each, roundTrip time.Duration) *worker {
	w := &worker{now: s.now, each: each, roundTrip: roundTrip}
	s.answer = w.answer
	return w
}

// pause stops the worker for d.
func (w *worker) pause(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = max(w.until, w.now()) + d
}

func (w *worker) answer(ctx context.Context, batch []Asked) ([]Outcome, error) {
	w.mu.Lock()
	w.until = max(w.until, w.now()) + time.Duration(len(batch))*w.each
	w.runs += len(batch)
	answered := time.NewTimer(w.until + w.roundTrip - w.now())
	w.mu.Unlock()
	defer answered.Stop()
	select {
	case <-answered.C:
		return make([]Outcome, len(batch)), nil
	case <-ctx.Done():
		w.mu.Lock()
		w.inVain += len(batch)
		w.mu.Unlock()
		return nil, ctx.Err()
	}
}

// addAll adds n leases, evenly spread over a time.
func (s *server) addAll(t *testing.T, n int, ttl, over time.Duration) (leases []*Item) {
	t.Helper()
	start := s.now()
	for i := range n {
		leases = append(leases, s.add(t, "", ttl))
		if i%100 == 99 {
			time.Sleep(start + over*time.Duration(i+1)/time.Duration(n) - s.now())
		}
	}
	return leases
}

// wantKept wants that no lease was lost.
func (s *server) wantKept(t *testing.T, leases []*Item) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Equal(t, len(s.lost), 0, "of %d leases were lost", len(leases))
}

// A server stops for a third of the TTL and more, and all leases become due. When it goes on, it carries
// out few renewals for which nobody waits any more, so it soon has carried out them all. Without a limit
// it would have ten copies of each, and more would come than it can carry out.
func TestAfterASilenceAServerDoesNotRunWhatNobodyWaitsFor(t *testing.T) {
	const n, long = 10_000, 150 * time.Second
	bubble(t, func(t *testing.T, s *server) {
		w := s.work(300*time.Microsecond, time.Millisecond)
		leases := s.addAll(t, n, long, long/3)
		const silence = long * 4 / 10
		w.pause(silence)
		time.Sleep(silence)
		back := s.now()
		w.mu.Lock()
		w.runs, w.inVain = 0, 0
		behind := w.until - back
		w.mu.Unlock()
		assert.AtMost(t, behind, n*w.each, "what the server has received meanwhile takes it")
		time.Sleep(2 * n * w.each)
		late := 0
		for _, it := range leases {
			if it.Deadline() < leasetime.Deadline(back-long/3, long) { // the answer to an earlier request counts
				late++
			}
		}
		assert.Equal(t, late, 0, "not renewed yet")
		w.mu.Lock()
		assert.AtMost(t, w.inVain, n, "leases that the server ran in vain since then, of %d runs", w.runs)
		w.mu.Unlock()
		s.wantKept(t, leases)
	})
}

// While a server is silent, a renewal is tried as often as without a limit, so its return is found at once.
func TestASilentServerIsTriedAllTheTime(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		s.answer = hang
		s.addAll(t, 20*batchMax, ttl, 0)
		time.Sleep(ttl/3 - time.Second)
		last := s.now() + time.Second
		s.seen()
		time.Sleep(life - ttl/3 - 2*time.Second)
		tries := s.seen()
		for i, r := range tries {
			assert.AtMost(t, r.at-last, 4*time.Second, "pause before try %d", i)
			last = r.at
		}
		assert.AtMost(t, len(tries), 80, "tries to renew 20 batches")
	})
}

// A lease waits for room until one whole request still fits into it, and no longer. So if the server
// goes on at the last moment, no lease is lost for having waited.
func TestNoLeaseIsLostForHavingWaited(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		w := s.work(time.Microsecond, 50*time.Millisecond)
		leases := s.addAll(t, 40*batchMax, ttl, 0)
		w.pause(life - 150*time.Millisecond)
		time.Sleep(ttl + ttl/3)
		s.wantKept(t, leases)
	})
}

// Of the leases that wait for room, those that end soonest are sent first.
func TestTheMostUrgentLeaseIsSentFirst(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		s.answer = hang
		s.addAll(t, 4*batchMax, 2*ttl, 0)
		time.Sleep(ttl / 3)
		urgent := s.addAll(t, 4*batchMax, ttl, 0)
		time.Sleep(ttl/3 + 3*time.Second + time.Second/2) // all were sent, without an answer
		s.seen()
		time.Sleep(urgent[0].Deadline() - s.now() - 3*time.Second - time.Second/2)
		tries := s.seen()
		for _, r := range tries {
			assert.AtMost(t, len(r.batch), batchMax, "leases in a request")
			for _, a := range r.batch {
				assert.MustTrue(t, a.For == ttl, "a lease that lasts until %v was sent at %v", a.Deadline(), r.at)
			}
		}
		assert.AtLeast(t, len(tries), 6, "tries")
	})
}

// A server that answers requests is not late, though it loses some.
func TestAServerThatLosesRequestsIsNotLate(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		var mu sync.Mutex
		count := 0
		s.answer = func(ctx context.Context, batch []Asked) ([]Outcome, error) {
			mu.Lock()
			count++
			lost := count%5 == 0
			mu.Unlock()
			if lost {
				return hang(ctx, batch)
			}
			time.Sleep(time.Second)
			return make([]Outcome, len(batch)), nil
		}
		s.addAll(t, 100*batchMax, ttl, ttl/3)
		for range 40 {
			time.Sleep(time.Second)
			s.renewer.mu.Lock()
			assert.False(t, s.renewer.groups[""].isLate(), "the group is late after %v", time.Since(s.start))
			s.renewer.mu.Unlock()
		}
	})
}

// whileWaiting calls f with a lease that waits for room at a silent server.
func whileWaiting(t *testing.T, f func(t *testing.T, s *server, it *Item)) {
	t.Helper()
	bubble(t, func(t *testing.T, s *server) {
		s.answer = hang
		leases := s.addAll(t, 8*batchMax, ttl, 0)
		time.Sleep(ttl/3 + 4*time.Second + time.Second/2)
		synctest.Wait()
		s.renewer.mu.Lock()
		var waits *Item
		for _, it := range leases {
			if it.step == waiting {
				waits = it
			}
		}
		s.renewer.mu.Unlock()
		assert.MustTrue(t, waits != nil, "no lease waits")
		s.seen()
		f(t, s, waits)
	})
}

// sentOf returns when a lease was sent.
func (s *server) sentOf(it *Item) (at []time.Duration) {
	for _, r := range s.seen() {
		for _, a := range r.batch {
			if a.Item == it {
				at = append(at, r.at)
			}
		}
	}
	return at
}

func TestALeaseThatIsExtendedWaitsNoLongerForItsTurn(t *testing.T) {
	whileWaiting(t, func(t *testing.T, s *server, it *Item) {
		now := s.now()
		assert.True(t, s.renewer.Extended(it, now, ttl), "the lease was lost")
		time.Sleep(ttl/3 + time.Second)
		for _, at := range s.sentOf(it) {
			assert.AtLeast(t, at-now, ttl/3-ttl/20, "renewed after its extension after")
		}
	})
}

func TestALeaseThatIsNotRenewedAnyMoreWaitsNoLongerForItsTurn(t *testing.T) {
	whileWaiting(t, func(t *testing.T, s *server, it *Item) {
		s.renewer.StopRenewal(it)
		end := it.Deadline()
		time.Sleep(ttl)
		assert.Equal(t, len(s.sentOf(it)), 0, "renewals")
		s.wantLost(t, it, Expired, end)
	})
}

// A renewal that has not been sent asks for the new TTL, so nobody waits for it.
func TestShortenDoesNotWaitForARenewalThatWaits(t *testing.T) {
	whileWaiting(t, func(t *testing.T, s *server, it *Item) {
		renewing, ok := s.renewer.Shorten(it, s.now(), 6*time.Second)
		assert.True(t, renewing == nil && ok, "%v, %v", renewing, ok)
		end := it.Deadline()
		time.Sleep(end - s.now() - time.Millisecond)
		for _, r := range s.seen() {
			for _, a := range r.batch {
				assert.True(t, a.Item != it || a.For == 6*time.Second, "a renewal asks for %v", a.For)
			}
		}
		time.Sleep(time.Second)
		s.wantLost(t, it, Expired, end)
	})
}

// The renewer remembers nothing of a group to which no request is under way.
func TestAGroupIsForgottenWhenNothingIsUnderWay(t *testing.T) {
	whileWaiting(t, func(t *testing.T, s *server, _ *Item) {
		time.Sleep(ttl)
		s.add(t, "another", ttl)
		time.Sleep(ttl / 5)
		s.renewer.mu.Lock()
		defer s.renewer.mu.Unlock()
		assert.Equal(t, len(s.renewer.groups)+len(s.renewer.paused), 0, "groups")
	})
}
