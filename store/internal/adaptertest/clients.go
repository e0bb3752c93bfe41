package adaptertest

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
)

// CloseLeavesNoTimer tests that no timer of the store outlives the client, so that no
// goroutine begins later.
func (l Library) CloseLeavesNoTimer(t *testing.T) {
	st := l.store(t, l.start(t).Addr(), Client{})
	timed, ok := st.(interface{ Timed() bool })
	assert.MustTrue(t, ok, "the store does not tell whether it keeps a timer")
	c, err := holdfast.New(st, holdfast.Config{})
	assert.Must(t, err)
	assert.Must(t, assert.Err(c.Mutex("m").Lock(t.Context())))
	assert.True(t, timed.Timed(), "requests have no time limit")
	assert.Must(t, c.Close(t.Context()))
	assert.True(t, !timed.Timed(), "a timer outlives the client")
}

// TriesAtARefusedPortLeaveNothing tests that thousands of tries at an absent server leave
// nothing behind.
func (l Library) TriesAtARefusedPortLeaveNothing(t *testing.T) {
	c, err := holdfast.New(l.OpenRefused(t), holdfast.Config{})
	assert.Must(t, err)
	redistest.Await(t, "the store finds no server", func() bool {
		_, err := c.Mutex("first").TryLock(t.Context())
		return errors.Is(err, store.ErrNotSent)
	})
	before := runtime.NumGoroutine()
	for i := range 3000 {
		_, err := c.Mutex(fmt.Sprint(i)).TryLock(t.Context())
		assert.MustTrue(t, errors.Is(err, store.ErrNotSent) && !errors.Is(err, holdfast.ErrUnknownOutcome),
			"got %v", err)
	}
	redistest.Await(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+2 })
	assert.NoError(t, c.Close(t.Context()))
}

// UnusableClients tests that a store without a usable client refuses every call, and says
// what it needs.
func (l Library) UnusableClients(t *testing.T) {
	for name, st := range l.Unusable() {
		_, run := st.Run(t.Context(), Echo, nil, []string{"x"})
		need := store.Acks{Replicas: 1}
		_, _, acked := st.(store.Acker).RunAcked(t.Context(), Echo, nil, []string{"x"}, need, time.Second)
		_, listen := st.Listen(t.Context(), "channel", store.Listener{})
		_, server := st.Server(t.Context())
		_, _ = st.Group("a"), st.Sharded()
		for what, err := range map[string]error{"Run": run, "RunAcked": acked, "Listen": listen, "Server": server} {
			var refusal *store.ServerError
			assert.True(t, errors.As(err, &refusal) && refusal.Code == "CLIENT", "%s: %s: %v", name, what, err)
		}
		c, err := holdfast.New(st, holdfast.Config{})
		assert.Must(t, err)
		_, err = c.Mutex("a").Lock(t.Context())
		assert.True(t, err != nil && strings.Contains(err.Error(), "CLIENT"), "%s: %v", name, err)
		err = c.Close(t.Context())
		assert.True(t, err == nil, "%s: %v", name, err)
	}
}

// FullPoolCostsNoLease tests that an application that uses all connections of the client's
// pool takes no lease away, and delays no release: a request for a longer lease is a renewal.
// It returns the store, whose client is closed.
func (l Library) FullPoolCostsNoLease(t *testing.T) store.Store {
	st, occupy := l.OpenOccupied(t, l.start(t))
	c, err := holdfast.New(st, holdfast.Config{})
	assert.Must(t, err)
	lease, err := c.Mutex("a").Lock(t.Context())
	assert.Must(t, err)
	occupy()
	for range 5 {
		assert.NoError(t, lease.Extend(t.Context(), time.Minute))
	}
	assert.NoError(t, lease.Release(t.Context()))
	assert.NoError(t, c.Close(t.Context()))
	return st
}
