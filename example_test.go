package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// newClient makes a client of a store in memory. A program hands its
// connection to New: holdfast.New(goredis.New(rdb), holdfast.Config{}).
func newClient(store *memstore.Store) *holdfast.Client {
	client, err := holdfast.New(store, holdfast.Config{App: "example"})
	if err != nil {
		panic(err)
	}
	return client
}

// Two processes want the same invoice.
func Example() {
	ctx := context.Background()
	store := memstore.New()
	a, b := newClient(store), newClient(store)
	defer a.Close(ctx)
	defer b.Close(ctx)

	lease, err := a.Mutex("invoice/42").Lock(ctx)
	if err != nil {
		fmt.Println(err, holdfast.Hint(err))
		return
	}
	if _, err := b.Mutex("invoice/42").TryLock(ctx); errors.Is(err, holdfast.ErrHeld) {
		fmt.Println("b: somebody works on it")
	}
	fmt.Println("a:", lease.Context().Err() == nil)
	if err := lease.Release(ctx); err != nil {
		fmt.Println(err) // the work may have overlapped with that of another client
	}

	err = b.Mutex("invoice/42").Do(ctx, func(ctx context.Context) error {
		fmt.Println("b: working")
		return ctx.Err()
	})
	fmt.Println("b:", err)
	// Output:
	// b: somebody works on it
	// a: true
	// b: working
	// b: <nil>
}

func ExampleNew() {
	_, err := holdfast.New(memstore.New(), holdfast.Config{
		TTL:            10 * time.Second,
		RequestTimeout: 8 * time.Second,
	})
	fmt.Println(errors.Is(err, holdfast.ErrInvalid))
	fmt.Println(strings.ReplaceAll(err.Error(), ", ", ",\n"))
	// Output:
	// true
	// holdfast: invalid: Config.RequestTimeout is 8s,
	// more than half of the TTL of 10s: there would be no time to retry a renewal
}

func ExampleMutex_Lock() {
	client := newClient(memstore.New())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // limits the wait, not the lease
	defer cancel()

	lease, err := client.Mutex("report").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	fmt.Println("holding", lease.Name())
	// Output: holding report
}

func ExampleMutex_TryLock() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.Mutex("report").Lock(ctx)

	_, err := client.Mutex("report").TryLock(ctx)
	var held *holdfast.HeldError
	if errors.As(err, &held) {
		fmt.Println(held.Name, "is held by", held.HeldBy == lease.HolderID(), "for", held.Remaining > 29*time.Second)
	}
	_ = lease.Release(ctx)
	// Output: report is held by true for true
}

func ExampleMutex_Do() {
	client := newClient(memstore.New())
	err := client.Mutex("report").Do(context.Background(), func(ctx context.Context) error {
		// If the lock is lost, ctx ends: then stop.
		fmt.Println("writing")
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// writing
	// <nil>
}

func ExampleMaxWait() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.Mutex("report").Lock(ctx)

	_, err := client.Mutex("report", holdfast.MaxWait(5*time.Millisecond)).Lock(ctx)
	fmt.Println(errors.Is(err, holdfast.ErrHeld))
	_ = lease.Release(ctx)
	// Output: true
}

func ExampleTTL() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.Mutex("report", holdfast.TTL(2*time.Minute)).Lock(ctx)
	fmt.Println(lease.Remaining() > time.Minute)
	_ = lease.Release(ctx)
	// Output: true
}

func ExampleNoRenewal() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.Mutex("report", holdfast.NoRenewal(), holdfast.TTL(200*time.Millisecond)).Lock(ctx)

	<-lease.Context().Done() // nobody extended it
	fmt.Println(context.Cause(lease.Context()))
	fmt.Println(errors.Is(lease.Release(ctx), holdfast.ErrNotHeld))
	// Output:
	// holdfast: lease of "report" lost: no renewal was confirmed in time
	// true
}

// register is a resource that checks tokens: it refuses a lower token than the highest
// that it has seen.
type register struct {
	seen  uint64
	value string
}

func (r *register) write(token uint64, value string) error {
	if token < r.seen {
		return fmt.Errorf("token %d after %d: the writer has lost its lock", token>>10, r.seen>>10)
	}
	r.seen, r.value = token, value
	return nil
}

// A holder that was paused for longer than its lease does not know it. The resource does.
func ExampleLease_Token() {
	ctx := context.Background()
	store := memstore.New()
	paused, other := newClient(store), newClient(store)
	var r register

	first, _ := paused.Mutex("register").Lock(ctx)
	_, _ = other.Evict(ctx, "register", holdfast.Eviction{By: "ops", Reason: "the process hangs"})
	second, _ := other.Mutex("register").Lock(ctx)

	fmt.Println("second:", r.write(second.Token(), "new"))
	fmt.Println("first was refused:", r.write(first.Token(), "old") != nil)
	fmt.Println("value:", r.value)
	_ = second.Release(ctx)
	// Output:
	// second: <nil>
	// first was refused: true
	// value: new
}

func ExampleLease_Context() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.Mutex("report").Lock(ctx)

	work := lease.Context() // for all work under the lock
	fmt.Println("before:", work.Err())
	_ = lease.Release(ctx)
	fmt.Println("after:", context.Cause(work))
	// Output:
	// before: <nil>
	// after: holdfast: lease is released
}

func ExampleLease_Extend() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.Mutex("report").Lock(ctx)

	// Before work that may take longer than the TTL without a renewal.
	err := lease.Extend(ctx, 10*time.Minute)
	fmt.Println(err, lease.Remaining() > 9*time.Minute)
	_ = lease.Release(ctx)
	// Output: <nil> true
}

