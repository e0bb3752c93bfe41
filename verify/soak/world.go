package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/history"
)

// world is what the faults work on: one server, and clients with a proxy each.
type world struct {
	fault.Still
	server  *redistest.Server
	admin   *redis.Client // without a proxy
	clients []*peer
}

var _ fault.World = (*world)(nil)

// peer is a client as the faults of networks see it.
type peer struct {
	number int
	proxy  *redistest.Proxy
}

var errOneProcess = errors.New("the clients of a soak share one process")

func (p *peer) Number() int                 { return p.number }
func (p *peer) Proxies() []*redistest.Proxy { return []*redistest.Proxy{p.proxy} }
func (p *peer) Stop() error                 { return errOneProcess }
func (p *peer) Continue() error             { return errOneProcess }
func (p *peer) Kill() error                 { return errOneProcess }
func (p *peer) Squeeze() error              { return errOneProcess }
func (p *peer) Stand(context.Context) error { return errOneProcess }
func (p *peer) Go()                         {}

// possible are the faults of networks and of one server. Those of processes are not: the load
// abandons clients instead. A moved clock would move the samples too.
func possible() (list []fault.Fault) {
	clocks := fault.Clocks()
	for _, f := range fault.All() {
		moves := slices.Contains(clocks, f.Name)
		if f.Side != fault.OnClient && f.In(fault.Standalone) && !f.Aims && !moves {
			list = append(list, f)
		}
	}
	return list
}

// nemesis injects a fault, waits for between once and twice the pause, and injects the next one,
// until ctx ends. Each kind comes once before any comes again.
func (w *world) nemesis(ctx context.Context, rng *rand.Rand, pause time.Duration, told func(name string, err error)) {
	var bag []fault.Fault
	for {
		if len(bag) == 0 {
			bag = possible()
			rng.Shuffle(len(bag), func(i, j int) { bag[i], bag[j] = bag[j], bag[i] })
		}
		if !history.Sleep(ctx, pause+time.Duration(rng.Int64N(int64(pause)+1))) {
			return
		}
		f := bag[0]
		bag = bag[1:]
		_, err := f.Inject(ctx, w, rng)
		if ctx.Err() == nil {
			told(f.Name, err)
		}
	}
}

func (w *world) Topology() string                        { return fault.Standalone }
func (w *world) Server(*rand.Rand) *redistest.Server     { return w.server }
func (w *world) Servers() []*redistest.Server            { return []*redistest.Server{w.server} }
func (w *world) Key(rng *rand.Rand) string               { return "soak:{" + someName(rng) + "}" }
func (w *world) Claim(*rand.Rand) (fault.Client, func()) { return nil, nil }

func (w *world) Weak(*rand.Rand) ([]*redistest.Server, func()) { return w.Servers(), func() {} }

func (w *world) Shift(*redistest.Server, time.Duration) time.Duration { return 0 }

func (w *world) Clients() (list []fault.Client) {
	for _, p := range w.clients {
		list = append(list, p)
	}
	return list
}

func (w *world) Do(ctx context.Context, _ *redistest.Server, args ...any) (any, error) {
	reply, err := w.admin.Do(ctx, args...).Result()
	return fault.Flat(reply), err
}

func (w *world) CutSubscriptions(ctx context.Context, s *redistest.Server) error {
	return fault.CutSubscriptions(ctx, w, s, "")
}
