package redisson_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// delayed holds a request to acquire back. To the client it has no answer, and it arrives when the test
// says so.
type delayed struct {
	*goredis.Store

	mu     sync.Mutex
	armed  bool
	arrive func() (string, error)
	held   chan struct{} // closed when a request is held back
	latch  string        // of the attempt whose request that is
}

func (d *delayed) Run(ctx context.Context, s *script.Script, keys, args []string) (string, error) {
	d.mu.Lock()
	if late := d.armed && s.Name == "acquire"; late {
		d.armed, d.latch = false, keys[len(keys)-1]
		d.arrive = func() (string, error) { return d.Store.Run(context.Background(), s, keys, args) }
		close(d.held)
		d.mu.Unlock()
		return "", context.DeadlineExceeded
	}
	d.mu.Unlock()
	return d.Store.Run(ctx, s, keys, args)
}

// next holds the next request to acquire back.
func (d *delayed) next() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.armed, d.held = true, make(chan struct{})
}

func delay(t *testing.T, addr string, kind redisson.Kind) (*delayed, *holdfast.Client) {
	t.Helper()
	d := &delayed{Store: open(t, &redis.Options{Addr: addr})}
	return d, clientOf(t, d, redisson.Config{Kind: kind}, each)
}

// acquirer is what acquires a lock of a kind in its first mode.
func acquirer(c *holdfast.Client, kind redisson.Kind) func(context.Context) (*holdfast.Lease, error) {
	ttl := holdfast.TTL(time.Hour)
	if kind == redisson.ReadWrite {
		return c.RWMutex("order", ttl).RLock
	}
	if kind == redisson.Semaphore {
		s := c.Semaphore("order", 1, ttl)
		return func(ctx context.Context) (*holdfast.Lease, error) { return s.Acquire(ctx, 1) }
	}
	return c.Mutex("order", ttl).Lock
}

var everyKind = []redisson.Kind{
	redisson.Lock, redisson.Fair, redisson.Fenced, redisson.ReadWrite, redisson.Semaphore,
}

// A request to acquire arrives after the release of what another request of the same attempt got. It
// would hold the lock for a TTL, and nobody would know.
func TestALateAcquireOfAReleasedAttemptGetsNothing(t *testing.T) {
	for _, kind := range everyKind {
		t.Run(kind.String(), func(t *testing.T) {
			s := start(t)
			d, c := delay(t, s.Addr(), kind)
			_, other := delay(t, s.Addr(), kind)
			holder := acquireOther(t, other, kind)
			got := locking(t, acquirer(c, kind))
			redistest.Await(t, "the waiter hears", func() bool {
				return len(s.Do(t, "PUBSUB", "CHANNELS", "redisson*").([]any)) > 0
			})
			d.next()
			release(t, holder)
			redistest.Next(t, "the poll without an answer", d.held)
			release(t, redistest.Next(t, "the lock", got)) // of a later poll
			before := s.Do(t, "GET", "order")
			answer, err := d.arrive()
			assert.True(t, answer == "gone" && err == nil, "the late request: %q, %v", answer, err)
			nothingIsHeld(t, s, kind, before)
		})
	}
}

// acquireOther acquires what the waiter then waits for: for a reader, the writer.
func acquireOther(t *testing.T, c *holdfast.Client, kind redisson.Kind) *holdfast.Lease {
	t.Helper()
	acquire := acquirer(c, kind)
	if kind == redisson.ReadWrite {
		acquire = c.Mutex("order", holdfast.TTL(time.Hour)).Lock
	}
	l, err := acquire(t.Context())
	assert.Must(t, err)
	return l
}

func nothingIsHeld(t *testing.T, s *redistest.Server, kind redisson.Kind, permits any) {
	t.Helper()
	for _, key := range keysOf(t, s) {
		latch := strings.HasPrefix(key, "redisson_unlock_latch:") || strings.HasPrefix(key, "redisson_lock_token:")
		assert.False(t, !latch && (kind != redisson.Semaphore || key != "order"), "the key %s is left", key)
	}
	if kind == redisson.Semaphore && s.Do(t, "GET", "order") != permits {
		t.Errorf("%v permits are free, %v before", s.Do(t, "GET", "order"), permits)
	}
}

// A request to acquire arrives after the client has cancelled its attempt: it neither gets the lock nor
// joins the queue, where a dead waiter would keep the others waiting.
func TestALateAcquireOfACancelledAttemptLeavesNothing(t *testing.T) {
	for _, kind := range everyKind {
		for _, busy := range []bool{false, true} {
			t.Run(map[bool]string{false: "free ", true: "held "}[busy]+kind.String(), func(t *testing.T) {
				s := start(t)
				d, c := delay(t, s.Addr(), kind)
				_, other := delay(t, s.Addr(), kind)
				holder := acquireOther(t, other, kind)
				if !busy {
					release(t, holder)
				}
				free := s.Do(t, "GET", "order")
				ctx, cancel := context.WithCancel(t.Context())
				d.next()
				failed := make(chan error, 1)
				go func() {
					_, err := acquirer(c, kind)(ctx)
					failed <- err
				}()
				redistest.Next(t, "the request without an answer", d.held)
				cancel()
				assert.MustTrue(t, redistest.Next(t, "the end of the call", failed) != nil, "the lock was acquired")
				redistest.Await(t, "the cancel", func() bool { return s.Do(t, "EXISTS", d.latch) == int64(1) })
				answer, err := d.arrive()
				assert.True(t, answer == "gone" && err == nil, "the late request: %q, %v", answer, err)
				if busy {
					queue := s.Do(t, "EXISTS", "redisson_lock_queue:{order}", "redisson_lock_timeout:{order}")
					same(t, "the queue", queue, 0)
					release(t, holder)
					free = "1"
				}
				nothingIsHeld(t, s, kind, free)
			})
		}
	}
}