func ExampleLease_Release() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.Mutex("report").Lock(ctx)

	fmt.Println(lease.Release(ctx))
	fmt.Println(lease.Release(ctx))
	// Output:
	// <nil>
	// holdfast: lease is released
}

// Several machines start a job at the same hour, and it must run once. Their clocks
// differ by less than a minute.
func ExampleLease_ReleaseAfter() {
	ctx := context.Background()
	client := newClient(memstore.New())
	for _, machine := range []string{"a", "b"} {
		lease, err := client.Mutex("nightly").TryLock(ctx)
		if err != nil {
			fmt.Println(machine, "has nothing to do")
			continue
		}
		fmt.Println(machine, "runs the job")
		_ = lease.ReleaseAfter(ctx, time.Minute)
	}
	// Output:
	// a runs the job
	// b has nothing to do
}

func ExampleClient_Inspect() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.Mutex("report").Lock(ctx)

	state, err := client.Inspect(ctx, "report")
	fmt.Println(err, state.Held(), len(state.Holders), len(state.Waiters))
	fmt.Println(state.Holders[0].Mode, state.Holders[0].ClientID == client.ID())
	_ = lease.Release(ctx)
	// Output:
	// <nil> true 1 0
	// exclusive true
}

func ExampleClient_Holders() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.Mutex("report").Lock(ctx)
	defer func() { _ = lease.Release(ctx) }()

	state, err := client.Holders(ctx, "report")
	fmt.Println(err, len(state.Holders), state.Waiting)
	// Output: <nil> 1 0
}

func ExampleClient_List() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.Mutex("order/7").Lock(ctx)
	defer func() { _ = lease.Release(ctx) }()

	for state, err := range client.List(ctx, "order/*") {
		fmt.Println(state.Name, state.Held(), err)
	}
	// Output: order/7 true <nil>
}

func ExampleClient_InspectJob() {
	ctx := context.Background()
	client := newClient(memstore.New())
	_, _ = client.Periodic("report", time.Hour).Do(ctx, func(context.Context) error { return nil })

	job, err := client.InspectJob(ctx, "report")
	fmt.Println(err, job.Known(), job.Schedule.Period, job.Run == nil)
	// Output: <nil> true 1h0m0s true
}

func ExampleJobInfo_Known() {
	job, err := newClient(memstore.New()).InspectJob(context.Background(), "never run")
	fmt.Println(job.Known(), err)
	// Output: false <nil>
}

func ExampleClient_Evict() {
	ctx := context.Background()
	client := newClient(memstore.New())
	stuck, _ := client.Mutex("report").Lock(ctx)

	state, _ := client.Inspect(ctx, "report")
	ended, err := client.Evict(ctx, "report", holdfast.Eviction{
		By: "ann", Reason: "hangs since noon", Token: state.Holders[0].Token,
	})
	fmt.Println(ended, err)

	state, _ = client.Inspect(ctx, "report")
	fmt.Println(state.Held(), state.LastEviction.By, state.LastEviction.Reason)
	fmt.Println(errors.Is(stuck.Release(ctx), holdfast.ErrNotHeld))
	// Output:
	// 1 <nil>
	// false ann hangs since noon
	// true
}

func ExampleClient_Close() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.Mutex("report").Lock(ctx)

	fmt.Println(client.Close(ctx))
	fmt.Println(context.Cause(lease.Context()))
	_, err := client.Mutex("report").Lock(ctx)
	fmt.Println(errors.Is(err, holdfast.ErrClosed))
	// Output:
	// <nil>
	// holdfast: client is closed
	// true
}

// A part of the program learns that another part has closed the client.
func ExampleClient_Done() {
	ctx := context.Background()
	client := newClient(memstore.New())
	go func() { _ = client.Close(ctx) }()

	<-client.Done()
	_, err := client.Mutex("report").Lock(ctx)
	fmt.Println(errors.Is(err, holdfast.ErrClosed))
	// Output: true
}

// A process ends, and no other process may take its work over before its lease expires.
func ExampleClient_Abandon() {
	ctx := context.Background()
	store := memstore.New()
	client, other := newClient(store), newClient(store)
	_, _ = client.Mutex("report").Lock(ctx)

	client.Abandon()
	_, err := other.Mutex("report").TryLock(ctx)
	fmt.Println(errors.Is(err, holdfast.ErrHeld))
	// Output: true
}

func ExampleHint() {
	store := memstore.New()
	store.PlantForeign("holdfast:{report}") // some other program's data
	_, err := newClient(store).Mutex("report").Lock(context.Background())
	fmt.Println(holdfast.Hint(err))
	// Output: choose another name or prefix: the lock's key holds data that is not a lock
}

// grants counts grants.
type grants int

func (g *grants) Observe(e holdfast.Event) {
	if e.Kind == holdfast.EventGrant {
		*g++
	}
}

func ExampleObserver() {
	ctx := context.Background()
	var count grants
	client, _ := holdfast.New(memstore.New(), holdfast.Config{Observer: &count})
	for range 3 {
		_ = client.Mutex("report").Do(ctx, func(context.Context) error { return nil })
	}
	fmt.Println(count)
	// Output: 3
}

// over is a context that has ended.
func over() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// A deployment waits until the nightly report is done. It does not need the lock itself.
func ExampleMutex_AwaitFree() {
	ctx := context.Background()
	nightly := newClient(memstore.New()).Mutex("nightly")
	lease, _ := nightly.Lock(ctx)
	_ = lease.ReleaseWhenDone(over()) // the report ends
	if err := nightly.AwaitFree(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the report is done")
	// Output: the report is done
}
