package adaptertest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// calling is a call that sends something.
type calling func(ctx context.Context) error

// job is what a call runs.
func job(context.Context) error { return nil }

// plain is a call that needs nothing before its connection dies.
func plain(call func(d *dead, ctx context.Context) error) func(d *dead) calling {
	return func(d *dead) calling {
		return func(ctx context.Context) error { return call(d, ctx) }
	}
}

// with is a call of what an acquisition has got, before the connection dies.
func with[T any](
	acquire func(d *dead, ctx context.Context) (T, error), call func(d *dead, ctx context.Context, got T) error,
) func(d *dead) calling {
	return func(d *dead) calling {
		got, err := acquire(d, d.t.Context())
		assert.Must(d.t, err)
		return func(ctx context.Context) error { return call(d, ctx, got) }
	}
}

func (d *dead) mutex() *holdfast.Mutex       { return d.c.Mutex(d.name) }
func (d *dead) rw() *holdfast.RWMutex        { return d.c.RWMutex(d.name) }
func (d *dead) permits() *holdfast.Semaphore { return d.c.Semaphore(d.name, 3) }
func (d *dead) several() *holdfast.MultiMutex {
	return d.c.MultiMutex([]string{d.name + "/1", d.name + "/2"})
}
func (d *dead) periodic() *holdfast.Periodic { return d.c.Periodic(d.name, time.Hour) }
func (d *dead) election() *holdfast.Election { return d.c.Election(d.name, holdfast.TTL(electionTTL)) }
func (d *dead) theirs() *holdfast.Election {
	return d.other.Election(d.name, holdfast.TTL(electionTTL))
}

// electionTTL is short, because Resume waits for the end of a lease. A request about it may take a third of that.
const electionTTL = 5 * time.Second

type (
	lease  = *holdfast.Lease
	leases = *holdfast.MultiLease
	leads  = *holdfast.Leadership
)

// What calls need before.
func locked(d *dead, ctx context.Context) (lease, error) { return d.mutex().Lock(ctx) }
func checked(d *dead, ctx context.Context) (lease, error) {
	return d.c.Mutex(d.name, holdfast.Checked()).Lock(ctx)
}
func reading(d *dead, ctx context.Context) (lease, error) { return d.rw().RLock(ctx) }
func writing(d *dead, ctx context.Context) (lease, error) { return d.rw().Lock(ctx) }
func holding(d *dead, ctx context.Context) (lease, error) { return d.permits().Acquire(ctx, 2) }
func both(d *dead, ctx context.Context) (leases, error)   { return d.several().Lock(ctx) }
func leading(d *dead, ctx context.Context) (leads, error) { return d.election().Campaign(ctx, "a") }
func led(d *dead, ctx context.Context) (leads, error)     { return d.theirs().Campaign(ctx, "b") }

// handed is a lease of another client.
func handed(d *dead, ctx context.Context) (holdfast.LeaseInfo, error) {
	l, err := d.other.Mutex(d.name, holdfast.NoRenewal()).Lock(ctx)
	if err != nil {
		return holdfast.LeaseInfo{}, err
	}
	return holdfast.LeaseInfo{Name: l.Name(), HolderID: l.HolderID(), Token: l.Token()}, nil
}

