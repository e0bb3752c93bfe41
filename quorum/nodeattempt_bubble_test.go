//go:build !race

package quorum

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// silent is the number of the server that answers nothing, see inside.
const silent = 2

// What has ended acquires nothing more: nobody would release it.
func TestWhatHasEndedDoesNotAcquire(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		acq.hold()
		first, other := acq.round.attempts[0], acq.round.attempts[1]
		_, err := first.end(second)
		assert.Must(t, err)
		assert.Is(t, first.acquire(second, "0"), errEnded)
		acq.mu.Lock()
		acq.round.end()
		acq.mu.Unlock()
		assert.Is(t, other.acquire(second, "0"), errEnded)
	})
}

// A cancel that overtakes the request that it cancels finds nothing to cancel.
func TestACancelWaitsForTheRequestThatIsUnderWay(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		na, done := acq.round.attempts[0], make(chan struct{})
		na.gate <- struct{}{} // an acquire, which has no answer yet
		go func() {
			_, _ = na.cancel(second)
			close(done)
		}()
		synctest.Wait()
		assert.False(t, na.ended, "it has overtaken the request")
		<-na.gate
		<-done
		assert.True(t, na.ended, "it has ended nothing")
	})
}

// A push for what a server has forgotten may be under way. It must not count for what is asked next.
func TestAfterAServerForgotTheNextRequestHasANewIdentity(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		acq.hold()
		na := acq.round.attempts[0]
		na.noteAnswer(wire.Answer{Kind: wire.Gone}, 10*second, nil)
		next := acq.round.attempts[0]
		assert.True(t, next != na && next.id != na.id && na.ended && !na.holds, "%+v follows %+v", next, na)
		assert.Equal(t, next.reply, majority.Busy, "the reply of what has not been asked, and is not waited for")
		s.handlePush(0, "granted "+na.id+" 20 0")
		assert.False(t, next.holds, "an old push counts")
	})
}

// A push of a round that has ended is cancelled, and does not count.
func TestAPushOfAnEndedRoundDoesNotCount(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		na := acq.round.attempts[0]
		acq.round.end()
		s.handlePush(0, "granted "+na.id+" 20 0")
		assert.False(t, na.holds, "it counts")
	})
}

// The answer that queued an attempt may arrive after the push that granted it.
func TestALateQueuedDoesNotUndoAGrant(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		na := acq.round.attempts[0]
		time.Sleep(2 * second)
		na.noteGrant(20, 0, 10*second)
		assert.Equal(t, na.heldSince, 12*second, "as far as is known it has held since")
		na.noteAnswer(wire.Answer{Kind: wire.Queued, Place: 1}, 10*second, nil)
		assert.True(t, na.holds && na.reply == majority.Granted, "the grant is forgotten: %+v", na)
	})
}

// A server that has forgotten its grant when the token is written holds nothing.
func TestAGrantThatIsGoneAtTheSecondPhaseIsNone(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		acq.hold()
		na := acq.round.attempts[0]
		assert.Is(t, na.raiseToken(second, 30), errForgot)
		assert.False(t, na.holds, "it holds")
	})
}

// A server that grants after the acquisition was won, or while its token is written, gets the token. Its
// own would be lower than that of the lease.
func TestALateGrantGetsTheTokenOfTheLease(t *testing.T) {
	const token = 1 << 60
	args := []string{"9000", "16000", "x", "0", "push:"}
	for when, grant := range map[string]func(t *testing.T, s *Store, acq *acquisition, na *nodeAttempt){
		"while the token is written": func(t *testing.T, _ *Store, acq *acquisition, na *nodeAttempt) {
			acq.phase = asking
			assert.Must(t, na.acquire(second, "0"))
			_, err := acq.granted(acq.round, token, nil, second)
			assert.Must(t, err)
		},
		"by an answer": func(t *testing.T, _ *Store, _ *acquisition, na *nodeAttempt) {
			assert.Must(t, na.acquire(second, "0"))
		},
		"by a push": func(t *testing.T, s *Store, _ *acquisition, na *nodeAttempt) {
			_, err := na.node.Run(t.Context(), script.Acquire, na.keys, append([]string{na.id}, args...))
			assert.Must(t, err)
			assert.True(t, s.handlePush(na.i, "granted "+na.id+" 20 0"), "the push is not known")
		},
		"as a renewal tells": func(t *testing.T, _ *Store, acq *acquisition, na *nodeAttempt) {
			_, err := na.node.Run(t.Context(), script.Acquire, na.keys, append([]string{na.id}, args...))
			assert.Must(t, err)
			acq.renewAt13(majority.TooRecent, majority.Silent, majority.Silent)
		},
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			na := acq.round.attempts[0]
			acq.phase, acq.token = held, token
			grant(t, s, acq, na)
			synctest.Wait()
			assert.Equal(t, na.token, token, "the token, granted %s", when)
		})
	}
}

// A release that gets no answer is followed by cancels, one for each request that may have led to a grant.
func TestAReleaseWithoutAnAnswerIsFollowedByCancels(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		acq.hold()
		na := acq.round.attempts[silent]
		na.unanswered, na.unansweredUntil = 2, 12*second
		assert.Is(t, na.release(second, []string{"c/1", "20", "27000", "push:"}), errBroken)
		n := s.nodes[silent]
		n.mu.Lock()
		defer n.mu.Unlock()
		assert.MustTrue(t, len(n.owed.cancels) == 1, "pending cancels: %+v", n.owed.cancels)
		assert.Equal(t, n.owed.cancels[0].times, 3, "it ends holds")
		assert.Equal(t, n.owed.cancels[0].until, 10*second+acq.ttl, "it is sent until")
	})
}

// While a server does not answer, all of its cancels wait, also those for late pushes.
func TestCancelsWaitForASilentServer(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		n := s.nodes[silent]
		args := func(id string) []string { return []string{id, wire.Millis(acq.retention), acq.channelPrefix} }
		for _, id := range []string{"c/1.1", "c/1.2"} {
			n.addCancel(pendingCancel{keys: []string{acq.key}, args: args(id), times: 1, until: time.Hour})
		}
		n.mu.Lock()
		n.owed.remember(pendingCancel{keys: []string{acq.key}, args: args("c/1.3")})
		n.mu.Unlock()
		n.unexpectedPush("c/1.3")
		time.Sleep(second)
		n.mu.Lock()
		defer n.mu.Unlock()
		assert.MustTrue(t, len(n.owed.cancels) == 3, "pending cancels: %+v", n.owed.cancels)
		last := n.owed.cancels[slices.Index(ids(n.owed.cancels), "c/1.3")]
		assert.True(t, last.times == 1 && last.until == 10*second+s.cfg.MaxTTL, "the late one: %+v", last)
	})
}

// A comparison of clocks that is a quarter of MaxTTL old is made anew before anything is granted.
func TestAnAcquisitionWaitsForAnOldComparisonToBeMadeAnew(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		ns := acq.states
		for _, old := range []bool{false, true} {
			ns.mu.Lock()
			ns.identified, ns.lastRead = true, s.now()-s.cfg.MaxTTL/4
			if !old {
				ns.lastRead++
			}
			ns.mu.Unlock()
			assert.Must(t, s.identify(t.Context(), ns))
			ns.mu.Lock()
			assert.Equal(t, ns.reading == nil, old, "old: %v, it has waited", old)
			ns.mu.Unlock()
			synctest.Wait()
		}
	})
}
