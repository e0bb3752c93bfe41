package rules_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// Several locks: any sets, wanted by many goroutines of several processes:
// nobody hangs, and each lock has one holder with a higher token than before.
func TestSetsOfLocksNeverOverlap(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		names := []string{"a", "b", "c", "d"}
		guards := map[string]*register{}
		for _, name := range names {
			guards[name] = &register{}
		}
		var all sync.WaitGroup
		for p := range 3 {
			c, _ := w.local(t, holdfast.Config{MaxLocalHandOvers: []int{0, 2, -1}[p]})
			for g := range 4 {
				dice := rand.New(rand.NewPCG(uint64(p), uint64(g)))
				all.Go(func() {
					for range 12 {
						set := append([]string(nil), names[dice.IntN(3):]...)
						dice.Shuffle(len(set), func(i, j int) { set[i], set[j] = set[j], set[i] })
						set = set[:1+dice.IntN(len(set))]
						l, err := c.MultiMutex(set).Lock(harness.Within(t))
						if err != nil {
							t.Errorf("Lock of %v: %v", set, err)
							return
						}
						for _, name := range set {
							guards[name].enter(t, name, l.Token(name))
						}
						for _, name := range set {
							guards[name].leave()
						}
						assert.NoError(t, l.Release(harness.Within(t)))
					}
				})
			}
		}
		all.Wait()
	})
}

// register notices two at once, and tokens that fall.
type register struct {
	inside atomic.Int32
	resource
}

func (r *register) enter(t *testing.T, name string, token uint64) {
	assert.Equal(t, r.inside.Add(1), 1, "holders of %q at once", name)
	assert.True(t, r.write(token), "token %d of %q has fallen", token, name)
}

func (r *register) leave() { r.inside.Add(-1) }

// The server is out of memory: new acquisitions are refused as a whole, a leader goes on.
func TestOutOfMemoryTakesNoPartOfSeveralLocks(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c, _ := w.local(t, holdfast.Config{TTL: 10 * time.Second})
		w.warm(t, c)
		harness.Release(t, harness.Lock(t, c.Mutex("b"))) // one of them has a record already
		lead, err := c.Election("e").Campaign(harness.Within(t), "one")
		assert.Must(t, err)
		w.Do(t, "CONFIG", "SET", "maxmemory", "1")
		_, err = c.MultiMutex([]string{"a", "b"}).Lock(harness.Within(t))
		assert.True(t, refused(err, "OOM"), "Lock of several: %v", err)
		turn, err := c.Periodic("job", time.Hour).Do(harness.Within(t), func(context.Context) error { return nil })
		assert.True(t, refused(err, "OOM") && !turn.Ran, "Do: %+v, %v; want OOM and no run", turn, err)
		assert.NoError(t, lead.Proclaim(harness.Within(t), "two"))
		assert.NoError(t, lead.Release(harness.Within(t)))
		w.Do(t, "CONFIG", "SET", "maxmemory", "0")
		for _, name := range []string{"a", "b"} {
			assert.False(t, state(t, c, name).Held(), "%s is held", name)
		}
		turn, err = c.Periodic("job", time.Hour).Do(harness.Within(t), func(context.Context) error { return nil })
		assert.True(t, turn.Ran, "Do: %+v, %v", turn, err)
	})
}

// Once per period: a run is killed, and its period is kept all the same.
func TestAKilledRunKeepsItsPeriod(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		child := startKind(t, w.Addr(), "every", "job", time.Second)
		id := child.Hear(t, "client")
		child.Hear(t, "held")
		child.Kill()
		c, _ := w.local(t, holdfast.Config{TTL: time.Minute})
		key := redistest.Prefix() + ":{job}:periodic"
		redistest.Await(t, "the lease of the dead has ended", func() bool {
			turn, err := c.Periodic("job", time.Hour).Do(harness.Within(t), func(context.Context) error {
				t.Error("ran again in the same period")
				return nil
			})
			assert.MustTrue(t, err == nil && !turn.Ran && turn.HolderID[:len(id)] == id && turn.Next <= time.Hour,
				"%+v, %v", turn, err)
			// The first call after that has noted the loss.
			return w.Do(t, "HEXISTS", key, "lost") == int64(1)
		})
		assert.AtLeast(t, w.Do(t, "PTTL", key).(int64), time.Hour.Milliseconds(), "how long the mark lives, in ms")
	})
}

// Once per period: the tokens say at which instant of the server's clock each
// run was granted.
func TestAJobOfManyClientsRunsOncePerPeriod(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const clients, periods = 6, 4
		const period, offset = 500 * time.Millisecond, 123 * time.Millisecond
		var runs atomic.Int32
		var guard register
		ctx, cancel := context.WithCancel(harness.Within(t))
		defer cancel()
		var all sync.WaitGroup
		var watches []*harness.Watch
		for range clients {
			c, seen := w.local(t, holdfast.Config{TTL: 300 * time.Millisecond})
			watches = append(watches, seen)
			all.Go(func() {
				err := c.Periodic("job", period, holdfast.StartAt(offset)).Loop(ctx, func(context.Context) error {
					guard.enter(t, "job", uint64(runs.Load()))
					defer guard.leave()
					if runs.Add(1) == periods {
						cancel()
					}
					return nil
				})
				assert.Is(t, err, context.Canceled)
			})
		}
		all.Wait()
		had := map[int64]bool{}
		for _, seen := range watches {
			for _, e := range seen.Of(observe.EventGrant, "job") {
				index := (int64(e.Token>>10) - offset.Microseconds()) / period.Microseconds()
				assert.False(t, had[index], "two runs in period %d", index)
				had[index] = true
			}
		}
		assert.AtLeast(t, len(had), periods, "runs")
	})
}