// deadCalls are the calls of the API that send something, by "Type.Method", each with what it needs before its
// connection dies. A comma begins another case of one.
var deadCalls = map[string]func(d *dead) calling{
	"Client.Close": with(locked, func(d *dead, ctx context.Context, _ lease) error { return d.c.Close(ctx) }),
	"Client.Evict": func(d *dead) calling {
		assert.Must(d.t, assert.Err(d.other.Mutex(d.name).Lock(d.t.Context())))
		return func(ctx context.Context) error {
			n, err := d.c.Evict(ctx, d.name, holdfast.Eviction{By: "ops", Reason: "test"})
			return cmpErr(err, n == 1, "%d holds ended", n)
		}
	},
	"Client.ExtendLease": with(handed, func(d *dead, ctx context.Context, l holdfast.LeaseInfo) error {
		return assert.Err(d.c.ExtendLease(ctx, l, time.Minute))
	}),
	"Client.ReleaseLease": with(handed, func(d *dead, ctx context.Context, l holdfast.LeaseInfo) error {
		return d.c.ReleaseLease(ctx, l)
	}),
	"Client.Inspect": plain(func(d *dead, ctx context.Context) error { return assert.Err(d.c.Inspect(ctx, d.name)) }),
	"Client.Holders": plain(func(d *dead, ctx context.Context) error { return assert.Err(d.c.Holders(ctx, d.name)) }),
	"Client.InspectJob": plain(func(d *dead, ctx context.Context) error {
		return assert.Err(d.c.InspectJob(ctx, d.name))
	}),
	"Client.Check": with(checked, func(d *dead, ctx context.Context, l lease) error {
		return d.c.Check(ctx, d.name, l.Token())
	}),
	"Client.CheckJob": plain(func(d *dead, ctx context.Context) error {
		return notHeld(d.c.CheckJob(ctx, d.name, 1<<40))
	}),
	"Client.List": with(locked, func(d *dead, ctx context.Context, _ lease) error {
		for info, err := range d.c.List(ctx, d.name) {
			return cmpErr(err, info.Name == d.name, "it lists %q", info.Name)
		}
		return errors.New("it lists nothing")
	}),

	"Mutex.Lock":    plain(func(d *dead, ctx context.Context) error { return assert.Err(d.mutex().Lock(ctx)) }),
	"Mutex.TryLock": plain(func(d *dead, ctx context.Context) error { return assert.Err(d.mutex().TryLock(ctx)) }),
	"Mutex.Lock, MaxWait": plain(func(d *dead, ctx context.Context) error {
		return assert.Err(d.c.Mutex(d.name, holdfast.MaxWait(limit)).Lock(ctx))
	}),
	"Mutex.Lock, pushed": pushed,
	"Mutex.Do":           plain(func(d *dead, ctx context.Context) error { return d.mutex().Do(ctx, job) }),
	"Mutex.TryDo": plain(func(d *dead, ctx context.Context) error {
		return assert.Err(d.mutex().TryDo(ctx, job))
	}),
	"Mutex.AwaitFree": plain(func(d *dead, ctx context.Context) error { return d.mutex().AwaitFree(ctx) }),

	"Mutex.Lock, of an RWMutex": plain(func(d *dead, ctx context.Context) error {
		return assert.Err(d.rw().Lock(ctx))
	}),
	"RWMutex.RLock": plain(func(d *dead, ctx context.Context) error {
		return assert.Err(d.rw().RLock(ctx))
	}),
	"Mutex.TryLock, of an RWMutex": plain(func(d *dead, ctx context.Context) error {
		return assert.Err(d.rw().TryLock(ctx))
	}),
	"RWMutex.TryRLock": plain(func(d *dead, ctx context.Context) error {
		return assert.Err(d.rw().TryRLock(ctx))
	}),
	"Mutex.Do, of an RWMutex": plain(func(d *dead, ctx context.Context) error { return d.rw().Do(ctx, job) }),
	"RWMutex.TryRDo": plain(func(d *dead, ctx context.Context) error {
		return assert.Err(d.rw().TryRDo(ctx, job))
	}),
	"RWMutex.RDo": plain(func(d *dead, ctx context.Context) error { return d.rw().RDo(ctx, job) }),
	"Mutex.AwaitFree, of an RWMutex": plain(func(d *dead, ctx context.Context) error {
		return d.rw().AwaitFree(ctx)
	}),
	"RWMutex.AwaitReadable": plain(func(d *dead, ctx context.Context) error {
		return d.rw().AwaitReadable(ctx)
	}),

	"Semaphore.Acquire": plain(func(d *dead, ctx context.Context) error {
		return assert.Err(d.permits().Acquire(ctx, 2))
	}),
	"Semaphore.TryAcquire": plain(func(d *dead, ctx context.Context) error {
		return assert.Err(d.permits().TryAcquire(ctx, 2))
	}),
	"Semaphore.Do": plain(func(d *dead, ctx context.Context) error { return d.permits().Do(ctx, 1, job) }),
	"Semaphore.TryDo": plain(func(d *dead, ctx context.Context) error {
		return assert.Err(d.permits().TryDo(ctx, 1, job))
	}),
	"Semaphore.AwaitFree": plain(func(d *dead, ctx context.Context) error { return d.permits().AwaitFree(ctx, 1) }),
	"Semaphore.Available": plain(func(d *dead, ctx context.Context) error {
		return assert.Err(d.permits().Available(ctx))
	}),
	"Semaphore.SetLimit": with(holding, func(d *dead, ctx context.Context, _ lease) error {
		return known(d.permits().SetLimit(ctx, 5))
	}),

	"MultiMutex.Lock": plain(func(d *dead, ctx context.Context) error { return assert.Err(d.several().Lock(ctx)) }),
	"MultiMutex.TryLock": plain(func(d *dead, ctx context.Context) error {
		return assert.Err(d.several().TryLock(ctx))
	}),
	"MultiMutex.Do": plain(func(d *dead, ctx context.Context) error { return d.several().Do(ctx, job) }),
	"MultiMutex.TryDo": plain(func(d *dead, ctx context.Context) error {
		return assert.Err(d.several().TryDo(ctx, job))
	}),

	"Periodic.Do": plain(func(d *dead, ctx context.Context) error {
		ran, err := d.periodic().Do(ctx, job)
		return cmpErr(err, ran.Ran, "not run: %+v", ran)
	}),
	"Periodic.Loop": plain(func(d *dead, ctx context.Context) error {
		enough := errors.New("enough")
		err := d.periodic().Loop(ctx, func(context.Context) error { return enough })
		return cmpErr(nil, errors.Is(err, enough), "%v", err)
	}),
	"Periodic.Again": func(d *dead) calling {
		assert.Must(d.t, assert.Err(d.periodic().Do(d.t.Context(), job)))
		return d.periodic().Again
	},
	"Periodic.Reschedule": func(d *dead) calling {
		assert.Must(d.t, assert.Err(d.periodic().Do(d.t.Context(), job)))
		return func(ctx context.Context) error { return known(d.c.Periodic(d.name, 2*time.Hour).Reschedule(ctx)) }
	},

	"Election.Campaign": plain(func(d *dead, ctx context.Context) error {
		return assert.Err(d.election().Campaign(ctx, "a"))
	}),
	"Election.Do": plain(func(d *dead, ctx context.Context) error {
		return d.election().Do(ctx, "a", func(context.Context, *holdfast.Leadership) error { return nil })
	}),
	"Election.Loop": plain(func(d *dead, ctx context.Context) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return d.election().Loop(ctx, "a", func(context.Context, *holdfast.Leadership) error {
			cancel()
			return nil
		})
	}),
	"Election.Leader": with(led, func(d *dead, ctx context.Context, _ leads) error {
		return assert.Err(d.election().Leader(ctx))
	}),
	"Election.Observe": with(led, func(d *dead, ctx context.Context, _ leads) error {
		for _, err := range d.election().Observe(ctx) {
			if err == nil { // on a busy machine the other client may have lost its short lease
				return nil
			}
		}
		return ctx.Err()
	}),
	"Election.Resume": with(led, func(d *dead, ctx context.Context, l leads) error {
		return assert.Err(d.election().Resume(ctx, l.HolderID(), l.Token()))
	}),
	"Election.ResumeAtOnce": with(led, func(d *dead, ctx context.Context, l leads) error {
		return assert.Err(d.election().ResumeAtOnce(ctx, l.HolderID(), l.Token()))
	}),
	"Leadership.Proclaim": with(leading, func(_ *dead, ctx context.Context, l leads) error {
		return l.Proclaim(ctx, "c")
	}),

	"Lease.Release": with(locked, func(_ *dead, ctx context.Context, l lease) error { return l.Release(ctx) }),
	"Lease.ReleaseAfter": with(locked, func(_ *dead, ctx context.Context, l lease) error {
		return l.ReleaseAfter(ctx, time.Second)
	}),
	"Lease.Extend": with(locked, func(_ *dead, ctx context.Context, l lease) error {
		return l.Extend(ctx, time.Minute)
	}),
	"Lease.Shorten": with(locked, func(_ *dead, ctx context.Context, l lease) error {
		return l.Shorten(ctx, 20*time.Second)
	}),
	"Lease.KeepPermits": with(holding, func(_ *dead, ctx context.Context, l lease) error {
		return l.KeepPermits(ctx, 1)
	}),
	"Lease.Upgrade":   with(reading, func(_ *dead, ctx context.Context, l lease) error { return l.Upgrade(ctx) }),
	"Lease.Downgrade": with(writing, func(_ *dead, ctx context.Context, l lease) error { return l.Downgrade(ctx) }),

	"MultiLease.Release": with(both, func(_ *dead, ctx context.Context, l leases) error { return l.Release(ctx) }),
	"MultiLease.Extend": with(both, func(_ *dead, ctx context.Context, l leases) error {
		return l.Extend(ctx, time.Minute)
	}),
	"MultiLease.Shorten": with(both, func(_ *dead, ctx context.Context, l leases) error {
		return l.Shorten(ctx, 20*time.Second)
	}),
}

