package renewer

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/leasetime"
)

func TestALeaseIsRenewedAfterAThirdOfItsTTL(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		it := s.add(t, "", ttl)
		last := s.now()
		time.Sleep(10 * ttl)
		for i, r := range s.seen() {
			if due := last + ttl/3; r.at > due || r.at < due-leasetime.Slack(ttl) {
				t.Errorf("renewal %d at %v, due at %v", i, r.at, due)
			}
			last = r.at
		}
		if want := last + life; last < 9*ttl || it.Deadline() != want {
			t.Errorf("last renewed at %v, trusted until %v, want %v", last, it.Deadline(), want)
		}
	})
}

// The machine is suspended: no timer fires, and the clock goes on. A lease that is due when it is added is no pause.
func TestALateTimerIsAPause(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		it := s.add(t, "a", 30*time.Second)
		s.addPushed(t, &Item{Hold: own("a"), TTL: 30 * time.Second}, 2*time.Second)
		time.Sleep(20 * time.Second)
		assert.Equal(t, s.renewer.Pause(), 0, "the pause")
		s.ahead.Add(int64(4 * time.Second))
		time.Sleep(20 * time.Second)
		pause := s.renewer.Pause()
		assert.True(t, pause > 3*time.Second && pause <= 4*time.Second && s.renewer.Has(it), "the pause: %v", pause)
	})
}

// The report of a renewal says how much of the lease was left when the answer came.
func TestARenewalTellsHowMuchOfTheLeaseWasLeft(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		var trust time.Duration
		s.answer = func(_ context.Context, batch []Asked) ([]Outcome, error) {
			trust = batch[0].Deadline()
			time.Sleep(2 * time.Second)
			return make([]Outcome, len(batch)), nil
		}
		it := s.add(t, "", ttl)
		time.Sleep(ttl / 2)
		told := s.renewals(it)
		assert.True(t, len(told) == 1 && told[0].left == trust-told[0].at && told[0].ttl == ttl,
			"told %+v, the old deadline was %v", told, trust)
		if least, most := life-ttl/3-3*time.Second, life-ttl/3; told[0].left < least || told[0].left > most {
			t.Errorf("%v were left, want from %v to %v", told[0].left, least, most)
		}
	})
}

func TestRenewalsOfOneGroupAreSentInBatches(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		for i := range 300 {
			s.add(t, fmt.Sprint("node ", i%2), ttl)
		}
		time.Sleep(ttl / 2)
		sizes := map[string][]int{}
		for _, r := range s.seen() {
			for _, a := range r.batch {
				assert.MustTrue(t, a.Hold.Group() == r.batch[0].Hold.Group(), "two groups share a request")
			}
			sizes[r.batch[0].Hold.Group()] = append(sizes[r.batch[0].Hold.Group()], len(r.batch))
		}
		for group, n := range sizes {
			assert.True(t, len(n) == 2 && n[0]+n[1] == 150 && max(n[0], n[1]) == batchMax,
				"%s: batches of %v, want 128 and 22", group, n)
		}
	})
}

func TestRenewalsThatAreNearlyDueJoinTheBatch(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		for range 10 {
			s.add(t, "", ttl)
			time.Sleep(ttl / 300)
		}
		time.Sleep(ttl)
		n := len(s.seen())
		assert.True(t, n != 0 && n <= 8, "%d requests for three renewals of ten leases that are 100ms apart", n)
	})
}

// With many leases, those that are nearly due fill batches up, and none is renewed earlier than that.
func TestRenewalsOfManyLeasesFillBatchesAndNoMore(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		const n = 5 * batchMax
		apart := leasetime.Slack(ttl) / (2 * batchMax)
		var leases []*Item
		for range n {
			leases = append(leases, s.add(t, "", ttl))
			time.Sleep(apart)
		}
		time.Sleep(ttl/3 + apart)
		seen := s.seen()
		assert.True(t, len(seen) == n/batchMax, "%d requests for one renewal of %d leases", len(seen), n)
		for i, it := range leases {
			told := s.renewals(it)
			assert.MustTrue(t, len(told) == 1 && told[0].lag >= -batchMax*apart,
				"lease %d: renewed %+v, and a batch of others is due in %v", i, told, batchMax*apart)
		}
	})
}

