package quorum

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// Silent servers may fill a gap. But an operator who evicts the holder reaches a majority, and some of it
// may be silent now.
func TestSilentServersDoNotOutliveAnEviction(t *testing.T) {
	for evicted, want := range map[majority.Vote]majority.Outcome{
		majority.NotHeld: majority.Renewed, majority.Evicted: majority.Unknown,
	} {
		inside(t, func(t *testing.T, s *Store, acq *acquisition) {
			acq.hold()
			s.majority = 3
			r := acq.round
			ren := renewal{acq: acq, since: 10 * second, ttl: acq.ttl, votes: []majority.Vote{
				majority.Held, majority.Held, majority.TooRecent, majority.Silent, evicted,
			}}
			for i := range ren.votes {
				na := r.newAttempt(i % 3)
				na.holds, na.heldSince, na.heldUntil = true, 10*second, 20*second
				if ren.votes[i] == majority.TooRecent {
					na.heldSince = 12 * second
				}
				ren.attempts = append(ren.attempts, na)
			}
			assert.Equal(t, ren.outcome(), want, "with %v", evicted)
		})
	}
}

// What a renewal says of each server is for how long that server certainly holds.
func TestARenewalSaysForHowLongEachServerHolds(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		acq.hold()
		unheard := acq.round.attempts[1]
		unheard.holds = false // its grant was not heard of, and the renewal says that it has it
		acq.renewAt13(majority.Held, majority.TooRecent, majority.Silent)
		deadline := leasetime.Deadline(13*second, acq.ttl)
		assert.Equal(t, acq.round.attempts[0].heldUntil, deadline, "the first holds until")
		assert.Equal(t, unheard.heldUntil, deadline, "the second holds until")
		assert.True(t, unheard.holds && unheard.heldSince == 13*second, "its grant is not heard of: %+v", unheard)
		assert.Equal(t, acq.round.attempts[silent].heldUntil, 0, "the silent one holds until")
	})
}

// The attempt that is replaced when a lease is restored must not acquire any more, and a server that has
// not held since the lease was renewed does not confirm it.
func TestARestoredLeaseCountsFromItsRestoration(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		acq.hold()
		before := acq.round.attempts[0]
		before.holds = false
		acq.renewAt13(majority.NotHeld, majority.Held, majority.Held)
		acq.mu.Lock()
		defer acq.mu.Unlock()
		assert.True(t, before.ended && acq.round.attempts[0] != before, "the old attempt goes on")
		acq.round.attempts[1].heldSince = acq.renewedAt + 1
		assert.EqualSlices(t, acq.round.confirmed(), []bool{false, false, true}, "confirmed by")
	})
}

// A lease that is renewed is in use, and one that is lost has ended.
func TestARenewalIsAUseOfItsAcquisition(t *testing.T) {
	inside(t, func(t *testing.T, s *Store, acq *acquisition) {
		acq.hold()
		acq.touched.Store(0)
		leases, _, err := s.parseRenewals(t.Context(), []string{acq.key}, []string{"27000", "9000", "c/1"})
		assert.Must(t, err)
		assert.Equal(t, acq.touched.Load(), int64(10*second), "last used at")
		s.endLost(&leases[0])
		assert.True(t, acq.phase == ended && acq.round.ended && s.find(acq.key, "c/1") == nil, "it goes on")
	})
}

// A coordinator that is asked for a position has not answered yet. Otherwise each later answer of another
// server asks it once more.
func TestACoordinatorIsAskedForAPositionOnce(t *testing.T) {
	inside(t, func(t *testing.T, _ *Store, acq *acquisition) {
		for _, na := range acq.round.attempts {
			na.reply, na.lastAnswer = majority.Busy, wire.Answer{Kind: wire.Busy, Holder: "d/1.7"}
		}
		for _, want := range []majority.Decision{majority.JoinQueue, majority.Undecided} {
			d, _ := acq.decide(acq.round, true)
			assert.Equal(t, d, want, "the decision")
		}
	})
}
