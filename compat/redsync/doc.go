// Package redsync has the API of github.com/go-redsync/redsync/v4, on redsync's own wire: programs
// with redsync and programs with this package exclude each other. To move, change the import and
// the constructor:
//
//	rs := redsync.New(goredis.New(rdb))              // one server
//	rs := redsync.New(goredis.New(a), goredis.New(b), goredis.New(c)) // redsync's quorum
//
// Here goredis is the store of this library, github.com/holdfast-go/holdfast/store/goredis, and
// rdb is the client that you have. Every other line stays as it is.
//
// The package adds what redsync's wire allows. [Mutex.Lost] and [Mutex.Context] tell that a
// lock is lost. [WithRenewal] renews it. An acquisition whose answer was lost is cancelled in
// the background. Goroutines may share a Mutex. docs/neighbours.md lists the differences.
//
// [NewStore] makes a store for native locks on the same wire:
//
//	client, err := holdfast.New(redsync.NewStore(goredis.New(rdb)), holdfast.Config{})
package redsync
