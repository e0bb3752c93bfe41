package quorum

import (
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/majority"
)

// A renewal asks all servers, and their votes decide whether the lease goes on. Suppose that a
// lease on three servers was renewed at 10 s. Server 3 was down then, and joined at 12 s. At 13 s
// server 1 says "held", server 3 says "held", and server 2 is silent. Two of three hold, but only
// server 1 vouches for the time since 10 s: from 10 s to 12 s somebody else might have had servers
// 2 and 3. Server 2 is silent, but it confirmed at 10 s that it holds until 19 s. So until 12 s
// servers 1 and 2 held, and from 12 s on servers 1 and 3 do. The lease goes on.
//
// This file decides that by the votes and by what is known of each server. It sends nothing and
// reads no clock. renew.go asks the servers and carries the decision out.

// decideRenewal says what the votes mean together, for a lease whose renewal before began at
// since. Too few nodes may vouch for all of the time, though a majority holds. The lease goes on
// nevertheless if nodes that are silent now fill the gap, until that majority held. If such a node
// has forgotten its hold, it has not counted for others since. Without bids nothing is known of
// the nodes but their votes.
//
// Those that say "held" have held all the time. Of the others that hold, the earliest are enough:
// the m-th of them all, in the order in which their holds began, makes the majority. Until that
// instant the silent ones must have filled the gap.
func decideRenewal(votes []majority.Vote, bids []bid, since time.Duration) majority.Outcome {
	found := majority.Tally(votes)
	if found != majority.Unknown || bids == nil || slices.Contains(votes, majority.Evicted) {
		return found
	}
	var began []time.Duration
	for i, vote := range votes {
		switch {
		case vote == majority.Held:
			began = append(began, 0)
		case vote == majority.TooRecent && bids[i].holds:
			began = append(began, bids[i].heldSince)
		}
	}
	slices.Sort(began)
	if m := majority.Of(len(votes)); len(began) >= m && heldUntil(votes, bids, since, began[m-1]) >= m {
		return majority.Renewed
	}
	return majority.Unknown
}

// heldUntil counts the nodes that have held without a break from since until t, as far as is known:
// those that say so, and silent ones. A silent node counts for as long as it has confirmed, less
// the margin for the drift of its clock. One that says "not held" does not count at all: nobody
// knows when its hold ended.
func heldUntil(votes []majority.Vote, bids []bid, since, t time.Duration) (n int) {
	for i, vote := range votes {
		silent := vote == majority.Silent && bids[i].hasHeld(since) && bids[i].heldUntil >= t
		if silent || vote == majority.Held {
			n++
		}
	}
	return n
}
