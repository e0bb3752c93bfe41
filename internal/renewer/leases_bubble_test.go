package renewer

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestARecheckRenewsAtOnceWhatItSelects(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		told, other := s.add(t, "a", ttl), s.add(t, "b", ttl)
		fixed := &Item{Hold: own("c"), TTL: ttl, NoRenewal: true}
		s.renewer.Add(fixed, s.now(), s.now())
		start := s.now()
		s.renewer.Recheck(func(l *Item) bool { return l != other })
		synctest.Wait()
		seen := s.seen()
		if len(seen) != 1 || seen[0].at != start || len(seen[0].batch) != 1 || seen[0].batch[0] != told {
			t.Errorf("renewed at once: %+v", seen)
		}
		s.answer = hang
		s.renewer.Recheck(func(*Item) bool { return true })
		synctest.Wait()
		before := len(s.seen())
		s.renewer.Recheck(func(*Item) bool { return true }) // a renewal is under way
		synctest.Wait()
		if again := len(s.seen()); before == 0 || again != 0 {
			t.Errorf("%d requests, and %d while they were under way", before, again)
		}
		s.renewer.Stop()
		s.renewer.Recheck(func(*Item) bool { t.Error("a stopped renewer looks"); return true })
	})
}

func TestALossThatWasSeenIsNotTakenBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := s.add(t, "a", ttl)
		if s.renewer.Expire(l) {
			t.Error("a lease that is trusted was taken for lost")
		}
		s.answer = hang
		s.ahead.Store(int64(ttl)) // the timer is late
		end := l.Deadline()
		if !s.renewer.Expire(l) {
			t.Fatal("it is not lost, past its deadline")
		}
		s.renewer.Extended(l, s.now(), ttl) // an answer that was under way
		if l.Deadline() != end {
			t.Errorf("it is trusted until %v again, %v after its deadline", l.Deadline(), l.Deadline()-end)
		}
		time.Sleep(ttl)
		if v, lost := s.lossOf(l); !lost || v.reason != Expired {
			t.Errorf("lost: %v for %q", lost, v.reason)
		}
		if s.renewer.Has(l) || !s.renewer.Expire(l) {
			t.Error("it is in care after its loss")
		}
	})
}

func TestALeaseWhoseRenewalIsStoppedEndsAtItsDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := s.add(t, "a", ttl)
		time.Sleep(ttl)
		if !s.renewer.Has(l) {
			t.Fatal("it was not renewed")
		}
		s.seen()
		s.renewer.StopRenewal(l)
		end := l.Deadline()
		time.Sleep(10 * ttl)
		if seen := s.seen(); len(seen) > 0 {
			t.Errorf("renewed %d times", len(seen))
		}
		s.wantLost(t, l, Expired, end)
		s.renewer.StopRenewal(l) // the renewer does not have this lease: no effect
	})
}

func TestTheTTLIsWhatTheNextRenewalAsksFor(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		l := s.add(t, "a", ttl)
		s.renewer.Extended(l, s.now(), 2*ttl)
		if got := s.renewer.TTL(l); got != 2*ttl {
			t.Errorf("%v", got)
		}
	})
}
