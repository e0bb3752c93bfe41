// Nobody touches another's hold (G4): if a program drops a lease without releasing it, that is reported, and the lease
// is kept until its TTL is over. The garbage collector is outside of every bubble, so these tests run in real time.

package contract_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/observe"
)

// listener is an Observer that passes some events on.
type listener struct {
	ends    chan observe.Event
	renewed chan struct{} // receives after a renewal
	waits   chan struct{} // receives when a goroutine waits
}

func (l listener) Observe(e observe.Event) {
	switch {
	case e.Kind == observe.EventWait:
		l.waits <- struct{}{}
	case e.Kind == observe.EventLeak || e.Kind == observe.EventLost:
		l.ends <- e
	case e.Kind == observe.EventRenew && e.Err == nil:
		select {
		case l.renewed <- struct{}{}:
		default:
		}
	}
}

// journal is the log of a client.
type journal struct{ assert.Log }

// says reports whether a line about the lease with that token has the text.
func (j *journal) says(text string, token uint64) bool {
	for line := range strings.Lines(j.String()) {
		if strings.Contains(line, text) && strings.Contains(line, "token="+strconv.FormatUint(token, 10)) {
			return true
		}
	}
	return false
}

// fleeting is a TTL for which a test can wait.
const fleeting = 600 * time.Millisecond

// patience is the longest wait for an event.
const patience = time.Minute

// dropping is a client whose leases the garbage collector finds. It runs outside of a
// bubble, because the collector's goroutine may not use what belongs to a bubble.
type dropping struct {
	*holdfast.Client
	store *memstore.Store
	leaks listener
	log   *journal
	other *holdfast.Client
	used  context.Context   // of a dropped lease, if it is in use
	past  []*holdfast.Lease // released, and not collected
}

func newDropping(t *testing.T) *dropping {
	t.Helper()
	d := &dropping{store: memstore.New(), log: new(journal),
		leaks: listener{
			ends: make(chan observe.Event, 16), renewed: make(chan struct{}, 1), waits: make(chan struct{}, 16)}}
	client := func(cfg holdfast.Config) *holdfast.Client {
		cfg.TTL = fleeting
		c, err := holdfast.New(plain{d.store}, cfg)
		assert.Must(t, err)
		t.Cleanup(func() { _ = c.Close(context.Background()) })
		return c
	}
	d.Client = client(holdfast.Config{Observer: d.leaks, Logger: slog.New(slog.NewTextHandler(d.log, nil))})
	d.other = client(holdfast.Config{})
	return d
}

// dropped makes take drop leases, and runs the collector until that many are reported. On
// a busy machine a lease may be lost before; then it is acquired again.
func (d *dropping) dropped(t *testing.T, n int, take func()) (leaks []observe.Event) {
	t.Helper()
	limit := time.After(patience)
	for take(); len(leaks) < n; {
		runtime.GC()
		select {
		case e := <-d.leaks.ends:
			if leaks = append(leaks, e); e.Kind == observe.EventLost {
				leaks = nil
				take()
			}
		case <-time.After(time.Millisecond):
		case <-limit:
			t.Fatalf("%d leaks were reported", len(leaks))
		}
	}
	return leaks
}

// soon is a context with the time limit of the test.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// wantExpired asserts that the lease with this token did not end by a release.
func (d *dropping) wantExpired(t *testing.T, name string, token uint64) {
	t.Helper()
	lost := d.store.Dump("holdfast:{" + name + "}")["lost"]
	assert.True(t, strings.Contains(lost, strconv.FormatUint(token>>10, 10)),
		"%s: the lease with token %d was freed before its TTL was over; expired are %q", name, token>>10, lost)
}

// Any dropped lease is freed only by its TTL and is no longer renewed. A line in the log
// names the lock and the line of code.
func TestALeaseThatIsDroppedIsReportedAndEndsWithItsTTL(t *testing.T) {
	must := func(l *holdfast.Lease, err error) *holdfast.Lease {
		assert.Must(t, err)
		return l
	}
	ctx := soon(t)
	for name, take := range map[string]func(d *dropping) uint64{
		"mutex": func(d *dropping) uint64 { return must(d.Mutex("a").Lock(ctx)).Token() },
		"try": func(d *dropping) uint64 {
			l, err := d.Mutex("a").TryLock(ctx)
			for errors.Is(err, holdfast.ErrHeld) { // by one that was lost before: the server keeps it for a moment
				l, err = d.Mutex("a").TryLock(ctx)
			}
			return must(l, err).Token()
		},
		"writer":    func(d *dropping) uint64 { return must(d.RWMutex("a").Lock(ctx)).Token() },
		"reader":    func(d *dropping) uint64 { return must(d.RWMutex("a").RLock(ctx)).Token() },
		"permits":   func(d *dropping) uint64 { return must(d.Semaphore("a", 3).Acquire(ctx, 2)).Token() },
		"reentrant": func(d *dropping) uint64 { return must(d.Mutex("a", holdfast.Reentrant()).Lock(ctx)).Token() },
		"its context is in use": func(d *dropping) uint64 {
			l := must(d.Mutex("a").Lock(ctx))
			d.used = l.Context()
			return l.Token()
		},
		"handed over in the process, twice": func(d *dropping) uint64 {
			mu := d.Mutex("a")
			l := must(mu.Lock(ctx))
			for range 2 {
				next := make(chan *holdfast.Lease, 1)
				go func() { next <- must(mu.Lock(ctx)) }()
				<-d.leaks.waits
				assert.NoError(t, l.Release(ctx))
				d.past = append(d.past, l)
				l = <-next
			}
			return l.Token()
		},
		"leadership": func(d *dropping) uint64 {
			l, err := d.Election("a").Campaign(ctx, "here")
			assert.Must(t, err)
			return l.Token()
		},
		"several": func(d *dropping) uint64 {
			l, err := d.MultiMutex([]string{"a"}).Lock(ctx)
			assert.Must(t, err)
			return l.Token("a")
		},
		"entered again, and only the first released": func(d *dropping) uint64 {
			mu := d.Mutex("a", holdfast.Reentrant())
			l := must(mu.Lock(ctx))
			must(mu.Lock(l.Context()))
			assert.NoError(t, l.Release(ctx))
			return l.Token()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDropping(t)
			var token uint64
			leak := d.dropped(t, 1, func() { token = take(d) })[0]
			assert.True(t, leak.Name == "a" && leak.Token == token, "reported as %+v", leak)
			// The lock is free after the TTL: no renewal extends it, and nothing frees it
			// earlier.
			l, err := d.other.Mutex("a").Lock(ctx)
			assert.Must(t, err)
			d.wantExpired(t, "a", token)
			runtime.KeepAlive(d.past)
			if d.used != nil {
				wantLost(t, ended(d.used), holdfast.LossExpired)
			}
			assert.NoError(t, l.Release(ctx))
			text := d.log.String()
			if !strings.Contains(text, "without Release") || !strings.Contains(text, "leak_test.go:") ||
				d.log.says("lease lost", token) {
				t.Errorf("logged: %q", text)
			}
		})
	}
}

