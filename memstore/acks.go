package memstore

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

var _ interface {
	store.Acker
	store.Batcher
	store.Scanner
	store.Simulated
} = (*Store)(nil)

// SetAcks sets the acknowledgements of every write from now on. The store has neither
// replicas nor disks. At first there are no acknowledgements.
func (s *Store) SetAcks(a store.Acks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acks = a
}

// RunAcked is Run. If there are fewer acknowledgements than needed, it then waits until
// limit, as a server does.
func (s *Store) RunAcked(
	ctx context.Context, action *script.Script, keys, args []string, need store.Acks, limit time.Duration,
) (string, store.Acks, error) {
	answer, err := s.Run(ctx, action, keys, args)
	if err != nil {
		return "", store.Acks{}, err
	}
	if s.acknowledged().Covers(need) {
		return answer, s.acknowledged(), nil
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-timer.C:
		return answer, s.acknowledged(), nil
	case <-ctx.Done():
		return "", store.Acks{}, ctx.Err()
	}
}

func (s *Store) acknowledged() store.Acks {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acks
}
