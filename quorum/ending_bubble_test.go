//go:build !race

package quorum

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// wantEnded checks that nothing of a round goes on.
func (r *round) wantEnded(t *testing.T) {
	t.Helper()
	synctest.Wait()
	for i, na := range r.attempts {
		assert.True(t, na.ended, "the attempt on server %d goes on", i)
	}
}

// A round with too few servers, and one that another round follows, keep nothing.
func TestARoundThatIsOverKeepsNothing(t *testing.T) {
	for _, follows := range []bool{false, true} {
		inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
			acq.hold()
			acq.phase = asking
			r := acq.round
			var err error
			if follows {
				_, err = acq.runRounds(context.Background())
			} else {
				_, err = acq.conclude(context.Background(), r, majority.TooFew, second)
			}
			assert.True(t, err != nil, "no error, although too few servers count")
			assert.True(t, r.ended,
				"follows: %v, its goroutines wait on, and take what wakes those of the next", follows)
			r.wantEnded(t)
		})
	}
}

// If a waiter cannot have its majority any more, what it has is cancelled: it would keep the lock from
// everybody.
func TestALostMajorityIsCancelled(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		acq.hold()
		r := acq.round
		acq.waiterTTL = "27000"
		time.Sleep(second)
		answer, err := acq.pollAll(context.Background(), r) // two servers do not know of it
		assert.True(t, answer == "gone" && err == nil, "%q, %v", answer, err)
		synctest.Wait()
		n := s.nodes[silent]
		n.mu.Lock()
		defer n.mu.Unlock()
		assert.Equal(t, len(n.owed.cancels), 1, "pending cancels for the silent server")
	})
}

// The next attempt asks the coordinator first. So a release is over when the coordinator has released.
func TestAReleaseWaitsForTheCoordinator(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, _ *acquisition) {
		done, over := make(chan result, 3), make(chan struct{})
		go func() {
			released, err := s.awaitReleased(context.Background(), done, 0)
			assert.NoError(t, err)
			assert.Equal(t, len(released), 3, "released on")
			close(over)
		}()
		done <- result{1, nil}
		done <- result{2, nil}
		synctest.Wait()
		select {
		case <-over:
			t.Error("it is over without the coordinator")
		default:
		}
		done <- result{0, nil}
		<-over
	})
}

// A subscription needs a majority, and nobody is told of anything once it is closed.
func TestASubscriptionNeedsAMajorityAndEnds(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, _ *acquisition) {
		told := 0
		l := store.Listener{Message: func(string) { told++ }, Look: func(bool) { told++ }}
		stop, err := s.Listen(context.Background(), "push:c", l)
		assert.Must(t, err)
		own := s.listeners.On("push:c")[0]
		stop()
		told = 0
		own.Message("x")
		own.Look(true)
		assert.Equal(t, told, 0, "how often it was told")
		for i := range 2 {
			s.nodes[i].Store = &silentNode{Store: memstore.New()}
		}
		_, err = s.Listen(context.Background(), "push:c", l)
		assert.Is(t, err, errBroken)
	})
}

// A waiter is told when a kept lock will be free, if its coordinator says so.
func TestAWaiterIsToldWhenAKeptLockWillBeFree(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		told := make(chan string, 10)
		stop, err := s.Listen(context.Background(), "push:c", store.Listener{Message: func(m string) { told <- m }})
		assert.Must(t, err)
		defer stop()
		acq.phase = waiting
		for i, na := range acq.round.attempts {
			s.handlePush(i, "kept "+na.id+" "+[]string{"5000", "6000", "7000"}[i])
		}
		synctest.Wait()
		assert.MustTrue(t, len(told) == 1, "told %d times", len(told))
		want := []string{"5000", "6000", "7000"}[acq.round.coordinator]
		assert.Equal(t, <-told, "kept c/1 "+want, "told")
		for i, na := range acq.round.attempts {
			is := i == acq.round.coordinator
			assert.False(t, na.holds, "server %d: it is taken for a grant", i)
			assert.Equal(t, wire.Millis(na.lastAnswer.Left) == want, is, "server %d: it is free in %v", i,
				na.lastAnswer.Left)
		}
	})
}

