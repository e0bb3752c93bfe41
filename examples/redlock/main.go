// Redlock holds one lock over five independent servers. Two of them die.
//
//	go run ./redlock                       # starts five redis-servers by itself
//	go run ./redlock ADDR...               # or uses those that it is given
//
// It does not kill servers that it is given. It kills two of its own while it holds the
// lock: the lease is renewed on the other three, released and acquired again. When a
// third one dies, there is no majority. The acquisition then fails with an error that
// names the missing servers.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/kit"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
)

func main() { kit.Main(run, nil) }

const ttl = 6 * time.Second

func run(ctx context.Context, addrs []string) error {
	var own []*kit.Server
	if len(addrs) == 0 {
		var err error
		if own, err = kit.Servers(ctx, 5); err != nil {
			return err
		}
		defer func() {
			for _, s := range own {
				s.Kill()
			}
		}()
		for _, s := range own {
			addrs = append(addrs, s.Addr)
		}
	}
	renewed := make(renewals, 1)
	client, done, err := connect(addrs, renewed)
	if err != nil {
		return err
	}
	defer done()

	lease, err := client.Mutex("example/redlock").Lock(ctx)
	if err != nil {
		return err
	}
	fmt.Println("the lock is held on a majority of", len(addrs), "servers")
	if own == nil {
		return lease.Release(ctx)
	}
	own[0].Kill()
	own[1].Kill()
	fmt.Println("two servers are dead")
	for len(renewed) > 0 { // earlier renewals do not count
		<-renewed
	}
	select {
	case <-renewed:
		fmt.Println("the lease was renewed on the others")
	case <-lease.Context().Done():
		return context.Cause(lease.Context())
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := lease.Release(ctx); err != nil {
		return err
	}
	if lease, err = client.Mutex("example/redlock").Lock(ctx); err != nil {
		return err
	}
	fmt.Println("the lock was released and taken again")
	if err := lease.Release(ctx); err != nil {
		return err
	}

	own[2].Kill()
	fmt.Println("a third server is dead")
	_, err = client.Mutex("example/redlock").TryLock(ctx)
	if err == nil {
		return errors.New("the lock was granted by two servers of five")
	}
	fmt.Println("the lock cannot be acquired:", err)
	return nil
}

// renewals is an observer that reports confirmed renewals.
type renewals chan struct{}

func (r renewals) Observe(e observe.Event) {
	if e.Kind == observe.EventRenew && e.Err == nil {
		select {
		case r <- struct{}{}:
		default: // one is told already
		}
	}
}

func connect(addrs []string, observer observe.Observer) (*holdfast.Client, func(), error) {
	var nodes []store.Store
	var connections []*redis.Client
	for _, addr := range addrs {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		connections, nodes = append(connections, rdb), append(nodes, goredis.New(rdb))
	}
	s, err := quorum.New(nodes, quorum.Config{MaxTTL: ttl})
	if err != nil {
		return nil, nil, err
	}
	client, err := holdfast.New(s, holdfast.Config{TTL: ttl, Observer: observer})
	if err != nil {
		return nil, nil, err
	}
	return client, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		_ = client.Close(ctx) // the program ends
		s.Close()
		for _, rdb := range connections {
			_ = rdb.Close() // as above
		}
	}, nil
}
