// Random calls on locks with a lock-delay, while connections fail and an operator evicts (G37).

package contract_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// lateness judges the grants of one lock: whoever gets it while another one trusts its lease, or within the lock-delay
// of one that was lost, breaks the promise.
type lateness struct {
	t      *testing.T
	mu     sync.Mutex
	random *rand.Rand
	grants []*lateGrant
}

type lateGrant struct {
	what   string
	shared bool // beside others that share
	owner  bool // beside others of the owner
	delay  time.Duration
	ended  bool      // released in time
	lost   time.Time // zero: not lost
}

// below returns a random number, from 0 on.
func (j *lateness) below(n int64) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.random.Int64N(n)
}

func (j *lateness) sleep(most time.Duration) { time.Sleep(time.Duration(1 + j.below(int64(most)))) }

func (j *lateness) granted(g *lateGrant, ctx context.Context) { //nolint:revive // ctx is that of the lease
	j.mu.Lock()
	for _, o := range j.grants {
		if o.ended || o.shared && g.shared || o.owner && g.owner {
			continue
		}
		assert.True(j.t, !o.lost.IsZero() && time.Since(o.lost) >= o.delay, "%s beside %+v", g.what, *o)
	}
	j.grants = append(j.grants, g)
	j.mu.Unlock()
	context.AfterFunc(ctx, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if errors.Is(context.Cause(ctx), holdfast.ErrLost) && g.lost.IsZero() {
			g.lost = time.Now()
		}
	})
}

// left notes that the caller gives the lease up, and reports whether that is in time.
func (j *lateness) left(g *lateGrant, err error) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if g.ended = err == nil; !g.ended && g.lost.IsZero() {
		g.lost = time.Now()
	}
	return g.ended
}

// lateLease is a lease of any kind.
type lateLease interface {
	Context() context.Context
	Err() error
	Release(ctx context.Context) error
}

// take acquires the lock in a random form.
func (j *lateness) take(ctx context.Context, c *holdfast.Client) (l lateLease, g *lateGrant, err error) {
	d := []time.Duration{0, 500 * time.Millisecond, 5 * time.Second, 40 * time.Second}[j.below(4)]
	o, kind := holdfast.LockDelay(d), j.below(6)
	g = &lateGrant{what: fmt.Sprintf("kind %d with %v", kind, d), shared: kind == 0, owner: kind == 1, delay: d}
	switch kind {
	case 0:
		l, err = c.RWMutex("a", o).RLock(ctx)
	case 1:
		l, err = c.Mutex("a", o, holdfast.Owner("alice")).Lock(ctx)
	case 2:
		l, err = c.RWMutex("a", o).Lock(ctx)
	case 3:
		l, err = c.Mutex("a", o, holdfast.NoRenewal()).Lock(ctx)
	case 4:
		l, err = c.MultiMutex([]string{"a", "b"}, o).Lock(ctx)
	default:
		l, err = c.Mutex("a", o).Lock(ctx)
	}
	return l, g, err
}

// work acquires the lock again and again. It is cut off at times, and then releases late, or never, or closes.
func (j *lateness) work(w *world, stop time.Time) {
	c, link := w.mortal(holdfast.Config{})
	for time.Now().Before(stop) {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		l, g, err := j.take(ctx, c)
		cancel()
		if err != nil {
			continue
		}
		j.granted(g, l.Context())
		if j.sleep(10 * time.Second); j.below(3) == 0 {
			link.cut.Store(true)
			j.sleep(80 * time.Second)
			link.cut.Store(j.below(3) == 0)
		}
		if j.left(g, l.Err()) || j.below(5) > 0 {
			_ = l.Release(context.Background())
		} else {
			keep(l)
		}
		if j.below(8) == 0 {
			_ = c.Close(context.Background())
			c, link = w.mortal(holdfast.Config{})
		}
		link.cut.Store(false)
		j.sleep(10 * time.Second)
	}
	_ = c.Close(context.Background())
}

// Whatever is called, and whenever: nobody gets a lost lock within its lock-delay. Guarantee: G37.
func TestNobodyGetsALostLockWithinItsLockDelay(t *testing.T) {
	for seed := range uint64(20 / few) {
		runBubble(t, fmt.Sprint("seed ", seed), func(t *testing.T, w *world) {
			j := &lateness{t: t, random: rand.New(rand.NewPCG(seed, 1))}
			stop, operator := time.Now().Add(30*time.Minute), w.client()
			var all sync.WaitGroup
			for range 5 {
				all.Go(func() { j.work(w, stop) })
			}
			for time.Now().Before(stop) {
				j.sleep(time.Minute)
				_, _ = operator.Evict(t.Context(), "a", holdfast.Eviction{By: "ann", Reason: "test"})
			}
			all.Wait()
			synctest.Wait() // the ends of the last leases are noted
			assert.True(t, len(j.grants) > 20, "there were %d grants", len(j.grants))
		})
	}
}
