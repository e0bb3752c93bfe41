// Examples of the client, the mutex, its leases and its options.

package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
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
		fmt.Println(held.Name, "is held by", held.HeldBy == lease.HolderID(), "for", held.Remaining > 20*time.Second)
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

// Another process writes the report already: this one skips it.
func ExampleMutex_TryDo() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.Mutex("report").Lock(ctx)

	ran, err := client.Mutex("report").TryDo(ctx, func(ctx context.Context) error { return ctx.Err() })
	fmt.Println(ran, err)
	_ = lease.Release(ctx)
	// Output: false <nil>
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
	_, _ = other.Evict(ctx, "register", holdfast.Eviction{By: "ops", Reason: "the process hangs", AtOnce: true})
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
	fmt.Println(err, job.Schedule.Period, job.Run == nil)

	job, err = client.InspectJob(ctx, "never run")
	fmt.Println(err, job.Schedule.Period)
	// Output:
	// <nil> 1h0m0s true
	// <nil> 0s
}

// A service that cannot remember the highest token asks for each.
func ExampleClient_Check() {
	ctx := context.Background()
	client := newClient(memstore.New())
	report := client.Mutex("report", holdfast.Checked())
	lease, _ := report.Lock(ctx)
	fmt.Println(client.Check(ctx, "report", lease.Token()))

	_ = lease.Release(ctx)
	err := client.Check(ctx, "report", lease.Token())
	fmt.Println(errors.Is(err, holdfast.ErrNotHeld))
	fmt.Println(holdfast.Hint(err))
	// Output:
	// <nil>
	// true
	// refuse what came with this token: its sender must acquire the lock again
}

func ExampleClient_CheckJob() {
	client := newClient(memstore.New())
	_, _ = client.Periodic("report", time.Hour).Do(context.Background(), func(ctx context.Context) error {
		run, _ := holdfast.LeaseOf(ctx)
		fmt.Println(client.CheckJob(ctx, "report", run.Token))
		return nil
	})
	// Output: <nil>
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
	fmt.Println(state.Holders[0].Ending, state.LastEviction.By, state.LastEviction.Reason)
	fmt.Println(errors.Is(stuck.Release(ctx), holdfast.ErrNotHeld))

	state, _ = client.Inspect(ctx, "report")
	fmt.Println(state.Held())
	// Output:
	// 1 <nil>
	// true ann hangs since noon
	// true
	// false
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

// One process acquires the lock and starts the job. Another one finishes it.
func ExampleClient_ExtendLease() {
	ctx := context.Background()
	store := memstore.New()
	client := newClient(store)
	lease, _ := client.Mutex("report", holdfast.TTL(time.Minute), holdfast.NoRenewal()).Lock(ctx)
	handed, _ := holdfast.LeaseOf(lease.Context()) // to be sent to the other process, with the job
	client.Abandon()

	other := newClient(store)
	handed, err := other.ExtendLease(ctx, handed, 10*time.Minute) // and again, before Remaining is over
	fmt.Println(handed.Remaining > 9*time.Minute, err)
	fmt.Println(other.ReleaseLease(ctx, handed))
	// Output:
	// true <nil>
	// <nil>
}

// The work is done by another process than that which acquired the lock.
func ExampleClient_ReleaseLease() {
	ctx := context.Background()
	store := memstore.New()
	client := newClient(store)
	lease, _ := client.Mutex("report", holdfast.NoRenewal()).Lock(ctx)
	handed, _ := holdfast.LeaseOf(lease.Context())
	client.Abandon()

	other := newClient(store)
	fmt.Println(other.ReleaseLease(ctx, handed))
	fmt.Println(other.Mutex("report").TryDo(ctx, func(context.Context) error { return nil }))
	// Output:
	// <nil>
	// true <nil>
}

func ExampleKey() {
	key, _ := holdfast.Key("holdfast", "invoice/42")
	fmt.Println(key)
	// Output: holdfast:{invoice/42}
}

func ExampleHint() {
	store := memstore.New()
	store.PlantForeign("holdfast:{report}") // some other program's data
	_, err := newClient(store).Mutex("report").Lock(context.Background())
	fmt.Println(holdfast.Hint(err))
	// Output: choose another name or prefix: the lock's key holds data that is not a lock
}

// A deployment waits until the nightly report is done. It does not need the lock itself.
func ExampleMutex_AwaitFree() {
	ctx := context.Background()
	nightly := newClient(memstore.New()).Mutex("nightly")
	lease, _ := nightly.Lock(ctx)
	go lease.Release(ctx) // the report ends
	if err := nightly.AwaitFree(ctx); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the report is done")
	// Output: the report is done
}

func ExampleLease_Name() {
	ctx := context.Background()
	lease, _ := newClient(memstore.New()).Mutex("report").Lock(ctx)
	fmt.Println(lease.Name())
	_ = lease.Release(ctx)
	// Output: report
}

func ExampleLease_HolderID() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.Mutex("report").Lock(ctx)
	state, _ := client.Inspect(ctx, "report")
	fmt.Println("it is me:", state.Holders[0].HolderID == lease.HolderID())
	_ = lease.Release(ctx)
	// Output: it is me: true
}

