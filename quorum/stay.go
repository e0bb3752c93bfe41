package quorum

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// releaseAfter gives the lock up on all nodes at once, and has it stay taken there for a
// while: until then nobody has a majority. Asked again it is answered the same.
// A node that is not reached lets somebody in when the lease there is over, be
// that earlier or later; after an error nobody may have been reached.
func (s *Store) releaseAfter(ctx context.Context, keys, args []string) (string, error) {
	if len(args) != 6 {
		return "", refuse(ErrUnsupported, "ERR", "stay takes 6 arguments, not %d", len(args))
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
	given, err := s.awaitReleased(ctx, done, coordinator)
	switch {
	case err != nil:
		return "", err
	case given == nil:
		return "gone", nil
	}
	lefts := make([]time.Duration, len(given))
	for i, one := range given {
		lefts[i] = replies[one].Left
	}
	// The lock is free when a majority can be had.
	if left := majority.Rank(lefts, len(s.nodes)); left > 0 {
		return "stays " + wire.Millis(left), nil
	}
	return "released", nil
}

// endKept ends the claim for a stay. It is still known, so that it can be asked
// again. won says that there was a grant to give up.
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

// releaseAfter gives up what the slot has.
func (na *nodeAttempt) releaseAfter(timeout time.Duration, args []string) (wire.Answer, error) {
	token, err := na.end(timeout)
	if err != nil {
		return wire.Answer{}, err
	}
	a, err := na.send(timeout, script.Stay, append([]string{na.id, wire.Number(token)}, args[2:]...))
	if err == nil {
		na.cancelLater(0, 0)
		if a.Kind == wire.Gone {
			err = errForgot
		}
	}
	return a, err
}
