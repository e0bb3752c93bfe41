package topology_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Every kind of lock works in a Cluster and behind Sentinel, before and after
// a failover.
func TestEveryKindInACluster(t *testing.T) {
	inCluster(t, func(t *testing.T, c *redistest.Cluster, open func(testing.TB) *party) {
		k := kinds{one: open(t), other: open(t), tokens: make(map[string]uint64)}
		k.all(t)
		c.FailOver(c.Home(key("rw")))
		c.AwaitReady()
		k.all(t)
	})
}

func TestEveryKindBehindSentinel(t *testing.T) {
	behindSentinel(t, func(t *testing.T, g *redistest.Sentinel, open func(testing.TB) *party) {
		k := kinds{one: open(t), other: open(t), tokens: make(map[string]uint64)}
		k.all(t)
		// What is taken last is acknowledged, and with it all that was before.
		release(t, k.one.lock(t, "mark", holdfast.WaitReplicas(2, time.Second)))
		arrived(t, g.FailOver(), k.one, k.other)
		k.all(t)
	})
}

// kinds are two clients, and the highest token that each lock has had.
type kinds struct {
	one, other *party
	tokens     map[string]uint64
	rounds     int
}

func (k *kinds) all(t *testing.T) {
	t.Helper()
	k.rounds++
	k.readersAndSteps(t)
	k.permits(t)
	k.several(t)
	k.period(t)
	k.leaders(t)
}

// rises notes a token, which must be higher than those before.
func (k *kinds) rises(t *testing.T, name string, token uint64) {
	t.Helper()
	if token <= k.tokens[name] {
		t.Errorf("%s: token %d after %d", name, token, k.tokens[name])
	}
	k.tokens[name] = token
}

type acquiring = func(context.Context) (*holdfast.Lease, error)

func take(t *testing.T, acquire acquiring) *holdfast.Lease {
	t.Helper()
	l, err := acquire(within(t))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// taking acquires in a goroutine of its own, and returns once p stands in line.
func (p *party) taking(t *testing.T, name string, acquire acquiring) <-chan outcome {
	t.Helper()
	done := make(chan outcome, 1)
	before, ctx := p.count(holdfast.EventWait, name), within(t)
	go func() {
		l, err := acquire(ctx)
		done <- outcome{l, err}
	}()
	p.await(t, holdfast.EventWait, name, before+1)
	return done
}

func (k *kinds) readersAndSteps(t *testing.T) {
	const name = "rw"
	first := take(t, k.one.RWMutex(name).RLock)
	second := take(t, k.other.RWMutex(name).RLock)
	if err := first.Upgrade(within(t)); !errors.Is(err, holdfast.ErrHeld) {
		t.Errorf("a step up beside a reader: %v", err)
	}
	release(t, second)
	if err := first.Upgrade(within(t)); err != nil {
		t.Fatalf("Upgrade: %v", err)
	}
	k.rises(t, name, first.Token())
	reader := k.other.taking(t, name, k.other.RWMutex(name).RLock)
	if err := first.Downgrade(within(t)); err != nil {
		t.Fatalf("Downgrade: %v", err)
	}
	second = granted(t, reader)
	k.rises(t, name, second.Token())
	writer := k.one.taking(t, name, k.one.RWMutex(name).Lock)
	release(t, first)
	release(t, second)
	l := granted(t, writer)
	k.rises(t, name, l.Token())
	release(t, l)
}

func (k *kinds) permits(t *testing.T) {
	const name = "permits"
	one, other := k.one.Semaphore(name, 2), k.other.Semaphore(name, 2)
	first := take(t, func(ctx context.Context) (*holdfast.Lease, error) { return one.Acquire(ctx, 2) })
	k.rises(t, name, first.Token())
	next := k.other.taking(t, name, func(ctx context.Context) (*holdfast.Lease, error) { return other.Acquire(ctx, 2) })
	if err := one.SetLimit(within(t), 4); err != nil {
		t.Fatalf("SetLimit: %v", err)
	}
	second := granted(t, next)
	k.rises(t, name, second.Token())
	var full *holdfast.HeldError
	if _, err := one.TryAcquire(within(t), 1); !errors.As(err, &full) {
		t.Errorf("more than the limit: %v", err)
	}
	release(t, first)
	release(t, second)
}

// several takes locks of many slots, so of all nodes; who wants some of them
// waits, and gets them at once.
func (k *kinds) several(t *testing.T) {
	var names []string
	for i := range 8 {
		names = append(names, fmt.Sprint("part", i))
	}
	l, err := k.one.MultiMutex(names).Lock(within(t))
	if err != nil {
		t.Fatalf("All: %v", err)
	}
	for _, name := range names {
		k.rises(t, name, l.Token(name))
	}
	if _, err := k.other.MultiMutex(names[3:5]).TryLock(within(t)); !errors.Is(err, holdfast.ErrHeld) {
		t.Errorf("two that are held: %v", err)
	}
	type got struct {
		lease *holdfast.MultiLease
		err   error
	}
	done := make(chan got, 1)
	before, ctx := k.other.count(holdfast.EventWait, names[3]), within(t)
	go func() {
		l, err := k.other.MultiMutex(names[3:5]).Lock(ctx)
		done <- got{l, err}
	}()
	k.other.await(t, holdfast.EventWait, names[3], before+1)
	if err := l.Release(within(t)); err != nil {
		t.Errorf("Release: %v", err)
	}
	next := <-done
	if next.err != nil {
		t.Fatalf("All, waiting: %v", next.err)
	}
	for _, name := range names[3:5] {
		k.rises(t, name, next.lease.Token(name))
	}
	if err := next.lease.Release(within(t)); err != nil {
		t.Errorf("Release: %v", err)
	}
}

// period runs a job once, whoever asks, and again after a failover not.
func (k *kinds) period(t *testing.T) {
	ran := 0
	for _, p := range []*party{k.one, k.other} {
		turn, err := p.Periodic("job", time.Hour).Do(within(t), func(context.Context) error { ran++; return nil })
		if err != nil {
			t.Errorf("Periodic: %v", err)
		}
		if turn.Ran {
			k.rises(t, "job", turn.Token)
		}
	}
	want := 0
	if k.rounds == 1 {
		want = 1
	}
	if ran != want {
		t.Errorf("round %d: the job ran %d times", k.rounds, ran)
	}
}

// leaders follow each other, and who observes sees it.
func (k *kinds) leaders(t *testing.T) {
	ctx, cancel := context.WithCancel(within(t))
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
		lead, err := p.Election("e").Campaign(within(t), value)
		if err != nil {
			t.Fatalf("Campaign: %v", err)
		}
		k.rises(t, "e", lead.Term())
		sees(value)
		if err := lead.Resign(within(t)); err != nil {
			t.Errorf("Resign: %v", err)
		}
	}
	cancel()
	<-ended
}
