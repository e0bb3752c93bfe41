// Package survey finds the locks of other libraries by their keys. It reads a page of keys at
// a time, so no command keeps a server busy for long, however many keys there are.
package survey

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// Page is how many keys a server looks at for one SCAN: a tenth of a millisecond.
const Page = 250

// each reads the keys that match a pattern from every primary of every node.
func each(
	ctx context.Context, nodes []redis.UniversalClient, pattern string, looked *atomic.Int64,
	visit func(rdb redis.UniversalClient, keys []string) error,
) error {
	var mu sync.Mutex // visit is called by one primary at a time
	scan := func(ctx context.Context, rdb redis.UniversalClient) error {
		for cursor := uint64(0); ; {
			keys, next, err := rdb.Scan(ctx, cursor, pattern, Page).Result()
			if err != nil {
				return err
			}
			looked.Add(Page)
			if len(keys) > 0 {
				mu.Lock()
				err = visit(rdb, keys)
				mu.Unlock()
			}
			if cursor = next; err != nil || cursor == 0 {
				return err
			}
		}
	}
	var failed []error
	for _, rdb := range nodes {
		var err error
		if cluster, ok := rdb.(*redis.ClusterClient); ok {
			err = cluster.ForEachMaster(ctx, func(ctx context.Context, primary *redis.Client) error {
				return scan(ctx, primary)
			})
		} else {
			err = scan(ctx, rdb)
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > (len(nodes)-1)/2 {
		return errors.Join(failed...)
	}
	return nil // a majority has every lock
}

// Size is how many keys the servers have in all, for a progress display; 0 if a server does
// not say.
func Size(ctx context.Context, nodes []redis.UniversalClient) (n int64) {
	for _, rdb := range nodes {
		keys, err := rdb.DBSize(ctx).Result()
		if err != nil {
			return 0
		}
		n += keys
	}
	return n
}
