package goredis

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// silence is how long the server may say nothing before it is asked, and then
// again before the connection is given up. A connection whose other end is
// gone without a word would otherwise stay open, and deaf, for minutes. It
// costs a silent client one PING a minute: a hundred idle waiters less than two
// commands a second. Nobody hangs on a deaf connection meanwhile, for every
// waiter also looks by itself.
const silence = 30 * time.Second

var errSilent = errors.New("the server is silent")

// feed receives what the server pushes, from the first channel's coming to
// the last one's going, over one connection at a time.
type feed struct {
	hub    *hub
	ctx    context.Context // done when the last channel has gone
	cancel context.CancelFunc
	wake   chan struct{} // has room for one: there may be changes
}

func startFeed(h *hub) *feed {
	f := &feed{hub: h, wake: make(chan struct{}, 1)}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	go f.run()
	return f
}

// poke says that there may be changes.
func (f *feed) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// run keeps the feed connected until it is cancelled.
func (f *feed) run() {
	failures := 0
	for f.ctx.Err() == nil {
		worked, err := f.session()
		if worked {
			failures = 0
		}
		f.hub.disconnected(f, worked, err)
		failures++
		timer := time.NewTimer(backoff(failures))
		select {
		case <-timer.C:
		case <-f.ctx.Done():
			timer.Stop()
		}
	}
}

// session opens a connection, subscribes and receives until it breaks.
// It reports whether the server has said anything.
//
// go-redis would connect and subscribe again by itself, under the same
// PubSub. It has forgotten channels in doing so, and does not tell when it
// did, so each connection gets a PubSub of its own.
func (f *feed) session() (worked bool, err error) {
	ps := f.hub.client.Subscribe(f.ctx)
	var closing sync.Once
	var reason error
	end := func(err error) {
		closing.Do(func() {
			reason = err
			ps.Close() //nolint:errcheck // it is over either way
		})
	}
	unhook := context.AfterFunc(f.ctx, func() { end(context.Canceled) })
	defer unhook()

	if err := f.tell(ps); err != nil {
		end(err)
		return false, err
	}
	var heard atomic.Bool
	var writing sync.WaitGroup
	ended := make(chan struct{})
	writing.Go(func() { f.write(ps, &heard, ended, end) })
	for {
		var msg any
		if msg, err = ps.Receive(f.ctx); err != nil && serverError(err) == nil {
			break
		}
		worked = true
		heard.Store(true)
		if err != nil && f.hub.refused(f, err) {
			break
		}
		switch msg := msg.(type) {
		case *redis.Subscription:
			switch msg.Kind {
			case "subscribe":
				f.hub.confirm(f, msg.Channel)
			case "unsubscribe":
				f.hub.left(f, msg.Channel)
			}
		case *redis.Message:
			f.hub.deliver(f, msg.Channel, msg.Payload)
		}
	}
	close(ended)
	end(err)
	writing.Wait()
	return worked, reason
}

// write tells the server of changes, and asks after it when it is silent,
// until the session has ended.
func (f *feed) write(ps *redis.PubSub, heard *atomic.Bool, ended <-chan struct{}, end func(error)) {
	tick := time.NewTicker(f.hub.silence)
	defer tick.Stop()
	asked := false
	for {
		var err error
		select {
		case <-ended:
			return
		case <-f.wake:
			err = f.tell(ps)
		case <-tick.C:
			switch {
			case heard.Swap(false):
				asked = false
			case asked:
				err = errSilent
			default:
				asked = true
				err = ps.Ping(f.ctx)
			}
		}
		if err != nil {
			end(err)
			return
		}
	}
}

// tell sends the server what has changed.
func (f *feed) tell(ps *redis.PubSub) error {
	came, went := f.hub.changes(f)
	if len(went) > 0 {
		if err := ps.Unsubscribe(f.ctx, went...); err != nil {
			return err
		}
	}
	if len(came) > 0 {
		return ps.Subscribe(f.ctx, came...)
	}
	return nil
}
