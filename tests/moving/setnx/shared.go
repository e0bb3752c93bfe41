package setnx

import (
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redislock"
	"github.com/holdfast-go/holdfast/compat/redsync"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// Share returns a client on the keys of SET NX PX and compare-and-delete: its Mutex is the lock of that key.
func Share(rdb *redis.Client) (*holdfast.Client, error) {
	return holdfast.New(redislock.NewStore(goredis.New(rdb)), holdfast.Config{})
}

// ShareRedlock returns a client on the keys of a RedLock.
func ShareRedlock(nodes []*redis.Client) (*holdfast.Client, error) {
	var stores []store.Store
	for _, node := range nodes {
		stores = append(stores, goredis.New(node))
	}
	return holdfast.New(redsync.NewStore(stores...), holdfast.Config{})
}
