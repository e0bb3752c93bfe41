package fault

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/history"
)

var networkFaults = []Fault{
	{Name: "latency", About: "a client gets its answers late", Side: OnNetwork, inject: latency},
	{Name: "cut", About: "the connections of a client are cut", Side: OnNetwork, inject: cut},
	{Name: "half-open", About: "a client can neither send nor receive, and no connection is closed",
		Side: OnNetwork, inject: halfOpen},
	{Name: "refuse", About: "the connections of a client are cut, and new ones refused",
		Side: OnNetwork, inject: refuse},
	{Name: "reorder", About: "requests of clients overtake each other on several connections",
		Side: OnNetwork, inject: reorder},
	{Name: "reply-lost", About: "the server executes requests of a client, and the answers are lost",
		Side: OnNetwork, inject: replyLost},
	{Name: "forget", About: "resting or old connections of a client swallow what is sent on them; new ones work",
		Side: OnNetwork, inject: forget},
	{Name: "late", About: "requests of a client arrive once more, up to four leases later",
		Side: OnNetwork, inject: late},
}

// onProxies imposes something on all links of one client, or, one time in four, of all
// clients, and lifts it after d. On a quorum it is, every other time, the links of all
// clients to one or two servers.
func onProxies(
	ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan, d time.Duration,
	on func(i *redistest.Imposition), times int,
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
		for _, i := range to {
			span.Servers = append(span.Servers, w.Servers()[i].Addr())
		}
		span.Text = "to " + strings.Join(span.Servers, " ")
	}
	if everybody {
		clients, span.Procs = w.Clients(), nil
	}
	var imposed []*redistest.Imposition
	each(clients, to, func(p *redistest.Proxy) {
		i := p.Impose()
		on(i)
		imposed = append(imposed, i)
	})
	for n := range max(times, 1) {
		if n < times {
			each(clients, to, (*redistest.Proxy).Cut)
		}
		history.Sleep(ctx, d/time.Duration(max(times, 1)))
	}
	for _, i := range imposed {
		i.Lift()
	}
	return nil
}

// each does something to some links of some clients.
func each(clients []Client, to []int, do func(p *redistest.Proxy)) {
	for _, c := range clients {
		for _, i := range to {
			do(c.Proxies()[i])
		}
	}
}

// reorder delays the requests on every other connection of each client. It has an effect
// if a request arrives before one that was sent earlier.
func reorder(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	by := between(rng, leases(w, 0.02), leases(w, 0.3))
	d := between(rng, leases(w, 0.5), leases(w, 2))
	clients := w.Clients()
	var all []int
	for i := range clients[0].Proxies() {
		all = append(all, i)
	}
	overtaken := func() (n int) {
		each(clients, all, func(p *redistest.Proxy) { n += p.Overtaken() })
		return n
	}
	before := overtaken()
	var imposed []*redistest.Imposition
	each(clients, all, func(p *redistest.Proxy) {
		i := p.Impose()
		i.Stagger(by)
		imposed = append(imposed, i)
	})
	history.Sleep(ctx, d)
	for _, i := range imposed {
		i.Lift()
	}
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
	return onProxies(ctx, w, rng, span, d, func(i *redistest.Imposition) { i.Delay(late) }, 0)
}

// cut comes once or several times, as a bad link does.
func cut(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d, n := between(rng, leases(w, 0.1), leases(w, 0.6)), 1+rng.IntN(3)
	return onProxies(ctx, w, rng, span, d, func(*redistest.Imposition) {}, n)
}

func halfOpen(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.2), leases(w, 2))
	return onProxies(ctx, w, rng, span, d, (*redistest.Imposition).BlackHole, 0)
}

func refuse(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.2), leases(w, 1.5))
	return onProxies(ctx, w, rng, span, d, (*redistest.Imposition).RefuseNew, 1)
}

func replyLost(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	n := 1 + rng.IntN(5)
	d := between(rng, leases(w, 0.2), leases(w, 0.5))
	return onProxies(ctx, w, rng, span, d, func(i *redistest.Imposition) {
		i.DropRepliesAndCut(n, "EVALSHA", "EVAL")
	}, 0)
}

// forget is a balancer that forgets connections. What it has forgotten stays dead after the fault.
func forget(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	rest, age := between(rng, leases(w, 0.02), leases(w, 0.4)), time.Duration(0)
	if rng.IntN(3) == 0 { // a connection that many share never rests
		rest, age = 0, between(rng, leases(w, 0.2), leases(w, 1))
	}
	d := between(rng, leases(w, 0.5), leases(w, 2))
	var imposed []*redistest.Imposition
	err := onProxies(ctx, w, rng, span, d, func(i *redistest.Imposition) {
		i.Forget(rest, age)
		imposed = append(imposed, i)
	}, 0)
	n := total(imposed, (*redistest.Imposition).Forgotten)
	span.Text = strings.TrimSpace(fmt.Sprintf("%s %d connections forgotten", span.Text, n))
	if err == nil && n == 0 {
		err = errors.New("no connection was forgotten")
	}
	return err
}

// late is a proxy that sends requests again. The fault lasts until the last copy is sent.
func late(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.5), leases(w, 2))
	c := &copies{
		rng: rand.New(rand.NewPCG(rng.Uint64(), 0)), till: time.Now().Add(d),
		chance: []float64{0.03, 0.1, 0.3}[rng.IntN(3)], left: mostCopies, longest: leases(w, latest),
	}
	var imposed []*redistest.Imposition
	err := onProxies(ctx, w, rng, span, d+c.longest, func(i *redistest.Imposition) {
		i.CopyLate(c.after, "EVALSHA", "EVAL")
		imposed = append(imposed, i)
	}, 0)
	n := total(imposed, (*redistest.Imposition).Copied)
	span.Text = strings.TrimSpace(fmt.Sprintf("%s %d late copies", span.Text, n))
	if err == nil && n == 0 {
		err = errors.New("no copy was sent")
	}
	return err
}

// total adds up a count of all impositions.
func total(imposed []*redistest.Imposition, count func(*redistest.Imposition) int) (n int) {
	for _, i := range imposed {
		n += count(i)
	}
	return n
}

const (
	latest     = 4   // leases that a copy comes later, at most
	mostCopies = 300 // of one fault: each is a connection of its own
)

// copies draws which requests are sent once more, and how much later.
type copies struct {
	mu      sync.Mutex
	rng     *rand.Rand
	till    time.Time // later requests are not copied
	chance  float64
	left    int
	longest time.Duration
}

// after draws a delay. Short ones are as likely as long ones: each doubling of the time has the same chance.
func (c *copies) after() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 || c.rng.Float64() >= c.chance || time.Now().After(c.till) {
		return 0, false
	}
	c.left--
	times := float64(c.longest) / float64(time.Millisecond)
	return time.Duration(math.Pow(times, c.rng.Float64()) * float64(time.Millisecond)), true
}
