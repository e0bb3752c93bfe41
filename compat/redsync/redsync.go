// Package redsync shares locks with programs that use github.com/go-redsync/redsync. [NewStore] makes a
// store on redsync's wire: in its keys, and by its rules. A client on that store has the API of this
// library, and excludes programs with redsync:
//
//	client, err := holdfast.New(redsync.NewStore(goredis.New(rdb)), holdfast.Config{})
//
// docs/moving/redsync.md says which calls replace those of redsync, and in which order to move.
package redsync

import (
	"github.com/holdfast-go/holdfast/internal/stringlock"
	"github.com/holdfast-go/holdfast/store"
)

// NewStore makes a store on redsync's wire over one server, or over several that know nothing of each
// other: redsync's pools. Each is what goredis.New or rueidis.New of this library return. Pass the store
// to holdfast.New. The key is the name of the lock, whatever Config.Prefix is. NewStore panics if a server is
// nil or given twice.
//
// Leases have no fencing token: their Token is 0. Read-write locks, semaphores, owners, periodic
// jobs and elections are refused. Waiters look ten times a second, because redsync sends no
// message at a release; those of such clients wake each other at once. There is no order.
func NewStore(servers ...store.Store) *Store {
	return &Store{stringlock.NewStore(servers, "redsync")}
}

// Store is a store on redsync's wire.
type Store struct{ *stringlock.Store }
