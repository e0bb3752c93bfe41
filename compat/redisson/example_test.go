package redisson_test

import (
	"context"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

// Of the program: goredis.New(rdb), with a client of the Java programs' server.
var server store.Store = memstore.New()

// The Mutex is the RLock "order:42" of the Java programs on the same server.
func ExampleNew() {
	client, err := holdfast.New(redisson.New(server, redisson.Config{}), holdfast.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
	fmt.Println(client.Mutex("order:42").Name())
	// Output: order:42
}
