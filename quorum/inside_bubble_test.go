//go:build !race

package quorum

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// The tests of this file look at one decision each, at values that a client cannot arrange.

// silentNode is a server that answers nothing. Its first subscription fails.
type silentNode struct {
	*memstore.Store
	listens int
	ear     store.Listener
}

var errBroken = errors.New("connection reset by peer")

func (*silentNode) Run(context.Context, *script.Script, []string, []string) (string, error) {
	return "", errBroken
}

func (n *silentNode) Listen(ctx context.Context, channel string, l store.Listener) (func(), error) {
	if n.listens++; n.listens == 1 {
		return nil, errBroken
	}
	n.ear = l
	return n.Store.Listen(ctx, channel, l)
}

// inside runs f with a store over three servers, the last of which is silent, and with an acquisition
// whose lease of 9 s counts from 10 s on the store's clock. Nothing has been sent.
func inside(t *testing.T, f func(t *testing.T, s *Store, acq *acquisition)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		nodes := []store.Store{memstore.New(), memstore.New(), &silentNode{Store: memstore.New()}}
		s, err := New(nodes, Config{})
		assert.Must(t, err)
		s.clock = func() time.Duration { return time.Since(began) }
		defer s.Close()
		time.Sleep(10 * second)
		d, err := s.parse([]string{"h:{x}"}, []string{"c/1", "9000", "16000", wire.Exclusive, "27000", "push:"})
		assert.Must(t, err)
		acq := s.acquisition("c/1", d)
		acq.newRound()
		f(t, s, acq)
		synctest.Wait()
	})
}

// hold makes the acquisition a lease that all servers have held since 10 s.
func (acq *acquisition) hold() {
	acq.phase, acq.renewedAt = held, 10*second
	for _, na := range acq.round.attempts {
		na.holds, na.reply = true, majority.Granted
		na.countsFrom, na.heldSince, na.askedAt = 10*second, 10*second, 10*second
	}
}

// renewAt13 renews the lease at 13 s, with these votes.
func (acq *acquisition) renewAt13(votes ...majority.Vote) {
	time.Sleep(13*second - acq.s.now())
	ren := renewal{
		acq: acq, attempts: acq.round.attempts, ttl: acq.ttl, since: acq.renewedAt,
		votes: votes, waiters: make([]int, len(votes)),
	}
	ren.noteRenewed(13*second, second)
}

// A push has no request of its own. The server may have granted at any time since the request that
// queued the attempt, so the lease must not count from the push's arrival.
func TestAPushedGrantCountsFromTheRequestThatQueuedIt(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		na := acq.round.attempts[acq.round.coordinator]
		na.queued, na.askedAt, acq.phase = true, 10*second, asking
		time.Sleep(2 * second)
		s.handlePush(na.i, "granted "+na.id+" 20 0")
		assert.Equal(t, na.countsFrom, 10*second, "the hold counts from")
	})
}

// If the grants took as long as the lease, the first of them may be over.
func TestAGrantThatIsOverBeforeItIsBelievedIsNone(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		deadline := leasetime.Deadline(0, acq.ttl)
		for _, age := range []time.Duration{deadline - 1, deadline} {
			acq.phase, acq.countsFrom = asking, acq.s.now()-age
			_, err := acq.granted(acq.round, 20, nil, second)
			assert.Equal(t, err == nil, age < deadline, "believed after %v", age)
		}
	})
}

// A request that is under way at a server may bring its hold: to replace the attempt would cancel it.
func TestALeaseIsNotRestoredBesideARequestThatIsUnderWay(t *testing.T) {
	for _, busy := range []bool{false, true} {
		inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
			acq.hold()
			na := acq.round.attempts[2]
			na.holds = false
			if busy {
				na.gate <- struct{}{}
				defer func() { <-na.gate }()
			}
			acq.renewAt13(majority.Held, majority.Held, majority.NotHeld)
			assert.Equal(t, acq.round.attempts[2] == na, busy, "with a request under way: %v, the attempt stays", busy)
		})
	}
}