// A leader is killed: the next candidate leads when the lease is over, and an observer
// learns of both.
func TestAKilledLeaderIsFollowed(t *testing.T) {
	const ttl = 3 * time.Second // for a machine that pauses for a while
	each(t, func(t *testing.T, w *world) {
		child := startKind(t, w.Addr(), "lead", "e", ttl)
		id := child.Hear(t, "client")
		term := child.Token(t, "held")
		eye, _ := w.local(t, holdfast.Config{TTL: ttl})
		told := make(chan holdfast.Leader, 64)
		ctx, cancel := context.WithCancel(harness.Within(t))
		defer cancel()
		var all sync.WaitGroup
		all.Go(func() {
			for l, err := range eye.Election("e").Observe(ctx) {
				assert.NoError(t, err)
				told <- l
			}
		})
		if l := redistest.Next(t, "the child", told); l.Token != term || l.Value != "the child" || l.ClientID != id {
			t.Errorf("the leader is %+v, want term %d of %s", l, term, id)
		}
		b, seen := w.local(t, holdfast.Config{TTL: ttl})
		led := make(chan *holdfast.Leadership, 1)
		go func() {
			lead, err := b.Election("e").Campaign(harness.Within(t), "next")
			assert.NoError(t, err)
			led <- lead
		}()
		seen.Await(t, observe.EventWait, "e", 1)
		child.Kill()
		lead := redistest.Next(t, "the next leader", led)
		assert.More(t, lead.Token(), term, "term")
		for l := range told {
			if l.Token == lead.Token() && l.Value == "next" {
				break
			}
			assert.Equal(t, l.Token, 0, "told of %+v", l)
		}
		assert.NoError(t, lead.Proclaim(harness.Within(t), "next, again"))
		l := redistest.Next(t, "the new value", told)
		assert.True(t, l.Value == "next, again" && l.Token == lead.Token(), "told of %+v", l)
		assert.NoError(t, lead.Release(harness.Within(t)))
		l = redistest.Next(t, "the resignation", told)
		assert.True(t, l.Token == 0, "told of %+v", l)
		assert.Is(t, assert.Err(eye.Election("e").Leader(harness.Within(t))), holdfast.ErrNoLeader)
		cancel()
		all.Wait()
	})
}

// One channel, many observers: each is told, and no subscription is left when they stop.
func TestManyObserveOneElection(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		c, _ := w.local(t, holdfast.Config{})
		ctx, cancel := context.WithCancel(harness.Within(t))
		defer cancel()
		const eyes = 5
		told := make(chan holdfast.Leader, 64)
		var all sync.WaitGroup
		for range eyes {
			all.Go(func() {
				for l := range c.Election("e").Observe(ctx) {
					told <- l
				}
			})
		}
		for range eyes {
			l := redistest.Next(t, "nobody", told)
			assert.True(t, l.Token == 0, "told of %+v", l)
		}
		lead, err := c.Election("e").Campaign(harness.Within(t), "one")
		assert.Must(t, err)
		for range eyes {
			l := redistest.Next(t, "the leader", told)
			assert.True(t, l.Value == "one", "told of %+v", l)
		}
		cancel()
		all.Wait()
		redistest.Await(t, "nobody listens", func() bool {
			reply := w.Do(t, "PUBSUB", "NUMSUB", redistest.Prefix()+":watch=e").([]any)
			return reply[1] == int64(0)
		})
		assert.NoError(t, lead.Release(harness.Within(t)))
	})
}

// The least user of the lock can do this too: no other command, key or channel.
func TestTheLeastUserCanHoldSeveralRunAndLead(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		as := w.user(t, "least", w.without(t, "")...)
		c, _ := harness.Client(t, w.open(t, as), holdfast.Config{TTL: 5 * time.Second})
		do := func(ctx context.Context) error { return ctx.Err() }
		assert.NoError(t, c.MultiMutex([]string{"a", "b"}).Do(harness.Within(t), do))
		failed := errors.New("no luck")
		for range 2 {
			turn, err := c.Periodic("job", time.Hour, holdfast.DoneOnSuccess(3)).Do(harness.Within(t),
				func(context.Context) error { return failed })
			assert.True(t, turn.Ran && errors.Is(err, failed) && !errors.Is(err, holdfast.ErrNotHeld),
				"Periodic: %+v, %v", turn, err)
		}
		ctx, cancel := context.WithCancel(harness.Within(t))
		defer cancel()
		err := c.Election("e").Do(ctx, "one", func(context.Context, *holdfast.Leadership) error {
			for l, err := range c.Election("e").Observe(ctx) {
				assert.True(t, err == nil && l.Value == "one",
					"want the leader with the value one, got %+v, %v", l, err)
				break
			}
			return nil
		})
		assert.NoError(t, err)
	})
}
