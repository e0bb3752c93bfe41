package suite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/slot"
	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/history"
	"github.com/holdfast-go/holdfast/verify/workload"
)

// world is what the faults of a round work on.
type world struct {
	opts      Options
	prefix    string
	place     *place
	fleet     *fleet
	collector *collector
	log       *history.Log

	written atomic.Int64

	mu    sync.Mutex
	admin map[string]*redis.Client            // by address: connections that stand
	ahead map[*redistest.Server]time.Duration // what clocks were moved by so far
}

var _ fault.World = (*world)(nil)

// T implements [fault.World].
func (w *world) T() testing.TB { return w.place.bench }

// TTL implements [fault.World].
func (w *world) TTL() time.Duration { return w.opts.TTL }

// Topology implements [fault.World].
func (w *world) Topology() string { return w.opts.Topology }

// Sentinel implements [fault.World].
func (w *world) Sentinel() *redistest.Sentinel { return w.place.sentinel }

// Cluster implements [fault.World].
func (w *world) Cluster() *redistest.Cluster { return w.place.cluster }

// Clients implements [fault.World].
func (w *world) Clients() []fault.Client {
	var clients []fault.Client
	for _, p := range w.fleet.clients() {
		clients = append(clients, p)
	}
	return clients
}

// Writes implements [fault.World].
func (w *world) Writes() int64 { return w.written.Load() }

// Key implements [fault.World].
func (w *world) Key(rng *rand.Rand) string {
	shared := slices.DeleteFunc(slices.Clone(w.opts.Works), func(name string) bool {
		return name == workload.Long || name == workload.Period
	})
	if len(shared) == 0 {
		shared = w.opts.Works
	}
	return w.prefix + ":{" + shared[rng.IntN(len(shared))] + "}"
}

// Server implements [fault.World].
func (w *world) Server(rng *rand.Rand) *redistest.Server {
	switch {
	case w.place.sentinel != nil:
		return w.place.sentinel.Primary()
	case w.place.cluster != nil:
		return w.place.cluster.Owner(slot.Of(w.Key(rng)))
	}
	return w.place.own[rng.IntN(len(w.place.own))]
}

// Servers implements [fault.World].
func (w *world) Servers() []*redistest.Server { return w.place.own }

// Weak implements [fault.World].
func (w *world) Weak() []*redistest.Server { return w.place.own[:max((len(w.place.own)-1)/2, 1)] }

// Shift implements [fault.World].
func (w *world) Shift(s *redistest.Server, d time.Duration) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead[s] += d
	s.MoveClock(w.ahead[s])
	return w.ahead[s]
}

// spread is by how much a clock may have been moved at once, at most: one that
// is set back from an hour ahead to an hour behind has gone by two.
func (w *world) spread() time.Duration {
	var most, least time.Duration
	for _, e := range w.log.Events() {
		if e.Kind != history.Fault {
			continue
		}
		for _, step := range e.Fault.Steps {
			most, least = max(most, time.Duration(step.Ahead)), min(least, time.Duration(step.Ahead))
		}
	}
	return most - least
}

// adminAt is a connection to the server at addr. It stands from the beginning
// of the round, so a server that takes no more of them still hears it.
func (w *world) adminAt(addr string) (*redis.Client, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if rdb := w.admin[addr]; rdb != nil {
		return rdb, nil
	}
	rdb, err := w.place.open(addr, collectorName)
	if err == nil {
		w.admin[addr] = rdb
	}
	return rdb, err
}

// Do implements [fault.World].
func (w *world) Do(ctx context.Context, s *redistest.Server, args ...any) (any, error) {
	rdb, err := w.adminAt(s.Addr())
	if err != nil {
		return nil, err
	}
	reply, err := rdb.Do(ctx, args...).Result()
	if err != nil {
		return nil, fmt.Errorf("%v: %w", args, err)
	}
	if fields, ok := reply.(map[any]any); ok { // CONFIG GET in RESP3
		var list []any
		for name, value := range fields {
			list = append(list, name, value)
		}
		reply = list
	}
	return reply, nil
}

// Deafen implements [fault.World].
func (w *world) Deafen(ctx context.Context, s *redistest.Server) error {
	reply, err := w.Do(ctx, s, "CLIENT", "LIST", "TYPE", "pubsub")
	if err != nil {
		return err
	}
	text, _ := reply.(string)
	for line := range strings.Lines(text) {
		if strings.Contains(line, " name="+collectorName+" ") {
			continue
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
		if _, err := w.Do(ctx, s, "CLIENT", "KILL", "ID", id); err != nil {
			return err
		}
	}
	return nil
}

// comeback bounds the time that a server gets to come back.
const comeback = 30 * time.Second

// Restart implements [fault.World].
func (w *world) Restart(ctx context.Context, s *redistest.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), comeback)
	defer cancel()
	at := slices.Index(w.place.addrs, s.Addr())
	ways := func(do func(p *redistest.Proxy)) {
		for _, c := range w.fleet.clients() {
			do(c.proxies[at])
		}
	}
	before := w.collector.times(s.Addr())
	ways((*redistest.Proxy).BlackHole)
	defer ways((*redistest.Proxy).Pass)
	s.Restart()
	if w.place.mute {
		return nil
	}
	if err := w.collector.await(ctx, s.Addr(), before); err != nil {
		return fmt.Errorf("the notes of %s are not heard again: %w", s.Addr(), err)
	}
	return nil
}

func (w *world) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, rdb := range w.admin {
		_ = rdb.Close() // nothing is left to say
	}
}

// nemesis injects faults until ctx ends. What hurts processes goes on beside
// what hurts networks and servers, so that there are often two at once; two of
// one lane would not know which of them to heal.
func (w *world) nemesis(ctx context.Context, told func(string)) {
	faults, err := fault.Named(w.opts.Faults)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	lanes := [2][]fault.Fault{}
	for _, f := range faults {
		lane := 0
		if f.Side == fault.OnClient {
			lane = 1
		}
		lanes[lane] = append(lanes[lane], f)
	}
	var all sync.WaitGroup
	for i, lane := range lanes {
		if len(lane) > 0 {
			rng := rand.New(rand.NewPCG(w.opts.Seed, uint64(i)<<48)) //nolint:gosec // it is to be repeated
			all.Go(func() { w.lane(ctx, lane, rng, told) })
		}
	}
	all.Wait()
}

// overtime is how many times its duration a round may last until each fault was
// injected once; a short one may last a minute.
const overtime = 3

// lane injects faults one after the other, each kind once before any comes
// again. It ends when the round has had its time, but not before each was there.
func (w *world) lane(ctx context.Context, faults []fault.Fault, rng *rand.Rand, told func(string)) {
	began := time.Now()
	missing := make(map[string]bool)
	for _, f := range faults {
		missing[f.Name] = true
	}
	var bag []fault.Fault
	for len(missing) > 0 || time.Since(began) < w.opts.Round {
		if len(bag) == 0 {
			bag = slices.Clone(faults)
			rng.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
		}
		rest := w.opts.TTL/10 + time.Duration(rng.Int64N(int64(w.opts.TTL)/2))
		if !wait(ctx, rest) {
			return
		}
		f := bag[0]
		bag = bag[1:]
		if time.Since(began) >= w.opts.Round && !missing[f.Name] {
			continue
		}
		told(f.Name)
		span, err := f.Inject(ctx, w, rng)
		if err == nil {
			delete(missing, f.Name)
		}
		if err != nil && ctx.Err() != nil {
			span.Err = "the run ended: " + err.Error()
		}
		w.log.Add(history.Event{Kind: history.Fault, Fault: &span})
	}
}
