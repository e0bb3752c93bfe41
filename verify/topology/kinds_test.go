package topology_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// Every kind of lock works in a Cluster and behind Sentinel, before and after
// a failover.
func TestEveryKindInACluster(t *testing.T) {
	inCluster(t, func(t *testing.T, c *redistest.Cluster, open func(testing.TB) *party) {
		k := kinds{one: open(t), other: open(t), tokens: make(map[string]uint64), do: c.Do}
		k.all(t)
		c.FailOver(c.Home(harness.Key("rw")))
		c.AwaitReady()
		k.all(t)
		saved := k.crashes(t, open(t))
		c.FailOver(c.Home(harness.Key("restarted")))
		c.AwaitReady()
		k.resumes(t, saved)
	})
}

func TestEveryKindBehindSentinel(t *testing.T) {
	behindSentinel(t, func(t *testing.T, g *redistest.Sentinel, open func(testing.TB) *party) {
		k := kinds{one: open(t), other: open(t), tokens: make(map[string]uint64)}
		k.do = func(t testing.TB, _ string, args ...any) any { return g.Primary().Do(t, args...) }
		k.all(t)
		// What is taken last is acknowledged, and with it all that was before.
		harness.Release(t, k.one.acked(t, "mark", holdfast.WaitReplicas(2, time.Second)))
		arrived(t, g.FailOver(), k.one, k.other)
		k.all(t)
		saved := k.crashes(t, open(t))
		// The replica that has the most becomes the primary.
		harness.Release(t, k.one.acked(t, "mark", holdfast.WaitReplicas(1, time.Second)))
		arrived(t, g.FailOver(), k.one, k.other)
		k.resumes(t, saved)
	})
}

// kinds are two clients, and the highest token that each lock has had.
type kinds struct {
	one, other *party
	tokens     map[string]uint64
	rounds     int
	do         func(t testing.TB, key string, args ...any) any // a command to the server of a key
}

func (k *kinds) all(t *testing.T) {
	t.Helper()
	k.rounds++
	k.readersAndSteps(t)
	k.permits(t)
	k.several(t)
	k.period(t)
	k.leaders(t)
	k.freedom(t)
}

// freedom waits until a lock is free. Its lease is longer than the patience of the tests, so
// only a push can tell.
func (k *kinds) freedom(t *testing.T) {
	t.Helper()
	l := k.one.lock(t, "free", holdfast.TTL(time.Hour))
	done, ctx := make(chan error, 1), harness.Within(t)
	go func() { done <- k.other.Mutex("free", holdfast.TTL(time.Hour)).AwaitFree(ctx) }()
	key := harness.Key("free")
	redistest.Await(t, "somebody watches", func() bool {
		lock, _ := k.do(t, key, "HGET", key, "lock").(string)
		return strings.HasSuffix(lock, "!")
	})
	harness.Release(t, l)
	assert.NoError(t, redistest.Next(t, "AwaitFree", done))
}

// rises notes a token, which must be higher than those before.
func (k *kinds) rises(t *testing.T, name string, token uint64) {
	t.Helper()
	assert.More(t, token, k.tokens[name], "%s: token", name)
	k.tokens[name] = token
}

func (k *kinds) readersAndSteps(t *testing.T) {
	const name = "rw"
	first := harness.Acquire(t, k.one.RWMutex(name).RLock)
	second := harness.Acquire(t, k.other.RWMutex(name).RLock)
	assert.Is(t, first.Upgrade(harness.Within(t)), holdfast.ErrHeld)
	harness.Release(t, second)
	assert.Must(t, first.Upgrade(harness.Within(t)))
	k.rises(t, name, first.Token())
	reader := k.other.acquiring(t, name, k.other.RWMutex(name).RLock)
	assert.Must(t, first.Downgrade(harness.Within(t)))
	second = harness.Granted(t, reader)
	k.rises(t, name, second.Token())
	writer := k.one.acquiring(t, name, k.one.RWMutex(name).Lock)
	harness.Release(t, first)
	harness.Release(t, second)
	l := harness.Granted(t, writer)
	k.rises(t, name, l.Token())
	harness.Release(t, l)
}

func (k *kinds) permits(t *testing.T) {
	const name = "permits"
	one, other := k.one.Semaphore(name, 2), k.other.Semaphore(name, 2)
	first := harness.Acquire(t, func(ctx context.Context) (*holdfast.Lease, error) { return one.Acquire(ctx, 2) })
	k.rises(t, name, first.Token())
	next := k.other.acquiring(t, name, func(ctx context.Context) (*holdfast.Lease, error) {
		return other.Acquire(ctx, 2)
	})
	assert.Must(t, one.SetLimit(harness.Within(t), 4))
	second := harness.Granted(t, next)
	k.rises(t, name, second.Token())
	var full *holdfast.HeldError
	_, err := one.TryAcquire(harness.Within(t), 1)
	assert.True(t, errors.As(err, &full), "more than the limit: %v", err)
	third := k.other.acquiring(t, name, func(ctx context.Context) (*holdfast.Lease, error) {
		return k.other.Semaphore(name, 4).Acquire(ctx, 1)
	})
	assert.Must(t, first.KeepPermits(harness.Within(t), 1))
	harness.Release(t, harness.Granted(t, third))
	err = first.Shorten(harness.Within(t), ttl/2)
	assert.True(t, err == nil && first.Remaining() < ttl/2, "Shorten: %v, for %v", err, first.Remaining())
	harness.Release(t, first)
	harness.Release(t, second)
}

