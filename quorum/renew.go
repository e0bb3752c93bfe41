package quorum

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/batch"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// Renewing: one request to each server carries many leases. Example: the client renews "a" and "b"
// in one call. Server 1 answers "renewed 0 -": it has extended "a", nobody waits for it, and it
// does not hold "b". Each lease has votes of its own (note), and outcome.go decides by them.
// Where a lease goes on, it is restored on the servers that lack it (restore).
//
// The client decides when to renew. It sends the next renewal a third of the TTL after the last
// one, and asks again sooner if a lease is answered with "?" or if the call fails
// (internal/renewer).

// renewal is the renewal of one lease. Only the goroutine of the call uses it, so it needs no
// mutex. The acquisition and its attempts are guarded by acquisition.mu.
type renewal struct {
	key, attempt, ttlMS, owner string          // as the client wrote them: the attempt is the client's
	ttl                        time.Duration   // may be longer than that of the acquire, see Extend
	acq                        *acquisition    // nil if this process does not know it
	attempts                   []*nodeAttempt  // as they were at the start; nil unless the lease is held
	since                      time.Duration   // a node that has held since then vouches for the time until now
	votes                      []majority.Vote // by node
	waiters                    []int           // by node, as it said
}

// renew extends leases on all nodes. A lease goes on if a majority has held it without a break
// since the start of the renewal before: at no instant could others have had a majority. A node
// that is silent now counts until its hold expires, see decideRenewal. Nodes that do not hold the lease
// are asked to hold from now on.
//
// The clock is read before anything is sent (start). If the lease goes on, it is known to have been
// held at that instant, so the next renewal asks who has held since then.
//
// Suppose that 4 and 5 of five servers are late. 1, 2 and 3 say "held" after 2 ms, so the lease
// goes on.
//
//   - If 4 and 5 are silent already, they get 6 ms more, in case they are back. Then the client is
//     answered.
//   - If not, they are waited for until timeout. By then they are silent, so the next renewal is
//     short.
//
// Neither has a vote, so nothing is known of them, and nothing is done. A late renewal may reach
// them all the same. If the holds there expire, the servers say so once they answer, and the lease
// is restored.
//
// After an error the lease is in doubt: some nodes may have extended it. Nothing has been ended,
// and the client asks again while it trusts the lease.
func (s *Store) renew(ctx context.Context, keys, args []string) (string, error) {
	leases, timeout, err := s.parseRenewals(ctx, keys, args)
	if err != nil {
		return "", err
	}
	for _, p := range prefixes(keys) {
		s.statesOf(p).refresh() // keeps the marks alive and the comparison of clocks recent
	}
	start := s.now()
	answers := make([]chan []wire.Renewal, len(s.nodes))
	for i := range answers {
		answers[i] = make(chan []wire.Renewal, 1)
	}
	// Every request is counted, also if the caller gives up: what a node extends, it holds for longer.
	done := s.startOnEach(func(i int, n *node) error {
		list, err := n.renew(i, timeout, args[0], args[1], leases)
		answers[i] <- list
		return err
	})
	// Each answer is noted for all leases. Once all leases are known to go on and only silent nodes are
	// left, these get a short time. While a lease is in doubt, all nodes are waited for.
	failed, heard := make(map[int]error), make([]bool, len(s.nodes))
	grace := time.NewTimer(forever) // for silent nodes: they may be back
	defer grace.Stop()
	for open, late, graced := len(s.nodes), false, false; open > 0 && !late; {
		if !graced && allRenewed(leases) && s.onlySilentLeft(heard) {
			graced = grace.Reset(majority.Grace(s.now()-start, timeout))
		}
		select {
		case <-grace.C:
			late = true
		case r := <-done:
			open--
			heard[r.i] = true
			if r.err != nil {
				failed[r.i] = r.err
				break
			}
			list := <-answers[r.i]
			for l := range leases {
				if leases[l].note(r.i, list[l]); list[l].Err != nil {
					failed[r.i] = list[l].Err
				}
			}
		case <-ctx.Done():
			return "", s.interrupted(ctx, failed, heard)
		}
	}
	return s.concludeRenewal(leases, failed, start, timeout)
}

