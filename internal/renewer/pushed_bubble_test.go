package renewer

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/leasetime"
)

func TestAPushedGrantIsConfirmedAtOnceForTheWholeTTL(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		answer := make(chan struct{})
		s.answer = func(_ context.Context, batch []Asked) ([]Outcome, error) {
			<-answer
			return make([]Outcome, len(batch)), nil
		}
		now := s.now()
		it := s.addPushed(t, &Item{Hold: own(""), TTL: ttl}, ttl/10)
		want := leasetime.Deadline(now, ttl/10)
		assert.True(t, it.Deadline() == want, "trusted until %v before it is confirmed, want %v", it.Deadline(), want)
		close(answer)
		synctest.Wait()
		seen := s.seen()
		assert.MustTrue(t, len(seen) == 1 && seen[0].at == now, "pushed at %v, requests %+v", now, seen)
		if told := s.renewals(it); it.Deadline() != now+life || len(told) != 1 || told[0].lag != 0 {
			t.Errorf("trusted until %v, told %+v", it.Deadline(), told)
		}
		time.Sleep(ttl/3 - time.Millisecond)
		assert.AtMost(t, len(s.seen()), 1, "renewals in the first third of the TTL")
		time.Sleep(ttl / 6)
		// The confirmation says nothing of how near the lease was to its end.
		told := s.renewals(it)
		if len(told) != 2 || told[0].left != 0 || told[0].ttl != 0 || told[1].left == 0 || told[1].ttl != ttl {
			t.Errorf("told %+v", told)
		}
	})
}

func TestAPushedGrantThatIsReleasedFirstIsNotConfirmed(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		// The timer is due at once, so on another processor it may be faster than Remove.
		for range 100 {
			before := len(s.seen())
			it := s.addPushed(t, &Item{Hold: own(""), TTL: ttl}, ttl/10)
			assert.True(t, s.renewer.Remove(it), "it was not in care")
			time.Sleep(ttl)
			if len(s.seen()) == before {
				return
			}
		}
		t.Error("each of them was confirmed")
	})
}

// A request without an answer leaves time for another one, even if the pushed lease is
// much shorter than the request timeout and the TTL.
func TestAConfirmationIsTriedAgainWithinThePushedLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		s.answer = hang
		lost := s.addPushed(t, &Item{Hold: own("dead"), TTL: ttl}, 2*time.Second)
		end := lost.Deadline()
		time.Sleep(ttl)
		s.wantLost(t, lost, Expired, end)
		n := len(s.seen())
		assert.True(t, n >= 3 && n <= 30, "%d tries in 2s", n)
	})
	bubble(t, func(t *testing.T, s *server) {
		var tries atomic.Int32
		s.answer = func(ctx context.Context, batch []Asked) ([]Outcome, error) {
			if tries.Add(1) < 3 {
				return hang(ctx, batch)
			}
			return make([]Outcome, len(batch)), nil
		}
		it := s.addPushed(t, &Item{Hold: own(""), TTL: ttl}, 2*time.Second)
		time.Sleep(2 * time.Second)
		if _, lost := s.lossOf(it); lost || it.Deadline() < s.now()+ttl/2 {
			t.Errorf("lost: %v, trusted for %v more after %d tries", lost, it.Deadline()-s.now(), tries.Load())
		}
	})
}

func TestToConfirmIsNoRenewalAndNoLimitForbidsIt(t *testing.T) {
	for name, c := range map[string]struct {
		lease *Item
		want  int           // requests in all
		end   time.Duration // after the push
	}{
		"fixed":               {&Item{NoRenewal: true}, 1, life},
		"one renewal":         {&Item{Limits: &Limits{MaxRenewals: 1}}, 2, ttl/3 + life},
		"shorter than pushed": {&Item{Limits: &Limits{NotAfter: time.Second}}, 1, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				it, now := c.lease, s.now()
				it.Hold, it.TTL = own(""), ttl
				if it.Limits != nil && it.Limits.NotAfter > 0 {
					it.Limits.NotAfter += now
				}
				s.addPushed(t, it, ttl/10)
				time.Sleep(3 * ttl)
				assert.Equal(t, len(s.seen()), c.want, "requests")
				v, lost := s.lossOf(it)
				assert.True(t, lost && v.at-now >= c.end-leasetime.Slack(ttl) && v.at-now <= c.end,
					"lost: %v, %v after the push, want %v", lost, v.at-now, c.end)
			})
		})
	}
}

func TestWhatAnExtensionHasConfirmedIsNotConfirmedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		// The confirmation is due at once, so on another processor it may be faster than Extended.
		for range 100 {
			before := len(s.seen())
			it := s.addPushed(t, &Item{Hold: own(""), TTL: ttl}, ttl/10)
			assert.True(t, s.renewer.Extended(it, s.now(), ttl), "it was not in care")
			time.Sleep(ttl/3 - leasetime.Slack(ttl) - time.Millisecond)
			confirmed := len(s.seen()) > before
			assert.True(t, s.renewer.Remove(it), "it was not in care any more")
			if !confirmed {
				return
			}
		}
		t.Error("each of them was confirmed again in the first third of the TTL")
	})
}
