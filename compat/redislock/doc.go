// Package redislock has the API of github.com/bsm/redislock, on redislock's own wire: programs
// with redislock and programs with this package exclude each other. To move, change the import and
// the constructor:
//
//	locker := redislock.New(goredis.New(rdb))
//
// Here goredis is the store of this library, github.com/holdfast-go/holdfast/store/goredis, and
// rdb is the client that you have. Every other line stays as it is.
//
// The package adds what redislock's wire allows. [Lock.Lost] and [Lock.Context] tell that a
// lock is lost. [Options.Renew] renews it. An acquisition whose answer was lost is cancelled in
// the background. A token that is the beginning of another one gets no lock. docs/neighbours.md
// lists the differences.
//
// [NewStore] makes a store for native locks on the same wire:
//
//	client, err := holdfast.New(redislock.NewStore(goredis.New(rdb)), holdfast.Config{})
package redislock
