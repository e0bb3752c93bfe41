package quorum

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/majority"
)

// Silent servers fill a gap until the others had joined, if they certainly held until then. The renewal before
// began at 10 s. A grant that was never heard of may have begun at any time, so it fills nothing.
func TestWhenSilentServersFillAGap(t *testing.T) {
	const held, recent, silent, no = majority.Held, majority.TooRecent, majority.Silent, majority.NotHeld
	for _, test := range []struct {
		votes  []majority.Vote
		joined time.Duration // the server that is too recent
		until  time.Duration // the silent one holds until
		since  time.Duration // the silent one has held since
		want   majority.Outcome
	}{
		{[]majority.Vote{held, recent, silent}, 12 * second, 12 * second, 10 * second, majority.Renewed},
		{[]majority.Vote{held, recent, silent}, 12 * second, 12*second - 1, 10 * second, majority.Unknown},
		{[]majority.Vote{held, recent, silent}, 12 * second, 12 * second, 10*second + 1, majority.Unknown},
		{[]majority.Vote{held, no, silent}, 12 * second, 20 * second, 10 * second, majority.Unknown},
		{[]majority.Vote{recent, recent, silent}, 12 * second, 20 * second, 10 * second, majority.Lost},
		{[]majority.Vote{held, held, silent}, 12 * second, 0, 0, majority.Renewed},
	} {
		bids := make([]bid, 3)
		for i, vote := range test.votes {
			bids[i] = bid{holds: true, heldSince: 10 * second}
			switch vote {
			case recent:
				bids[i].heldSince = test.joined
			case silent:
				bids[i].heldSince, bids[i].heldUntil = test.since, test.until
			default: // as it is
			}
		}
		assert.Equal(t, decideRenewal(test.votes, bids, 10*second), test.want, "%+v", test)
		for unheard := 1; unheard < 3 && test.votes[1] == recent; unheard++ {
			less := slices.Clone(bids)
			less[unheard].holds, less[unheard].heldSince = false, 0
			want := majority.Tally(test.votes)
			assert.Equal(t, decideRenewal(test.votes, less, 10*second), want, "%+v, but %d unheard", test, unheard)
		}
	}
	assert.Equal(t, decideRenewal([]majority.Vote{held, recent, silent}, nil, 0), majority.Unknown, "of an unknown one")
}

// Silent servers may fill a gap. But an operator who evicts the holder reaches a majority, and some of it
// may be silent now.
func TestSilentServersDoNotOutliveAnEviction(t *testing.T) {
	for last, want := range map[majority.Vote]majority.Outcome{
		majority.NotHeld: majority.Renewed, majority.Evicted: majority.Unknown,
	} {
		votes := []majority.Vote{majority.Held, majority.Held, majority.TooRecent, majority.Silent, last}
		bids := make([]bid, len(votes))
		for i := range bids {
			bids[i] = bid{holds: true, heldSince: 10 * second, heldUntil: 20 * second}
		}
		bids[2].heldSince = 12 * second
		assert.Equal(t, decideRenewal(votes, bids, 10*second), want, "with %v", last)
	}
}
