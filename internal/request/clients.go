package request

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/batch"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// ClientNotes asks what a client has said of itself, and in these notes.
type ClientNotes struct {
	ID     string
	Fields []string
}

// mostClients is how many clients one request asks about, and mostReads how many requests are
// under way at the same time.
const mostClients, mostReads = 64, 8

// ReadClients reads what clients have said of themselves, in as few requests as the store allows.
// Nil stands for a client of which nothing is known, or that cannot be read.
func (s *Sender) ReadClients(ctx context.Context, asked []ClientNotes) []*wire.ClientLine {
	said := make([]*wire.ClientLine, len(asked))
	groups := make(map[string][]int)
	var parts [][]int
	most := 1
	if s.CanBatch() {
		most = mostClients
	}
	for i, one := range asked {
		name := s.Store.Group(wire.ClientKey(s.Prefix, one.ID))
		if groups[name] = append(groups[name], i); len(groups[name]) == most {
			parts = append(parts, groups[name])
			delete(groups, name)
		}
	}
	for _, rest := range groups {
		parts = append(parts, rest)
	}
	InParallel(mostReads, parts, func(_ int, part []int) { s.readClients(ctx, asked, said, part) })
	return said
}

// InParallel calls do for each element and its index, with up to limit calls at the same
// time.
func InParallel[T any](limit int, all []T, do func(i int, one T)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(limit, len(all)) {
		wg.Go(func() {
			for i := range next {
				do(i, all[i])
			}
		})
	}
	for i := range all {
		next <- i
	}
	close(next)
	wg.Wait()
}

// readClients reads some clients in one request. If the server refuses that because of one key, or if one of
// them has written more lines than one, each is asked for alone.
func (s *Sender) readClients(ctx context.Context, asked []ClientNotes, said []*wire.ClientLine, part []int) {
	keys, args := make([]string, len(part)), make([]string, len(part))
	for i, n := range part {
		keys[i], args[i] = wire.ClientKey(s.Prefix, asked[n].ID), strings.Join(asked[n].Fields, " ")
	}
	if len(part) == 1 {
		args = asked[part[0]].Fields
	}
	var lines []*wire.ClientLine
	answer, err := s.Run(ctx, script.ReadClient, keys, args)
	if err == nil {
		lines, err = wire.ParseClients(answer, len(part))
	}
	if (batch.ConcernsAKey(err) || errors.Is(err, wire.ErrAnswer)) && len(part) > 1 {
		for _, n := range part {
			s.readClients(ctx, asked, said, []int{n})
		}
		return
	}
	if err != nil {
		return
	}
	for i, n := range part {
		said[n] = lines[i]
	}
}

// KeepClient makes what another client has said of itself outlive a lease of it that ends in ttl. Nothing
// depends on it.
func (s *Sender) KeepClient(ctx context.Context, id string, ttl time.Duration) {
	said := s.ReadClients(ctx, []ClientNotes{{ID: id}})[0]
	if said == nil {
		return
	}
	key := []string{wire.ClientKey(s.Prefix, id)}
	_, _ = s.Run(ctx, script.RegisterClient, key, said.Registration(ttl+time.Minute))
}
