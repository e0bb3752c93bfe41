package quorum

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// inspect reads the lock as a majority sees it. Holders are those of a majority; waiters are
// those of the coordinator's queue.
func (s *Store) inspect(ctx context.Context, keys, args []string) (string, error) {
	if len(args) > 0 {
		return "", refusePermits()
	}
	merged, _, err := s.readRecord(ctx, keys, args)
	if err != nil {
		return "", err
	}
	return majority.Format(&merged), nil
}

// readRecord reads the record as a majority sees it, and as each node that answered does.
func (s *Store) readRecord(ctx context.Context, keys, args []string) (wire.Record, map[int]wire.Record, error) {
	answers, err := s.askMajority(ctx, script.Inspect, keys, args)
	if err != nil {
		return wire.Record{}, nil, err
	}
	var records []wire.Record
	own := make(map[int]wire.Record)
	for _, i := range s.order(keys[0]) {
		if answers[i] == "" {
			continue
		}
		r, err := wire.ParseRecord(answers[i])
		if err != nil {
			return wire.Record{}, nil, &nodeError{s.nodes[i].name(), err}
		}
		for h := range r.Holders {
			r.Holders[h].Attempt = clientAttempt(r.Holders[h].Attempt)
		}
		for w := range r.Waiters {
			r.Waiters[w].Attempt = clientAttempt(r.Waiters[w].Attempt)
		}
		records = append(records, r)
		own[i] = r
	}
	return majority.Merge(records, len(s.nodes)), own, nil
}