// Only a server that remembers, or whose probation is over, counts.
func TestWhichStandingsCount(t *testing.T) {
	for standing, want := range map[majority.Standing]bool{
		majority.Unread: true, majority.Counts: true, majority.OnProbation: true, majority.Stranger: false,
		majority.ClockStepped: false, majority.ClocksDiffer: false, majority.Stale: false,
	} {
		n := nodeState{standing: standing, countsFrom: time.Minute}
		assert.Equal(t, n.counts(time.Minute), want, "standing %d", standing)
		assert.False(t, n.counts(time.Minute-1), "standing %d counts before its time", standing)
	}
}

// A token is an instant. It is ahead if no right clock reaches it within half of MaxTTL.
func TestWhichTokensAreAhead(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		acq.hold()
		for i := range s.nodes {
			assert.Must(t, acq.states.noteRead(i, 9*second, "10000 run -")) // as ours, or up to 1 s ahead
		}
		latest := uint64((10*second + s.cfg.MaxTTL/2) / time.Microsecond)
		acq.round.attempts[0].token, acq.round.attempts[1].token = latest, latest+1
		assert.EqualSlices(t, acq.round.tokensAhead(), []bool{false, true, false}, "ahead")
	})
}

// The client may count its lease from a poll that says that it waits. So no older hold may count.
func TestAWaitersLeaseCountsFromItsLastPoll(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		args := []string{"d/1", "60000", "70000", "x", "0", "push:"}
		_, err := s.nodes[0].Run(t.Context(), script.Acquire, []string{acq.key}, args)
		assert.Must(t, err)
		acq.round.coordinator, acq.waiterTTL = 0, "27000"
		assert.Must(t, acq.round.attempts[0].acquire(second, acq.waiterTTL))
		acq.phase = waiting
		time.Sleep(second)
		_, err = acq.pollCoordinator(t.Context(), acq.round)
		assert.Must(t, err)
		assert.Equal(t, acq.phase, waiting, "the phase")
		assert.Equal(t, acq.countsFrom, 11*second, "a lease counts from")
	})
}

// If the coordinator does not answer a poll, the waiter looks for another one.
func TestAPollWithoutAnAnswerLooksForAnotherCoordinator(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		r := acq.round
		r.coordinator, acq.waiterTTL, acq.phase = silent, "27000", waiting
		r.attempts[silent].queued = true
		_, err := acq.pollCoordinator(t.Context(), r)
		assert.True(t, err != nil && acq.round != r, "it waits on: %v", err) // too few servers count
	})
}

// A request to acquire that is repeated does not begin anew.
func TestARepeatedRequestKeepsItsRound(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		acq.hold()
		r := acq.round
		_, err := acq.acquire(t.Context(), "27000")
		assert.Must(t, err)
		assert.True(t, acq.round == r, "another round has begun")
	})
}

// A server that falls silent may have the queue of some waiters: they poll at once.
func TestWaitersPollWhenAServerFallsSilent(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, _ *acquisition) {
		told := 0
		stop, err := s.Listen(t.Context(), "push:c", store.Listener{Look: func(bool) { told++ }})
		assert.Must(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		told = 0
		s.nodes[0].noteAnswers(false, s.now(), 0)
		synctest.Wait()
		assert.Equal(t, told, 1, "how often they were told")
		stop()
	})
}

// Waiters whose server takes no subscription poll. At a silent one nobody waits.
func TestWaitersPollWhileAServerTakesNoSubscription(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, _ *acquisition) {
		told, n := 0, s.nodes[2]
		stop, err := s.Listen(t.Context(), "push:c", store.Listener{Look: func(bool) { told++ }})
		assert.Must(t, err)
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, look := range []struct {
			answers, restored bool
			times             int
		}{{true, false, 1}, {false, false, 0}, {false, true, 1}} {
			n.noteAnswers(look.answers, s.now(), 0)
			synctest.Wait() // one that falls silent makes them poll, too
			told = 0
			n.Store.(*silentNode).ear.Look(look.restored)
			assert.Equal(t, told, look.times, "how often they were told, %+v", look)
		}
		stop()
	})
}

// An acquisition that ends late does not end the one that has its name by then.
func TestAnAcquisitionForgetsOnlyItself(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		s.forget(acq)
		next := s.acquisition("c/1", acq.acquireArgs)
		s.forget(acq)
		assert.True(t, next != acq && s.find(acq.key, "c/1") == next, "the next one is forgotten")
	})
}