func TestEachOfSeveralLocksThatWereDroppedEndsWithItsTTL(t *testing.T) {
	d, ctx := newDropping(t), soon(t)
	var tokens map[string]uint64
	d.dropped(t, 2, func() {
		l, err := d.MultiMutex([]string{"a", "b"}).Lock(ctx)
		assert.Must(t, err)
		tokens = map[string]uint64{"a": l.Token("a"), "b": l.Token("b")}
	})
	l, err := d.other.MultiMutex([]string{"a", "b"}).Lock(ctx)
	assert.Must(t, err)
	for name, token := range tokens {
		d.wantExpired(t, name, token)
	}
	assert.NoError(t, l.Release(ctx))
	if text := d.log.String(); !strings.Contains(text, `lock="a, b"`) || !strings.Contains(text, "leak_test.go:") {
		t.Errorf("logged: %q", text)
	}
}

// A reader that is dropped takes nothing from the other readers, and a
// reader that comes later gets a hold that is renewed.
func TestADroppedReaderLeavesTheOthersAlone(t *testing.T) {
	d, ctx := newDropping(t), soon(t)
	rw := d.RWMutex("a", holdfast.TTL(10*fleeting)) // for a machine that pauses for a while
	read := func() *holdfast.Lease {
		l, err := rw.RLock(ctx)
		assert.Must(t, err)
		return l
	}
	var l *holdfast.Lease
	var token uint64
	d.dropped(t, 1, func() { l, token = read(), read().Token() })
	assert.MustTrue(t, token == l.Token(), "they do not share a hold: tokens %d and %d", token, l.Token())
	select { // renewals before the drop do not count
	case <-d.leaks.renewed:
	default:
	}
	select {
	case <-l.Context().Done():
		t.Fatalf("the reader beside it: %v", context.Cause(l.Context()))
	case <-d.leaks.renewed:
	case <-ctx.Done():
		t.Fatal("nothing was renewed")
	}
	assert.NoError(t, l.Release(ctx))
	later := read() // nobody joins the hold of the dropped lease
	assert.True(t, later.Token() != token, "a reader joined a hold that is not renewed")
	assert.NoError(t, later.Release(ctx))
	w, err := d.other.RWMutex("a").Lock(ctx)
	assert.Must(t, err)
	d.wantExpired(t, "a", token)
	assert.NoError(t, w.Release(ctx))
}

// A program may acquire a lease without renewal and let it expire, to do something at
// most once in that time. That is not reported.
func TestALeaseWithoutRenewalThatIsDroppedIsNotReported(t *testing.T) {
	d, ctx := newDropping(t), soon(t)
	token := func() uint64 {
		l, err := d.Mutex("a", holdfast.NoRenewal()).Lock(ctx)
		assert.Must(t, err)
		return l.Token()
	}()
	func() {
		assert.Must(t, assert.Err(d.MultiMutex([]string{"b"}, holdfast.NoRenewal()).Lock(ctx)))
	}()
	for range 10 {
		runtime.GC()
	}
	for _, name := range []string{"a", "b"} {
		assert.Must(t, assert.Err(d.other.Mutex(name).Lock(ctx)))
	}
	d.wantExpired(t, "a", token)
	assert.NoError(t, d.Close(ctx))
	assert.Equal(t, d.log.String(), "", "logged")
	close(d.leaks.ends)
	for e := range d.leaks.ends {
		assert.Equal(t, e.Kind, observe.EventLost, "reported as %+v", e)
	}
}

func TestALeaseInUseIsNoLeak(t *testing.T) {
	leaks := listener{ends: make(chan observe.Event, 1)}
	c, err := holdfast.New(memstore.New(), holdfast.Config{Observer: leaks})
	assert.Must(t, err)
	err = c.Mutex("a").Do(context.Background(), func(ctx context.Context) error {
		for range 5 {
			runtime.GC()
		}
		return ctx.Err()
	})
	assert.NoError(t, err)
	err = c.Close(context.Background())
	assert.True(t, err == nil && len(leaks.ends) == 0, "%v, %d leaks", err, len(leaks.ends))
}
