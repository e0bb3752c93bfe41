// Pool shares eight connections of a slow system among thirty workers in
// five processes.
//
//	go run ./pool
//
// Every worker takes one permit. Only the first worker of each process needs three at
// once, and workers that need fewer do not overtake it. One more process dies with two
// permits; they are free again when its lease expires.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/kit"
)

func main() { kit.Main(parent, child) }

const (
	size = 8
	ttl  = 2 * time.Second // of the process that dies
	used = "example/pool/used"
	most = "example/pool/most"
)

func parent(ctx context.Context, _ []string) error {
	client, rdb, done, err := kit.Connect(holdfast.Config{})
	if err != nil {
		return err
	}
	defer done()
	if err := rdb.Del(ctx, used, most).Err(); err != nil {
		return err
	}
	dead, err := kit.Start(ctx, "dead")
	if err != nil {
		return err
	}
	if err := errors.Join(dead.Heard(ctx, "has 2 permits"), dead.Kill()); err != nil {
		return err
	}
	fmt.Println("a process has died with 2 permits")
	if err := kit.Each(ctx, "process 1", "process 2", "process 3", "process 4", "process 5"); err != nil {
		return err
	}
	n, err := rdb.Get(ctx, most).Int()
	if err != nil {
		return err
	}
	fmt.Printf("at most %d of %d permits were used at a time\n", n, size)
	lease, err := client.Semaphore("example/pool", size).Acquire(ctx, size)
	if err != nil {
		return err
	}
	fmt.Println("all permits have come back")
	return lease.Release(ctx)
}

func child(ctx context.Context, args []string) error {
	client, rdb, done, err := kit.Connect(holdfast.Config{})
	if err != nil {
		return err
	}
	defer done()
	if args[0] == "dead" {
		if _, err := client.Semaphore("example/pool", size, holdfast.TTL(ttl)).Acquire(ctx, 2); err != nil {
			return err
		}
		fmt.Println("has 2 permits")
		<-ctx.Done()
		return nil
	}
	pool := client.Semaphore("example/pool", size)
	failures := make(chan error, 6)
	var workers sync.WaitGroup
	for worker := range cap(failures) {
		permits := 1
		if worker == 0 {
			permits = 3
		}
		workers.Go(func() {
			failures <- pool.Do(ctx, permits, func(ctx context.Context) error { return work(ctx, rdb, permits) })
		})
	}
	workers.Wait()
	close(failures)
	for failure := range failures {
		err = errors.Join(err, failure)
	}
	fmt.Println("is done")
	return err
}

// count notes how many permits are in use, and the maximum.
var count = redis.NewScript(`
	local now = redis.call('INCRBY', KEYS[1], ARGV[1])
	if now > tonumber(redis.call('GET', KEYS[2]) or 0) then redis.call('SET', KEYS[2], now) end
	return now`)

func work(ctx context.Context, rdb *redis.Client, permits int) error {
	if err := count.Run(ctx, rdb, []string{used, most}, permits).Err(); err != nil {
		return err
	}
	err := kit.Pause(ctx, 20*time.Millisecond)
	return errors.Join(err, count.Run(context.WithoutCancel(ctx), rdb, []string{used, most}, -permits).Err())
}
