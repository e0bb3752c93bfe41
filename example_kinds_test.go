// Examples of the other kinds with one lock: readers and a writer, permits, and elections.

package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
)

func ExampleRWMutex() {
	ctx := context.Background()
	client := newClient(memstore.New())
	catalogue := client.RWMutex("catalogue", holdfast.ReadTTL(10*time.Second))

	first, _ := catalogue.RLock(ctx)
	second, _ := catalogue.RLock(ctx) // together with the first, without the network
	_, err := catalogue.TryLock(ctx)
	fmt.Println("a writer beside readers:", errors.Is(err, holdfast.ErrHeld))
	_, _ = first.Release(ctx), second.Release(ctx)

	err = catalogue.Do(ctx, func(ctx context.Context) error {
		fmt.Println("writing alone")
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// a writer beside readers: true
	// writing alone
	// <nil>
}

// A lock here is a name and options: make a new one wherever you need it.
func ExampleClient_RWMutex() {
	client := newClient(memstore.New())
	catalogue := client.RWMutex("catalogue", holdfast.TTL(time.Minute), holdfast.ReadTTL(10*time.Second))
	err := catalogue.RDo(context.Background(), func(ctx context.Context) error { return ctx.Err() })
	fmt.Println(err)
	// Output: <nil>
}

// Readers read for moments only. So a reader that dies does not block a writer for long.
func ExampleReadTTL() {
	ctx := context.Background()
	catalogue := newClient(memstore.New()).RWMutex("catalogue", holdfast.ReadTTL(5*time.Second))
	reader, _ := catalogue.RLock(ctx)
	fmt.Println("a reader's lease is short:", reader.Remaining() < 5*time.Second)
	_ = reader.Release(ctx)
	writer, _ := catalogue.Lock(ctx)
	fmt.Println("a writer's is not:", writer.Remaining() > 20*time.Second)
	_ = writer.Release(ctx)
	// Output:
	// a reader's lease is short: true
	// a writer's is not: true
}

func ExampleRWMutex_RLock() {
	ctx := context.Background()
	catalogue := newClient(memstore.New()).RWMutex("catalogue")
	outer, err := catalogue.RLock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	// Under the context of a lease the reader re-enters, before every waiting writer.
	inner, err := catalogue.RLock(outer.Context())
	fmt.Println("entered again:", err == nil)
	_, _ = inner.Release(ctx), outer.Release(ctx)
	// Output: entered again: true
}

func ExampleRWMutex_TryRLock() {
	ctx := context.Background()
	catalogue := newClient(memstore.New()).RWMutex("catalogue")
	writer, _ := catalogue.Lock(ctx)
	_, err := catalogue.TryRLock(ctx)
	fmt.Println("beside a writer:", errors.Is(err, holdfast.ErrHeld))
	_ = writer.Release(ctx)
	reader, err := catalogue.TryRLock(ctx)
	fmt.Println("after it:", err)
	_ = reader.Release(ctx)
	// Output:
	// beside a writer: true
	// after it: <nil>
}

// A writer waits for the present readers, and not for readers that come after it.
func ExampleRWMutex_Lock() {
	ctx := context.Background()
	store := memstore.New()
	reading, writing := newClient(store), newClient(store)
	reader, _ := reading.RWMutex("catalogue").RLock(ctx)
	time.AfterFunc(10*time.Millisecond, func() { _ = reader.Release(ctx) })

	writer, err := writing.RWMutex("catalogue").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the reader has left:", reader.Err() != nil)
	fmt.Println("its token is lower:", reader.Token() < writer.Token())
	_ = writer.Release(ctx)
	// Output:
	// the reader has left: true
	// its token is lower: true
}

func ExampleRWMutex_TryLock() {
	ctx := context.Background()
	catalogue := newClient(memstore.New()).RWMutex("catalogue")
	writer, err := catalogue.TryLock(ctx)
	fmt.Println("alone:", err)
	_, err = catalogue.TryLock(ctx)
	fmt.Println("beside a writer:", errors.Is(err, holdfast.ErrHeld))
	_ = writer.Release(ctx)
	// Output:
	// alone: <nil>
	// beside a writer: true
}

func ExampleRWMutex_Do() {
	client := newClient(memstore.New())
	err := client.RWMutex("catalogue").Do(context.Background(), func(ctx context.Context) error {
		fmt.Println("writing alone") // ctx ends if the lock is lost
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// writing alone
	// <nil>
}

func ExampleRWMutex_Name() {
	fmt.Println(newClient(memstore.New()).RWMutex("catalogue").Name())
	// Output: catalogue
}

func ExampleRWMutex_RDo() {
	client := newClient(memstore.New())
	err := client.RWMutex("catalogue").RDo(context.Background(), func(ctx context.Context) error {
		fmt.Println("reading")
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// reading
	// <nil>
}

func ExampleRWMutex_TryRDo() {
	catalogue := newClient(memstore.New()).RWMutex("catalogue")
	err := catalogue.Do(context.Background(), func(ctx context.Context) error { // a writer is at work
		ran, err := catalogue.TryRDo(context.Background(), func(ctx context.Context) error { return ctx.Err() })
		fmt.Println(ran, err)
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// false <nil>
	// <nil>
}

// The writer reads what it has written before another client can write.
func ExampleLease_Downgrade() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.RWMutex("catalogue").Lock(ctx)
	written := lease.Token()
	if err := lease.Downgrade(ctx); err != nil {
		fmt.Println(err)
	}
	other, err := client.RWMutex("catalogue").TryRLock(ctx)
	fmt.Println(lease.Token() > written, err)
	_, _ = other.Release(ctx), lease.Release(ctx)
	// Output: true <nil>
}

// Read first, and write only if there is something to write.
func ExampleLease_Upgrade() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.RWMutex("catalogue").RLock(ctx)
	switch err := lease.Upgrade(ctx); {
	case errors.Is(err, holdfast.ErrHeld):
		fmt.Println("others read: let go, and take the lock as a writer")
	case err == nil:
		fmt.Println("writing what was read, and nobody wrote in between")
	}
	_ = lease.Release(ctx)
	// Output: writing what was read, and nobody wrote in between
}

func ExampleSemaphore() {
	ctx := context.Background()
	client := newClient(memstore.New())
	pool := client.Semaphore("converter", 8)

	lease, _ := pool.Acquire(ctx, 6) // a big job
	_, err := pool.TryAcquire(ctx, 3)
	fmt.Println("three more:", errors.Is(err, holdfast.ErrHeld))

	_, err = client.Semaphore("converter", 10).TryAcquire(ctx, 1)
	var limit *holdfast.MismatchError
	if errors.As(err, &limit) {
		fmt.Println("in use with", limit.Got, "not", limit.Want)
	}
	_ = lease.Release(ctx)
	// Output:
	// three more: true
	// in use with 8 not 10
}

func ExampleClient_Semaphore() {
	client := newClient(memstore.New())
	_, err := client.Semaphore("converter", 0).TryAcquire(context.Background(), 1) // the first use tells
	fmt.Println(errors.Is(err, holdfast.ErrInvalid))
	err = client.Semaphore("converter", 8).Do(context.Background(), 1, func(ctx context.Context) error {
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

// A heavy job takes several permits at once. Light jobs do not overtake it.
func ExampleSemaphore_Acquire() {
	ctx := context.Background()
	converter := newClient(memstore.New()).Semaphore("converter", 8)
	lease, err := converter.Acquire(ctx, 5)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("five of eight permits are held")
	fmt.Println(lease.Release(ctx)) // all of them come back
	// Output:
	// five of eight permits are held
	// <nil>
}

func ExampleSemaphore_TryAcquire() {
	ctx := context.Background()
	converter := newClient(memstore.New()).Semaphore("converter", 2)
	first, _ := converter.TryAcquire(ctx, 1)
	_, err := converter.TryAcquire(ctx, 2)
	fmt.Println("two more of two:", errors.Is(err, holdfast.ErrHeld))
	second, err := converter.TryAcquire(ctx, 1)
	fmt.Println("one more:", err)
	_, _ = first.Release(ctx), second.Release(ctx)
	// Output:
	// two more of two: true
	// one more: <nil>
}

func ExampleSemaphore_Do() {
	converter := newClient(memstore.New()).Semaphore("converter", 8)
	err := converter.Do(context.Background(), 2, func(ctx context.Context) error {
		fmt.Println("converting with two permits") // ctx ends if they are lost
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// converting with two permits
	// <nil>
}

func ExampleSemaphore_TryDo() {
	converter := newClient(memstore.New()).Semaphore("converter", 8)
	ran, err := converter.TryDo(context.Background(), 2, func(ctx context.Context) error { return ctx.Err() })
	fmt.Println(ran, err)
	// Output: true <nil>
}

func ExampleSemaphore_Available() {
	ctx := context.Background()
	client := newClient(memstore.New())
	pool := client.Semaphore("pool", 3)
	lease, _ := pool.Acquire(ctx, 2)

	free, _ := pool.Available(ctx)
	fmt.Println(free)
	_ = lease.Release(ctx)
	// Output: 1
}

func ExampleSemaphore_SetLimit() {
	ctx := context.Background()
	pool := newClient(memstore.New()).Semaphore("converter", 2)
	lease, _ := pool.Acquire(ctx, 2)
	if err := pool.SetLimit(ctx, 3); err != nil {
		fmt.Println(err)
	}
	err := pool.Do(ctx, 1, func(context.Context) error {
		fmt.Println("a third permit")
		return nil
	})
	fmt.Println(err)
	_ = lease.Release(ctx)
	// Output:
	// a third permit
	// <nil>
}

// A program with another limit takes that of the server, so a deploy can change it.
func ExampleServerLimit() {
	ctx := context.Background()
	client := newClient(memstore.New())
	older := client.Semaphore("pool", 1, holdfast.ServerLimit())
	lease, _ := older.Acquire(ctx, 1)
	newer := client.Semaphore("pool", 2, holdfast.ServerLimit())
	_, err := newer.TryAcquire(ctx, 1)
	fmt.Println(errors.Is(err, holdfast.ErrHeld))
	fmt.Println(newer.SetLimit(ctx, 2))
	_, err = older.TryAcquire(ctx, 1)
	fmt.Println(err)
	_ = lease.Release(ctx)
	// Output:
	// true
	// <nil>
	// <nil>
}

func ExampleRWMutex_AwaitFree() {
	ctx := context.Background()
	client := newClient(memstore.New())
	catalogue := client.RWMutex("catalogue")
	reader, _ := catalogue.RLock(ctx)
	go reader.Release(ctx)
	fmt.Println("nobody reads or writes:", catalogue.AwaitFree(ctx) == nil)
	// Output: nobody reads or writes: true
}

func ExampleRWMutex_AwaitReadable() {
	ctx := context.Background()
	client := newClient(memstore.New())
	catalogue := client.RWMutex("catalogue")
	writer, _ := catalogue.Lock(ctx)
	_ = writer.Downgrade(ctx)
	fmt.Println("readers get in:", catalogue.AwaitReadable(ctx) == nil)
	_ = writer.Release(ctx)
	// Output: readers get in: true
}

func ExampleSemaphore_AwaitFree() {
	ctx := context.Background()
	pool := newClient(memstore.New()).Semaphore("pool", 3)
	lease, _ := pool.Acquire(ctx, 2)
	go lease.Release(ctx)
	fmt.Println("two permits are free:", pool.AwaitFree(ctx, 2) == nil)
	// Output: two permits are free: true
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

// An election is the lock of its name.
func ExampleMutex_AwaitFree_election() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lead, _ := client.Election("scheduler").Campaign(ctx, "10.0.0.7:8080")
	go lead.Release(ctx)
	fmt.Println("nobody leads:", client.Mutex("scheduler").AwaitFree(ctx) == nil)
	// Output: nobody leads: true
}
