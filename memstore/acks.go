package memstore

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/script"
)

var _ holdfast.Acker = (*Store)(nil)

// Acknowledge sets what the store's replicas and disks, which it does not
// have, acknowledge from now on of every write. At first nothing is.
func (s *Store) Acknowledge(a holdfast.Acknowledged) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.acks = a
}

// RunAcked is Run, and then a wait until limit if fewer acknowledge than are
// needed, as on a server.
func (s *Store) RunAcked(
	ctx context.Context, action *script.Script, keys, args []string, need holdfast.Acknowledged, limit time.Duration,
) (string, holdfast.Acknowledged, error) {
	answer, err := s.Run(ctx, action, keys, args)
	if err != nil {
		return "", holdfast.Acknowledged{}, err
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
		return "", holdfast.Acknowledged{}, ctx.Err()
	}
}

func (s *Store) acknowledged() holdfast.Acknowledged {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acks
}
