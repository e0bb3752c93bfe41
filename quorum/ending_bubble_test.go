package quorum

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/memstore"
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
		assert.Equal(t, len(n.cancels), 1, "pending cancels for the silent server")
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
		l := store.Listener{Message: func(string) { told++ }, Resumed: func() { told++ }}
		stop, err := s.Listen(context.Background(), "push:c", l)
		assert.Must(t, err)
		sub := s.subscriptionsTo("push:c")[0]
		stop()
		told = 0
		sub.message("x")
		sub.resumed()
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
