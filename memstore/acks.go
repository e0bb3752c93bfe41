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
	store.Simulated
} = (*Store)(nil)

// SetAcks sets what the store's replicas and disks, which it does not
// have, acknowledge from now on of every write. At first nothing is.
func (s *Store) SetAcks(a store.Acks) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acks = a
}

// RunAcked is Run, and then a wait until limit if fewer acknowledge than are
// needed, as on a server.
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
