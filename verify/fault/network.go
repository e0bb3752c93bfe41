package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
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
	{Name: "reorder", About: "requests of clients overtake each other, over several connections",
		Side: OnNetwork, inject: reorder},
	{Name: "reply-lost", About: "requests of a client are carried out, and their answers lost",
		Side: OnNetwork, inject: replyLost},
}

// onProxies switches something on all ways of one client, or of all clients one
// time in four, and heals it after d. Over a quorum it is every other time the
// ways of all clients to one or two servers.
func onProxies(
	ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan, d time.Duration, on func(p *redistest.Proxy),
) error {
	everybody := rng.IntN(4) == 0
	c, err := pick(w, rng, span)
	if err != nil {
		return err
	}
	clients := []Client{c}
	to := make([]int, len(c.Proxies()))
	for i := range to {
		to[i] = i
	}
	if w.Topology() == Quorum && rng.IntN(2) == 0 {
		everybody = true
		rng.Shuffle(len(to), func(i, j int) { to[i], to[j] = to[j], to[i] })
		to = to[:1+rng.IntN(len(to)/2)]
		span.Text = "to " + addresses(w, to)
	}
	if everybody {
		clients, span.Procs = w.Clients(), nil
	}
	for _, c := range clients {
		for _, i := range to {
			on(c.Proxies()[i])
		}
	}
	last(ctx, d)
	for _, c := range clients {
		for _, i := range to {
			c.Proxies()[i].RefuseNew(false)
			c.Proxies()[i].Pass()
		}
	}
	return nil
}

// addresses names some of the servers.
func addresses(w World, which []int) string {
	var names []string
	for _, i := range which {
		names = append(names, w.Servers()[i].Addr())
	}
	return strings.Join(names, " ")
}

// reorder holds back what is sent over every other connection of each client. It
// bites if something has arrived before what was sent earlier.
func reorder(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	by := between(rng, leases(w, 0.02), leases(w, 0.3))
	d := between(rng, leases(w, 0.5), leases(w, 2))
	overtaken := func() (n int) {
		for _, c := range w.Clients() {
			for _, p := range c.Proxies() {
				n += p.Overtaken()
			}
		}
		return n
	}
	each := func(do func(p *redistest.Proxy)) {
		for _, c := range w.Clients() {
			for _, p := range c.Proxies() {
				do(p)
			}
		}
	}
	before := overtaken()
	each(func(p *redistest.Proxy) { p.Stagger(by) })
	last(ctx, d)
	each(func(p *redistest.Proxy) { p.Stagger(0) })
	n := overtaken() - before
	span.Text = fmt.Sprintf("%d requests overtaken", n)
	if n <= 0 {
		return errors.New("nothing was overtaken")
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
