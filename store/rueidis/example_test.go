package rueidis_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	holdfastrueidis "github.com/holdfast-go/holdfast/store/rueidis"
)

// One server.
func ExampleNew() {
	ctx := context.Background()
	rdb, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:      []string{"localhost:6379"},
		ConnWriteTimeout: 3 * time.Second, // much shorter than the lease
	})
	if err != nil {
		log.Fatal(err) // rueidis connects at once
	}
	defer rdb.Close() // the store only borrows it
	client, err := holdfast.New(holdfastrueidis.New(rdb), holdfast.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	err = client.Mutex("report").Do(ctx, func(ctx context.Context) error {
		fmt.Println("working") // ctx ends if the lock is lost
		return ctx.Err()
	})
	if err != nil {
		log.Println(err, holdfast.Hint(err))
	}
}

// A watched client gives a connection that a router has forgotten up after a quarter of a second.
func ExampleWatch() {
	rdb, err := rueidis.NewClient(holdfastrueidis.Watch(rueidis.ClientOption{InitAddress: []string{"localhost:6379"}}))
	if err != nil {
		log.Fatal(err)
	}
	defer rdb.Close()
	client, err := holdfast.New(holdfastrueidis.New(rdb), holdfast.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
	fmt.Println(client.Mutex("report").Name())
}

// A primary behind Sentinel. A grant counts when a replica has it.
func ExampleNew_sentinel() {
	rdb, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:      []string{"sentinel-1:26379", "sentinel-2:26379", "sentinel-3:26379"},
		Sentinel:         rueidis.SentinelOption{MasterSet: "mymaster"},
		ConnWriteTimeout: 3 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer rdb.Close()
	client, err := holdfast.New(holdfastrueidis.New(rdb), holdfast.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
	report := client.Mutex("report", holdfast.WaitReplicas(1, 500*time.Millisecond))
	fmt.Println(report.Name())
}
