package suite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/audit"
	"github.com/holdfast-go/holdfast/verify/history"
)

// collector receives the notes of all servers. A replica repeats those of its primary, and
// the nodes of a Cluster those of each other; the checks tell them apart.
type collector struct {
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{}
	heard   map[string]int // by address: how often the subscription was confirmed
	refused error          // by a server before its first confirmation
}

// collectorName is how the collector's connections are told from others.
const collectorName = "holdfast-verify-collector"

// collect subscribes at every server, and returns when that is confirmed.
func collect(ctx context.Context, p *deployment, prefix string, log *history.Log) (*collector, error) {
	life, cancel := context.WithCancel(context.Background())
	c := &collector{cancel: cancel, changed: make(chan struct{}), heard: make(map[string]int)}
	if p.mute {
		return c, nil
	}
	for _, addr := range p.addrs {
		rdb, err := p.open(addr, collectorName)
		if err != nil {
			c.close()
			return nil, err
		}
		c.all.Go(func() { c.listen(life, rdb, addr, prefix, log) })
	}
	for _, addr := range p.addrs {
		if err := c.await(ctx, addr, 0); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

func (c *collector) listen(ctx context.Context, rdb *redis.Client, addr, prefix string, log *history.Log) {
	defer rdb.Close() //nolint:errcheck // nothing was written over it
	channel := audit.Channel(prefix)
	sub := rdb.Subscribe(ctx, channel, audit.Who(prefix, addr))
	defer sub.Close() //nolint:errcheck // as above
	unblock := context.AfterFunc(ctx, func() { _ = sub.Close() })
	defer unblock()
	for ctx.Err() == nil {
		got, err := sub.Receive(ctx)
		switch m := got.(type) {
		case *redis.Message:
			log.Add(history.Event{Kind: history.Note, Text: m.Payload})
		case *redis.Subscription:
			if m.Channel != channel {
				break
			}
			c.mu.Lock()
			c.heard[addr]++
			close(c.changed)
			c.changed = make(chan struct{})
			c.mu.Unlock()
		}
		if err != nil {
			c.refuse(addr, err)
			history.Sleep(ctx, 2*time.Millisecond)
		}
	}
}

// refuse notes that a server refuses the subscription. Once it has confirmed one, that is a
// fault's doing and passes.
func (c *collector) refuse(addr string, err error) {
	var refusal redis.Error
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.heard[addr] > 0 || c.refused != nil || !errors.As(err, &refusal) {
		return
	}
	c.refused = fmt.Errorf("subscribing to the notes of %s: %w", addr, err)
	close(c.changed)
	c.changed = make(chan struct{})
}

// times is how often the subscription at addr was confirmed.
func (c *collector) times(addr string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.heard[addr]
}

// await waits until the subscription at addr was confirmed more often than n
// times.
func (c *collector) await(ctx context.Context, addr string, n int) error {
	for {
		c.mu.Lock()
		got, changed, refused := c.heard[addr], c.changed, c.refused
		c.mu.Unlock()
		switch {
		case got > n:
			return nil
		case refused != nil:
			return refused
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (c *collector) close() {
	c.cancel()
	c.all.Wait()
}
