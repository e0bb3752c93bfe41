package fault

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Still is what worlds share that have neither Sentinels nor a Cluster, and in which no fault waits for its moment.
type Still struct {
	Bench *Bench
	Lease time.Duration
}

// T implements [World], as the other methods do.
func (w Still) T() testing.TB               { return w.Bench }
func (w Still) TTL() time.Duration          { return w.Lease }
func (Still) Started()                      {}
func (Still) Writes() int64                 { return 0 }
func (Still) Forgot()                       {}
func (Still) Sentinel() *redistest.Sentinel { return nil }
func (Still) Cluster() *redistest.Cluster   { return nil }
func (Still) Restart(_ context.Context, s *redistest.Server) error {
	s.Restart()
	return nil
}

// Claims are the clients that a fault of processes is at. The zero value has none.
type Claims struct {
	mu    sync.Mutex
	taken map[int]bool // by number
}

// Claim chooses a client that no other fault of processes is at, until done is called. If there is none,
// both results are nil.
func (c *Claims) Claim(rng *rand.Rand, clients []Client) (chosen Client, done func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	free := slices.DeleteFunc(clients, func(one Client) bool { return c.taken[one.Number()] })
	if len(free) == 0 {
		return nil, nil
	}
	chosen = free[rng.IntN(len(free))]
	if c.taken == nil {
		c.taken = make(map[int]bool)
	}
	c.taken[chosen.Number()] = true
	return chosen, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.taken, chosen.Number())
	}
}

// CutSubscriptions ends the subscriptions to a server, but not those of the connections with the name spared.
func CutSubscriptions(ctx context.Context, w World, s *redistest.Server, spared string) error {
	reply, err := w.Do(ctx, s, "CLIENT", "LIST", "TYPE", "pubsub")
	if err != nil {
		return err
	}
	text, _ := reply.(string)
	for line := range strings.Lines(text) {
		if spared != "" && strings.Contains(line, " name="+spared+" ") {
			continue
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
		if _, err := w.Do(ctx, s, "CLIENT", "KILL", "ID", id); err != nil {
			return err
		}
	}
	return nil
}

// Flat is an answer as RESP2 has it: a map of RESP3, as CONFIG GET answers, becomes a list.
func Flat(reply any) any {
	fields, ok := reply.(map[any]any)
	if !ok {
		return reply
	}
	var list []any
	for name, value := range fields {
		list = append(list, name, value)
	}
	return list
}
