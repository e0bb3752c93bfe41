package fault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/history"
)

// keeping are the topologies in which no other server has a server's records: there a
// step of its clock lasts, as after a correction. In the others the fault takes the step
// back in the end. Otherwise a failover would find another time, and a quorum does not
// survive a majority of wrong clocks.
var keeping = []string{Standalone, Durable, EverySec}

// wrong are the topologies in which a lease ends early if one clock does.
var wrong = []string{Standalone, Durable, EverySec, Sentinel, Cluster}

// replicated are those in which a record may move to a server with another clock.
var replicated = []string{Sentinel, Cluster}

var clockFaults = []Fault{
	{Name: "clock-forward", About: "the clock of a server is set forward by a lease or an hour (quorum: one or two)",
		Side: OnServer, Often: true, Forgets: true, Loses: wrong, inject: clockForward},
	{Name: "clock-back", About: "the clock of a server is set back by a lease (quorum: one or two)",
		Side: OnServer, Often: true, Forgets: true, Loses: replicated, inject: clockBack},
	{Name: "clock-wrong", About: "the clock of a server is an hour slow for a while (quorum: one or two)",
		Side: OnServer, Forgets: true, Loses: wrong, inject: clockWrong},
	{Name: "clock-many", About: "the clocks of three of five servers are set forward by a lease",
		Side: OnServer, Topologies: []string{Quorum}, Loses: []string{Quorum}, takes: []string{majority},
		inject: clockMany},
}

// Clocks names the faults that need servers with clocks that can be moved.
func Clocks() []string {
	var names []string
	for _, f := range clockFaults {
		names = append(names, f.Name)
	}
	return names
}

// Movable says why clocks of servers cannot be moved here, or nil.
func Movable() error { return redistest.Movable() }

// step moves the clocks of servers, and notes it.
func step(w World, span *history.FaultSpan, servers []*redistest.Server, d time.Duration) {
	for _, s := range servers {
		ahead := w.Shift(s, d)
		span.Steps = append(span.Steps, history.Step{At: history.Now(), Server: s.Addr(), Ahead: int64(ahead)})
	}
	if span.Text != "" {
		span.Text += ", "
	}
	span.Text += fmt.Sprintf("%d by %v", len(servers), d)
}

// errWeak says that no more than a minority may forget its grants.
var errWeak = errors.New("what another minority has forgotten is not over yet")

// apart moves the clocks of some servers, and after a while moves them on or back.
func apart(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan, d, back time.Duration) error {
	lasts := between(rng, leases(w, 0.3), leases(w, 1.5))
	servers, done := weak(w, rng, span)
	defer done()
	if len(servers) == 0 {
		return errWeak
	}
	step(w, span, servers, d)
	history.Sleep(ctx, lasts)
	if back != 0 {
		step(w, span, servers, back)
	}
	return nil
}

// again is the second step after one by d. Where a step lasts, it may go on in the same
// direction.
func again(w World, rng *rand.Rand, d time.Duration) time.Duration {
	if !slices.Contains(keeping, w.Topology()) {
		return -d
	}
	if rng.IntN(2) == 0 && d < time.Hour && d > -time.Hour {
		return d / 4
	}
	return 0
}

// hour is the long step. The nodes of a Cluster watch each other by these clocks: after
// an hour back one would wait for an hour before it served again. And a replica that was
// cut off while its primary's clock was ahead would have leases of an hour.
func hour(w World) time.Duration {
	if slices.Contains(replicated, w.Topology()) {
		return leases(w, 2)
	}
	return time.Hour
}

func clockForward(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.3), leases(w, 1.5)).Truncate(time.Millisecond)
	if rng.IntN(2) == 0 {
		d = hour(w)
	}
	return apart(ctx, w, rng, span, d, again(w, rng, d))
}

func clockBack(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.3), leases(w, 1.5)).Truncate(time.Millisecond)
	return apart(ctx, w, rng, span, -d, again(w, rng, -d))
}

func clockWrong(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	return apart(ctx, w, rng, span, -hour(w), hour(w))
}

// clockMany is more than a quorum survives: for the time of a lease there may be two
// holders.
func clockMany(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.8), leases(w, 1.5)).Truncate(time.Millisecond)
	lasts := between(rng, leases(w, 0.3), leases(w, 1))
	all := slices.Clone(w.Servers())
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	all = all[:len(all)/2+1]
	defer w.Forgot()
	span.Servers = redistest.Addrs(all)
	step(w, span, all, d)
	history.Sleep(ctx, lasts)
	step(w, span, all, -d)
	return nil
}