// An acquisition that is swept while its waiter lives loses the waiter's position. A waiter's last use
// is at most a lease and the life of its position ago.
func TestLiveAcquisitionsAreNotSwept(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		longest := s.cfg.MaxTTL + leasetime.WaiterTTL(s.cfg.MaxTTL)
		time.Sleep(longest)
		acq.touch()
		for i := range 1022 { // with the first, one fewer than the number at which a sweep begins
			s.acquisition("c/"+strconv.Itoa(i+2), acq.acquireArgs)
		}
		time.Sleep(longest)
		s.acquisition("d/1", acq.acquireArgs)
		assert.Equal(t, len(s.acquisitions), 1024, "acquisitions after a sweep in time")
		assert.Equal(t, s.lastSweep, 1024, "the next sweep is at twice")
		time.Sleep(time.Millisecond)
		s.lastSweep = 0
		s.acquisition("d/2", acq.acquireArgs)
		assert.Equal(t, len(s.acquisitions), 2, "acquisitions after a sweep that comes too late for the others")
	})
}

// A server that does not answer a cancel may hold until a TTL after the last renewal. Until then the
// store must go on cancelling.
func TestACancelWithoutAnAnswerIsSentForAsLongAsTheHoldMayLast(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		acq.hold()
		acq.renewAt13(majority.Held, majority.Held, majority.Held)
		_, _ = acq.round.attempts[2].cancel(second)
		n := s.nodes[2]
		n.mu.Lock()
		defer n.mu.Unlock()
		assert.Equal(t, len(n.owed.cancels), 1, "pending cancels")
		assert.Equal(t, n.owed.cancels[0].until, 13*second+acq.ttl, "the cancel is pending until")
	})
}

// A push may be lost before a node's first subscription stands. So its waiters must poll then.
func TestWaitersPollWhenANodesSubscriptionStands(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, _ *acquisition) {
		var resumed atomic.Int32
		stop, err := s.Listen(context.Background(), "push:c", store.Listener{Look: func(bool) { resumed.Add(1) }})
		assert.Must(t, err)
		defer stop()
		time.Sleep(time.Minute)
		assert.Equal(t, resumed.Load(), 1, "how often waiters were told to poll")
	})
}

// A renewal moves the time from which each hold counts. Otherwise a lease that has been renewed would
// count as one that may be over, a TTL after its grant.
func TestAHoldCountsFromItsLastRenewal(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		acq.hold()
		acq.renewAt13(majority.Held, majority.Held, majority.Silent)
		time.Sleep(7 * second) // at 20 s a TTL since the grant is over
		acq.mu.Lock()
		defer acq.mu.Unlock()
		assert.Equal(t, acq.round.mayHold(), 2, "servers that may hold")
	})
}

// A silent server answers no waiter. So it is the last that may become coordinator.
func TestASilentServerIsTheLastThatMayBeCoordinator(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		before := s.order(acq.key)
		s.nodes[before[0]].noteAnswers(false, s.now(), 0)
		turned := slices.Concat(before[1:], before[:1])
		assert.EqualSlices(t, s.order(acq.key), turned, "while it is silent")
		s.nodes[before[0]].noteAnswers(true, s.now(), 0)
		assert.EqualSlices(t, s.order(acq.key), before, "when it has answered")
	})
}

// If the coordinator has granted, and a majority has another holder, the coordinator was cut off. But the
// readers of several servers need not be the same ones.
func TestReadersOnOtherServersDoNotContradictTheCoordinator(t *testing.T) {
	for holder, want := range map[string]comparison{"d/1.7": heldByOthers, "": plausible} {
		inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
			for _, na := range acq.round.attempts {
				na.reply, na.lastAnswer = majority.Busy, wire.Answer{Kind: wire.Busy, Holder: holder}
			}
			coordinator := acq.round.attempts[acq.round.coordinator]
			coordinator.reply, coordinator.lastAnswer = majority.Granted, wire.Answer{Kind: wire.Granted}
			got, _ := compare(acq.round.attempts, acq.round.attempts[acq.round.coordinator], true)
			assert.Equal(t, got, want, "with %q as the holder on the others", holder)
		})
	}
}

