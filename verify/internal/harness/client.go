package harness

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/store"
)

// Client makes a client, which is closed with the test, and observes it. A lock has
// the prefix of the tests unless cfg says otherwise.
func Client(t testing.TB, s store.Store, cfg holdfast.Config) (*holdfast.Client, *Watch) {
	t.Helper()
	seen := NewWatch()
	cfg.Observer = seen
	cfg.Prefix = cmp.Or(cfg.Prefix, redistest.Prefix())
	cfg.App = cmp.Or(cfg.App, "verify")
	c, err := holdfast.New(s, cfg)
	assert.Must(t, err)
	t.Cleanup(func() {
		// A link that is still silent must not delay the test.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(ctx)
	})
	return c, seen
}

// Key is the key of a lock that has the prefix of the tests.
func Key(name string) string { return redistest.Prefix() + ":{" + name + "}" }

// Within is a context that ends with the patience of the tests. It can be used for
// what cleans up after the test, too.
func Within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Patience)
	t.Cleanup(cancel)
	return ctx
}

// Lock locks a mutex, which must succeed.
func Lock(t testing.TB, m *holdfast.Mutex) *holdfast.Lease {
	t.Helper()
	return Acquire(t, m.Lock)
}

// Acquire acquires a lock of any kind, which must succeed.
func Acquire(t testing.TB, acquire func(context.Context) (*holdfast.Lease, error)) *holdfast.Lease {
	t.Helper()
	l, err := acquire(Within(t))
	assert.Must(t, err)
	return l
}

// Release releases a lease that is still held.
func Release(t testing.TB, l *holdfast.Lease) {
	t.Helper()
	assert.NoError(t, l.Release(Within(t)))
}

// Outcome is what an acquisition returned, and when.
type Outcome struct {
	Lease *holdfast.Lease
	Err   error
	At    time.Time
}

// Acquiring acquires a lock in a goroutine of its own.
func Acquiring(ctx context.Context, acquire func(context.Context) (*holdfast.Lease, error)) <-chan Outcome {
	done := make(chan Outcome, 1)
	go func() {
		l, err := acquire(ctx)
		done <- Outcome{l, err, time.Now()}
	}()
	return done
}

// Waiting starts to acquire a mutex that is held, and returns when its client has reported that it waits.
// The client has reported no wait for this mutex before.
func Waiting(t testing.TB, seen *Watch, m *holdfast.Mutex) <-chan Outcome {
	t.Helper()
	got := Acquiring(Within(t), m.Lock)
	seen.Await(t, observe.EventWait, m.Name(), 1)
	return got
}

// Granted waits for an acquisition that must succeed.
func Granted(t testing.TB, c <-chan Outcome) *holdfast.Lease {
	t.Helper()
	o := redistest.Next(t, "Lock", c)
	assert.MustTrue(t, o.Err == nil, "Lock: %v", o.Err)
	return o.Lease
}

// Lost waits for the end of a lease that nobody released, and checks that everything
// about the lease says why it ended.
func Lost(t testing.TB, l *holdfast.Lease, reason holdfast.LossReason) {
	t.Helper()
	redistest.Next(t, "the end of the lease", l.Context().Done())
	cause := context.Cause(l.Context())
	var why *holdfast.LostError
	assert.True(t, errors.As(cause, &why) && why.Reason == reason && errors.Is(cause, holdfast.ErrLost),
		"the cause of the end is %v, want loss: %s", cause, reason)
	assert.True(t, errors.Is(l.Err(), holdfast.ErrLost) && l.Remaining() == 0,
		"after the loss: Err %v, Remaining %v", l.Err(), l.Remaining())
}

// History is what the clients of a test see of one lock.
type History struct {
	t      testing.TB
	mu     sync.Mutex
	holder *holdfast.Lease
	last   uint64
	grants int
}

// NewHistory makes a history whose errors are those of t.
func NewHistory(t testing.TB) *History { return &History{t: t} }

// Grants is how many leases there were.
func (h *History) Grants() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.grants
}

// Hold is a critical section under a new lease. In it no other lease is trusted, and
// tokens rise.
func (h *History) Hold(l *holdfast.Lease) {
	h.mu.Lock()
	if h.holder != nil && h.holder.Err() == nil {
		h.t.Errorf("two holders: %s and %s", h.holder.HolderID(), l.HolderID())
	}
	assert.True(h.t, l.Token() > h.last, "token %d after %d", l.Token(), h.last)
	h.holder, h.last = l, l.Token()
	h.grants++
	h.mu.Unlock()
	if err := l.Err(); err == nil {
		_ = l.Remaining()
	}
	h.mu.Lock()
	if h.holder == l {
		h.holder = nil
	}
	h.mu.Unlock()
}
