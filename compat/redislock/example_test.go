package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redislock"
)

// server stands for goredis.New(rdb).
var server redislock.RedisClient

func Example() {
	ctx := context.Background()
	locker := redislock.New(server) // was: redislock.New(rdb)
	defer locker.Close()
	lock, err := locker.Obtain(ctx, "invoice/42", 30*time.Second, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		fmt.Println("others have it")
		return
	} else if err != nil {
		return
	}
	defer func() { _ = lock.Release(ctx) }()
	work(lock.Context()) // ends before another client can get the lock
}

func work(context.Context) {}

func ExampleOptions() {
	lock, err := redislock.Obtain(context.Background(), server, "invoice/42", 30*time.Second, &redislock.Options{
		RetryStrategy: redislock.LimitRetry(redislock.LinearBackoff(100*time.Millisecond), 50),
		Renew:         true,
	})
	if err == nil {
		<-lock.Lost() // not before the renewals fail, or a Release
	}
}

func ExampleLock_Lost() {
	lock, err := redislock.Obtain(context.Background(), server, "invoice/42", 30*time.Second, nil)
	if err != nil {
		return
	}
	<-lock.Lost()
	fmt.Println(context.Cause(lock.Context()))
}

// Native locks, which old programs with redislock respect.
func ExampleNewStore() {
	store := redislock.NewStore(server)
	client, err := holdfast.New(store, holdfast.Config{})
	if err != nil {
		return
	}
	ctx := context.Background()
	defer func() {
		_ = client.Close(ctx)
		store.Close()
	}()
	_ = client.Mutex("invoice/42").Do(ctx, func(ctx context.Context) error {
		work(ctx)
		return nil
	})
}