// What an attempt has on a server stays, and only the others are asked again.
func TestOnlyServersThatHaveNothingAreAskedAgain(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		waits, holds, other := acq.round.attempts[0], acq.round.attempts[1], acq.round.attempts[2]
		waits.queued, waits.reply = true, majority.Queued
		holds.holds, holds.reply = true, majority.Granted
		other.reply = majority.Busy
		assert.EqualSlices(t, acq.round.reopen(), []*nodeAttempt{other}, "asked again")
		replies, _ := acq.round.replies()
		assert.EqualSlices(t, replies, []majority.Reply{majority.Queued, majority.Granted, majority.Open}, "replies")
	})
}

// Only what a majority had granted is released; anything else is cancelled.
func TestOnlyAnAcquisitionThatWasWonIsReleased(t *testing.T) {
	for _, at := range []phase{asking, idle, waiting, collecting, held, ended} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			acq.phase = at
			_, _, won := s.end(acq)
			assert.Equal(t, won, at == held, "in phase %d it was won", at)
			assert.Equal(t, acq.phase, ended, "its phase")
		})
	}
}

// A subscription that ends leaves the others of its channel, and takes only itself out.
func TestASubscriptionEndsAlone(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		told := make([]int, 3)
		var stops []func()
		for i, channel := range []string{"push:c", "push:c", "push:d"} {
			stop, err := s.Listen(t.Context(), channel, store.Listener{
				Message: func(string) { told[i]++ }, Look: func(bool) {},
			})
			assert.Must(t, err)
			stops = append(stops, stop)
		}
		time.Sleep(time.Minute) // the silent server listens, too
		want := func(want ...int) {
			t.Helper()
			acq.pushGrant("granted 20 0")
			assert.EqualSlices(t, told, want, "how often each was told")
		}
		want(1, 1, 0)
		stops[0]()
		want(1, 2, 0)
		stops[1]()
		want(1, 2, 0)
		assert.True(t, len(s.listeners.All()) == 1 && len(s.listeners.On("push:d")) == 1, "%v", s.listeners.All())
		stops[2]()
		assert.Equal(t, len(s.listeners.All()), 0, "subscriptions")
	})
}

// A server that is known to be silent is not waited for, whatever is asked, if the others are a majority.
func TestNobodyWaitsForASilentServer(t *testing.T) {
	for what, ask := range map[string]func(t *testing.T, s *Store, acq *acquisition) error{
		"a release": func(t *testing.T, s *Store, acq *acquisition) error {
			acq.hold()
			_, err := s.release(t.Context(), []string{acq.key}, []string{"c/1", "20", "7000", "push:"})
			return err
		},
		"a release that is repeated": func(t *testing.T, s *Store, acq *acquisition) error {
			_, err := s.releaseAgain(t.Context(), time.Minute, []string{acq.key}, []string{"c/1", "20", "7000",
				"push:"})
			return err
		},
		"what is known of a client": func(t *testing.T, s *Store, acq *acquisition) error {
			_, err := s.readClient(t.Context(), []string{acq.key}, nil)
			return err
		},
		"an eviction": func(t *testing.T, s *Store, acq *acquisition) error {
			_, err := s.evict(t.Context(), []string{acq.key}, []string{"ops", "test", "0", "7000", "push:"})
			return err
		},
		"a cancel": func(t *testing.T, s *Store, acq *acquisition) error {
			acq.hold()
			answer, err := s.cancel(t.Context(), []string{acq.key}, []string{"c/1", "7000", "push:"})
			assert.Equal(t, answer, "released", "the cancel's answer")
			return err
		},
		"a round that is cancelled": func(t *testing.T, _ *Store, acq *acquisition) error {
			acq.hold()
			return acq.cancelRoundAndWait(t.Context(), acq.round, time.Minute, nil)
		},
		"a reading": func(t *testing.T, s *Store, acq *acquisition) error {
			return s.identify(t.Context(), acq.states)
		},
		"an acquire": func(t *testing.T, _ *Store, acq *acquisition) error {
			acq.waiterTTL = "0"
			_, err := acq.runRounds(t.Context())
			return err
		},
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			first := s.order(acq.key)[0]
			s.say(func(i int, action string, args []string) (string, error) {
				if i == first {
					time.Sleep(second)
				}
				switch action {
				case "evict":
					return "free", nil
				case "inspect":
					return "absent", nil
				case "mark_server":
					return asMemory, nil
				case "acquire":
					return "busy 4000 d/1.1", nil
				}
				return "released", nil
			})
			acq.round.coordinator = first
			s.nodes[first].noteAnswers(false, s.now(), 0)
			assert.NoError(t, ask(t, s, acq))
			assert.Equal(t, s.now(), 10*second, "%s has waited until", what)
		})
	}
}
