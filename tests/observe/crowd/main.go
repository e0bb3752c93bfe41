// Command crowd has many clients that wait for one lock, until a signal ends it: crowd NAME N. The page's tests in a
// browser look at such a queue, and a process for each waiter would be too much for their machine.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store/goredis"
)

func main() {
	if err := wait(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "crowd:", err)
		os.Exit(1)
	}
}

func wait(name, number string) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	options, err := redis.ParseURL(os.Getenv("HOLDFAST_REDIS"))
	if err != nil {
		return err
	}
	rdb := redis.NewClient(options)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ended := make(chan error, n)
	for i := range n {
		// A long TTL, so that waiters have little to say.
		cfg := holdfast.Config{App: fmt.Sprintf("waiter-%d", i+1), TTL: 5 * time.Minute}
		c, err := holdfast.New(goredis.New(rdb), cfg)
		if err != nil {
			return err
		}
		go func() {
			_, err := c.Mutex(name).Lock(ctx)
			ended <- err
		}()
	}
	select {
	case err := <-ended: // none should be granted
		return err
	case <-ctx.Done():
		return nil
	}
}
