package certmagiclock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integrate/certmagiclock"
	"github.com/holdfast-go/holdfast/memstore"
)

// Of the program: its client, and the storage that its machines share.
var (
	ctx       = context.Background()
	client, _ = holdfast.New(memstore.New(), holdfast.Config{})
	shared    = &certmagic.FileStorage{Path: "/mnt/certificates"}
)

func ExampleNew() {
	certmagic.Default.Storage = certmagiclock.New(shared, client, "certmagic/")
	fmt.Println(certmagic.Default.Storage)
	// Output: FileStorage:/mnt/certificates with Holdfast locks
}

func ExampleStorage_Lock() {
	storage := certmagiclock.New(shared, client, "certmagic/")
	if err := storage.Lock(ctx, "issue_cert_example.com"); err != nil { // CertMagic calls it
		log.Fatal(err)
	}
	fmt.Println(storage.Unlock(ctx, "issue_cert_example.com"))
	// Output: <nil>
}

func ExampleStorage_TryLock() {
	storage := certmagiclock.New(shared, client, "certmagic/")
	fmt.Println(storage.TryLock(ctx, "storage_clean")) // CertMagic calls it
	fmt.Println(storage.TryLock(ctx, "storage_clean"))
	_ = storage.Unlock(ctx, "storage_clean")
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleStorage_Unlock() {
	storage := certmagiclock.New(shared, client, "certmagic/")
	_ = storage.Lock(ctx, "issue_cert_example.com")
	fmt.Println(storage.Unlock(ctx, "issue_cert_example.com"))
	// Output: <nil>
}

func ExampleStorage_RenewLockLease() {
	storage := certmagiclock.New(shared, client, "certmagic/")
	_ = storage.Lock(ctx, "issue_cert_example.com")
	fmt.Println(storage.RenewLockLease(ctx, "issue_cert_example.com", time.Minute)) // held, or acquired again
	_ = storage.Unlock(ctx, "issue_cert_example.com")
	// Output: <nil>
}

func ExampleStorage_String() {
	fmt.Println(certmagiclock.New(shared, client, "certmagic/"))
	// Output: FileStorage:/mnt/certificates with Holdfast locks
}
