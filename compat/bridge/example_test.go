package bridge_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/bridge"
	"github.com/holdfast-go/holdfast/memstore"
)

// Of the program. The store of old would be redsync.NewStore, redislock.NewStore or redisson.New.
var (
	ctx       = context.Background()
	old, _    = holdfast.New(memstore.New(), holdfast.Config{})
	native, _ = holdfast.New(memstore.New(), holdfast.Config{})
)

func newMutex() *bridge.Mutex {
	return bridge.New(bridge.Both, old.Mutex("invoice:42"), native.Mutex("invoice/42"))
}

func acquire() *bridge.Lease {
	lease, err := newMutex().Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	return lease
}

func ExampleNew() {
	stage, err := bridge.ParseStage("both") // of the program's configuration
	if err != nil {
		log.Fatal(err)
	}
	mutex := bridge.New(stage, old.Mutex("invoice:42"), native.Mutex("invoice/42"))
	fmt.Println(mutex.Do(ctx, func(context.Context) error {
		fmt.Println("programs of before and of after the move are kept out")
		return nil
	}))
	// Output:
	// programs of before and of after the move are kept out
	// <nil>
}

func ExampleParseStage() {
	fmt.Println(bridge.ParseStage("native"))
	_, err := bridge.ParseStage("")
	fmt.Println(err)
	// Output:
	// native <nil>
	// holdfast: invalid: bridge: the stage "" is not one of old, both, native
}

func ExampleStage_String() {
	fmt.Println(bridge.Old, bridge.Both, bridge.Native)
	// Output: old both native
}

func ExampleMutex_Lock() {
	lease, err := newMutex().Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lease.Err(), lease.Release(ctx))
	// Output: <nil> <nil>
}

func ExampleMutex_TryLock() {
	lease := acquire()
	_, err := newMutex().TryLock(ctx)
	fmt.Println(err != nil, lease.Release(ctx))
	// Output: true <nil>
}

func ExampleMutex_Do() {
	fmt.Println(newMutex().Do(ctx, func(ctx context.Context) error { return ctx.Err() }))
	// Output: <nil>
}

func ExampleLease_Context() {
	lease := acquire()
	fmt.Println(lease.Context().Err())
	_ = lease.Release(ctx)
	fmt.Println(context.Cause(lease.Context()))
	// Output:
	// <nil>
	// holdfast: lease is released
}

func ExampleLease_Err() {
	lease := acquire()
	fmt.Println(lease.Err())
	_ = lease.Release(ctx)
	// Output: <nil>
}

func ExampleLease_Token() {
	lease := acquire()
	fmt.Println(lease.Token() > 0)
	_ = lease.Release(ctx)
	// Output: true
}

func ExampleLease_Remaining() {
	lease := acquire()
	fmt.Println(lease.Remaining() > 10*time.Second)
	_ = lease.Release(ctx)
	// Output: true
}

func ExampleLease_Extend() {
	lease := acquire()
	fmt.Println(lease.Extend(ctx, time.Minute))
	_ = lease.Release(ctx)
	// Output: <nil>
}

func ExampleLease_Release() {
	lease := acquire()
	fmt.Println(lease.Release(ctx))
	// Output: <nil>
}
