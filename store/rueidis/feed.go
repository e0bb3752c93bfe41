package rueidis

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
)

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

// session takes a connection, subscribes and receives until it breaks, which
// rueidis notices by itself: it asks after a silent server. session reports
// whether the server has confirmed anything.
//
// The connection is dedicated. Over the client's shared one a subscription
// would last as long as somebody else's requests let that connection live,
// and a listener would hold up everybody's answers.
func (f *feed) session() (worked bool, err error) {
	conn, _ := f.hub.client.Dedicate()
	defer conn.Close() // it must not go back to the pool with subscriptions
	lost := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { f.hub.deliver(f, m.Channel, m.Message) },
	})
	for {
		came, went := f.hub.changes(f)
		for _, name := range went {
			if err := conn.Do(f.ctx, conn.B().Unsubscribe().Channel(name).Build()).Error(); err != nil {
				return worked, err
			}
			f.hub.left(f, name)
		}
		for _, name := range came {
			switch err := conn.Do(f.ctx, conn.B().Subscribe().Channel(name).Build()).Error(); {
			case err == nil:
				worked = true
				f.hub.confirm(f, name)
			case serverError(err) == nil || f.hub.refused(f, name, err):
				return worked, err
			}
		}
		select {
		case <-f.wake:
		case err := <-lost:
			if err == nil {
				err = errors.New("the connection was lost")
			}
			return worked, err
		case <-f.ctx.Done():
			return worked, f.ctx.Err()
		}
	}
}
