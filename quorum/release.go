package quorum

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// Ending an acquisition: by a release, by a release after a minimum time, or by a cancel. Each ends
// the attempt on all servers at once. Example: of three servers, 1 and 3 say "released", and 2 is
// silent. A majority has released, so the answer is "released". Server 2 keeps its hold until the
// cancel that is now owed there arrives, or until the TTL is over.
//
// Whatever ends an acquisition takes these steps:
//
//	Store.end            the acquisition is ended and forgotten, and its round ends: nothing of it that
//	                     could acquire is sent any more
//	nodeAttempt.end,     on each server, the request that is under way is waited for. Its answer says
//	  or cancel          what there is to end
//	release, or cancel   is sent to each server that may have something
//	cancelLater          what got no answer is left to the server's pending cancels (owed.go)
//	node.sendCancels     sends these until the server answers, or until what they could end has expired
//
// A lease that a renewal finds lost takes only the first step (renew.go, endLost).

// release releases the lock on all nodes at once. The coordinator grants to the next waiter in
// the same step. The lock is released when a majority says so: until then nobody else had a
// majority. After an error some nodes may still hold, until the cancel in the background
// reaches them.
//
// If a minority is away, the call does not wait for it: a silent server is not waited for once the
// others have released. One that falls silent just now costs a timeout, if it is the coordinator.
// Each gets the release nevertheless, and a cancel is owed if it does not answer. If the server is
// back before the TTL is over, that cancel frees the lock there. If the server was only frozen, it
// carries out the release that it has received, and the cancel finds nothing.
func (s *Store) release(ctx context.Context, keys, args []string) (string, error) {
	if len(args) != 4 {
		return "", refuse(ErrUnsupported, "ERR", "release takes 4 arguments, not %d", len(args))
	}
	timeout := s.requestTimeout(ctx, 0)
	acq := s.find(keys[0], args[0])
	if acq == nil {
		return s.releaseAgain(ctx, timeout, keys, args)
	}
	attempts, coordinator, won := s.end(acq)
	// A release of what no majority had granted can come from a client that has the token of an
	// earlier lease. What this attempt has is cancelled, and the nodes say what they know of the token.
	if !won {
		s.startOnEach(func(i int, _ *node) error { _, err := attempts[i].cancel(timeout); return err })
		return s.releaseAgain(ctx, timeout, keys, args)
	}
	done := s.startOnEach(func(i int, _ *node) error { return attempts[i].release(timeout, args) })
	return s.releaseAnswer(ctx, done, coordinator)
}

func (s *Store) releaseAnswer(ctx context.Context, done <-chan result, coordinator int) (string, error) {
	released, err := s.awaitReleased(ctx, done, coordinator)
	switch {
	case err != nil:
		return "", err
	case released == nil:
		return "gone", nil
	}
	return "released", nil
}

// awaitReleased waits until a majority has released, and the coordinator with it, because the
// next attempt asks the coordinator first. It returns the nodes that have released; none means
// that no majority held. A node that has forgotten the hold did not release it. If so many have
// forgotten it that the rest is no majority, somebody else may have had the lock, and the caller
// must learn that its lease had ended.
//
// Of five servers:
//
//	released by 1, 2, 3; 4 and 5 silent         released
//	released by 1, 2, 3; the coordinator is 4   waits for 4, unless it is silent
//	released by 1, 2; 3, 4, 5 have forgotten    gone
//	released by 1, 2; 3, 4, 5 do not answer     an error: they may have released, or may hold
func (s *Store) awaitReleased(
	ctx context.Context, done <-chan result, coordinator int,
) (released []int, err error) {
	failed, heard := make(map[int]error), make([]bool, len(s.nodes))
	no := 0
	for range s.nodes {
		var r result
		select {
		case r = <-done:
		case <-ctx.Done():
			return nil, s.interrupted(ctx, failed, heard)
		}
		heard[r.i] = true
		switch {
		case r.err == nil:
			released = append(released, r.i)
		case errors.Is(r.err, errForgot):
			no++
			failed[r.i] = errForgot
		default:
			failed[r.i] = r.err
		}
		// Failed nodes are in neither count: they may have released.
		has, can := majority.Count(len(released), no, len(s.nodes))
		switch {
		case has && (heard[coordinator] || s.onlySilentLeft(heard)):
			return released, nil
		case !can:
			return nil, nil
		}
	}
	return nil, s.noMajority(failed)
}