// renew renews leases on node i. A node refuses a whole request if the user may not write one of its keys. Then it
// is asked for the halves, and so on: the other leases keep its vote.
//
// Example: an operator takes the key of "b" from the user on server 1, and server 2 is away. Servers 1 and 3 renew "a",
// and of "b" too little is known. If server 1 were not asked for "a" alone, "a" would end together with "b".
func (n *node) renew(i int, timeout time.Duration, retention, ttlMS string, leases []renewal) ([]wire.Renewal, error) {
	list, end := make([]wire.Renewal, len(leases)), n.servers.now()+timeout
	send := func(from, to int) error {
		keys, args := renewArgs(i, retention, ttlMS, leases[from:to])
		left := max(end-n.servers.now(), time.Millisecond)
		answer, err := n.call(nil, left, script.Renew, keys, args)
		if err != nil {
			return err
		}
		some, err := wire.ParseRenewals(answer, to-from)
		copy(list[from:], some)
		return err
	}
	err := send(0, len(leases))
	if !batch.ConcernsAKey(err) || len(leases) == 1 {
		return list, err
	}
	for l, refused := range batch.Apart(len(leases), err, send) {
		if refused != nil {
			list[l].Err = refused
		}
	}
	return list, nil
}

// prefixes returns the prefixes of the keys, each once.
func prefixes(keys []string) []string {
	list := make([]string, len(keys))
	for i, key := range keys {
		list[i] = prefix(key)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// parseRenewals reads the arguments of renew.
// It copies the attempts of each lease, under the lock: what the votes mean depends on what was
// asked, and a restore may replace an attempt while the requests are under way.
func (s *Store) parseRenewals(ctx context.Context, keys, args []string) ([]renewal, time.Duration, error) {
	if len(args) != 2+len(keys) {
		return nil, 0, refuse(ErrUnsupported, "ERR", "renew takes %d arguments for %d keys, not %d",
			2+len(keys), len(keys), len(args))
	}
	leases, shortest := make([]renewal, len(keys)), time.Duration(0)
	for i := range leases {
		ren := &leases[i]
		ren.key = keys[i]
		ren.attempt, ren.ttlMS, ren.owner = wire.ParseLeaseWord(args[i+2], args[1])
		ms, err := strconv.ParseInt(ren.ttlMS, 10, 64)
		if err != nil || ms < 1 {
			return nil, 0, refuse(ErrUnsupported, "ERR", "renew: the TTL %q is not a number of milliseconds", ren.ttlMS)
		}
		ren.ttl = time.Duration(ms) * time.Millisecond
		if err := s.checkTTL(ren.ttl); err != nil {
			return nil, 0, err
		}
		if shortest == 0 || ren.ttl < shortest {
			shortest = ren.ttl
		}
		ren.votes, ren.waiters = make([]majority.Vote, len(s.nodes)), make([]int, len(s.nodes))
		if ren.acq = s.find(ren.key, ren.attempt); ren.acq == nil {
			continue
		}
		ren.acq.touch()
		ren.acq.mu.Lock()
		ren.acq.longest = max(ren.acq.longest, ren.ttl) // from before the request: it may run without an answer
		if ren.acq.phase == held {
			ren.attempts, ren.since = append([]*nodeAttempt(nil), ren.acq.round.attempts...), ren.acq.renewedAt
		}
		ren.acq.mu.Unlock()
	}
	return leases, s.requestTimeout(ctx, shortest), nil
}

// renewArgs returns the keys and the arguments for node i, which knows each attempt by an identity of its
// own.
func renewArgs(i int, retention, ttlMS string, leases []renewal) (keys, args []string) {
	args = []string{retention, ttlMS}
	for l := range leases {
		id := leases[l].attempt
		if leases[l].attempts != nil {
			id = leases[l].attempts[i].id
		}
		keys = append(keys, leases[l].key)
		args = append(args, wire.LeaseWord(id, leases[l].ttlMS, leases[l].owner, ttlMS))
	}
	return keys, args
}

// note records what node i said of the lease.
//
// A node that says "held" vouches only if it was known to hold at the start of the renewal before.
// Otherwise its hold may have begun in between, and somebody else may have held before that.
//
// Example: the renewal before began at 10 s, and the lease was restored on server 3 at 10.1 s. At
// 13 s server 3 says "held", and that is TooRecent. This renewal moves since to 13 s. So at 16 s
// server 3 vouches.
func (ren *renewal) note(i int, r wire.Renewal) {
	ren.waiters[i] = r.Waiting
	switch {
	case r.Err != nil: // it has said nothing of this lease
	case r.Evicted:
		ren.votes[i] = majority.Evicted
	case !r.Held:
		ren.votes[i] = majority.NotHeld
	case ren.attempts == nil:
		ren.votes[i] = majority.Held
	default:
		ren.acq.mu.Lock()
		defer ren.acq.mu.Unlock()
		ren.votes[i] = majority.TooRecent
		if ren.attempts[i].hasHeld(ren.since) {
			ren.votes[i] = majority.Held
		}
	}
}

// outcome is what the votes mean together, see decideRenewal.
func (ren *renewal) outcome() majority.Outcome {
	return decideRenewal(ren.votes, ren.bids(), ren.since)
}

// bids returns what is known now of the attempts that were asked; nil for an unknown acquisition.
func (ren *renewal) bids() []bid {
	if ren.attempts == nil {
		return nil
	}
	ren.acq.mu.Lock()
	defer ren.acq.mu.Unlock()
	return bidsOf(ren.attempts)
}

// bidsOf returns what is known of the attempts. acq.mu is held.
func bidsOf(attempts []*nodeAttempt) []bid {
	bids := make([]bid, len(attempts))
	for i, na := range attempts {
		bids[i] = na.bid
	}
	return bids
}

// allRenewed reports whether all leases are known to go on.
func allRenewed(leases []renewal) bool {
	for l := range leases {
		if majority.Tally(leases[l].votes) != majority.Renewed {
			return false
		}
	}
	return true
}

// concludeRenewal carries out what the votes mean for each lease, and makes the answer. A lease
// that goes on is restored on the nodes that lack it. A lease of which nothing is certain is
// answered with "?", and the client asks again. If that is so for all of them, the renewal as a
// whole has failed, and the error says why.
//
//	outcome   answer            what is done
//	Renewed   how many wait     renewedAt moves to the start, and missing holds are restored
//	Unknown   ?                 missing holds are restored if the lease may yet go on
//	Ended     evicted           nothing more is acquired. The client's release ends what is left
//	Lost      -                 the acquisition is forgotten. What is left expires
func (s *Store) concludeRenewal(
	leases []renewal, failed map[int]error, start time.Duration, timeout time.Duration,
) (string, error) {
	each, unknown := make([]string, len(leases)), 0
	for l := range leases {
		one := &leases[l]
		switch one.outcome() {
		case majority.Renewed:
			each[l] = strconv.Itoa(one.noteRenewed(start, timeout))
		case majority.Unknown:
			one.restoreMissing(start, timeout)
			each[l] = "?"
			unknown++
		case majority.Ended:
			each[l] = "evicted"
			one.endRound()
		default:
			each[l] = "-"
			s.endLost(one)
		}
	}
	// If one lease has an outcome, the others' "?" is enough: the client asks for those again.
	if unknown == len(leases) {
		leases[0].explain(failed)
		return "", s.noMajority(failed)
	}
	return "renewed " + strings.Join(each, " "), nil
}

// explain adds why nodes that have answered do not count.
func (ren *renewal) explain(failed map[int]error) {
	for i, v := range ren.votes {
		switch v {
		case majority.TooRecent:
			failed[i] = errTooRecent
		case majority.NotHeld, majority.Evicted:
			failed[i] = errForgot
		default: // the node vouches, or has failed
		}
	}
}

// noteRenewed records that the lease goes on. It returns how many attempts wait for it.
//
// The votes are of the attempts that were asked. Meanwhile another goroutine may have put a new
// attempt in the place of one of them. Then the vote says nothing about the new one. A node that
// lacks the lease is asked to hold it from now on. For the others the renewal is a fresh word: the
// hold counts from its start.
func (ren *renewal) noteRenewed(start, timeout time.Duration) (waiters int) {
	acq := ren.acq
	if ren.attempts == nil {
		for _, n := range ren.waiters {
			waiters = max(waiters, n)
		}
		return waiters
	}
	acq.mu.Lock()
	defer acq.mu.Unlock()
	// From the start, not from now: a node that joined in between does not vouch for that time.
	acq.renewedAt = max(acq.renewedAt, start)
	ren.noteHolds(start)
	// The other nodes know of no waiters.
	if ren.votes[acq.round.coordinator] != majority.Silent {
		acq.waiters = ren.waiters[acq.round.coordinator]
	}
	waiters = acq.waiters
	if acq.phase != held || !acq.round.live() {
		return waiters
	}
	for i, na := range acq.round.attempts {
		if na != ren.attempts[i] {
			continue // replaced meanwhile
		}
		switch ren.votes[i] {
		case majority.NotHeld:
			ren.restoreOn(i, start, timeout)
		case majority.Held:
			na.countsFrom, na.unconfirmed = max(na.countsFrom, start), false
		default: // the node said nothing, or does not vouch yet
		}
	}
	return waiters
}

// noteHolds records for how long the nodes hold that have just extended. A node that holds, though its
// grant was never heard of, counts from the start of the renewal. Even if too few nodes have answered this
// renewal, that node may make the majority of the next one. acq.mu is held.
func (ren *renewal) noteHolds(start time.Duration) {
	acq := ren.acq
	for i, na := range ren.attempts {
		if ren.votes[i] != majority.Held && ren.votes[i] != majority.TooRecent {
			continue
		}
		na.lastsFrom(start, ren.ttl)
		current := acq.phase == held && acq.round.live() && acq.round.attempts[i] == na
		if ren.votes[i] == majority.TooRecent && current && !na.holds {
			na.noteGrant(na.token, acq.waiters, start)
		}
	}
}

// restoreMissing restores a lease of which too few nodes have answered, if it may yet go on: before
// the silent nodes may hold it no more, a majority must hold it.
//
// Example: 1 and 2 of five say "held", 3 and 4 are silent, and 5 has restarted empty. Two are too
// few. But 3 and 4 confirmed at 10 s that they hold until 19 s. So until then nobody else can have
// had a majority, and 5 is asked to hold. If it does, 1, 2 and 5 are a majority from then on, and a
// later renewal finds no gap.
func (ren *renewal) restoreMissing(start, timeout time.Duration) {
	if ren.attempts == nil {
		return
	}
	acq := ren.acq
	acq.mu.Lock()
	defer acq.mu.Unlock()
	ren.noteHolds(start)
	holding := heldUntil(ren.votes, bidsOf(ren.attempts), ren.since, acq.now())
	if acq.phase != held || !acq.round.live() || holding < acq.majority {
		return
	}
	for i, na := range acq.round.attempts {
		if na == ren.attempts[i] && ren.votes[i] == majority.NotHeld {
			ren.restoreOn(i, start, timeout)
		}
	}
}

// restoreOn restores the lease on a node that does not hold it. The node's answer does not include
// a grant since the start, nor a request that is under way (it has the gate). Either may be the hold
// that is missing, and restore would cancel it. acq.mu is held.
func (ren *renewal) restoreOn(i int, start, timeout time.Duration) {
	if na := ren.attempts[i]; (!na.holds || na.heldSince < start) && len(na.gate) == 0 {
		ren.acq.restore(i, timeout)
	}
}

// restore asks a node to hold what the others hold: the node was away, did not answer, had
// another holder, or has forgotten. It cancels what an earlier request led to there, or may
// yet lead to. The new attempt has a new identity, so that cancel cannot end it. The node counts
// for the lease from the second renewal after its grant, see decideRenewal. acq.mu is held.
//
// Nobody waits for the outcome. If the new request is granted, the node gets the token of the lease
// (noteGrant). If it is refused or gets no answer, the next renewal finds the hold missing again.
// If the lease is released first, the round has ended, and the acquire is not sent.
func (acq *acquisition) restore(i int, timeout time.Duration) {
	r := acq.round
	before, na := r.attempts[i], r.newAttempt(i)
	// From here on pushes and answers for the old identity mean nothing.
	before.ended, before.holds = true, false
	r.attempts[i] = na
	acq.life.Go(restoreLabel, func() {
		_, _ = before.cancel(timeout) // a failed cancel becomes a pending one
		_ = na.acquire(timeout, "0")  // the outcome is in the attempt
	})
}

// endRound ends the round of an evicted acquisition: it acquires nothing more. An operator may only
// have asked for the end, so some nodes may hold until the client releases. For that release the
// store goes on knowing the acquisition as held.
func (ren *renewal) endRound() {
	if acq := ren.acq; acq != nil {
		acq.mu.Lock()
		defer acq.mu.Unlock()
		if acq.round != nil {
			acq.round.end()
		}
	}
}

// endLost ends the acquisition. What some nodes still hold stays: the holder's code may still
// run, and the holds expire.
// The store forgets the acquisition, so a release that comes later asks all nodes.
func (s *Store) endLost(ren *renewal) {
	acq := ren.acq
	if acq == nil {
		return
	}
	s.forget(acq)
	acq.mu.Lock()
	defer acq.mu.Unlock()
	acq.phase = ended
	if acq.round != nil {
		acq.round.end()
	}
}
