// Examples of several locks at once, and of jobs that run once per period.

package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// A transfer needs both accounts. The order of the names does not matter.
func ExampleClient_MultiMutex() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, err := client.MultiMutex([]string{"account/7", "account/3"}).Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("holding", lease.Names())
	fmt.Println("a token for each:", lease.Token("account/3") > 0, lease.Token("account/7") > 0)
	fmt.Println("released:", lease.Release(ctx))
	// Output:
	// holding [account/3 account/7]
	// a token for each: true true
	// released: <nil>
}

func ExampleMultiMutex_TryLock() {
	ctx := context.Background()
	client := newClient(memstore.New())
	held, _ := client.Mutex("account/7").Lock(ctx)
	defer held.Release(ctx)

	_, err := client.MultiMutex([]string{"account/3", "account/7"}).TryLock(ctx)
	var busy *holdfast.HeldError
	fmt.Println(errors.As(err, &busy), busy.Name)
	// Output: true account/7
}

func ExampleMultiMutex_Lock() {
	ctx := context.Background()
	accounts := newClient(memstore.New()).MultiMutex([]string{"account/3", "account/7"}, holdfast.MaxWait(time.Minute))
	lease, err := accounts.Lock(ctx) // both, or neither and an error that names the held one
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("both are held:", lease.Err() == nil)
	_ = lease.Release(ctx)
	// Output: both are held: true
}

// When one of the locks is lost, the lease of all of them ends.
func ExampleMultiLease_Context() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.MultiMutex([]string{"account/3", "account/7"}).Lock(ctx)
	_, _ = client.Evict(ctx, "account/7", holdfast.Eviction{By: "ann", Reason: "hangs"})
	_ = lease.Extend(ctx, time.Minute) // asks the server; without it the next renewal tells

	<-lease.Context().Done()
	var lost *holdfast.LostError
	if errors.As(context.Cause(lease.Context()), &lost) {
		fmt.Println(lost.Name, lost.Reason)
	}
	_ = lease.Release(ctx) // the other one
	// Output: account/7 evicted
}

func ExampleMultiLease_Err() {
	ctx := context.Background()
	lease, _ := newClient(memstore.New()).MultiMutex([]string{"a", "b"}).Lock(ctx)
	fmt.Println(lease.Err())
	_ = lease.Release(ctx)
	fmt.Println(lease.Err())
	// Output:
	// <nil>
	// holdfast: lease is released
}

func ExampleMultiLease_Names() {
	ctx := context.Background()
	lease, _ := newClient(memstore.New()).MultiMutex([]string{"b", "a"}).Lock(ctx)
	fmt.Println(lease.Names()) // in the order in which every client acquires them
	_ = lease.Release(ctx)
	// Output: [a b]
}

// Each of the locks has its own token, for the resource that it protects.
func ExampleMultiLease_Token() {
	ctx := context.Background()
	lease, _ := newClient(memstore.New()).MultiMutex([]string{"account/3", "account/7"}).Lock(ctx)
	for _, name := range lease.Names() {
		fmt.Println(name, lease.Token(name) > 0)
	}
	fmt.Println("of no lock of this lease:", lease.Token("account/1"))
	_ = lease.Release(ctx)
	// Output:
	// account/3 true
	// account/7 true
	// of no lock of this lease: 0
}

func ExampleMultiLease_Remaining() {
	ctx := context.Background()
	lease, _ := newClient(memstore.New()).MultiMutex([]string{"a", "b"}, holdfast.TTL(time.Minute)).Lock(ctx)
	fmt.Println(lease.Remaining() > 50*time.Second)
	_ = lease.Release(ctx)
	fmt.Println(lease.Remaining())
	// Output:
	// true
	// 0s
}

func ExampleMultiLease_Release() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.MultiMutex([]string{"a", "b"}).Lock(ctx)
	fmt.Println(lease.Release(ctx)) // all of them
	_, err := client.Mutex("b").TryLock(ctx)
	fmt.Println("b is free:", err == nil)
	// Output:
	// <nil>
	// b is free: true
}

func ExampleMultiLease_Shorten() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.MultiMutex([]string{"account/1", "account/2"}, holdfast.TTL(time.Minute)).Lock(ctx)

	_ = lease.Shorten(ctx, 5*time.Second)
	fmt.Println(lease.Remaining() < 5*time.Second)
	_ = lease.Release(ctx)
	// Output: true
}

