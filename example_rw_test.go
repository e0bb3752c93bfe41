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
	second, _ := catalogue.RLock(ctx) // beside the first, without the network
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

// What was written is read back before anybody else can write.
func ExampleLease_StepDown() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.RWMutex("catalogue").Lock(ctx)
	written := lease.Token()
	if err := lease.StepDown(ctx); err != nil {
		fmt.Println(err)
	}
	other, err := client.RWMutex("catalogue").TryRLock(ctx)
	fmt.Println(lease.Token() > written, err)
	_, _ = other.Release(ctx), lease.Release(ctx)
	// Output: true <nil>
}

// Read first, and write only if something is to be written.
func ExampleLease_StepUp() {
	ctx := context.Background()
	client := newClient(memstore.New())
	lease, _ := client.RWMutex("catalogue").RLock(ctx)
	switch err := lease.StepUp(ctx); {
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
	var limit *holdfast.LimitError
	if errors.As(err, &limit) {
		fmt.Println("in use with", limit.InUse, "not", limit.Asked)
	}
	_ = lease.Release(ctx)
	// Output:
	// three more: true
	// in use with 8 not 10
}

func ExampleSemaphore_SetLimit() {
	ctx := context.Background()
	pool := newClient(memstore.New()).Semaphore("converter", 2)
	lease, _ := pool.Acquire(ctx, 2)
	if err := pool.SetLimit(ctx, 3); err != nil {
		fmt.Println(err)
	}
	err := pool.Do(ctx, 1, func(context.Context) error {
		fmt.Println("a third permit of", pool.Limit())
		return nil
	})
	fmt.Println(err)
	_ = lease.Release(ctx)
	// Output:
	// a third permit of 3
	// <nil>
}
