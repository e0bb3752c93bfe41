package goredis

import (
	"context"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/adapter"
)

// Scan implements [store.Scanner] by SCAN, one primary after the other. A primary that
// fails hides no other: Scan reads the others, and returns the error last. The client's user needs
// the permission +scan, which nothing else needs.
func (s *Store) Scan(ctx context.Context, prefix string, visit func(keys []string) error) error {
	if s.unusable != nil {
		return s.unusable
	}
	if s.cluster == nil {
		return s.scan(ctx, s.retry, prefix, visit, func(cmd redis.Cmder) error {
			return s.process(ctx, ordinary, "", commands{first: cmd})
		})
	}
	deadline := s.deadlines.Of(ctx)
	defer deadline.Leave()
	found := make(chan []*redis.Client, 1)
	if err := await(ctx, deadline, func(ctx context.Context) error {
		primaries, err := s.cluster.primaries(ctx)
		found <- primaries
		return err
	}); err != nil {
		return s.explain(ctx, adapter.Unsent(err), nil)
	}
	addr := func(primary *redis.Client) string { return primary.Options().Addr }
	err := adapter.ScanNodes(ctx, <-found, addr, visit, func(primary *redis.Client, visit func([]string) error) error {
		return s.scan(ctx, s.retry.OfOneNode(), prefix, visit, func(cmd redis.Cmder) error {
			return await(ctx, deadline, func(ctx context.Context) error {
				return s.cluster.clientFor(primary).sendHere(ctx, ordinary, commands{first: cmd})
			})
		})
	})
	if err != nil {
		s.cluster.client.ReloadState(ctx) // the node may be gone
	}
	return err
}

// scan reads the keys of one server.
func (s *Store) scan(
	ctx context.Context, retry adapter.Retry, prefix string, visit func(keys []string) error,
	send func(cmd redis.Cmder) error,
) error {
	return adapter.ScanKeys(prefix, func(cursor uint64, pattern string) (keys []string, next uint64, err error) {
		_, err, broke := retry.Do(ctx, true, func() (string, error) {
			cmd := redis.NewScanCmd(ctx, nil, "scan", cursor, "match", pattern, "count", adapter.ScanPage)
			err := send(cmd)
			if err == nil {
				keys, next = cmd.Val()
			}
			return "", err
		})
		if err != nil {
			err = s.explain(ctx, err, broke)
		}
		return keys, next, err
	}, visit)
}

// primaries returns the nodes that serve slots.
func (c *cluster) primaries(ctx context.Context) (list []*redis.Client, err error) {
	var mu sync.Mutex
	err = c.client.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, node)
		return nil
	})
	return list, err
}