func ExampleLease_Err() {
	ctx := context.Background()
	lease, _ := newClient(memstore.New()).Mutex("report").Lock(ctx)
	fmt.Println(lease.Err())
	_ = lease.Release(ctx)
	fmt.Println(lease.Err())
	// Output:
	// <nil>
	// holdfast: lease is released
}

// Before work that must not be interrupted, check that enough of the lease remains.
func ExampleLease_Remaining() {
	ctx := context.Background()
	lease, _ := newClient(memstore.New()).Mutex("report", holdfast.TTL(time.Minute)).Lock(ctx)
	if lease.Remaining() > 10*time.Second {
		fmt.Println("time enough")
	}
	_ = lease.Release(ctx)
	fmt.Println(lease.Remaining())
	// Output:
	// time enough
	// 0s
}

func ExampleClient_Mutex() {
	client := newClient(memstore.New())
	report := client.Mutex("report", holdfast.TTL(10*time.Second), holdfast.MaxWait(time.Minute))
	err := report.Do(context.Background(), func(ctx context.Context) error { return ctx.Err() })
	fmt.Println(err)
	// Output: <nil>
}

func ExampleMutex_Name() {
	fmt.Println(newClient(memstore.New()).Mutex("report").Name())
	// Output: report
}

func ExampleClient_Stats() {
	ctx := context.Background()
	client, _ := holdfast.New(memstore.New(), holdfast.Config{})
	defer client.Close(ctx)
	lease, _ := client.Mutex("report").Lock(ctx)
	defer lease.Release(ctx)
	stats := client.Stats()
	fmt.Println("holds:", stats.Holds, "waiters:", stats.Waiters)
	// Output: holds: 1 waiters: 0
}

func ExampleClient_ID() {
	s := memstore.New()
	a, b := newClient(s), newClient(s)
	fmt.Println(len(a.ID()), a.ID() != b.ID())
	// Output: 22 true
}

func ExampleLockInfo_Held() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.Mutex("report").Lock(ctx)
	held, _ := client.Inspect(ctx, "report")
	_ = lease.Release(ctx)
	free, _ := client.Inspect(ctx, "report")
	fmt.Println(held.Held(), free.Held()) // for people: the answer may be out of date
	// Output: true false
}

// A grant counts only when a replica has it, so that a failover to that replica does not
// lose it.
func ExampleWaitReplicas() {
	ctx := context.Background()
	s := memstore.New()
	s.SetAcks(store.Acks{Replicas: 1}) // as if it had one
	client := newClient(s)
	lease, err := client.Mutex("report", holdfast.WaitReplicas(1, 10*time.Millisecond)).Lock(ctx)
	fmt.Println("one replica:", err)
	_ = lease.Release(ctx)

	_, err = client.Mutex("report", holdfast.WaitReplicas(2, 10*time.Millisecond)).Lock(ctx)
	var missing *holdfast.MismatchError
	if errors.As(err, &missing) {
		fmt.Println("two of them: got", missing.Got)
	}
	// Output:
	// one replica: <nil>
	// two of them: got 1 replica
}

// A grant counts only when it is on disk, so that a crash of the server does not lose it.
func ExampleWaitAOF() {
	ctx := context.Background()
	s := memstore.New()
	client := newClient(s)
	report := client.Mutex("report", holdfast.WaitAOF(0, 10*time.Millisecond))
	_, err := report.Lock(ctx)
	fmt.Println("no disk:", errors.Is(err, holdfast.ErrNotAcked))

	s.SetAcks(store.Acks{LocalAOF: 1})
	lease, err := report.Lock(ctx)
	fmt.Println("on disk:", err)
	_ = lease.Release(ctx)
	// Output:
	// no disk: true
	// on disk: <nil>
}

