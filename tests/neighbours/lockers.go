package neighbours

import (
	"github.com/holdfast-go/holdfast/compat/redislock"
	"github.com/holdfast-go/holdfast/compat/redsync"
	"github.com/holdfast-go/holdfast/store"
)

// lockers are the libraries that are written in Go, by name: each opens its client.
var lockers = map[string]func(Config) (Locker, error){
	"redsync":            openRedsync,
	"holdfast/redsync":   openOurs(func(all []store.Store) store.Store { return redsync.NewStore(all...) }),
	"redislock":          openRedislock,
	"holdfast/redislock": openOurs(func(all []store.Store) store.Store { return redislock.NewStore(all[0]) }),
	"holdfast/redisson":  openCompatRedisson,
}
