package quorum_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/store"
)

// Each kind of lock works over a quorum. Otherwise its call returns an error that says
// so, and nothing is held.
func TestKindsThatCannotWorkAreRefusedInTheirCall(t *testing.T) {
	nodes := stores(3)
	_, c := open(t, nodes, quorum.Config{})
	ctx := t.Context()
	nothing := func(context.Context) error { t.Error("it ran"); return nil }
	for name, call := range map[string]func(name string) error{
		"semaphore": func(name string) error {
			_, err := c.Semaphore(name, 8).Acquire(ctx, 1)
			return err
		},
		"owner": func(name string) error {
			_, err := c.Mutex(name, holdfast.Owner("order/42")).Lock(ctx)
			return err
		},
		"free permits of a semaphore": func(name string) error {
			_, err := c.Semaphore(name, 8).Available(ctx)
			return err
		},
		"limit of a semaphore": func(name string) error {
			return c.Semaphore(name, 8).SetLimit(ctx, 9)
		},
		"every": func(name string) error {
			_, err := c.Periodic(name, time.Hour).Do(ctx, nothing)
			return err
		},
		"every, in a loop": func(name string) error { return c.Periodic(name, time.Hour).Loop(ctx, nothing) },
		"election": func(name string) error {
			_, err := c.Election(name).Campaign(ctx, "me")
			return err
		},
		"election, in a loop": func(name string) error {
			return c.Election(name).Loop(ctx, "me", func(ctx context.Context, _ *holdfast.Leadership) error {
				return nothing(ctx)
			})
		},
		"election, resumed": func(name string) error {
			_, err := c.Election(name).Resume(ctx, "client/1", 1<<20)
			return err
		},
		"wait for a free mutex": func(name string) error { return c.Mutex(name).AwaitFree(ctx) },
		"wait for a free lock":  func(name string) error { return c.RWMutex(name).AwaitFree(ctx) },
		"wait for no writer":    func(name string) error { return c.RWMutex(name).AwaitReadable(ctx) },
		"wait for free permits": func(name string) error { return c.Semaphore(name, 8).AwaitFree(ctx, 1) },
		"leader of an election": func(name string) error {
			_, err := c.Election(name).Leader(ctx)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := call(name)
			var server *store.ServerError
			if !errors.Is(err, quorum.ErrUnsupported) || !errors.As(err, &server) || server.Code != "UNSUPPORTED" ||
				errors.Is(err, holdfast.ErrUnknownOutcome) {
				t.Errorf("error %v", err)
			}
			s, err := c.Inspect(ctx, name)
			assert.True(t, err == nil && len(s.Holders) == 0, "left behind %+v, %v", s, err)
		})
	}
}

func TestAConversionIsRefusedAndCostsNothing(t *testing.T) {
	_, c := open(t, stores(3), quorum.Config{})
	rw := c.RWMutex("x")
	reader, err := rw.RLock(t.Context())
	assert.Must(t, err)
	if err := reader.Upgrade(t.Context()); !errors.Is(err, quorum.ErrUnsupported) ||
		errors.Is(err, holdfast.ErrUnknownOutcome) {
		t.Errorf("up: %v", err)
	}
	assert.NoError(t, errors.Join(reader.Err(), reader.Release(t.Context())))
	writer, err := rw.Lock(t.Context())
	assert.Must(t, err)
	if err := writer.Downgrade(t.Context()); !errors.Is(err, quorum.ErrUnsupported) ||
		errors.Is(err, holdfast.ErrUnknownOutcome) {
		t.Errorf("down: %v", err)
	}
	assert.NoError(t, errors.Join(writer.Err(), writer.Release(t.Context())))
}

func TestAcknowledgementsAreRefused(t *testing.T) {
	_, c := open(t, stores(3), quorum.Config{})
	_, err := c.Mutex("x", holdfast.WaitReplicas(1, time.Second)).Lock(t.Context())
	assert.Is(t, err, holdfast.ErrInvalid)
	s, err := c.Inspect(t.Context(), "x")
	assert.True(t, err == nil && len(s.Holders) == 0, "left behind %+v, %v", s, err)
}

// Each server knows a lease by another ID. So the lease of another process is not taken for one that has ended.
func TestALeaseOfAnotherProcessIsRefused(t *testing.T) {
	nodes := stores(3)
	_, c := open(t, nodes, quorum.Config{})
	_, other := open(t, nodes, quorum.Config{})
	l, err := c.Mutex("x", holdfast.NoRenewal()).Lock(t.Context())
	assert.Must(t, err)
	handed, _ := holdfast.LeaseOf(l.Context())
	_, err = other.ExtendLease(t.Context(), handed, time.Minute)
	assert.Is(t, err, holdfast.ErrInvalid)
	assert.Is(t, other.ReleaseLease(t.Context(), handed), holdfast.ErrInvalid)
	assert.NoError(t, errors.Join(l.Err(), l.Release(t.Context())))
}

func TestAMinimumHoldIsKeptOnAMajority(t *testing.T) {
	nodes := stores(3)
	_, c := open(t, nodes, quorum.Config{})
	l, err := c.Mutex("x", holdfast.MinHold(time.Hour)).Lock(t.Context())
	assert.Must(t, err)
	assert.Must(t, l.Release(t.Context()))
	_, err = c.Mutex("x").TryLock(t.Context())
	var held *holdfast.HeldError
	assert.True(t, errors.As(err, &held) && held.Remaining >= 50*time.Minute,
		"want an error that says 50 minutes or more, got %v", err)
	s, err := c.Inspect(t.Context(), "x")
	assert.True(t, err == nil && len(s.Holders) == 1 && s.Holders[0].Released, "seen as %+v, %v", s, err)
	for _, n := range nodes {
		n.(*memstore.Store).Advance(2 * time.Hour)
	}
	l, err = c.Mutex("x").Lock(t.Context())
	assert.Must(t, err)
	assert.NoError(t, l.Release(t.Context()))
}

func TestAShorteningIsRefusedAndCostsNoLease(t *testing.T) {
	_, c := open(t, stores(3), quorum.Config{})
	l, err := c.Mutex("x").Lock(t.Context())
	assert.Must(t, err)
	if err := l.Shorten(t.Context(), time.Second); !errors.Is(err, quorum.ErrUnsupported) ||
		errors.Is(err, holdfast.ErrUnknownOutcome) {
		t.Errorf("error %v", err)
	}
	assert.NoError(t, errors.Join(l.Err(), l.Release(t.Context())))
}
