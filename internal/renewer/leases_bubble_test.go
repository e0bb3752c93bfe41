package renewer

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/leasetime"
)

func TestRenewNowRenewsAtOnceWhatItSelects(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		told, other := s.add(t, "a", ttl), s.add(t, "b", ttl)
		fixed := &Item{Hold: own("c"), TTL: ttl, NoRenewal: true}
		s.renewer.Add(fixed, s.now(), s.now())
		start := s.now()
		s.renewer.RenewNow(func(it *Item) bool { return it != other })
		synctest.Wait()
		seen := s.seen()
		if len(seen) != 1 || seen[0].at != start || len(seen[0].batch) != 1 || seen[0].batch[0].Item != told {
			t.Errorf("renewed at once: %+v", seen)
		}
		s.answer = hang
		s.renewer.RenewNow(func(*Item) bool { return true })
		synctest.Wait()
		before := len(s.seen())
		s.renewer.RenewNow(func(*Item) bool { return true }) // a renewal is under way
		synctest.Wait()
		again := len(s.seen())
		assert.True(t, before != 0 && again == 0, "%d requests, and %d while they were under way", before, again)
		s.renewer.Stop()
		s.renewer.RenewNow(func(*Item) bool { t.Error("a stopped renewer looks"); return true })
	})
}

func TestALossThatWasSeenIsNotTakenBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		it := s.add(t, "a", ttl)
		assert.False(t, s.renewer.Expired(it), "a lease that is trusted was taken for lost")
		s.answer = hang
		s.ahead.Store(int64(ttl)) // the timer is late
		end := it.Deadline()
		assert.MustTrue(t, s.renewer.Expired(it), "it is not lost, past its deadline")
		s.renewer.Extended(it, s.now(), ttl) // an answer that was under way
		assert.True(t, it.Deadline() == end,
			"it is trusted until %v again, %v after its deadline", it.Deadline(), it.Deadline()-end)
		time.Sleep(ttl)
		v, lost := s.lossOf(it)
		assert.True(t, lost && v.reason == Expired, "lost: %v for %q", lost, v.reason)
		assert.True(t, !s.renewer.Has(it) && s.renewer.Expired(it), "it is in care after its loss")
	})
}

// A busy process may read an answer after the deadline and before its timer runs.
func TestAnAnswerAfterTheDeadlineRestoresNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		s.answer = func(_ context.Context, batch []Asked) ([]Outcome, error) {
			s.ahead.Store(int64(ttl)) // the timer is late
			return make([]Outcome, len(batch)), nil
		}
		it := s.add(t, "a", ttl)
		end := it.Deadline()
		time.Sleep(ttl)
		v, lost := s.lossOf(it)
		assert.True(t, lost && v.reason == Expired && it.Deadline() == end,
			"lost: %v for %q, trusted until %v", lost, v.reason, it.Deadline()-end)
		assert.Equal(t, len(s.renewals(it)), 0, "renewals told")

		extended := s.add(t, "b", ttl)
		s.ahead.Add(int64(ttl))
		assert.False(t, s.renewer.Extended(extended, s.now(), ttl), "a lease that is over was extended")
	})
}

func TestALeaseWhoseRenewalIsStoppedEndsAtItsDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		it := s.add(t, "a", ttl)
		time.Sleep(ttl - time.Second)
		assert.MustTrue(t, s.renewer.Has(it), "it was not renewed")
		s.seen()
		s.renewer.StopRenewal(it)
		end := it.Deadline()
		time.Sleep(10 * ttl)
		seen := s.seen()
		assert.True(t, len(seen) == 0, "renewed %d times", len(seen))
		s.wantLost(t, it, Expired, end)
		s.renewer.StopRenewal(it) // the renewer does not have this lease: no effect
	})
}

func TestTheTTLIsWhatTheNextRenewalAsksFor(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		it := s.add(t, "a", ttl)
		s.renewer.Extended(it, s.now(), 2*ttl)
		assert.Equal(t, s.renewer.TTL(it), 2*ttl, "s.renewer.TTL")
	})
}

