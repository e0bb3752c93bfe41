package redisson_test

import (
	"context"
	"fmt"
	"log"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// The Mutex is the RLock "order:42" of the Java programs on the same server.
func ExampleNew() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	client, err := holdfast.New(redisson.New(goredis.New(rdb), redisson.Config{}), holdfast.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
	fmt.Println(client.Mutex("order:42").Name())
	// Output: order:42
}