// pushed waits for a lock that is granted by a push over a dead connection.
func pushed(d *dead) calling {
	held, err := d.other.Mutex(d.name).Lock(d.t.Context())
	assert.Must(d.t, err)
	got := make(chan error, 1)
	go func() { got <- assert.Err(d.mutex().Lock(d.t.Context())) }()
	redistest.Await(d.t, "it waits", func() bool {
		info, err := d.other.Inspect(d.t.Context(), d.name)
		return err == nil && len(info.Waiters) == 1
	})
	return func(ctx context.Context) error {
		if err := held.Release(ctx); err != nil {
			return err
		}
		select {
		case err := <-got:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// known is the error of a change that is not repeated, because a late copy would take a later change back. Its outcome
// may be unknown.
func known(err error) error {
	if errors.Is(err, holdfast.ErrUnknownOutcome) {
		return nil
	}
	return err
}

// notHeld is the error of a check that should find nothing.
func notHeld(err error) error {
	if errors.Is(err, holdfast.ErrNotHeld) {
		return nil
	}
	return cmpErr(err, false, "a lease that was never granted is live")
}

// cmpErr is err, or what is wrong with a result.
func cmpErr(err error, right bool, format string, args ...any) error {
	if err == nil && !right {
		return fmt.Errorf(format, args...)
	}
	return err
}

// apiCalls are the methods of the API that take a context: those of a client, and of what they return.
func apiCalls() (calls []string) {
	background, client := reflect.TypeFor[context.Context](), reflect.TypeFor[holdfast.Client]()
	seen := make(map[reflect.Type]bool)
	var visit func(of reflect.Type)
	visit = func(of reflect.Type) {
		if of.Kind() != reflect.Pointer || of.Elem().PkgPath() != client.PkgPath() || seen[of] {
			return
		}
		seen[of] = true
		for i := range of.NumMethod() {
			m := of.Method(i)
			if m.Type.NumIn() > 1 && m.Type.In(1) == background && !promoted(of.Elem(), m.Name) {
				calls = append(calls, of.Elem().Name()+"."+m.Name)
			}
			for j := range m.Type.NumOut() {
				visit(m.Type.Out(j))
			}
		}
		for i := range of.Elem().NumField() {
			if f := of.Elem().Field(i); f.Anonymous {
				visit(f.Type)
			}
		}
	}
	visit(reflect.PointerTo(client))
	return calls
}

// promoted reports whether a type has a method by a field. It is a call of the field's type.
func promoted(of reflect.Type, method string) bool {
	for i := range of.NumField() {
		if f := of.Field(i); f.Anonymous {
			if _, has := f.Type.MethodByName(method); has {
				return true
			}
		}
	}
	return false
}

// eachCall checks that the table has each call of the API, and nothing else.
func eachCall(t *testing.T) {
	t.Helper()
	calls := apiCalls()
	for _, call := range calls {
		assert.True(t, deadCalls[call] != nil, "no test makes the call %s over a dead connection", call)
	}
	for name := range deadCalls {
		call, _, _ := strings.Cut(name, ",")
		assert.True(t, slices.Contains(calls, call), "the API has no %s", call)
	}
}
