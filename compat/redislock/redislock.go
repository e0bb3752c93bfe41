// Package redislock shares locks with programs that use github.com/bsm/redislock. [NewStore] makes a
// store on redislock's wire: in its keys, and by its rules. A client on that store has the API of this
// library, and excludes programs with redislock:
//
//	client, err := holdfast.New(redislock.NewStore(goredis.New(rdb)), holdfast.Config{})
//
// docs/moving/redislock.md says which calls replace those of redislock, and in which order to move.
package redislock

import (
	"github.com/holdfast-go/holdfast/internal/stringlock"
	"github.com/holdfast-go/holdfast/store"
)

// NewStore makes a store on redislock's wire over a server: what goredis.New or rueidis.New of this
// library return; it panics if that is nil. Pass it to holdfast.New. The key is the name of the lock, whatever
// Config.Prefix is.
//
// Leases have no fencing token: their Token is 0. Read-write locks, semaphores, owners, periodic
// jobs and elections are refused. Waiters look ten times a second, because redislock sends no
// message at a release; those of such clients wake each other at once. There is no order.
func NewStore(server store.Store) *Store {
	return &Store{stringlock.NewStore([]store.Store{server}, "redislock")}
}

// Store is a store on redislock's wire.
type Store struct{ *stringlock.Store }
