package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

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
	fmt.Println(leader.Value, leader.Token == lead.Token())
	fmt.Println(lead.Proclaim(ctx, "10.0.0.7:8443"), lead.Release(ctx))
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
		if leader.Token == 0 {
			fmt.Println("nobody leads")
			break
		}
		fmt.Println("leader:", leader.Value)
		lead.Release(ctx)
	}
	// Output:
	// leader: 10.0.0.7:8080
	// nobody leads
}

func ExampleClient_Election() {
	ctx := context.Background()
	election := newClient(memstore.New()).Election("scheduler", holdfast.TTL(10*time.Second))
	lead, err := election.Campaign(ctx, "10.0.0.7:8080") // if the leader dies, another leads within 10 s
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lead.Value(), lead.Release(ctx))
	// Output: 10.0.0.7:8080 <nil>
}

func ExampleElection_Leader() {
	ctx := context.Background()
	election := newClient(memstore.New()).Election("scheduler")
	_, err := election.Leader(ctx)
	fmt.Println("nobody leads:", errors.Is(err, holdfast.ErrNoLeader))
	lead, _ := election.Campaign(ctx, "10.0.0.7:8080")
	leader, err := election.Leader(ctx)
	fmt.Println(leader.Value, err)
	_ = lead.Release(ctx)
	// Output:
	// nobody leads: true
	// 10.0.0.7:8080 <nil>
}

func ExampleElection_Name() {
	fmt.Println(newClient(memstore.New()).Election("scheduler").Name())
	// Output: scheduler
}

// The leader's address has changed; its term has not.
func ExampleLeadership_Proclaim() {
	ctx := context.Background()
	election := newClient(memstore.New()).Election("scheduler")
	lead, _ := election.Campaign(ctx, "10.0.0.7:8080")
	if err := lead.Proclaim(ctx, "10.0.0.7:8443"); err != nil {
		fmt.Println(err)
	}
	leader, _ := election.Leader(ctx)
	fmt.Println(leader.Value, leader.Token == lead.Token())
	_ = lead.Release(ctx)
	// Output: 10.0.0.7:8443 true
}

func ExampleLeadership_Value() {
	ctx := context.Background()
	lead, _ := newClient(memstore.New()).Election("scheduler").Campaign(ctx, "10.0.0.7:8080")
	fmt.Println(lead.Value())
	_ = lead.Release(ctx)
	// Output: 10.0.0.7:8080
}

// The term is a fencing token. A leader sends it with every command, and a worker refuses
// a lower term than the highest that it has seen.
func ExampleLeadership_Token() {
	ctx := context.Background()
	election := newClient(memstore.New()).Election("scheduler")
	first, _ := election.Campaign(ctx, "a")
	_ = first.Release(ctx)
	second, _ := election.Campaign(ctx, "b")
	fmt.Println(first.Token() < second.Token())
	_ = second.Release(ctx)
	// Output: true
}

func ExampleLeadership_Context() {
	ctx := context.Background()
	lead, _ := newClient(memstore.New()).Election("scheduler").Campaign(ctx, "a")
	work := lead.Context() // for work that only the leader may do
	fmt.Println("before:", work.Err())
	_ = lead.Release(ctx)
	fmt.Println("after:", context.Cause(work))
	// Output:
	// before: <nil>
	// after: holdfast: lease is released
}

func ExampleLeadership_Err() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lead, _ := client.Election("scheduler").Campaign(ctx, "a")
	fmt.Println(lead.Err())
	_, _ = client.Evict(ctx, "scheduler", holdfast.Eviction{By: "ann", Reason: "hangs"})
	_ = lead.Proclaim(ctx, "b") // asks the server; without it the next renewal tells
	fmt.Println(errors.Is(lead.Err(), holdfast.ErrLost))
	// Output:
	// <nil>
	// true
}

func ExampleLeadership_Remaining() {
	ctx := context.Background()
	lead, _ := newClient(memstore.New()).Election("scheduler", holdfast.TTL(time.Minute)).Campaign(ctx, "a")
	fmt.Println(lead.Remaining() > 50*time.Second)
	_ = lead.Release(ctx)
	fmt.Println(lead.Remaining())
	// Output:
	// true
	// 0s
}

func ExampleLeadership_HolderID() {
	ctx := context.Background()
	election := newClient(memstore.New()).Election("scheduler")
	lead, _ := election.Campaign(ctx, "a")
	leader, _ := election.Leader(ctx)
	fmt.Println("it is me:", leader.HolderID == lead.HolderID())
	_ = lead.Release(ctx)
	// Output: it is me: true
}

// The next candidate leads at once.
func ExampleLeadership_Release() {
	ctx := context.Background()
	store := memstore.New()
	anna, _ := newClient(store).Election("scheduler").Campaign(ctx, "anna")
	time.AfterFunc(10*time.Millisecond, func() { _ = anna.Release(ctx) })

	ben, err := newClient(store).Election("scheduler").Campaign(ctx, "ben")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(ben.Value(), "leads, and anna does not:", anna.Err() != nil)
	_ = ben.Release(ctx)
	// Output: ben leads, and anna does not: true
}

// The leader resigns when the program gets a signal to end.
func ExampleLeadership_ReleaseWhenDone() {
	client := newClient(memstore.New())
	program, end := context.WithCancel(context.Background()) // for example by signal.NotifyContext
	lead, _ := client.Election("scheduler").Campaign(program, "10.0.0.1:80")
	_ = lead.ReleaseWhenDone(program)

	end()
	<-lead.Context().Done()
	fmt.Println(lead.Err())
	// Output: holdfast: lease is released
}

// A leader that has restarted goes on with the term that it has stored.
func ExampleElection_Resume() {
	ctx := context.Background()
	store := memstore.New()
	client := newClient(store)
	former, _ := client.Election("scheduler", holdfast.TTL(100*time.Millisecond)).Campaign(ctx, "10.0.0.1:80")
	client.Abandon() // the process ends

	election := newClient(store).Election("scheduler")
	lead, err := election.Resume(ctx, former.HolderID(), former.Token())
	if errors.Is(err, holdfast.ErrNotHeld) {
		lead, err = election.Campaign(ctx, "10.0.0.1:80") // there is nothing to resume
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lead.Value(), lead.Token() > former.Token())
	_ = lead.Release(ctx)
	// Output: 10.0.0.1:80 true
}

func ExampleElection_ResumeAtOnce() {
	ctx := context.Background()
	store := memstore.New()
	client := newClient(store)
	former, _ := client.Election("scheduler").Campaign(ctx, "10.0.0.1:80")
	client.Abandon() // the process ends

	// This process has the file lock of the former one, so that one has certainly ended.
	lead, err := newClient(store).Election("scheduler").ResumeAtOnce(ctx, former.HolderID(), former.Token())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lead.Value(), lead.Token() > former.Token())
	_ = lead.Release(ctx)
	// Output: 10.0.0.1:80 true
}

func ExampleElection_AwaitFree() {
	ctx := context.Background()
	election := newClient(memstore.New()).Election("scheduler")
	lead, _ := election.Campaign(ctx, "10.0.0.7:8080")
	_ = lead.ReleaseWhenDone(over())
	fmt.Println("nobody leads:", election.AwaitFree(ctx) == nil)
	// Output: nobody leads: true
}