func ExampleMultiMutex_Do() {
	client := newClient(memstore.New())
	accounts := client.MultiMutex([]string{"account/3", "account/7"})
	err := accounts.Do(context.Background(), func(ctx context.Context) error {
		return ctx.Err() // ctx ends if either lock is lost
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleMultiMutex_TryDo() {
	accounts := newClient(memstore.New()).MultiMutex([]string{"account/3", "account/7"})
	ran, err := accounts.TryDo(context.Background(), func(ctx context.Context) error { return ctx.Err() })
	fmt.Println(ran, err)
	// Output: true <nil>
}

func ExampleMultiLease_Extend() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.MultiMutex([]string{"a", "b"}, holdfast.TTL(10*time.Second)).Lock(ctx)
	defer lease.Release(ctx)
	fmt.Println(lease.Extend(ctx, time.Minute), lease.Remaining() > 50*time.Second)
	// Output: <nil> true
}

// Three copies of a nightly job start; one of them runs.
func ExampleClient_Periodic() {
	ctx := context.Background()
	store := memstore.New()
	for i := range 3 {
		client := newClient(store)
		turn, err := client.Periodic("nightly report", 12*time.Hour).Do(ctx, func(context.Context) error {
			fmt.Println("copy", i, "runs")
			return nil
		})
		if err != nil {
			fmt.Println(err)
		} else if !turn.Ran {
			fmt.Println("copy", i, "comes too early, the next period begins in hours:", turn.Next > 11*time.Hour)
		}
		client.Close(ctx)
	}
	// Output:
	// copy 0 runs
	// copy 1 comes too early, the next period begins in hours: true
	// copy 2 comes too early, the next period begins in hours: true
}

// At most one run in each period, by the process that comes first.
func ExamplePeriodic_Do() {
	ctx := context.Background()
	report := newClient(memstore.New()).Periodic("report", 24*time.Hour)
	write := func(ctx context.Context) error {
		fmt.Println("writing the report") // ctx ends if the run's lease is lost
		return ctx.Err()
	}
	for range 2 {
		turn, err := report.Do(ctx, write)
		fmt.Println(turn.Ran, err)
	}
	// Output:
	// writing the report
	// true <nil>
	// false <nil>
}

// A job has no Lease. It finds its fencing token by its context.
func ExampleLeaseOf() {
	report := newClient(memstore.New()).Periodic("report", 24*time.Hour)
	result, err := report.Do(context.Background(), func(ctx context.Context) error {
		lease, ok := holdfast.LeaseOf(ctx)
		fmt.Println(ok, lease.Name, lease.Token > 0, lease.Remaining > time.Second)
		return nil
	})
	fmt.Println(result.Ran, err)
	// Output:
	// true report true true
	// true <nil>
}

func ExamplePeriodic_Name() {
	fmt.Println(newClient(memstore.New()).Periodic("report", 24*time.Hour).Name())
	// Output: report
}

// From now on the job runs once a day. Processes that still ask for once an hour get an
// error.
func ExamplePeriodic_Reschedule() {
	ctx := context.Background()
	client := newClient(memstore.New())
	hourly, daily := client.Periodic("report", time.Hour), client.Periodic("report", 24*time.Hour)
	run := func(context.Context) error { return nil }
	_, err := hourly.Do(ctx, run)
	fmt.Println(err)
	_, err = daily.Do(ctx, run)
	fmt.Println(err)
	fmt.Println(daily.Reschedule(ctx))
	_, err = hourly.Do(ctx, run)
	fmt.Println(errors.Is(err, holdfast.ErrPeriod))
	// Output:
	// <nil>
	// holdfast: job "report" has a period of 1h0m0s, not 24h0m0s
	// <nil>
	// true
}

// A lottery at noon, UTC: every process loops, and each day one of them runs it.
func ExamplePeriodic_Loop() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	client := newClient(memstore.New())
	noon := client.Periodic("lottery", 24*time.Hour, holdfast.StartAt(12*time.Hour))
	err := noon.Loop(ctx, func(context.Context) error {
		fmt.Println("and the winner is")
		return nil
	})
	fmt.Println("stopped:", errors.Is(err, context.DeadlineExceeded))
	// Output: stopped: true
}

func ExamplePeriodic_Again() {
	ctx := context.Background()
	job := newClient(memstore.New()).Periodic("import", 24*time.Hour)
	run := func(context.Context) error { return nil }
	first, _ := job.Do(ctx, run)
	second, _ := job.Do(ctx, run)
	err := job.Again(ctx)
	third, _ := job.Do(ctx, run)
	fmt.Println(first.Ran, second.Ran, err, third.Ran)
	// Output: true false <nil> true
}

func ExampleDoneOnSuccess() {
	ctx := context.Background()
	client := newClient(memstore.New())
	job := client.Periodic("import", time.Hour, holdfast.DoneOnSuccess(3))
	for _, failure := range []error{errors.New("no route"), nil} {
		turn, err := job.Do(ctx, func(context.Context) error { return failure })
		fmt.Println(turn.Ran, err)
	}
	// Output:
	// true no route
	// true <nil>
}

func ExampleStartAt() {
	client := newClient(memstore.New())
	hourly := client.Periodic("tick", time.Hour, holdfast.StartAt(5*time.Minute)) // at five past, by the server's clock
	turn, err := hourly.Do(context.Background(), func(context.Context) error { return nil })
	fmt.Println(turn.Ran, turn.Next <= time.Hour, err)
	// Output: true true <nil>
}
