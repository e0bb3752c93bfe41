package store_test

import (
	"fmt"

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
