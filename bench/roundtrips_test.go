package bench

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
)

// patience is the longest wait for an event.
const patience = 20 * time.Second

// A free lock needs one round trip to acquire and one to release. Once the client is
// registered, nothing else is sent.
func TestRoundTripsOfAPair(t *testing.T) {
	for _, k := range kits {
		t.Run(k.name, func(t *testing.T) {
			r := newRig(t, k)
			c := r.party.client(t, holdfast.Config{})
			const pairs = 200
			mu := c.Mutex("pair")
			ctx := context.Background()
			check(t, lockPair(mu)(ctx))
			r.awaitAnnounced(t, 1)

			r.server.ResetStats(t)
			for range pairs {
				check(t, lockPair(mu)(ctx))
			}
			calls := r.server.CommandCalls(t)
			assert.True(t, calls["evalsha"] == 2*pairs,
				"%d pairs took %d EVALSHA, want two each", pairs, calls["evalsha"])
			// Commands with which the client library keeps its connections alive do not
			// belong to the pairs. No other commands are expected.
			assert.Equal(t, sent(calls)-calls["evalsha"]-calls["ping"]-connecting(calls), 0,
				"commands besides: %v", calls)
		})
	}
}

// What a pair allocates, with what the client library allocates for it. The rest of the
// process may allocate at the same time, so a pair may be counted one more.
func TestAllocationsOfAPair(t *testing.T) {
	for name, most := range map[string]float64{"rueidis": 10, "goredis": 23} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, kitNamed(name))
			one := lockPair(r.party.client(t, holdfast.Config{}).Mutex("pair"))
			for range 200 { // the client has made its connections
				check(t, one(t.Context()))
			}
			got := testing.AllocsPerRun(1000, func() { check(t, one(context.Background())) })
			if raced {
				most *= 2
			}
			assert.True(t, got <= most+1, "%v allocations, want at most %v", got, most)
		})
	}
}

// connecting counts what a client library sends on a new connection.
func connecting(calls map[string]int64) int64 {
	var total int64
	for _, name := range []string{"hello", "client|setinfo", "client|setname", "client|maint_notifications", "client"} {
		total += calls[name]
	}
	return total
}

// When clients take turns at the lock, each turn costs a request to acquire, a request to
// release, and one push. Unless the lock is released before, one request confirms the
// push. Each push wakes exactly one client, and nothing else wakes one. In addition, at
// most one waiter per turn is told when to poll if the grant is not confirmed.
func TestCommandsPerHandOver(t *testing.T) {
	const clients, turns = 6, 50
	for _, k := range kits {
		t.Run(k.name, func(t *testing.T) {
			r := newRig(t, k)
			seen := &counter{}
			here := &queue{here: make(chan struct{}, clients*turns)}
			var mus []*holdfast.Mutex
			for range clients {
				c := r.join(t).client(t, holdfast.Config{Observer: both{seen, here}, TTL: time.Hour}) // no waiter polls
				mus = append(mus, c.Mutex("round"))
			}
			line := &roundabout{t: t, mus: mus, here: here.here, leases: make(chan *holdfast.Lease, 1)}
			line.start()
			line.turn(clients) // all have subscribed and registered
			r.awaitAnnounced(t, clients)

			r.server.ResetStats(t)
			before := seen.pushed.Load()
			line.turn(turns)
			calls := r.server.CommandCalls(t)
			pushes := seen.pushed.Load() - before
			line.stop()

			told := calls["publish"] - turns
			assert.True(t, told >= 0 && told <= turns && pushes == turns,
				"%d hand-overs made %d pushes and woke %d clients", turns, calls["publish"], pushes)
			assert.Equal(t, seen.otherwise.Load(), 0, "wake-ups without a push")
			if got := calls["evalsha"] + calls["eval"] + calls["publish"] - told; got > 4*turns+clients {
				t.Errorf("%d hand-overs took %d commands, want at most 4 each: %v", turns, got, calls)
			}
			known := calls["evalsha"] + calls["publish"] + calls["ping"] + connecting(calls)
			assert.Equal(t, sent(calls)-known, 0, "commands besides: %v", calls)
		})
	}
}

func (r *rig) awaitAnnounced(t *testing.T, n int) {
	t.Helper()
	redistest.Await(t, "the clients have made themselves known", func() bool {
		keys, _ := r.server.Do(t, "KEYS", "holdfast:client:*").([]any)
		return len(keys) == n
	})
}

// both passes events to two observers.
type both [2]observe.Observer

func (o both) Observe(e observe.Event) {
	o[0].Observe(e)
	o[1].Observe(e)
}

// roundabout passes one lock among clients that all wait for it. A client that releases
// it joins the queue again at once.
type roundabout struct {
	t      *testing.T
	mus    []*holdfast.Mutex
	here   chan struct{}        // one for each waiter in the queue
	leases chan *holdfast.Lease // one for each grant
	held   *holdfast.Lease
	next   int // the client that releases next
}

// start lets the first client acquire the lock and queues all others.
func (a *roundabout) start() {
	a.join(0)
	a.held = a.await()
	for i := 1; i < len(a.mus); i++ {
		a.join(i)
		redistest.Next(a.t, "the new waiter in the queue", a.here)
	}
}

func (a *roundabout) join(i int) {
	go func() {
		l, err := a.mus[i].Lock(context.Background())
		assert.NoError(a.t, err)
		a.leases <- l
	}()
}

// turn hands the lock over n times.
func (a *roundabout) turn(n int) {
	a.t.Helper()
	for range n {
		check(a.t, a.held.Release(context.Background()))
		a.held = a.await()
		a.join(a.next)
		redistest.Next(a.t, "the new waiter in the queue", a.here)
		a.next = (a.next + 1) % len(a.mus)
	}
}

// stop lets each client have the lock once more.
func (a *roundabout) stop() {
	for range len(a.mus) - 1 {
		check(a.t, a.held.Release(context.Background()))
		a.held = a.await()
	}
	check(a.t, a.held.Release(context.Background()))
}

func (a *roundabout) await() *holdfast.Lease {
	a.t.Helper()
	l := redistest.Next(a.t, "a lease", a.leases)
	assert.MustTrue(a.t, l != nil, "Lock failed")
	return l
}
