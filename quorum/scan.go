package quorum

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/store"
)

// Example: "a" is held on servers 1 and 2, and "b" on 2 and 3. Each lock has a majority, so any two
// servers that can be read show both. The caller gets some keys twice.

// Scan implements [store.Scanner]: it reads one node after the other, and so visits most keys
// several times. If fewer nodes than a majority can be read, Scan returns a
// [*NoMajorityError]. If a node's store is no Scanner, Scan refuses with [ErrUnsupported].
//
// It reads one node at a time because keys come in an order of the node's own. To read all nodes at
// once, and each key once, the whole list would have to be kept in memory.
func (s *Store) Scan(ctx context.Context, prefix string, visit func(keys []string) error) error {
	if err := s.usable(); err != nil {
		return err
	}
	failed := make(map[int]error)
	for i, n := range s.nodes {
		scanner, ok := store.As[store.Scanner](n.Store)
		if !ok {
			return refuse(ErrUnsupported, "UNSUPPORTED", "the store of %s cannot scan keys", n.name())
		}
		err, stopped := s.scanNode(ctx, scanner, prefix, visit)
		switch {
		case stopped != nil:
			return stopped
		case ctx.Err() != nil:
			return ctx.Err()
		case s.life.IsClosing():
			return ErrClosed
		case err != nil:
			failed[i] = err
		}
	}
	if len(failed) > len(s.nodes)-s.majority {
		return s.noMajority(failed)
	}
	return nil // a majority has every lock
}

// scanNode reads the keys of one node. It gives up when a page takes longer than a request
// may. stopped is the error of visit.
func (s *Store) scanNode(
	ctx context.Context, n store.Scanner, prefix string, visit func(keys []string) error,
) (err, stopped error) {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(s.life.Context(), cancel)
	defer stop()
	limit := s.requestTimeout(ctx, 0)
	// The limit is for one page. The time of visit is the caller's, and does not count.
	late := time.AfterFunc(limit, cancel)
	defer late.Stop()
	err = n.Scan(bounded, prefix, func(keys []string) error {
		late.Stop()
		stopped = visit(keys)
		late.Reset(limit)
		return stopped
	})
	return err, stopped
}
