package setnx

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// BeforeRedlock asks each node for nodeTimeout at most, and holds the lock if a majority grants it in time.
func BeforeRedlock(ctx context.Context, nodes []*redis.Client, key string, ttl, nodeTimeout time.Duration,
	work func(context.Context) error,
) error {
	for {
		value, begin, granted := strconv.FormatUint(rand.Uint64(), 36), time.Now(), 0
		for _, node := range nodes {
			limited, cancel := context.WithTimeout(ctx, nodeTimeout)
			if locked, _ := node.SetNX(limited, key, value, ttl).Result(); locked {
				granted++
			}
			cancel()
		}
		drift := ttl/100 + 2*time.Millisecond
		if granted > len(nodes)/2 && time.Since(begin) < ttl-drift {
			defer unlockAll(ctx, nodes, key, value)
			return work(ctx)
		}
		unlockAll(ctx, nodes, key, value)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(rand.N(40 * time.Millisecond)) // others split the nodes, too
	}
}

func unlockAll(ctx context.Context, nodes []*redis.Client, key, value string) {
	for _, node := range nodes {
		node.Eval(ctx, DeleteIfMine, []string{key}, value)
	}
}

// Quorum makes one client over the same nodes.
func Quorum(nodes []*redis.Client, nodeTimeout time.Duration) (*holdfast.Client, error) {
	var stores []store.Store
	for _, node := range nodes {
		stores = append(stores, goredis.New(node))
	}
	s, err := quorum.New(stores, quorum.Config{Timeout: nodeTimeout}) // 500 ms if it is 0
	if err != nil {
		return nil, err
	}
	return holdfast.New(s, holdfast.Config{})
}

// AfterRedlock asks all nodes at once. Waiters have an order, and the lease has a token.
func AfterRedlock(ctx context.Context, client *holdfast.Client, name string, ttl time.Duration,
	work func(context.Context) error,
) error {
	return client.Mutex(name, holdfast.TTL(ttl)).Do(ctx, work)
}
