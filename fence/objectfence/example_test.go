package objectfence_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fence/objectfence"
)

// Of the program: a bucket, such as s3fence.Bucket, and a lease.
var (
	ctx   = context.Background()
	guard = objectfence.Guard{Bucket: newBucket()}
	lease *holdfast.Lease
)

func ExampleGuard_Put() {
	err := guard.Put(ctx, "invoice/42", lease.Token(), []byte(`{"paid": true}`))
	if errors.Is(err, fence.ErrStale) {
		log.Print("another client has acquired the lock: ", err)
	}
}

func ExampleGuard_Get() {
	guard := objectfence.Guard{Bucket: newBucket()}
	err := guard.Put(ctx, "invoice/42", 7, []byte("paid"))
	content, missing := guard.Get(ctx, "invoice/42")
	fmt.Printf("%s %v\n", content, errors.Join(err, missing))
	fmt.Println(guard.Put(ctx, "invoice/42", 6, []byte("open")))
	// Output:
	// paid <nil>
	// fence: invoice/42 has seen token 7: token 6 is stale
}

func ExampleGuard_Update() {
	err := guard.Update(ctx, "log", lease.Token(), func(content []byte) ([]byte, error) {
		return append(content, "one more line\n"...), nil
	})
	log.Print(err)
}

func ExampleGuard_Raise() {
	// Before the read on which another write depends.
	if err := guard.Raise(ctx, "invoice/42", lease.Token()); err != nil {
		log.Fatal(err)
	}
}

func ExampleGuard_Seen() {
	seen, err := guard.Seen(ctx, "invoice/42")
	log.Print(seen, err)
}

func ExampleGuard_Reset() {
	// All writers of the object are stopped.
	if err := guard.Reset(ctx, "invoice/42"); err != nil {
		log.Fatal(err)
	}
}
