package fault

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/history"
)

var networkFaults = []Fault{
	{Name: "latency", About: "answers to a client are late", Side: OnNetwork, inject: latency},
	{Name: "cut", About: "the connections of a client are cut", Side: OnNetwork, inject: cut},
	{Name: "half-open", About: "nothing gets through to or from a client, and no connection is closed",
		Side: OnNetwork, inject: halfOpen},
	{Name: "refuse", About: "the connections of a client are cut, and new ones refused",
		Side: OnNetwork, inject: refuse},
	{Name: "reply-lost", About: "requests of a client are carried out, and their answers lost",
		Side: OnNetwork, inject: replyLost},
}

// onProxies switches something on all ways of one client, or of all clients one
// time in four, and heals it after d.
func onProxies(
	ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan, d time.Duration, on func(p *redistest.Proxy),
) error {
	everybody := rng.IntN(4) == 0
	c, err := pick(w, rng, span)
	if err != nil {
		return err
	}
	clients := []Client{c}
	if everybody {
		clients, span.Procs = w.Clients(), nil
	}
	for _, c := range clients {
		for _, p := range c.Proxies() {
			on(p)
		}
	}
	last(ctx, d)
	for _, c := range clients {
		for _, p := range c.Proxies() {
			p.RefuseNew(false)
			p.Pass()
		}
	}
	return nil
}

func latency(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	late := between(rng, time.Millisecond, leases(w, 0.4))
	d := between(rng, leases(w, 0.5), leases(w, 2))
	return onProxies(ctx, w, rng, span, d, func(p *redistest.Proxy) { p.Delay(late) })
}

func cut(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	return onProxies(ctx, w, rng, span, 0, (*redistest.Proxy).Cut)
}

func halfOpen(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.2), leases(w, 2))
	return onProxies(ctx, w, rng, span, d, (*redistest.Proxy).BlackHole)
}

func refuse(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.2), leases(w, 1.5))
	return onProxies(ctx, w, rng, span, d, func(p *redistest.Proxy) {
		p.RefuseNew(true)
		p.Cut()
	})
}

func replyLost(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	n := 1 + rng.IntN(5)
	d := between(rng, leases(w, 0.2), leases(w, 0.5))
	return onProxies(ctx, w, rng, span, d, func(p *redistest.Proxy) {
		p.DropRepliesAndCut(n, "EVALSHA", "EVAL")
	})
}
