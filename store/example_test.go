package store_test

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

func ExampleAcks_Covers() {
	got := store.Acks{Replicas: 2}
	fmt.Println(got.Covers(store.Acks{Replicas: 1}))
	fmt.Println(got.Covers(store.Acks{Replicas: 1, LocalAOF: 1}))
	// Output:
	// true
	// false
}

// A server that loads its data will answer later. A missing permission does not pass by
// itself.
func ExampleServerError_Transient() {
	loading := &store.ServerError{Code: "LOADING", Message: "LOADING the data is on its way"}
	forbidden := &store.ServerError{Code: "NOPERM", Message: "NOPERM this user has no permissions"}
	fmt.Println(loading.Transient(), forbidden.Transient())
	// Output: true false
}

// A store in front of another one, which counts its requests. It has the optional interfaces of that one.
type counting struct {
	store.Store
	requests atomic.Int64
}

func (c *counting) Run(ctx context.Context, s *script.Script, keys, args []string) (string, error) {
	c.requests.Add(1)
	return c.Store.Run(ctx, s, keys, args)
}

func (c *counting) Unwrap() store.Store { return c.Store }

func ExampleAs() {
	wrapped := &counting{Store: memstore.New()}
	_, batches := store.As[store.Batcher](wrapped)
	fmt.Println(batches)
	// Output: true
}
