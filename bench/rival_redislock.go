package bench

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/bench/crew"
)

// redislockSide is bsm/redislock with the retry strategy of its README.
type redislockSide struct {
	rdb   *redis.Client
	locks *redislock.Client
}

func openRedislock(addr string) (crew.Client, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	return redislockSide{rdb, redislock.New(rdb)}, nil
}

func (s redislockSide) Enter(_ context.Context, kind, name string) (crew.Enter, error) {
	if kind != "" {
		return nil, errNoKind
	}
	return func(ctx context.Context) (uint64, func(context.Context) error, error) {
		for {
			l, err := s.locks.Obtain(ctx, name, rawTTL, &redislock.Options{
				RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
			})
			switch {
			case err == nil:
				return 0, l.Release, nil
			case ctx.Err() != nil:
				return 0, nil, ctx.Err()
			case !errors.Is(err, redislock.ErrNotObtained):
				return 0, nil, err
			}
		}
	}, nil
}

func (s redislockSide) Close() { _ = s.rdb.Close() }