// releaseAgain answers a release that was sent before, by what the nodes remember of the token. The
// client repeats a release when the first answer was lost. The nodes remember the last released
// token for a while, so they can say "released" once more. A node whose token was its own does not
// know the token of the lease, and says that it does not hold. A majority has the token of the
// lease.
func (s *Store) releaseAgain(ctx context.Context, timeout time.Duration, keys, args []string) (string, error) {
	done := s.startOnEach(func(_ int, n *node) error {
		answer, err := n.call(nil, timeout, script.Release, keys, args)
		if err != nil {
			return err
		}
		return checkReleased(wire.Parse(answer))
	})
	return s.releaseAnswer(ctx, done, s.order(keys[0])[0])
}

// checkReleased returns nil for a node that has released, and otherwise what the node did.
func checkReleased(a wire.Answer, err error) error {
	switch {
	case err != nil:
		return err
	case a.Kind == wire.Gone:
		return errForgot
	case a.Kind != wire.Released:
		return wire.OtherAnswer("release")
	}
	return nil
}

// releaseAfter releases the lock on all nodes at once, and keeps it locked there for a while:
// until then nobody can get a majority. A repeated call gets the same answer. If a node is not
// reached, it grants again when its lease is over, which may be earlier or later. After an
// error no node may have been reached.
//
// Example: three servers are told to keep the lock until 3 s from now. 1 and 2 answer "kept 3000"
// and "kept 2900", and 3 is silent, so it may be free at any time. Then a majority can be had as
// soon as 1 or 2 is free: the answer is "kept 2900".
func (s *Store) releaseAfter(ctx context.Context, keys, args []string) (string, error) {
	if len(args) != 6 {
		return "", refuse(ErrUnsupported, "ERR", "release_after takes 6 arguments, not %d", len(args))
	}
	acq := s.find(keys[0], args[0])
	if acq == nil {
		return "gone", nil
	}
	timeout := s.requestTimeout(ctx, 0)
	attempts, coordinator, won := acq.endKept()
	if !won {
		return "gone", nil
	}
	replies := make([]wire.Answer, len(s.nodes)) // each is written before its result is sent
	done := s.startOnEach(func(i int, _ *node) (err error) {
		replies[i], err = attempts[i].releaseAfter(timeout, args)
		return err
	})
	released, err := s.awaitReleased(ctx, done, coordinator)
	switch {
	case err != nil:
		return "", err
	case released == nil:
		return "gone", nil
	}
	lefts := make([]time.Duration, len(released))
	for i, one := range released {
		lefts[i] = replies[one].Left
	}
	// The lock is free when a majority can be had.
	if left := majority.Rank(lefts, len(s.nodes)); left > 0 {
		return "kept " + wire.Millis(left), nil
	}
	return "released", nil
}

// endKept ends the acquisition for a release after a minimum time. The store still knows it,
// so that the release can be repeated. won says that there was a grant to release.
// The phase is ended, so no grant can come any more, and kept says that this end was a release.
func (acq *acquisition) endKept() (attempts []*nodeAttempt, coordinator int, won bool) {
	acq.mu.Lock()
	defer acq.mu.Unlock()
	if won = acq.phase == held || acq.kept; !won {
		return nil, 0, false
	}
	acq.phase, acq.kept = ended, true
	acq.round.end()
	return append([]*nodeAttempt(nil), acq.round.attempts...), acq.round.coordinator, true
}

// cancel cancels an acquisition. Grants of nodes that do not answer are cancelled in the
// background.
// The answer "released" says that a node had granted by then, so others may have seen the lock held.
//
// Each server is waited for that is expected to answer: for the request that is under way there,
// and for the cancel. Both are bounded.
func (s *Store) cancel(ctx context.Context, keys, args []string) (string, error) {
	if len(args) != 3 {
		return "", refuse(ErrUnsupported, "ERR", "cancel takes 3 arguments, not %d", len(args))
	}
	acq := s.find(keys[0], args[0])
	if acq == nil {
		return s.askInOrder(ctx, script.Cancel, keys, args)
	}
	timeout := s.requestTimeout(ctx, 0)
	attempts, _, _ := s.end(acq)
	// Each goroutine sends its kind before its result, so a result finds a kind here.
	kinds := make(chan wire.Kind, len(s.nodes))
	done := s.startOnEach(func(i int, _ *node) error {
		kind, err := attempts[i].cancel(timeout)
		kinds <- kind
		return err
	})
	answer, heard := "withdrawn", make([]bool, len(s.nodes)) // whatever it had is being cancelled
	for !s.onlySilentLeft(heard) {
		select {
		case one := <-done:
			heard[one.i] = true
			select {
			case kind := <-kinds:
				if kind == wire.Released {
					answer = "released"
				}
			default: // the store is closed, and nothing was asked
			}
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return answer, nil
}