// several acquires locks of many slots, and so of all nodes. A client that wants some of
// them waits, and gets them together.
func (k *kinds) several(t *testing.T) {
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprint("part", i))
	}
	l, err := k.one.MultiMutex(names).Lock(harness.Within(t))
	assert.Must(t, err)
	for _, name := range names {
		k.rises(t, name, l.Token(name))
	}
	assert.Is(t, assert.Err(k.other.MultiMutex(names[3:5]).TryLock(harness.Within(t))), holdfast.ErrHeld)
	next := k.waitsForSeveral(t, names[3:5], names[3])
	assert.NoError(t, l.Release(harness.Within(t)))
	next()

	// A call that waits for one of them keeps the others from nobody.
	held := harness.Lock(t, k.one.Mutex(names[5]))
	next = k.waitsForSeveral(t, names[3:6], names[5])
	for _, name := range names[3:5] {
		harness.Release(t, harness.Lock(t, k.one.Mutex(name)))
	}
	harness.Release(t, held)
	next()
}

// waitsForSeveral returns when the other client wants all of the locks and waits for one of them. next waits until it
// has had them all.
func (k *kinds) waitsForSeveral(t *testing.T, names []string, name string) (next func()) {
	type got struct {
		lease *holdfast.MultiLease
		err   error
	}
	done := make(chan got, 1)
	before, ctx := len(k.other.Of(observe.EventWait, name)), harness.Within(t)
	go func() {
		l, err := k.other.MultiMutex(names).Lock(ctx)
		done <- got{l, err}
	}()
	k.other.Await(t, observe.EventWait, name, before+1)
	return func() {
		t.Helper()
		got := <-done
		assert.Must(t, got.err)
		for _, name := range names {
			k.rises(t, name, got.lease.Token(name))
		}
		assert.NoError(t, got.lease.Release(harness.Within(t)))
	}
}

// period runs a job once, whichever client asks, and not again after a failover.
func (k *kinds) period(t *testing.T) {
	ran := 0
	for _, p := range []*party{k.one, k.other} {
		turn, err := p.Periodic("job", time.Hour).Do(harness.Within(t), func(context.Context) error {
			ran++
			return nil
		})
		assert.NoError(t, err)
		if turn.Ran {
			k.rises(t, "job", turn.Token)
		}
	}
	want := 0
	if k.rounds == 1 {
		want = 1
	}
	assert.True(t, ran == want, "round %d: the job ran %d times", k.rounds, ran)
}

// leaders follow each other, and an observer sees it.
func (k *kinds) leaders(t *testing.T) {
	ctx, cancel := context.WithCancel(harness.Within(t))
	defer cancel()
	seen, ended := make(chan holdfast.Leader, 100), make(chan struct{})
	go func() {
		defer close(ended)
		for l, err := range k.other.Election("e").Observe(ctx) {
			if err == nil {
				seen <- l
			}
		}
	}()
	sees := func(value string) {
		t.Helper()
		late := time.After(redistest.Patience)
		for {
			select {
			case l := <-seen:
				if l.Value == value {
					return
				}
			case <-late:
				t.Fatalf("nobody is seen to lead with %q", value)
			}
		}
	}
	for i, p := range []*party{k.one, k.other} {
		value := fmt.Sprint("leader ", i, " of round ", k.rounds)
		lead, err := p.Election("e").Campaign(harness.Within(t), value)
		assert.Must(t, err)
		k.rises(t, "e", lead.Token())
		sees(value)
		assert.NoError(t, lead.Release(harness.Within(t)))
	}
	cancel()
	<-ended
}

// crashes makes a client lead and end without a word. Its lease is longer than the patience
// of the tests.
func (k *kinds) crashes(t *testing.T, p *party) *holdfast.Leadership {
	t.Helper()
	lead, err := p.Election("restarted", holdfast.TTL(time.Hour)).Campaign(harness.Within(t), "here")
	assert.Must(t, err)
	p.Abandon()
	return lead
}

// resumes goes on with a term that began before a failover, past a candidate that waits.
func (k *kinds) resumes(t *testing.T, saved *holdfast.Leadership) {
	t.Helper()
	next, before := make(chan error, 1), len(k.other.Of(observe.EventWait, "restarted"))
	var follows *holdfast.Leadership
	go func() {
		var err error
		follows, err = k.other.Election("restarted").Campaign(harness.Within(t), "next")
		next <- err
	}()
	k.other.Await(t, observe.EventWait, "restarted", before+1)
	lead, err := k.one.Election("restarted").ResumeAtOnce(harness.Within(t), saved.HolderID(), saved.Token())
	assert.Must(t, err)
	k.rises(t, "restarted", saved.Token())
	k.rises(t, "restarted", lead.Token())
	seen, err := k.other.Election("restarted").Leader(harness.Within(t))
	if err != nil || seen.Token != lead.Token() || seen.Value != "here" || lead.Value() != "here" {
		t.Errorf("term %d with %q is seen (%v), not term %d with %q",
			seen.Token, seen.Value, err, lead.Token(), lead.Value())
	}
	_, err = k.one.Election("restarted").Resume(harness.Within(t), saved.HolderID(), saved.Token())
	assert.False(t, !errors.Is(err, holdfast.ErrNotHeld), "the term is resumed twice: %v", err)
	assert.NoError(t, lead.Release(harness.Within(t)))
	assert.Must(t, redistest.Next(t, "the next leader", next))
	k.rises(t, "restarted", follows.Token())
	assert.NoError(t, follows.Release(harness.Within(t)))
}
