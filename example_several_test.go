package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

// A transfer needs both accounts, whatever order others name them in.
func ExampleClient_All() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, err := client.All([]string{"account/7", "account/3"}).Lock(ctx)
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

	_, err := client.All([]string{"account/3", "account/7"}).TryLock(ctx)
	var busy *holdfast.HeldError
	fmt.Println(errors.As(err, &busy), busy.Name)
	// Output: true account/7
}

func ExampleMultiMutex_Do() {
	client := newClient(memstore.New())
	err := client.All([]string{"account/3", "account/7"}).Do(context.Background(), func(ctx context.Context) error {
		return ctx.Err() // ctx ends if either lock is lost
	})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleMultiLease_Extend() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.All([]string{"a", "b"}, holdfast.TTL(time.Second)).Lock(ctx)
	defer lease.Release(ctx)
	fmt.Println(lease.Extend(ctx, time.Minute), lease.Remaining() > 50*time.Second)
	// Output: <nil> true
}

// Three copies of a nightly job start; one of them runs.
func ExampleClient_Every() {
	ctx := context.Background()
	store := memstore.New()
	for i := range 3 {
		client := newClient(store)
		turn, err := client.Every("nightly report", 12*time.Hour).Do(ctx, func(context.Context) error {
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

// A lottery at noon, UTC: every process loops, one of them runs it each day.
func ExampleEvery_Loop() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	client := newClient(memstore.New())
	noon := client.Every("lottery", 24*time.Hour, holdfast.At(12*time.Hour))
	err := noon.Loop(ctx, func(context.Context) error {
		fmt.Println("and the winner is")
		return nil
	})
	fmt.Println("stopped:", errors.Is(err, context.DeadlineExceeded))
	// Output: stopped: true
}

func ExampleAgainOnError() {
	ctx := context.Background()
	client := newClient(memstore.New())
	job := client.Every("import", time.Hour, holdfast.AgainOnError())
	for _, failure := range []error{errors.New("no route"), nil} {
		turn, err := job.Do(ctx, func(context.Context) error { return failure })
		fmt.Println(turn.Ran, err)
	}
	// Output:
	// true no route
	// true <nil>
}

func ExampleAt() {
	client := newClient(memstore.New())
	hourly := client.Every("tick", time.Hour, holdfast.At(5*time.Minute)) // at five past, by the server's clock
	turn, err := hourly.Do(context.Background(), func(context.Context) error { return nil })
	fmt.Println(turn.Ran, turn.Next <= time.Hour, err)
	// Output: true true <nil>
}

func ExampleElection_Do() {
	client := newClient(memstore.New())
	err := client.Election("scheduler").Do(context.Background(), "10.0.0.7:8080",
		func(ctx context.Context, lead *holdfast.Leadership) error {
			fmt.Println("leading:", lead.Value())
			return ctx.Err() // ctx ends if the lead is lost
		})
	fmt.Println(err)
	// Output:
	// leading: 10.0.0.7:8080
	// <nil>
}

func ExampleElection_Campaign() {
	ctx := context.Background()
	client := newClient(memstore.New())
	election := client.Election("scheduler")
	lead, err := election.Campaign(ctx, "10.0.0.7:8080")
	if err != nil {
		fmt.Println(err)
		return
	}
	leader, _ := election.Leader(ctx)
	fmt.Println(leader.Value, leader.Term == lead.Term())
	fmt.Println(lead.Proclaim(ctx, "10.0.0.7:8443"), lead.Resign(ctx))
	_, err = election.Leader(ctx)
	fmt.Println(errors.Is(err, holdfast.ErrNoLeader))
	// Output:
	// 10.0.0.7:8080 true
	// <nil> <nil>
	// true
}

func ExampleElection_Loop() {
	client := newClient(memstore.New())
	err := client.Election("scheduler").Loop(context.Background(), "10.0.0.7:8080",
		func(context.Context, *holdfast.Leadership) error {
			return errors.New("had enough") // while it leads: that ends the loop, a loss does not
		})
	fmt.Println(err)
	// Output: had enough
}

func ExampleElection_Observe() {
	ctx := context.Background()
	client := newClient(memstore.New())
	election := client.Election("scheduler")
	lead, _ := election.Campaign(ctx, "10.0.0.7:8080")
	for leader, err := range election.Observe(ctx) {
		if err != nil {
			fmt.Println("nothing is known at the moment:", err)
			continue
		}
		if leader.Term == 0 {
			fmt.Println("nobody leads")
			break
		}
		fmt.Println("leader:", leader.Value)
		lead.Resign(ctx)
	}
	// Output:
	// leader: 10.0.0.7:8080
	// nobody leads
}
