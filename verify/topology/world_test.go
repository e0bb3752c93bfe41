package topology_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

func TestMain(m *testing.M) {
	// The tests mostly wait: for servers to come up, and for each other's votes.
	harness.Program{Parallel: 4, Known: []goleak.Option{
		// rueidis closes connections to nodes that went away some seconds later,
		// and reads the Cluster's slots some time after it was told to.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient).redirectOrNew.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
	}}.Main(m)
}

// restrict makes a user with the least rights that are needed. All tests run as it.
func restrict(t testing.TB, servers []*redistest.Server) harness.Login {
	t.Helper()
	for _, s := range servers {
		args := []any{"ACL", "SETUSER", "least", "reset", "on", ">pw"}
		for _, rule := range s.Rights(t) {
			args = append(args, rule)
		}
		assert.MustEqual(t, s.Do(t, args...), "OK", "ACL SETUSER")
	}
	return harness.Login{User: "least", Password: "pw"}
}

// quick is the option of Clusters whose nodes are killed: they are missed soon.
var quick = redistest.NodeTimeout(time.Second)

// inCluster runs a test with each of the libraries, on a Cluster of its own.
func inCluster(
	t *testing.T, test func(t *testing.T, c *redistest.Cluster, open func(testing.TB) *party), opts ...redistest.Option,
) {
	t.Parallel()
	for _, a := range harness.Adapters {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			c := redistest.StartCluster(t, opts...)
			as := restrict(t, c.Nodes)
			test(t, c, func(t testing.TB) *party { return newParty(t, a.Cluster(t, c.Addrs(), as)) })
		})
	}
}

// behindSentinel runs a test with each of the libraries, on servers of its own.
func behindSentinel(t *testing.T, test func(t *testing.T, g *redistest.Sentinel, open func(testing.TB) *party)) {
	t.Parallel()
	for _, a := range harness.Adapters {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			g := redistest.StartSentinel(t)
			g.Forbear(t)
			as := restrict(t, g.Servers)
			test(t, g, func(t testing.TB) *party { return newParty(t, a.Sentinel(t, g.Addrs(), as)) })
		})
	}
}

// ttl is the lease of these tests: a failover fits into it several times.
const ttl = 12 * time.Second

// party is a client, and what it has observed.
type party struct {
	*holdfast.Client
	*harness.Watch
	store store.Store
}

func newParty(t testing.TB, s store.Store) *party {
	t.Helper()
	c, seen := harness.Client(t, s, holdfast.Config{TTL: ttl, MaxLocalHandOvers: -1, App: "topology"})
	return &party{c, seen, s}
}

func (p *party) lock(t testing.TB, name string, options ...holdfast.MutexOption) *holdfast.Lease {
	t.Helper()
	return harness.Lock(t, p.Mutex(name, options...))
}

// acked locks with options that wait for acknowledgements. It tries again if they are late, as on a busy machine.
func (p *party) acked(t testing.TB, name string, options ...holdfast.MutexOption) (l *holdfast.Lease) {
	t.Helper()
	redistest.Await(t, "the grant is acknowledged", func() bool {
		var err error
		l, err = p.Mutex(name, options...).Lock(harness.Within(t))
		assert.MustTrue(t, err == nil || errors.Is(err, holdfast.ErrNotAcked), "%v", err)
		return err == nil
	})
	return l
}

// waiting locks in a goroutine of its own, and returns once it is in the wait queue.
func (p *party) waiting(t testing.TB, name string, options ...holdfast.MutexOption) <-chan harness.Outcome {
	t.Helper()
	return p.acquiring(t, name, p.Mutex(name, options...).Lock)
}

// acquiring acquires a lock in a goroutine of its own, and returns once it is in the
// wait queue.
func (p *party) acquiring(
	t testing.TB, name string, acquire func(context.Context) (*holdfast.Lease, error),
) <-chan harness.Outcome {
	t.Helper()
	before := len(p.Of(observe.EventWait, name))
	done := harness.Acquiring(harness.Within(t), acquire)
	p.Await(t, observe.EventWait, name, before+1)
	return done
}

// granting is when the server granted a lease, by its clock, which is this
// machine's: tokens are made of it.
func granting(l *holdfast.Lease) time.Time { return time.UnixMicro(int64(l.Token() >> 10)) }

// load makes each of the parties lock and release until stop is called. Stop waits for
// them, and returns how often the lock was granted and how many calls had an unknown
// outcome. Any other error fails the test.
func load(
	t testing.TB, h *harness.History, name string, parties ...*party,
) (stop func() (grants, unknown int)) {
	end := make(chan struct{})
	var all sync.WaitGroup
	var unknown atomic.Int64
	ctx, cancel := context.WithTimeout(context.Background(), 2*redistest.Patience)
	note := func(err error) {
		unknown.Add(1)
		assert.False(t, !errors.Is(err, holdfast.ErrUnknownOutcome) && !errors.Is(err, holdfast.ErrUnreachable),
			"%v", err)
	}
	for _, p := range parties {
		all.Go(func() {
			for {
				select {
				case <-end:
					return
				default:
				}
				l, err := p.Mutex(name).Lock(ctx)
				if err != nil {
					note(err)
					continue
				}
				h.Hold(l)
				until := time.Now().Add(l.Remaining())
				err = l.Release(ctx)
				if errors.Is(err, holdfast.ErrNotHeld) && time.Now().After(until) {
					// A lease that is being released is not renewed: the request took longer
					// than what was left of the lease. After a push that is little.
					err = fmt.Errorf("%w: %w", holdfast.ErrUnknownOutcome, err)
				}
				if err != nil {
					note(err)
				}
			}
		})
	}
	stop = sync.OnceValues(func() (int, int) {
		close(end)
		all.Wait()
		return h.Grants(), int(unknown.Load())
	})
	t.Cleanup(func() {
		stop()
		cancel()
	})
	return stop
}

// served waits until the lock was granted n more times.
func served(t testing.TB, h *harness.History, n int) {
	t.Helper()
	want := h.Grants() + n
	redistest.Await(t, "the lock is granted again and again", func() bool { return h.Grants() >= want })
}
