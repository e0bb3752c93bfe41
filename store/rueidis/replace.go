package rueidis

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/adapter"
)

// replaceLimit bounds one try to put another connection in the place of one.
const replaceLimit = time.Second

// replace closes the connection of old, to end subscriptions. Before that it
// subscribes over another one to what somebody listens to: the server counts us
// among those who hear that all the time. It returns old if the server does not
// let us do so now; then nothing has changed. The error is that there is no
// connection to be had beside the present one.
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
			return old, nil // it is tried again
		}
	}
	old.mute.Store(true)
	next.mute.Store(false)
	old.conn.Close()
	s.awaitClosed(f)
	f.Replaced(names)
	return next, nil
}

// second takes a connection out of the client's pool, which may be empty: who waits
// for it in vain would never end.
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

// settle returns when the server has noticed that a connection is closed, at the
// latest after a while. It reads that before it reads what is sent after the close, and
// forgets the connection before it reads what is sent after the answer. A refusal is an
// answer, too.
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

// pace is how often a connection is replaced: so that it takes a small part of the
// time, however many listeners there are.
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

// next says when to replace.
func (p *pace) next() <-chan time.Time {
	p.began = time.Now().Add(max(0, time.Until(p.began.Add(p.pause))))
	return time.After(time.Until(p.began))
}

// done is told how a replacement went that began when next said.
func (p *pace) done(well bool) {
	took := time.Since(p.began)
	p.pause = took + max(p.shortest, pauseRatio*took)
	if !well {
		p.pause = took + replaceLimit
	}
}