// A request handler locks what it works on, for as long as the request lasts.
func ExampleLease_Release_atTheEndOfAContext() {
	client := newClient(memstore.New())
	request, end := context.WithCancel(context.Background())
	lease, _ := client.Mutex("basket/42").Lock(request)
	context.AfterFunc(request, func() { _ = lease.Release(request) })

	end()
	<-lease.Context().Done()
	fmt.Println(context.Cause(lease.Context()))
	// Output: holdfast: lease is released
}

// Only the last step is left. If the process dies now, others need not wait for long.
func ExampleLease_Shorten() {
	ctx := context.Background()
	lease, _ := newClient(memstore.New()).Mutex("report", holdfast.TTL(time.Minute)).Lock(ctx)

	if err := lease.Shorten(ctx, 5*time.Second); err != nil {
		fmt.Println(err)
	}
	fmt.Println(lease.Remaining() < 5*time.Second)
	_ = lease.Release(ctx)
	// Output: true
}

// A job needs less of the pool once its first part is done.
func ExampleLease_KeepPermits() {
	ctx := context.Background()
	pool := newClient(memstore.New()).Semaphore("workers", 8)
	lease, _ := pool.Acquire(ctx, 6)

	if err := lease.KeepPermits(ctx, 2); err != nil {
		fmt.Println(err)
	}
	free, _ := pool.Available(ctx)
	fmt.Println(free)
	_ = lease.Release(ctx)
	// Output: 6
}

// A function that acquires a lock may be called by a function that holds it.
func ExampleReentrant() {
	client := newClient(memstore.New())
	account := client.Mutex("account/7", holdfast.Reentrant())
	book := func(ctx context.Context) error {
		return account.Do(ctx, func(context.Context) error {
			fmt.Println("booking")
			return nil
		})
	}

	err := account.Do(context.Background(), func(ctx context.Context) error {
		return errors.Join(book(ctx), book(ctx)) // both cost no request
	})
	fmt.Println(err)
	// Output:
	// booking
	// booking
	// <nil>
}

// The payment hands the order over to the shipping, which is another process. No other
// client gets the lock in between.
func ExampleOwner() {
	ctx := context.Background()
	store := memstore.New()
	payment, shipping, customer := newClient(store), newClient(store), newClient(store)
	workflow := holdfast.Owner("workflow of order 42")

	paid, _ := payment.Mutex("order/42", workflow).Lock(ctx)
	shipped, _ := shipping.Mutex("order/42", workflow).Lock(ctx) // it does not wait
	_ = paid.Release(ctx)

	_, err := customer.Mutex("order/42").TryLock(ctx)
	var held *holdfast.HeldError
	fmt.Println(errors.As(err, &held), held.HeldBy)
	fmt.Println(shipped.Release(ctx))
	// Output:
	// true workflow of order 42
	// <nil>
}

func ExampleLease_HoldCount() {
	ctx := context.Background()
	report := newClient(memstore.New()).Mutex("report", holdfast.Reentrant())

	outer, _ := report.Lock(ctx)
	inner, _ := report.Lock(outer.Context())
	fmt.Println(inner.HoldCount()) // this process knows it, so it costs no request
	_, _ = outer.Release(ctx), inner.Release(ctx)
	fmt.Println(inner.HoldCount())
	// Output:
	// 2
	// 0
}

func ExampleTries() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.Mutex("report").Lock(ctx)

	_, err := client.Mutex("report", holdfast.Tries(3, 5*time.Millisecond)).Lock(ctx)
	var held *holdfast.HeldError
	fmt.Println(errors.As(err, &held), held.Tries)
	_ = lease.Release(ctx)
	// Output: true 3
}

func ExampleMaxRenewals() {
	ctx := context.Background()
	client := newClient(memstore.New())
	options := []holdfast.MutexOption{holdfast.TTL(300 * time.Millisecond), holdfast.MaxRenewals(1)}
	lease, _ := client.Mutex("report", options...).Lock(ctx)

	<-lease.Context().Done() // one TTL after the renewal, which comes after a third of the TTL
	fmt.Println(errors.Is(context.Cause(lease.Context()), holdfast.ErrLost))
	fmt.Println(errors.Is(lease.Release(ctx), holdfast.ErrNotHeld))
	// Output:
	// true
	// true
}

