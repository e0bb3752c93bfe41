package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/history"
)

// timed are the topologies of which the clocks are moved: one server, and
// servers of which a minority may be wrong.
var timed = []string{Standalone, Quorum}

// Clock steps are healed as the clocks of machines are: what was stepped stays,
// as after a correction. Only by an hour back it is not for long, for as long
// would last what the dead have left behind.
var clockFaults = []Fault{
	{Name: "clock-forward", About: "a server's clock is set forward by a lease or an hour; of a quorum's, one or two",
		Side: OnServer, Topologies: timed, Loses: []string{Standalone}, inject: clockForward},
	{Name: "clock-back", About: "a server's clock is set back by a lease; of a quorum's, one or two",
		Side: OnServer, Topologies: timed, inject: clockBack},
	{Name: "clock-wrong", About: "a server's clock is an hour behind for a while; of a quorum's, one or two",
		Side: OnServer, Topologies: timed, Loses: []string{Standalone}, inject: clockWrong},
	{Name: "clock-many", About: "the clocks of three of five servers are set forward by a lease",
		Side: OnServer, Topologies: []string{Quorum}, Loses: []string{Quorum}, inject: clockMany},
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
func Movable() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("the clock of one process can be moved on Linux only, not on %s", runtime.GOOS)
	}
	if _, err := exec.LookPath("cc"); err != nil {
		return fmt.Errorf("to move the clock of a server takes a C compiler: %w", err)
	}
	return nil
}

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

func clockForward(_ context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.3), leases(w, 1.5)).Truncate(time.Millisecond)
	if rng.IntN(2) == 0 {
		d = time.Hour
	}
	step(w, span, some(rng, w.Weak()), d)
	return nil
}

func clockBack(_ context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.3), leases(w, 1.5)).Truncate(time.Millisecond)
	step(w, span, some(rng, w.Weak()), -d)
	return nil
}

func clockWrong(ctx context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.2), leases(w, 1.2))
	servers := some(rng, w.Weak())
	step(w, span, servers, -time.Hour)
	last(ctx, d)
	step(w, span, servers, time.Hour)
	return nil
}

// clockMany is more than a quorum survives: for a lease two may hold.
func clockMany(_ context.Context, w World, rng *rand.Rand, span *history.FaultSpan) error {
	d := between(rng, leases(w, 0.8), leases(w, 1.5)).Truncate(time.Millisecond)
	all := w.Servers()
	step(w, span, all[:len(all)/2+1], d)
	return nil
}
