package quorum

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/majority"
)

// The second phase of a grant. Example: servers 1, 2 and 3 granted and drew the tokens 20, 25 and
// 23. T is 26. It is written to all three, and each answers with its clock and its mark. When two
// of them have T, and their marks say that they have forgotten nothing, the client has the lock
// with token 26. Any later majority shares a server with these, and that server draws more than 26.
//
// Why is a grant not enough? A server may grant, restart empty, and grant to another client: both
// grants were true when they were given. The step that writes T tells: it follows the grant. If the
// server had restarted in between, the hold or the mark would be gone, or the mark would be that of
// another run.

// writeToken is the second phase: it writes a token above those of all grants to a majority of
// the nodes that hold, and checks that these have forgotten nothing. Only then does the grant
// count. The caller is the driver.
//
// After each answer it counts again. It ends with the first majority that vouches, and the other
// answers come later. It fails as soon as the answers to come cannot make a majority any more.
//
// It reads the clock once, as granted, when all grants that it relies on had arrived. A mark counts
// only if it was asked for after that instant. Each request is bounded, so each node sends its
// result in the end.
//
// If it fails, the grants are as before, and some servers may have T. That raises the tokens that
// these servers draw later, and harms nobody. The caller cancels the grants (conclude), or goes on
// collecting (tryComplete, pollAll).
func (acq *acquisition) writeToken(ctx context.Context, r *round, timeout time.Duration) (string, error) {
	acq.mu.Lock()
	// Only grants that count draw the token: one that is ahead of all clocks must not lift the others.
	_, counts := r.replies()
	holders, drawn := make(map[int]*nodeAttempt), []uint64(nil)
	for i, na := range r.attempts {
		if na.holds && counts[i] {
			holders[i], drawn = na, append(drawn, na.token)
		}
	}
	token, granted := majority.Token(drawn, len(r.attempts)), acq.now()
	acq.mu.Unlock()

	done := make(chan result, len(holders))
	for i, na := range holders {
		if !acq.life.Go(label.Caller, func() { done <- result{i, na.raiseToken(timeout, token)} }) {
			done <- result{i, ErrClosed}
		}
	}
	// Nodes that did not grant are named in the error, if the others are too few.
	failed, raised := make(map[int]error), make([]bool, len(r.attempts))
	for i := range r.attempts {
		if holders[i] == nil {
			failed[i] = errNoGrant
		}
	}
	for open := len(holders); ; open-- {
		ok, err := acq.vouched(granted, raised, failed, open)
		if err != nil {
			return "", err
		} else if ok {
			return acq.granted(r, token, holders, timeout)
		}
		select {
		case one := <-done:
			if raised[one.i] = one.err == nil; one.err != nil {
				failed[one.i] = one.err
			}
		case <-r.done:
			return "", errEnded
		case <-ctx.Done():
			return "", acq.interrupted(ctx, failed, raised)
		}
	}
}

// vouched reports whether a majority vouches for its grants: the nodes that have the token, by
// what they said of themselves since then. open is how many answers are to come. An error says
// that there can be no majority any more.
// It is asked again after each answer. Three outcomes: a majority vouches; a majority can still be
// had; or it cannot, and the error names each node with its reason.
//
// Example: of three servers that have the token, the clock of 3 disagrees with those of 1 and 2.
// After the answers of 1 and 3 nobody can tell which of the two clocks is wrong. So neither counts,
// and nobody is refused yet (sure is false). The answer of 2 tells: 1 and 2 vouch, and 3 has a
// clock that was set.
func (acq *acquisition) vouched(since time.Duration, raised []bool, failed map[int]error, open int) (bool, error) {
	ok, why, sure := acq.states.vouch(since, raised)
	if sure || open == 0 {
		acq.states.noteWrongMarks(why)
	}
	if ok >= acq.majority {
		acq.states.refresh()
		// Two of them may have turned out to be one server.
		acq.states.mu.Lock()
		defer acq.states.mu.Unlock()
		acq.states.sameServer = acq.states.findSameServer(since)
		return acq.states.sameServer == nil, acq.states.sameServer
	}
	if !sure && open > 0 {
		ok += len(why)
	}
	if ok+open >= acq.majority {
		return false, nil
	}
	maps.Copy(failed, why)
	return false, acq.noMajority(failed)
}

// granted makes the round's holds the acquisition's, unless the acquisition has ended
// meanwhile or its lease is over before it began.
//
// A late grant is refused here, and not by the client alone: otherwise the store would keep, renew
// and restore a lease that the client does not have. The nodes hold for longer than the client
// trusts its lease, because each node's TTL began later than countsFrom.
//
// Example: a lease of 9 s was asked for at 10 s. If the token is confirmed at 18.9 s, the lease was
// to be trusted until 18.908 s: it is granted, and about to end. At 18.95 s it is refused.
func (acq *acquisition) granted(
	r *round, token uint64, holders map[int]*nodeAttempt, timeout time.Duration,
) (string, error) {
	acq.mu.Lock()
	defer acq.mu.Unlock()
	now := acq.now()
	switch {
	case !r.live():
		return "", errEnded
	case leasetime.Deadline(acq.countsFrom, acq.ttl) <= now:
		return "", fmt.Errorf("quorum: the grants arrived too late: they took %v, and the lease is %v long",
			now-acq.countsFrom, acq.ttl)
	}
	acq.phase, acq.token, acq.renewedAt = held, token, now
	acq.touch()
	// A node that granted while the token was being written gets it, too.
	for i, na := range r.attempts {
		if na.holds && holders[i] != na {
			acq.life.Go(grantLabel, func() { _ = na.raiseToken(timeout, token) })
		}
	}
	acq.notify()
	return fmt.Sprintf("granted %d %d", token, acq.waiters), nil
}
