package rueidis

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/adapter"
)

// replaceLimit bounds one try to replace a connection.
const replaceLimit = time.Second

// replace closes the connection of old, to end subscriptions. Before that it subscribes, on
// another connection, to the channels that still have listeners: the server counts those at
// all times. It returns old if the server does not permit that now; then nothing has changed.
// An error says that the pool has no second connection, or none to a primary.
func (s *Store) replace(f *adapter.Feed, old *pubSubConn) (*pubSubConn, error) {
	ctx, cancel := context.WithTimeout(f.Context, replaceLimit)
	defer cancel()
	conn, err := s.second(ctx, f)
	if err != nil {
		return nil, err
	}
	next := newPubSubConn(f, conn)
	names := f.Subscribed()
	for _, name := range names {
		if err := conn.Do(ctx, s.subscribe(conn, name)).Error(); err != nil {
			conn.Close()
			return old, nil // the session tries again
		}
	}
	old.mute.Store(true)
	next.mute.Store(false)
	old.conn.Close()
	s.awaitClosed(f)
	f.Replaced(names)
	return next, nil
}

// second takes a connection from the client's pool. The pool may be empty, and waiting for it
// could then last for ever.
func (s *Store) second(ctx context.Context, f *adapter.Feed) (rueidis.DedicatedClient, error) {
	type taken struct {
		conn rueidis.DedicatedClient
		err  error
	}
	got := make(chan taken, 1)
	go func() {
		conn, err := s.connect(f)
		got <- taken{conn, err}
	}()
	select {
	case t := <-got:
		return t.conn, t.err
	case <-ctx.Done():
		go func() {
			if t := <-got; t.err == nil {
				t.conn.Close()
			}
		}()
		return nil, errNoSecondConnection
	}
}

// awaitClosed returns when the server has noticed that a connection is closed, or after a
// while. The server reads the close before it reads a later request, and drops the connection
// before it reads the request after that. A refusal is an answer, too.
func (s *Store) awaitClosed(f *adapter.Feed) {
	client := s.client
	if s.mode == rueidis.ClientModeCluster {
		if client = s.client.Nodes()[f.Node]; client == nil {
			return
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), replaceLimit)
	defer cancel()
	_ = client.Do(ctx, client.B().Arbitrary("PING").Build())
}

// pace is how often a connection is replaced: replacing takes only a small part of the time,
// however many listeners there are.
type pace struct {
	shortest time.Duration
	began    time.Time
	pause    time.Duration
}

// In a Cluster the locks of a node come and go, elsewhere only clients do.
const (
	shortestPause       = 10 * time.Millisecond
	shortestPauseAtNode = 100 * time.Millisecond
	pauseRatio          = 10
)

// next ticks when to replace the connection.
func (p *pace) next() <-chan time.Time {
	p.began = time.Now().Add(max(0, time.Until(p.began.Add(p.pause))))
	return time.After(time.Until(p.began))
}

// done records the outcome of a replacement that began when next ticked.
func (p *pace) done(well bool) {
	took := time.Since(p.began)
	p.pause = took + max(p.shortest, pauseRatio*took)
	if !well {
		p.pause = took + replaceLimit
	}
}
