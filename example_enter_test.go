package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

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
