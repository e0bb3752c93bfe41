// Cache has readers in four processes and one writer, which changes two keys that belong
// together.
//
//	go run ./cache
//
// Each process reads with eight goroutines, which share one hold on the server. The
// writer gets the lock although readers arrive all the time. No reader ever sees one key
// new and the other old.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/kit"
)

func main() { kit.Main(parent, child) }

const (
	net, gross = "example/cache/net", "example/cache/gross"
	updates    = 10
)

func parent(ctx context.Context, _ []string) error {
	client, rdb, done, err := kit.Connect(holdfast.Config{})
	if err != nil {
		return err
	}
	defer done()
	prices := client.RWMutex("example/cache")
	err = prices.Do(ctx, func(ctx context.Context) error { return set(ctx, rdb, 0) })
	if err != nil {
		return err
	}
	readers, err := kit.StartAll(ctx, "reader 1", "reader 2", "reader 3", "reader 4")
	if err != nil {
		return err
	}
	for _, reader := range readers {
		if err := reader.Heard(ctx, "reads"); err != nil {
			return err
		}
	}
	for version := range updates {
		err := prices.Do(ctx, func(ctx context.Context) error { return set(ctx, rdb, version+1) })
		if err != nil {
			return err
		}
	}
	fmt.Println("the writer has made", updates, "updates")
	for _, reader := range readers {
		err = errors.Join(err, reader.Tell("enough"), reader.Wait())
	}
	return err
}

// set writes both keys. For a while in between only one is new.
func set(ctx context.Context, rdb *redis.Client, version int) error {
	if err := rdb.Set(ctx, net, version, 0).Err(); err != nil {
		return err
	}
	if err := kit.Pause(ctx, 5*time.Millisecond); err != nil {
		return err
	}
	return rdb.Set(ctx, gross, version, 0).Err()
}

func child(ctx context.Context, _ []string) error {
	client, rdb, done, err := kit.Connect(holdfast.Config{})
	if err != nil {
		return err
	}
	defer done()
	prices := client.RWMutex("example/cache")
	reading, enough := context.WithCancel(ctx)
	defer enough()
	var reads, torn atomic.Int64
	failures := make(chan error, 8)
	var all sync.WaitGroup
	for range cap(failures) {
		all.Go(func() {
			for reading.Err() == nil {
				err := prices.RDo(ctx, func(ctx context.Context) error {
					a, b, err := get(ctx, rdb)
					if reads.Add(1) == 1 {
						fmt.Println("reads")
					}
					if a != b {
						torn.Add(1)
					}
					return err
				})
				if err != nil {
					failures <- err
					return
				}
			}
		})
	}
	_, err = kit.Told(ctx)
	enough()
	all.Wait()
	close(failures)
	for failure := range failures {
		err = errors.Join(err, failure)
	}
	fmt.Println("torn reads:", torn.Load(), "of", reads.Load())
	return err
}

// get reads the keys one after the other, so a change could come in between.
func get(ctx context.Context, rdb *redis.Client) (a, b string, err error) {
	if a, err = rdb.Get(ctx, net).Result(); err != nil {
		return "", "", err
	}
	b, err = rdb.Get(ctx, gross).Result()
	return a, b, err
}
