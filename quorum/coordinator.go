package quorum

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/holdfast-go/holdfast/internal/majority"
)

// Each lock has a coordinator: the server whose queue orders the waiters. Suppose that the hash of
// "orders:{7}" orders five servers as 3, 1, 5, 2, 4. Then 3 is the coordinator. If 3 is silent, or
// a majority has contradicted it for long, the order is 1, 5, 2, 4, 3, and 1 is the coordinator.
// All processes compute the same order, but each by what it knows itself of silent servers. So two
// processes may have different coordinators for a while. Nothing but the order of waiters depends
// on that: a lock is held by a majority.

// isContradicted reports whether the node may not be the lock's coordinator, see contradictions.
func (s *servers) isContradicted(key string, node int) bool {
	return s.contradictions.lasts(s.now(), nodeLock{key, node})
}

// order lists the nodes in the order in which they may become coordinator. Silent nodes, and
// nodes that a majority contradicts, come last.
func (s *servers) order(key string) []int {
	var order, silent []int
	for _, i := range majority.Order(key, len(s.nodes)) {
		if s.nodes[i].isSilent() || s.isContradicted(key, i) {
			silent = append(silent, i)
		} else {
			order = append(order, i)
		}
	}
	return append(order, silent...)
}

// checkCoordinator asks the nodes, for a waiter, whether a majority has contradicted the
// coordinator for long. It reads the records of all nodes, see supported. If too few can be read,
// it says no: then nothing speaks against the coordinator.
//
// A waiter is queued, so its round has the answer of one server only. An acquisition that asks all
// servers compares their answers without further requests, see compare.
func (acq *acquisition) checkCoordinator(ctx context.Context, r *round) bool {
	acq.mu.Lock()
	coordinator, last := r.coordinator, r.attempts[r.coordinator].lastAnswer
	acq.mu.Unlock()
	// Dead waiters stay in a queue that does not move, so a waiter far from its head may be
	// the first live one. If the lease is longer than MaxTTL, the node's clock is wrong.
	if last.Place > alwaysChecked && last.Left <= acq.cfg.MaxTTL && rand.IntN(last.Place) >= alwaysChecked {
		return false
	}
	_, own, err := acq.readRecord(ctx, []string{acq.key})
	now := acq.now()
	for i, record := range own {
		for _, h := range record.Holders {
			acq.contradictions.keep(now, nodeLock{acq.key, i}, h.Attempt)
		}
	}
	there, ok := own[coordinator]
	if err != nil || !ok || len(there.Holders) == 0 {
		return false
	}
	if supported(there, own, len(acq.nodes)) {
		acq.contradictions.drop(nodeLock{acq.key, coordinator})
		return false
	}
	return acq.contradictions.note(now, nodeLock{acq.key, coordinator}, there.Holders[0].Attempt, acq.ttl)
}

// alwaysChecked is how many waiters at the head of a queue check at every poll. About as many
// of those behind them do: a coordinator's answer is as long as its queue.
const alwaysChecked = 8

// passCoordinator moves the coordinator to the end of the round's order. majority.Decide then finds
// the next one. acq.mu is held.
func (r *round) passCoordinator() {
	r.order = append(slices.DeleteFunc(r.order, func(i int) bool { return i == r.coordinator }), r.coordinator)
}