func TestASilentGroupDelaysNobodyElse(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		s.answer = func(ctx context.Context, batch []Asked) ([]Outcome, error) {
			if batch[0].Hold.Group() == "dead" {
				return hang(ctx, batch)
			}
			return make([]Outcome, len(batch)), nil
		}
		dead, alive := s.add(t, "dead", ttl), s.add(t, "alive", ttl)
		second := s.add(t, "dead too", ttl)
		end := dead.Deadline()
		s.renewer.Remove(second)
		fixed := &Item{Hold: own("dead"), TTL: 5 * time.Second, NoRenewal: true}
		s.renewer.Add(fixed, s.now(), s.now())
		fixedEnd := fixed.Deadline()
		start := s.now()
		time.Sleep(2 * ttl)
		s.wantLost(t, dead, Expired, end)
		s.wantLost(t, fixed, Expired, fixedEnd)
		last := start
		for _, r := range s.seen() {
			if r.batch[0].Item != alive {
				continue
			}
			assert.True(t, r.at <= last+ttl/3,
				"the other group was renewed at %v, %v after the last time", r.at-start, r.at-last)
			last = r.at
		}
		if _, lost := s.lossOf(alive); lost || last < start+2*ttl-ttl/3 {
			t.Errorf("the other group was renewed at %v for the last time", last-start)
		}
	})
}

func TestLossIsSignalledExactlyAtTheTrustDeadline(t *testing.T) {
	for name, answer := range map[string]func(context.Context, []Asked) ([]Outcome, error){
		"hangs":  hang,
		"fails":  func(context.Context, []Asked) ([]Outcome, error) { return nil, errSilent },
		"sleeps": func(context.Context, []Asked) ([]Outcome, error) { time.Sleep(time.Hour); return nil, errSilent },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				s.answer = answer
				it := s.add(t, "", ttl)
				end := it.Deadline()
				time.Sleep(2 * time.Hour)
				s.wantLost(t, it, Expired, end)
				assert.True(t, it.Deadline() == end,
					"the deadline moved from %v to %v without an answer", end, it.Deadline())
				assert.False(t, s.renewer.Remove(it), "a lost lease is still in care")
			})
		})
	}
}

// An answer is taken for a third of the lease, and never after the old deadline. The next try does not
// wait for that.
func TestARenewalIsBoundedByAThirdOfTheLeaseAndTheOldDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		s.answer = hang
		const ttl = 28 * time.Second // so that the last try begins less than 3 s before the end
		it := s.add(t, "", ttl)
		end := it.Deadline()
		time.Sleep(2 * ttl)
		seen := s.seen()
		for i, r := range seen {
			want := min(ttl/3, end-r.at)
			assert.True(t, r.bound == want, "try %d at %v may take %v, want %v", i, r.at, r.bound, want)
		}
		if last := seen[len(seen)-1]; len(seen) < 4 || last.at >= end || last.bound >= 3*time.Second {
			t.Errorf("%d tries, the last at %v of %v, bounded by %v", len(seen), last.at, end, last.bound)
		}
	})
}

func TestAFailedRenewalIsTriedAgainInsideTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		failures := 0
		s.answer = func(_ context.Context, batch []Asked) ([]Outcome, error) {
			if failures++; failures <= 15 {
				return nil, errSilent
			}
			return []Outcome{{Waiting: 7}}, nil
		}
		it := s.add(t, "", ttl)
		time.Sleep(10 * ttl)
		v, lost := s.lossOf(it)
		assert.MustTrue(t, !lost, "lost at %v", v.at)
		told := s.renewals(it)
		for i, v := range told[:16] {
			assert.True(t, (v.err != nil) == (i < 15), "try %d was told as %v", i, v.err)
		}
		ok := told[15]
		assert.True(t, ok.waiting == 7 && ok.lag >= 13*time.Second, "the renewal that worked was told as %+v", ok)
	})
}