// A waiter whose turn it is may find out that a mark is wrong. It has the mark corrected at once, and does
// not give up its turn for that.
func TestAWaiterWhoseTurnItIsHasWrongMarksCorrected(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		ns := acq.states
		acq.phase, ns.identified, ns.lastRead = collecting, true, s.now()
		s.life.Go(grantLabel, func() { acq.awaitCollect(acq.round, second) })
		ns.mu.Lock()
		ns.marksWrong = true
		ns.mu.Unlock()
		acq.notify()
		synctest.Wait()
		assert.False(t, ns.haveWrongMarks(), "nobody has read the marks again")
	})
}

// The push of a grant may arrive after a poll has confirmed it, and say less: an earlier time, and the token
// from before the second phase.
func TestAnOlderWordOfAGrantTakesNothingBack(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		acq.hold()
		na := acq.round.attempts[0]
		na.noteGrant(30, 0, 12*second)
		na.noteGrant(20, 0, 11*second)
		assert.Equal(t, na.countsFrom, 12*second, "the hold counts from")
		assert.Equal(t, na.token, 30, "its token")
		assert.Equal(t, na.heldSince, 10*second, "it vouches from")
	})
}

// A collecting that fails is counted, so that the next one has more time. If joining again fails, too, the
// waiter is told to poll.
func TestAFailedCollectIsCountedAndEndsInAPoll(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		var resumed atomic.Int32
		stop, err := s.Listen(context.Background(), "push:c", store.Listener{Look: func(bool) { resumed.Add(1) }})
		assert.Must(t, err)
		defer stop()
		time.Sleep(time.Minute)
		s.nodes[2].noteAnswers(false, s.now(), 0) // waiters are told of its silence, too
		before := resumed.Load()
		acq.phase = collecting
		acq.backOff(acq.round, second) // too few servers count to join again
		assert.Equal(t, acq.failedCollects, 1, "failed collects")
		assert.Equal(t, resumed.Load()-before, 1, "how often waiters were told to poll")
	})
}

// A push may overtake the answer that queued its attempt. Then it is the waiter's turn, and nobody tells it
// again.
func TestAPushThatOvertakesTheAnswerIsAWaitersTurn(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		acq.mu.Lock()
		acq.round.attempts[acq.round.coordinator].noteGrant(20, 0, 10*second)
		acq.mu.Unlock()
		acq.keepPosition(acq.round, second)
		acq.mu.Lock()
		defer acq.mu.Unlock()
		assert.Equal(t, acq.phase, collecting, "the phase")
	})
}

// A grant whose token cannot be written is given up, on every server.
func TestAGrantWhoseTokenCannotBeWrittenIsGivenUp(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		acq.hold()
		acq.phase = asking
		for _, n := range s.nodes[:2] {
			n.Store.(*memstore.Store).FailRequest(func(string, []string) error { return errBroken })
		}
		r := acq.round
		_, err := acq.conclude(context.Background(), r, majority.Won, second)
		assert.Is(t, err, errBroken)
		synctest.Wait()
		acq.mu.Lock()
		defer acq.mu.Unlock()
		assert.Equal(t, acq.phase, idle, "the phase")
		for i, na := range r.attempts {
			assert.True(t, na.ended, "the attempt on server %d goes on", i)
		}
	})
}

// If a waiter polls that has its lease already, only those servers confirm it that vouch for all of the time.
func TestARepeatedPollCountsOnlyServersThatVouch(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		acq.hold()
		attempts := acq.round.attempts
		attempts[1].heldSince, attempts[2].heldSince = 11*second, 11*second
		for _, want := range []bool{false, true} {
			_, won, err := acq.complete(context.Background(), acq.round, second)
			assert.Must(t, err)
			assert.Equal(t, won, want, "it is confirmed")
			attempts[1].heldSince = 10 * second
		}
	})
}
