//go:build !race

package quorum

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// The tests of this file look at what a round makes of what its attempts know.

// A hold counts if the client's lease cannot outlast it: not one from before, and none that is not confirmed.
func TestWhichHoldsCount(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		na := acq.round.attempts[0]
		for _, test := range []struct {
			holds, unconfirmed bool
			from               time.Duration
			want               bool
		}{
			{true, false, 10 * second, true},
			{true, false, 10*second - 1, false},
			{true, true, 10 * second, false},
			{false, false, 0, true},
			{false, true, 0, true},
		} {
			na.holds, na.unconfirmed, na.countsFrom = test.holds, test.unconfirmed, test.from
			_, counts := acq.round.replies()
			assert.Equal(t, counts[0], test.want, "%+v", test)
		}
		acq.states.nodes[0].setProbation(10*second, 10*second+1, majority.OnProbation)
		_, counts := acq.round.replies()
		assert.EqualSlices(t, counts, []bool{false, true, true}, "with the first on probation")
		failed := acq.round.failures()
		assert.True(t, len(failed) == 1 && errors.As(failed[0], new(*probationError)), "%v", failed)

		na = acq.round.attempts[1]
		na.noteFailure(errBroken)
		assert.Is(t, acq.round.failures()[1], errBroken)
		na.noteGrant(20, 0, 10*second)
		assert.Must(t, acq.round.failures()[1]) // it has answered since
	})
}

// A server may hold for a lease that was won if it has held since then, and said so less than a TTL ago. It
// confirms the lease if it has said so since the lease counts.
func TestWhichServersMayHoldAndWhichConfirm(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		acq.hold()
		na := acq.round.attempts[0]
		acq.renewedAt, acq.countsFrom = 12*second, 13*second
		time.Sleep(5 * second) // it is 15 s
		for _, test := range []struct {
			holds          bool
			since, from    time.Duration
			may, confirmed bool
		}{
			{true, 12 * second, 13 * second, true, true},
			{true, 12*second + 1, 13 * second, false, false},
			{true, 12 * second, 13*second - 1, true, false},
			{true, 12 * second, 15*second - acq.ttl, false, false},
			{true, 12 * second, 15*second - acq.ttl + 1, true, false},
			{false, 12 * second, 13 * second, false, false},
		} {
			na.holds, na.heldSince, na.countsFrom = test.holds, test.since, test.from
			assert.Equal(t, acq.round.mayHold() == 3, test.may, "%+v: it may hold", test)
			assert.Equal(t, acq.round.confirmed()[0], test.confirmed, "%+v: it confirms", test)
			assert.Equal(t, acq.round.unconfirmed()[0] == nil, test.confirmed, "%+v: it is not named", test)
		}
		assert.Is(t, acq.round.unconfirmed()[0], errForgot)
		na.holds, na.countsFrom, acq.longest = true, 15*second-acq.ttl, acq.ttl+1 // it was extended
		assert.Equal(t, acq.round.mayHold(), 3, "servers that may hold an extended lease")
		na.reply, na.err = majority.Failed, errBroken
		assert.Is(t, acq.round.unconfirmed()[0], errBroken)
	})
}

// If an attempt is replaced, the server is still taken to have another holder: the cancel is on its way.
func TestAReplacedAttemptIsCancelled(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		acq.hold()
		r := acq.round
		before, other := r.attempts[0], (r.coordinator+1)%3
		s.sayEach("released", "released", "released")
		r.follow(other, second)
		assert.Equal(t, r.coordinator, other, "the coordinator")
		synctest.Wait()
		for i, na := range r.attempts {
			if i == other {
				assert.True(t, na.holds && !na.ended, "the coordinator has lost what it has")
				continue
			}
			assert.True(t, na.reply == majority.Busy && !na.holds && !na.ended, "server %d: %+v", i, na)
		}
		assert.Equal(t, before.ended, other != 0, "the old attempt has ended")
	})
}

// Only what another attempt holds is asked for again.
func TestOnlyBusyServersAreAskedAgain(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		for i, reply := range []majority.Reply{majority.Granted, majority.Busy, majority.Failed} {
			acq.round.attempts[i].reply = reply
		}
		assert.EqualSlices(t, acq.round.reaskBusy(), acq.round.attempts[1:2], "asked again")
		replies, _ := acq.round.replies()
		assert.EqualSlices(t, replies, []majority.Reply{majority.Granted, majority.Open, majority.Failed}, "replies")
	})
}