func TestWhatTheServerSaysOfEachLeaseDecides(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		lease := func() *Item { return &Item{Hold: own("a"), TTL: ttl} }
		kept, gone, evicted := lease(), lease(), lease()
		said := map[*Item]Outcome{gone: {Lost: NotHeld}, evicted: {Lost: Evicted}}
		s.answer = func(_ context.Context, batch []Asked) (outcomes []Outcome, _ error) {
			time.Sleep(time.Second)
			for _, a := range batch {
				outcomes = append(outcomes, said[a.Item])
			}
			return outcomes, nil
		}
		for _, it := range []*Item{kept, gone, evicted} {
			s.renewer.Add(it, s.now(), s.now())
		}
		time.Sleep(ttl / 2)
		at := s.seen()[0].at + time.Second
		s.wantLost(t, gone, NotHeld, at)
		s.wantLost(t, evicted, Evicted, at)
		_, lost := s.lossOf(kept)
		assert.True(t, !lost, "the third lease was lost with them")
	})
}

func TestALateAnswerChangesNothingForALeaseThatWasRemoved(t *testing.T) {
	for name, outcome := range map[string]Outcome{"renewed": {}, "lost": {Lost: NotHeld}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *server) {
				s.answer = func(context.Context, []Asked) ([]Outcome, error) {
					time.Sleep(2 * time.Second)
					return []Outcome{outcome}, nil
				}
				it := s.add(t, "", ttl)
				end := it.Deadline()
				time.Sleep(ttl/3 + time.Millisecond)
				assert.MustTrue(t, len(s.seen()) == 1 && s.renewer.Remove(it), "no renewal is under way")
				time.Sleep(2 * ttl)
				if _, lost := s.lossOf(it); lost || len(s.renewals(it)) > 0 || it.Deadline() != end {
					t.Errorf("lost %v, renewals %v, deadline %v after %v", lost, s.renewals(it), it.Deadline(), end)
				}
			})
		})
	}
}

func TestAnAnswerAfterTheLossDoesNotReviveTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		s.answer = func(context.Context, []Asked) ([]Outcome, error) {
			time.Sleep(ttl) // it ignores its context
			return []Outcome{{}}, nil
		}
		it := s.add(t, "", ttl)
		end := it.Deadline()
		time.Sleep(3 * ttl)
		s.wantLost(t, it, Expired, end)
		for _, r := range s.renewals(it) {
			assert.True(t, r.err != nil, "told as renewed: %v", r)
		}
	})
}

// A server that answers after longer than the timeout keeps its leases: the answer counts, and the next
// request was sent meanwhile.
func TestALateAnswerStillRenewsTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		s.answer = func(ctx context.Context, batch []Asked) ([]Outcome, error) {
			select {
			case <-time.After(5 * time.Second):
				return make([]Outcome, len(batch)), nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		it := s.add(t, "", ttl)
		time.Sleep(10 * ttl)
		_, lost := s.lossOf(it)
		assert.False(t, lost, "the lease was lost")
		tries := s.seen()
		assert.AtMost(t, tries[1].at-tries[0].at, 4*time.Second, "the next try came after")
	})
}

// A short lease has time for three renewals, although one may take longer than the lease lasts.
func TestARenewalOfAShortLeaseLeavesTimeForAnother(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		var asked atomic.Bool
		s.answer = func(ctx context.Context, batch []Asked) ([]Outcome, error) {
			if !asked.Swap(true) { // the first request, or its answer, is lost
				return hang(ctx, batch)
			}
			return make([]Outcome, len(batch)), nil
		}
		it := s.add(t, "", 2*time.Second)
		time.Sleep(4 * time.Second)
		_, gone := s.lossOf(it)
		assert.False(t, gone, "the lease was lost")
	})
}

