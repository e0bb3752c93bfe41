package quorum

import (
	"context"

	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// Example: servers 1 and 2 of three have "c/7.1" and "c/7.2" as the holder, and server 3 has
// nobody. Both are the attempt "c/7", so the majority shows "c/7" as the holder. The waiters are
// those in the coordinator's queue.

// inspect reads the lock as a majority sees it. Holders are those of a majority; waiters are
// those of the coordinator's queue.
func (s *Store) inspect(ctx context.Context, keys, args []string) (string, error) {
	if len(args) > 0 && args[0] != wire.HoldersOnly {
		return "", refusePermits()
	}
	merged, _, err := s.readRecord(ctx, keys)
	if err != nil {
		return "", err
	}
	return majority.Format(&merged), nil
}

// readRecord reads the record as a majority sees it, and as each node that answered does.
// A long record is read in pages, one request each. The numbers of rounds are cut off, so that one
// attempt has the same name on all nodes.
//
// The records are not of one instant. While a lock changes hands, server 1 may still name the old
// holder and server 2 the new one. If neither has a majority, the lock looks free. If the servers that did not answer
// could give one of them a majority, the record names those servers: then nobody knows whether the lock is free.
func (s *servers) readRecord(ctx context.Context, keys []string) (wire.Record, map[int]wire.Record, error) {
	timeout := s.requestTimeout(ctx, 0)
	own, err := askEach(ctx, s, func(ctx context.Context, _ int, n *node) (wire.Record, error) {
		return wire.ReadRecord(func(args []string) (string, error) {
			if ctx.Err() != nil {
				return "", ctx.Err() // nobody waits for the further pages
			}
			return n.call(ctx.Done(), timeout, script.Inspect, keys, args)
		}, nil)
	})
	if err != nil {
		return wire.Record{}, nil, err
	}
	// The first record in the order is the coordinator's, whose queue is shown.
	var records []wire.Record
	for _, i := range s.order(keys[0]) {
		r, answered := own[i]
		if !answered {
			continue
		}
		for h := range r.Holders {
			r.Holders[h].Attempt = clientAttempt(r.Holders[h].Attempt)
		}
		for w := range r.Waiters {
			r.Waiters[w].Attempt = clientAttempt(r.Waiters[w].Attempt)
		}
		records = append(records, r)
	}
	merged := majority.Merge(records, len(s.nodes))
	if majority.Unproven(records, len(s.nodes)) {
		merged.Silent = silentOf(s, own)
	}
	return merged, own, nil
}

// silentOf names the nodes that are not among the answers.
func silentOf[T any](s *servers, answers map[int]T) (names []string) {
	for i, n := range s.nodes {
		if _, answered := answers[i]; !answered {
			names = append(names, n.name())
		}
	}
	return names
}