// A waiter compares the coordinator's holder with what the others have. A server that does not answer may have
// it, too.
func TestAWaiterChecksItsCoordinator(t *testing.T) {
	for _, test := range []struct {
		holders [3]string // by place in the order; "!" is an error
		want    bool      // a majority contradicts
	}{
		{[3]string{"d/1", "", ""}, true},
		{[3]string{"d/1", "e/1", "e/1"}, true},
		{[3]string{"d/1", "d/1", ""}, false},
		{[3]string{"d/1", "", "!"}, false},
		{[3]string{"", "", ""}, false},
		{[3]string{"!", "e/1", "e/1"}, false},
		{[3]string{"e/1 d/1", "d/1", ""}, false}, // readers: one that a majority has is enough
		{[3]string{"e/1 d/1", "f/1", ""}, true},
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			order := s.order(acq.key)
			s.say(func(i int, _ string, _ []string) (string, error) {
				said, holders := "lock 10000 20 0 0 0 0", test.holders[slices.Index(order, i)]
				if holders == "!" {
					return "", errBroken
				}
				for _, h := range strings.Fields(holders) {
					said += "\nholder s " + h + ".7 d 1 20 9000 5000 1"
				}
				return said, nil
			})
			assert.False(t, acq.checkCoordinator(t.Context(), acq.round), "%v: it does not last yet", test.holders)
			time.Sleep(6 * second)
			assert.Equal(t, acq.checkCoordinator(t.Context(), acq.round), test.want, "%v: it lasts", test.holders)
		})
	}
}

// Of two heads of queues that keep each other from a majority, the one whose coordinator comes later makes
// way. It has a position there already.
func TestWhoMakesWay(t *testing.T) {
	for _, test := range []struct {
		name string
		set  func(s *Store, r *round, order []int)
		want bool
	}{
		{"the first has its queue", func(*Store, *round, []int) {}, true},
		{"a majority is still possible", func(_ *Store, r *round, order []int) {
			r.attempts[order[2]].reply = majority.Open
		}, false},
		{"a majority is possible only with a server that does not count", func(s *Store, r *round, order []int) {
			r.attempts[order[2]].reply = majority.Open
			r.acq.states.nodes[order[2]].setProbation(s.now(), s.now()+second, majority.OnProbation)
		}, true},
		{"it has no position there", func(_ *Store, r *round, order []int) {
			r.attempts[order[0]].queued = false
		}, false},
		{"the first is silent", func(s *Store, _ *round, order []int) {
			s.nodes[order[0]].noteAnswers(false, s.now(), 0)
		}, false},
		{"only a later one has its queue", func(_ *Store, r *round, order []int) {
			r.attempts[order[0]].queued, r.attempts[order[2]].queued = false, true
		}, false},
		{"the first is contradicted", func(s *Store, r *round, order []int) {
			s.contradictions.note(s.now(), nodeLock{r.acq.key, order[0]}, "d/1", 0)
		}, false},
		{"both are contradicted", func(s *Store, r *round, order []int) {
			s.contradictions.note(s.now(), nodeLock{r.acq.key, order[0]}, "d/1", 0)
			s.contradictions.note(s.now(), nodeLock{r.acq.key, order[1]}, "d/1", 0)
		}, false},
		{"both are silent", func(s *Store, _ *round, order []int) {
			s.nodes[order[0]].silent, s.nodes[order[1]].silent = true, true
		}, false},
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			s.sayEach("none", "none", "none")
			order, r := s.order(acq.key), acq.round
			acq.phase, r.coordinator = collecting, order[1]
			r.attempts[order[0]].queued, r.attempts[order[0]].reply = true, majority.Queued
			r.attempts[order[1]].holds, r.attempts[order[1]].reply = true, majority.Granted
			r.attempts[order[1]].countsFrom = acq.countsFrom
			r.attempts[order[2]].reply = majority.Busy
			test.set(s, r, order)
			assert.Equal(t, acq.yield(r, second), test.want, "%s: it makes way", test.name)
			want, at := order[1], collecting
			if test.want {
				want, at = order[0], waiting
			}
			assert.Equal(t, r.coordinator, want, "%s: the coordinator", test.name)
			assert.Equal(t, acq.phase, at, "%s: the phase", test.name)
		})
	}
}

// How many wait is known from the coordinator.
func TestTheCoordinatorSaysHowManyWait(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		r := acq.round
		for i, na := range r.attempts {
			na.noteGrant(20, i+5, 10*second)
		}
		assert.Equal(t, acq.waiters, r.coordinator+5, "how many wait")
		acq.waiters = 0
		d, all := acq.decide(r, true)
		assert.True(t, d == majority.Won && all, "decision %d, all: %v", d, all)
		assert.Equal(t, acq.waiters, r.coordinator+5, "how many wait")
	})
}

