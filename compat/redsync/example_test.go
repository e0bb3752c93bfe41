package redsync_test

import (
	"context"
	"log"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redsync"
	"github.com/holdfast-go/holdfast/store"
)

// servers stands for goredis.New(rdb), with a client of each server.
var servers []store.Store

// Locks that old programs with redsync respect.
func ExampleNewStore() {
	keys := redsync.NewStore(servers...)
	client, err := holdfast.New(keys, holdfast.Config{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	defer func() {
		_ = client.Close(ctx)
		keys.Close()
	}()
	err = client.Mutex("invoice/42").Do(ctx, work) // its context ends before another program can get the lock
	if err != nil {
		log.Print(err)
	}
}

func work(context.Context) error { return nil }
