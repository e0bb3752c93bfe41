package stringlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/neighbour"
	"github.com/holdfast-go/holdfast/internal/pushes"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Store is a lock store for native locks on the wire of a neighbour.
type Store struct {
	*neighbour.Store
	nodes *Nodes
}

// NewStore makes one over one server or several. A server that is nil, or given twice, is the program's mistake.
func NewStore(list []store.Store, name string) *Store {
	if len(list) == 0 {
		panic(name + ": NewStore needs a server")
	}
	for i, s := range list {
		switch {
		case s == nil:
			panic(fmt.Sprintf("%s: server %d is nil", name, i+1))
		case reflect.TypeOf(s).Comparable() && slices.Contains(list[:i], s):
			panic(fmt.Sprintf("%s: server %d is given twice, so its vote would count twice", name, i+1))
		}
	}
	nodes, inner := NewNodes(list), list[0]
	if len(list) > 1 {
		inner = &several{list: slices.Clone(list)}
	}
	return &Store{neighbour.New(inner, NewWire(nodes, name)), nodes}
}

// Close ends the background work of the store. Close its clients first. Keys that it was to
// delete expire.
func (s *Store) Close() {
	s.nodes.Close()
	s.CloseIdleConnections()
}

// several is what waiters need of several servers: their messages, and a place for the records
// of clients.
type several struct{ list []store.Store }

// Run asks the servers one after another until one answers. Only what people read is asked here.
func (s *several) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	var failed []error
	for _, one := range s.list {
		answer, err := one.Run(ctx, action, keys, args)
		if err == nil || ctx.Err() != nil {
			return answer, err
		}
		failed = append(failed, err)
	}
	return "", failed[0]
}

// spread is how long after a release a waiter tries, at most. If all waiters tried at once, each
// would get some of the servers, and none a majority.
const spread = 20 * time.Millisecond

// remembered is how many releases a subscription remembers.
const remembered = 64

// Listen subscribes on all servers. One that answers is enough, because waiters also look by
// themselves. A message is passed on, a short time later, when a majority of the servers has sent
// it: not before then is the lock free.
func (s *several) Listen(ctx context.Context, channel string, l store.Listener) (func(), error) {
	var mu sync.Mutex // guards heard
	heard, own := make(map[string]int), pushes.NewListener(l)
	one := store.Listener{
		Message: func(payload string) {
			mu.Lock()
			defer mu.Unlock()
			if len(heard) >= remembered {
				clear(heard)
			}
			if heard[payload]++; heard[payload] == len(s.list)/2+1 {
				time.AfterFunc(rand.N(spread), func() { own.Message(payload) }) //nolint:gosec // not a secret
			}
		},
		Look: func(restored bool) {
			if restored { // one server that is away wakes nobody
				own.Look(restored)
			}
		},
		Awaited: l.Awaited,
	}
	stops, failed := make([]func(), len(s.list)), make([]error, len(s.list))
	var all sync.WaitGroup
	for i, node := range s.list {
		all.Go(func() { stops[i], failed[i] = node.Listen(ctx, channel, one) })
	}
	all.Wait()
	stops = slices.DeleteFunc(stops, func(stop func()) bool { return stop == nil })
	if len(stops) == 0 {
		return nil, errors.Join(failed...)
	}
	return func() {
		for _, stop := range stops {
			all.Go(stop)
		}
		all.Wait()
		own.End()
	}, nil
}

// Group implements [store.Store]: each request is about one lock.
func (s *several) Group(key string) string { return s.list[0].Group(key) }

// Sharded implements [store.Store]: each server is asked for itself.
func (s *several) Sharded() bool { return false }

// Server implements [store.Store]: it describes the first server that answers.
func (s *several) Server(ctx context.Context) (info store.ServerInfo, err error) {
	for _, one := range s.list {
		if info, err = one.Server(ctx); err == nil || ctx.Err() != nil {
			break
		}
	}
	info.Mode = "quorum" // also to the library, which then leaves the leases of other processes alone
	return info, err
}

// CloseIdleConnections implements [store.IdleCloser].
func (s *several) CloseIdleConnections() {
	for _, one := range s.list {
		if own, ok := store.As[store.IdleCloser](one); ok {
			own.CloseIdleConnections()
		}
	}
}