// A contradiction that is over is forgotten at once. One of another server is kept while a waiter checks its own
// coordinator.
func TestACheckedCoordinatorMayBeOneAgain(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		order := s.order(acq.key)
		first, second, third := order[0], order[1], order[2]
		for range 2 {
			s.contradictions.note(s.now(), nodeLock{acq.key, first}, "d/1", acq.ttl)
			s.contradictions.note(s.now(), nodeLock{acq.key, third}, "e/1", acq.ttl)
			time.Sleep(6 * time.Second)
		}
		assert.True(t, s.isContradicted(acq.key, first) && s.isContradicted(acq.key, third),
			"they are not contradicted")
		time.Sleep(s.cfg.MaxTTL - 6*time.Second)
		s.say(func(i int, _ string, _ []string) (string, error) {
			holder := map[int]string{first: "d/1.7", second: "d/1.8", third: "e/1.9"}[i]
			return "lock 10000 20 0 0 0 0\nholder x " + holder + " d 1 20 9000 5000 1", nil
		})
		acq.round.coordinator = first
		assert.False(t, acq.checkCoordinator(t.Context(), acq.round), "it is contradicted")
		time.Sleep(time.Second)
		assert.False(t, s.isContradicted(acq.key, first), "what is over is remembered")
		assert.True(t, s.isContradicted(acq.key, third), "what still lasts is forgotten")
	})
}

// A server that may not be coordinator becomes the last one that may.
func TestAPassedCoordinatorIsTheLastInTheOrder(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		r := acq.round
		r.order, r.coordinator = []int{2, 0, 1}, 0
		r.passCoordinator()
		assert.EqualSlices(t, r.order, []int{2, 1, 0}, "the order")
	})
}

// If a majority contradicts the coordinator for long, the next one that does not fail decides.
func TestTheNextServerDecidesForAContradictedOne(t *testing.T) {
	for _, lasts := range []bool{false, true} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			r := acq.round
			first, next := r.order[0], r.order[1]
			s.contradictions.note(s.now(), nodeLock{acq.key, first}, "d/1", acq.ttl)
			if lasts {
				time.Sleep(6 * second)
			}
			for i, na := range r.attempts {
				if na.noteGrant(20, i, acq.s.now()); i == first {
					na.holds, na.reply = false, majority.Busy
					na.lastAnswer = wire.Answer{Kind: wire.Busy, Holder: "d/1.7"}
				}
			}
			d, all := acq.decide(r, false)
			assert.True(t, all, "an answer is to come")
			if lasts {
				assert.True(t, d == majority.Won && r.coordinator == next, "decision %d by %d", d, r.coordinator)
			} else {
				assert.True(t, d == majority.Taken && r.coordinator == first, "decision %d by %d", d, r.coordinator)
			}
		})
	}
}

// However a round ends, what arrives for it later is cancelled, and its goroutines end.
func TestHoweverARoundEndsNothingOfItGoesOn(t *testing.T) {
	for what, end := range map[string]func(t *testing.T, s *Store, acq *acquisition){
		"an end":            func(_ *testing.T, s *Store, acq *acquisition) { s.end(acq) },
		"a kept end":        func(_ *testing.T, _ *Store, acq *acquisition) { acq.endKept() },
		"a loss":            func(_ *testing.T, s *Store, acq *acquisition) { s.endLost(&renewal{acq: acq}) },
		"a cancelled round": func(_ *testing.T, _ *Store, acq *acquisition) { acq.cancelRound(acq.round, second) },
		"one that is waited for": func(t *testing.T, _ *Store, acq *acquisition) {
			assert.Is(t, acq.cancelRoundAndWait(t.Context(), acq.round, second, errForgot), errForgot)
		},
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			acq.hold()
			s.sayEach("released", "released", "released")
			r := acq.round
			end(t, s, acq)
			assert.MustTrue(t, r.ended && !r.live(), "%s: the round goes on", what)
			<-r.done
			assert.True(t, acq.phase == ended || acq.phase == idle, "%s: the phase is %d", what, acq.phase)
		})
	}
}

// All have replied if only silent servers have not: one that refuses has replied, too.
func TestWhenAllHaveReplied(t *testing.T) {
	for reply, want := range map[majority.Reply]bool{
		majority.Open: false, majority.Failed: true, majority.Busy: true, majority.Queued: true, majority.Granted: true,
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			r := acq.round
			for _, na := range r.attempts {
				na.noteGrant(20, 0, acq.s.now())
			}
			last := r.attempts[r.order[2]]
			last.holds, last.reply = reply == majority.Granted, reply
			_, all := acq.decide(r, false)
			assert.Equal(t, all, want, "reply %d: all have replied", reply)
			s.nodes[r.order[2]].noteAnswers(false, s.now(), 0)
			_, all = acq.decide(r, false)
			assert.True(t, all, "reply %d: a silent server is waited for", reply)
		})
	}
}