func TestADeadlineNeverMovesBack(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		it := s.add(t, "", ttl)
		s.renewer.Extended(it, s.now(), 10*ttl)
		end := it.Deadline()
		for _, ttl := range []time.Duration{ttl, time.Second, 5 * ttl} {
			assert.True(t, s.renewer.Extended(it, s.now(), ttl) && it.Deadline() == end,
				"extended to %v, trusted until %v, want %v", ttl, it.Deadline(), end)
		}
	})
}

func TestAnExtensionToAShorterTTLDoesNotRenewInALoop(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		s.answer = func(_ context.Context, batch []Asked) ([]Outcome, error) {
			time.Sleep(time.Millisecond)
			return make([]Outcome, len(batch)), nil
		}
		start := s.now()
		it := s.add(t, "", ttl)
		s.renewer.Extended(it, start, 3*time.Second)
		time.Sleep(5 * ttl)
		if first := s.seen()[0].at; first < start+ttl/3-leasetime.Slack(3*time.Second) {
			t.Errorf("renewed %v after its grant, though it lasts as long as before", first-start)
		}
		assert.AtMost(t, len(s.seen()), 5*31, "renewals of a lease of 3s in %v", 5*ttl)
		_, lost := s.lossOf(it)
		assert.True(t, !lost, "the lease was lost")
	})
}

func TestARenewalThatAskedForLessThanAnExtensionIsNotCountedAsMore(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		s.answer = func(context.Context, []Asked) ([]Outcome, error) {
			time.Sleep(2 * time.Second)
			return []Outcome{{}}, nil
		}
		it := s.add(t, "", ttl)
		time.Sleep(ttl/3 - 2*time.Second)
		sent := s.now() // of an extension that is answered late
		time.Sleep(2*time.Second + time.Millisecond)
		s.renewer.Extended(it, sent, ttl+10*time.Second)
		end := it.Deadline()
		time.Sleep(2 * time.Second)
		if len(s.renewals(it)) != 1 || it.Deadline() != end {
			t.Errorf("%d renewals, trusted until %v, the server counts to %v", len(s.renewals(it)), it.Deadline(), end)
		}
	})
}

func TestAnExtensionIsAskedForByEveryLaterRenewal(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		it := s.add(t, "", ttl)
		s.renewer.Extended(it, s.now(), 3*ttl)
		start := s.now()
		time.Sleep(ttl + time.Second)
		seen := s.seen()
		if len(seen) != 1 || seen[0].at < start+ttl-3*ttl/20 || it.Deadline() != leasetime.Deadline(seen[0].at, 3*ttl) {
			t.Errorf("renewals %v, trusted until %v", seen, it.Deadline())
		}
		s.renewer.Remove(it)
		assert.False(t, s.renewer.Extended(it, s.now(), 9*ttl), "a removed lease was extended")
	})
}

func TestALeaseWithoutRenewalIsNeverRenewed(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		it := &Item{Hold: own("a"), TTL: ttl, NoRenewal: true}
		s.renewer.Add(it, s.now(), s.now())
		s.renewer.Extended(it, s.now(), 3*ttl)
		end := it.Deadline()
		time.Sleep(10 * ttl)
		seen := s.seen()
		assert.True(t, len(seen) == 0, "renewed %d times", len(seen))
		s.wantLost(t, it, Expired, end)
	})
}

func TestASuspensionIsNoticedWithinASecondOfWakingUp(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		it := s.add(t, "", time.Hour)
		time.Sleep(time.Minute)
		s.ahead.Store(int64(2 * time.Hour)) // the timers did not run, but the clock of trust deadlines did not
		woke := s.now()
		time.Sleep(time.Minute)
		v, lost := s.lossOf(it)
		assert.True(t, lost && v.reason == Expired && v.at <= woke+time.Second, "lost %v after %v", lost, v.at-woke)
		assert.True(t, len(s.seen()) == 0, "a lease past its deadline was renewed")
	})
}

