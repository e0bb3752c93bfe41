package bench

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/store/goredis"
)

// openGoredis connects with the default options of go-redis.
func openGoredis(addr string, wrap wrapper) (*party, error) {
	options := &redis.Options{Addr: addr}
	if wrap != nil {
		dial := redis.NewDialer(options)
		options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return wrap(c), nil
		}
	}
	rdb := redis.NewClient(options)
	if err := rdb.ScriptLoad(context.Background(), compareAndDelete).Err(); err != nil {
		return nil, err
	}
	return &party{store: goredis.New(rdb), raw: rawGoredis{rdb}, close: func() { _ = rdb.Close() }}, nil
}

// openCluster connects to a Cluster.
func openCluster(addrs []string) *party {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	return &party{store: goredis.New(rdb), close: func() { _ = rdb.Close() }}
}

type rawGoredis struct{ rdb *redis.Client }

func (r rawGoredis) Set(ctx context.Context, key, value string, ttl time.Duration) (bool, error) {
	err := r.rdb.SetArgs(ctx, key, value, redis.SetArgs{Mode: "NX", TTL: ttl}).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
}

func (r rawGoredis) Extend(ctx context.Context, key string, ttl time.Duration) (bool, error) {
	return r.rdb.PExpire(ctx, key, ttl).Result()
}

func (r rawGoredis) Unset(ctx context.Context, key, value string) error {
	return r.rdb.EvalSha(ctx, compareAndDeleteSHA, []string{key}, value).Err()
}

func (r rawGoredis) Push(ctx context.Context, list, token string) error {
	return r.rdb.RPush(ctx, list, token).Err()
}

func (r rawGoredis) Pop(ctx context.Context, list string) (string, error) {
	got, err := r.rdb.BLPop(ctx, 0, list).Result()
	if err != nil {
		return "", err
	}
	return got[1], nil
}

func (r rawGoredis) Load(ctx context.Context, text string) (string, error) {
	return r.rdb.ScriptLoad(ctx, text).Result()
}

func (r rawGoredis) Eval(ctx context.Context, sha, key string, args ...string) (string, error) {
	words := make([]any, len(args))
	for i, arg := range args {
		words[i] = arg
	}
	return r.rdb.EvalSha(ctx, sha, []string{key}, words...).Text()
}
