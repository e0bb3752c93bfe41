package goredis_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// One server. The store sends nothing before the first lock is acquired.
func ExampleNew() {
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close() // the store only borrows it
	client, err := holdfast.New(goredis.New(rdb), holdfast.Config{})
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

// Why a program's own request failed: the server has refused it, or it may have run.
func ExampleRefusal() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()
	err := rdb.Set(context.Background(), "report", "done", 0).Err()
	if refused := goredis.Refusal(err); refused != nil {
		log.Println(refused.Code, "and it has not run") // READONLY, NOAUTH, TLS, …
	}
}

// A primary behind Sentinel. A grant counts when a replica has it.
func ExampleNew_sentinel() {
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName:    "mymaster",
		SentinelAddrs: []string{"sentinel-1:26379", "sentinel-2:26379", "sentinel-3:26379"},
	})
	defer rdb.Close()
	client, err := holdfast.New(goredis.New(rdb), holdfast.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
	report := client.Mutex("report", holdfast.WaitReplicas(1, 500*time.Millisecond))
	fmt.Println(report.Name())
	// Output: report
}

// A Cluster: each lock lives in the slot of its name.
func ExampleNew_cluster() {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"node-1:6379", "node-2:6379", "node-3:6379"},
	})
	defer rdb.Close()
	client, err := holdfast.New(goredis.New(rdb), holdfast.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
	fmt.Println(client.Mutex("report").Name())
	// Output: report
}