func ExampleMaxHold() {
	client := newClient(memstore.New())
	err := client.Mutex("report", holdfast.MaxHold(200*time.Millisecond)).Do(context.Background(),
		func(ctx context.Context) error {
			<-ctx.Done() // the function is told in time, whatever it does
			return context.Cause(ctx)
		})
	fmt.Println(errors.Is(err, holdfast.ErrLost), errors.Is(err, holdfast.ErrNotHeld))
	// Output: true true
}

// The device cannot check a token, and a command to it may be on its way for ten seconds. If a
// holder is lost, nobody gets the lock for that time. A release frees it at once.
func ExampleLockDelay() {
	client := newClient(memstore.New())
	lease, err := client.Mutex("crane/7", holdfast.LockDelay(10*time.Second)).Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	info, err := client.Inspect(context.Background(), "crane/7")
	if err != nil {
		fmt.Println(err)
		return
	}
	holder := info.Holders[0]
	fmt.Println("the server keeps the lease for", holder.Remaining.Round(10*time.Second))
	fmt.Println("its holder trusts it for", (holder.Remaining - holder.LockDelay).Round(10*time.Second))
	fmt.Println(lease.Release(context.Background()))
	// Output:
	// the server keeps the lease for 40s
	// its holder trusts it for 30s
	// <nil>
}

// Several machines start a job at the same hour, and it must run once. Their clocks
// differ by less than a minute, and the job takes a moment.
func ExampleMinHold() {
	client := newClient(memstore.New())
	for _, machine := range []string{"a", "b"} {
		err := client.Mutex("nightly", holdfast.MinHold(time.Minute), holdfast.MaxWait(0)).Do(context.Background(),
			func(context.Context) error {
				fmt.Println(machine, "runs the job")
				return nil
			})
		if errors.Is(err, holdfast.ErrHeld) {
			fmt.Println(machine, "has nothing to do")
		}
	}
	// Output:
	// a runs the job
	// b has nothing to do
}

// Whoever looks at the lock learns for which order it is held.
func ExampleTags() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, err := client.Mutex("shipping", holdfast.Tags(map[string]string{"order": "42"})).Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer lease.Release(ctx)
	for { // the tags appear a moment after the grant
		lock, err := client.Inspect(ctx, "shipping")
		if err != nil {
			fmt.Println(err)
			return
		}
		if tags := lock.Holders[0].Tags; tags != nil {
			fmt.Println("order", tags["order"])
			return
		}
	}
	// Output: order 42
}

// The server knows which lease is the present one only with this option.
func ExampleChecked() {
	ctx := context.Background()
	client := newClient(memstore.New())
	plain, _ := client.Mutex("order/42").Lock(ctx)
	checked, _ := client.Mutex("order/43", holdfast.Checked()).Lock(ctx)
	fmt.Println(errors.Is(client.Check(ctx, "order/42", plain.Token()), holdfast.ErrInvalid))
	fmt.Println(client.Check(ctx, "order/43", checked.Token()))
	// Output:
	// true
	// <nil>
}

// Two calls that take the same locks in different orders may wait for each other. The one that
// began to wait last gives up what it holds, and tries again.
func ExampleBreakDeadlock() {
	ctx := context.Background()
	client := newClient(memstore.New())
	order := client.Mutex("order/42", holdfast.BreakDeadlock())
	stock := client.Mutex("stock/7", holdfast.BreakDeadlock())
	err := order.Do(ctx, func(ctx context.Context) error {
		return stock.Do(ctx, func(context.Context) error { return nil }) // ctx says what this call holds
	})
	if errors.Is(err, holdfast.ErrDeadlock) {
		fmt.Println("try again:", err)
	}
	fmt.Println(err)
	// Output: <nil>
}

// The states of locks have the waits-for graph.
func ExampleDeadlocks() {
	client := newClient(memstore.New())
	var locks []holdfast.LockInfo
	for lock, err := range client.List(context.Background(), "") {
		if err != nil {
			fmt.Println(err)
			return
		}
		locks = append(locks, lock)
	}
	for _, cycle := range holdfast.Deadlocks(locks) {
		fmt.Println("deadlock:", cycle)
	}
	fmt.Println("of", len(locks), "locks")
	// Output: of 0 locks
}
