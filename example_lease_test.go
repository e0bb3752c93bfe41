package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

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

func ExampleLease_Deadline() {
	ctx := context.Background()
	lease, _ := newClient(memstore.New()).Mutex("report", holdfast.TTL(time.Minute)).Lock(ctx)
	before := lease.Deadline() // for people and logs; programs use Remaining
	_ = lease.Extend(ctx, time.Hour)
	fmt.Println("later by most of an hour:", lease.Deadline().Sub(before) > 50*time.Minute)
	_ = lease.Release(ctx)
	// Output: later by most of an hour: true
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
func ExampleLease_ReleaseWhenDone() {
	client := newClient(memstore.New())
	request, end := context.WithCancel(context.Background())
	lease, _ := client.Mutex("basket/42").Lock(request)
	_ = lease.ReleaseWhenDone(request)

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
