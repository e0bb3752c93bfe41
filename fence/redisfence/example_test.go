package redisfence_test

import (
	"context"
	"errors"
	"log"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fence/redisfence"
	"github.com/holdfast-go/holdfast/store"
)

// Of the program: a store, such as goredis.New(rdb), and a lease.
var (
	ctx   = context.Background()
	rdb   store.Store
	lease *holdfast.Lease
	guard = redisfence.Guard{Store: rdb}
)

func ExampleGuard_Do() {
	err := guard.Do(ctx, "invoice:42", lease.Token(),
		redisfence.Write("HSET", "invoice:42", "paid", "yes"),
		redisfence.Write("EXPIRE", "invoice:42", "86400"))
	if errors.Is(err, fence.ErrStale) {
		log.Print("another client has acquired the lock: ", err)
	}
}

func ExampleWrite() {
	first := redisfence.Write("SET", "{job}:state", "done")
	second := redisfence.Command{Name: "RENAME", Keys: []string{"{job}:new", "{job}:current"}}
	if err := guard.Do(ctx, "{job}", lease.Token(), first, second); err != nil {
		log.Fatal(err)
	}
}

func ExampleGuard_Raise() {
	// Before the read on which a write depends.
	if err := guard.Raise(ctx, "invoice:42", lease.Token()); err != nil {
		log.Fatal(err)
	}
}

func ExampleGuard_Seen() {
	seen, err := guard.Seen(ctx, "invoice:42")
	log.Print(seen, err)
}

func ExampleGuard_Reset() {
	// All writers of the resource are stopped.
	if err := guard.Reset(ctx, "invoice:42"); err != nil {
		log.Fatal(err)
	}
}