// From the call on, a shortened lease is trusted for ttl at most after each renewal, and the
// renewals follow each other as those of a lease of that TTL do.
func TestAShortenedLeaseStaysShort(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		it := s.add(t, "a", ttl)
		time.Sleep(time.Second)
		const short = 3 * time.Second
		start := s.now()
		renewing, ok := s.renewer.Shorten(it, start, short)
		assert.MustTrue(t, renewing == nil && ok, "nothing was under way, and it was held")
		assert.True(t, it.Deadline() == leasetime.Deadline(start, short), "trusted until %v", it.Deadline()-start)
		assert.Equal(t, s.renewer.Longest(it, ttl), short, "it may be extended to")
		s.renewer.Extended(it, start, ttl) // an extension that was sent before
		assert.True(t, it.Deadline() == leasetime.Deadline(start, short),
			"an extension made it last until %v", it.Deadline()-start)
		time.Sleep(10 * short)
		synctest.Wait() // a renewal may be due at this instant
		seen := s.seen()
		n := len(seen)
		assert.True(t, n >= 28 && n <= 36, "%d renewals", n)
		if last := seen[len(seen)-1]; it.Deadline() != leasetime.Deadline(last.at, short) {
			t.Errorf("trusted for %v after a renewal", it.Deadline()-last.at)
		}
		s.renewer.Shorten(it, s.now(), ttl) // longer: that changes nothing
		assert.Equal(t, s.renewer.Longest(it, ttl), short, "a longer time made it longer")
	})
}

// A renewal under way has asked for the old TTL. Whoever shortens the lease can wait for its
// end. Its answer does not make the lease longer.
func TestARenewalUnderWayMakesNothingLongerAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		begun := make(chan struct{}, 1)
		s.answer = func(_ context.Context, batch []Asked) ([]Outcome, error) {
			select {
			case begun <- struct{}{}:
			default:
			}
			time.Sleep(time.Second)
			return make([]Outcome, len(batch)), nil
		}
		it := s.add(t, "a", ttl)
		<-begun // a renewal may be due earlier than after a third of the TTL
		sent, now := s.seen()[0].at, s.now()
		renewing, ok := s.renewer.Shorten(it, now, 5*time.Second)
		same, _ := s.renewer.Shorten(it, now, 4*time.Second)
		assert.MustTrue(t, renewing != nil && renewing == same && ok, "no renewal is under way")
		assert.True(t, it.Deadline() == leasetime.Deadline(now, 4*time.Second), "trusted for %v", it.Deadline()-now)
		<-renewing
		at := s.now()
		assert.True(t, at == sent+time.Second, "the renewal ended %v after it was sent", at-sent)
		assert.True(t, it.Deadline() <= leasetime.Deadline(now, 4*time.Second),
			"the old renewal made it last for %v", it.Deadline()-now)
		time.Sleep(ttl)
		_, lost := s.lossOf(it)
		assert.True(t, !lost, "lost, though each renewal was confirmed")
	})
}

func TestAShortenedLeaseWithoutRenewalEndsThen(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		it := s.add(t, "a", ttl)
		s.renewer.StopRenewal(it)
		s.renewer.Shorten(it, s.now(), time.Second)
		end := it.Deadline()
		time.Sleep(2 * time.Second)
		s.wantLost(t, it, Expired, end)
		_, ok := s.renewer.Shorten(it, s.now(), time.Second)
		assert.True(t, !ok, "a lost lease was shortened")
	})
}

// Near its limit a lease is not renewed any more. If it is shortened, it is: the limit is
// farther away than its end.
func TestAShortenedLeaseIsRenewedUpToItsLimit(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		now := s.now()
		it := &Item{Hold: own("a"), TTL: ttl, Limits: &Limits{NotAfter: now + ttl/2}}
		s.renewer.Add(it, now, now)
		s.renewer.Shorten(it, now, time.Second)
		limit := it.Limits.NotAfter
		time.Sleep(ttl)
		s.wantLost(t, it, Limit, limit)
	})
}
