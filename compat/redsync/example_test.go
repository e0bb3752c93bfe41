package redsync_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redsync"
)

// servers stands for goredis.New(rdb), with a client of each server.
var servers []redsync.Pool

func Example() {
	rs := redsync.New(servers...) // was: redsync.New(goredis.NewPool(rdb))
	defer rs.Close()
	mutex := rs.NewMutex("invoice/42", redsync.WithExpiry(30*time.Second))
	if err := mutex.Lock(); err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _, _ = mutex.Unlock() }()
	work(mutex.Context()) // ends before another client can get the lock
}

func work(context.Context) {}

func ExampleWithRenewal() {
	mutex := redsync.New(servers...).NewMutex("invoice/42", redsync.WithRenewal())
	if mutex.Lock() == nil {
		<-mutex.Lost() // not before the renewals fail, or an Unlock
	}
}

func ExampleMutex_Lost() {
	mutex := redsync.New(servers...).NewMutex("invoice/42")
	if mutex.Lock() != nil {
		return
	}
	select {
	case <-mutex.Lost():
		fmt.Println(context.Cause(mutex.Context()))
	case <-time.After(time.Second):
		_, _ = mutex.Unlock()
	}
}

func ExampleMutex_LockContext() {
	mutex := redsync.New(servers...).NewMutex("invoice/42", redsync.WithTries(3))
	var taken *redsync.ErrTaken
	if err := mutex.LockContext(context.Background()); errors.As(err, &taken) {
		fmt.Println("others have it on", taken.Nodes)
	}
}

// Native locks, which old programs with redsync respect.
func ExampleNewStore() {
	store := redsync.NewStore(servers...)
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