func TestASuspensionThatEndsBeforeTheDeadlineIsFollowedByARenewal(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		it := s.add(t, "", time.Hour)
		time.Sleep(time.Minute)
		s.ahead.Store(int64(50 * time.Minute))
		woke := s.now()
		time.Sleep(2 * time.Second)
		seen := s.seen()
		assert.True(t, len(seen) == 1 && seen[0].at <= woke+time.Second, "renewals %v after waking at %v", seen, woke)
		assert.True(t, it.Deadline() >= woke+time.Hour-time.Minute, "trusted until %v", it.Deadline())
	})
}

func TestStopEndsRequestsAndLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		s.answer = hang
		it, idle := s.add(t, "", ttl), s.add(t, "", 10*ttl)
		time.Sleep(ttl / 3)
		synctest.Wait()
		assert.MustTrue(t, len(s.seen()) == 1, "no renewal is under way")
		s.renewer.Stop()
		s.renewer.Stop()
		assert.True(t, !s.renewer.Add(&Item{Hold: own("a"), TTL: ttl}, s.now(), s.now()),
			"a stopped renewer takes leases")
		assert.True(t, !s.renewer.Remove(it) && !s.renewer.Extended(idle, s.now(), ttl) && len(s.renewer.All()) == 0,
			"a stopped renewer has leases in care")
		time.Sleep(time.Hour)
		_, lost := s.lossOf(it)
		assert.True(t, !lost && len(s.seen()) == 0, "a stopped renewer works")
	})
}

func TestStopWaitsForARequestThatIgnoresItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		s.answer = func(context.Context, []Asked) ([]Outcome, error) {
			time.Sleep(time.Minute)
			return nil, errSilent
		}
		s.add(t, "", ttl)
		time.Sleep(ttl / 3)
		synctest.Wait()
		end := s.seen()[0].at + time.Minute
		s.renewer.Stop()
		assert.True(t, s.now() == end, "Stop returned at %v, the request at %v", s.now(), end)
	})
}

func TestAllListsTheLeases(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		a, b := s.add(t, "", ttl), s.add(t, "", ttl)
		s.renewer.Remove(a)
		all := s.renewer.All()
		assert.True(t, len(all) == 1 && all[0] == b, "in care: %v", all)
		assert.False(t, s.renewer.Remove(a), "a lease was removed twice")
	})
}

// A process that gets its processor rarely reads each answer late. Its lease lives as long as an answer comes well
// before the end of the lease, although the next renewal goes out before.
func TestAShortLeaseOutlivesLateAnswers(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 2 * time.Second, 5 * time.Second} {
		bubble(t, func(t *testing.T, s *server) {
			s.answer = func(ctx context.Context, batch []Asked) ([]Outcome, error) {
				select {
				case <-time.After(ttl / 2):
					return make([]Outcome, len(batch)), nil
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			it := s.add(t, "", ttl)
			time.Sleep(20 * ttl)
			_, lost := s.lossOf(it)
			assert.False(t, lost, "a lease of %v was lost, though each answer took half of it", ttl)
			n := len(s.seen())
			assert.True(t, n >= 30 && n <= 80, "%d renewals of %v in %v", n, ttl, 20*ttl)
		})
	}
}

// A renewal without an answer ends with the lease, although an answer may be late.
func TestARenewalOfAShortLeaseEndsWithIt(t *testing.T) {
	bubble(t, func(t *testing.T, s *server) {
		ended := make(chan time.Duration, 10)
		s.answer = func(ctx context.Context, _ []Asked) ([]Outcome, error) {
			<-ctx.Done()
			ended <- s.now()
			return nil, ctx.Err()
		}
		it := s.add(t, "", 2*time.Second)
		end := it.Deadline()
		time.Sleep(time.Minute)
		s.wantLost(t, it, Expired, end)
		n := len(s.seen())
		assert.True(t, n >= 2 && n == len(ended), "%d renewals, %d have ended", n, len(ended))
		for range n {
			at := <-ended
			assert.True(t, at <= end, "a renewal has ended %v after its lease", at-end)
		}
	})
}
