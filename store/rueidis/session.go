package rueidis

import (
	"cmp"
	"errors"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/adapter"
)

// How often a subscription checks that it is at a primary. A server that was replaced may live
// on as a replica and keep its subscriptions, but it receives no pushes. Behind Sentinel
// rueidis knows the primary. In a Cluster the node is asked, so a client that waits sends a
// request to each node every few seconds. A single server is asked when it has answered as a
// replica.
const (
	checkClientEvery = time.Second
	checkNodeEvery   = 3 * time.Second
)

var (
	errReplaced           = errors.New("another server is the primary now")
	errLost               = errors.New("the connection was lost")
	errUnknownNode        = errors.New("the client does not know the node")
	errNoSecondConnection = errors.New("the client's pool has no second connection with which to end a subscription")
)

// connect takes a connection to f's node from the client's pool. If the address has moved, it may
// be an old one, or the move may not be over.
func (s *Store) connect(f *adapter.Feed) (rueidis.DedicatedClient, error) {
	client := s.client
	if s.mode == rueidis.ClientModeCluster {
		if client = s.client.Nodes()[f.Node]; client == nil {
			return nil, errUnknownNode
		}
	}
	conn, _ := client.Dedicate()
	if s.address.moved.Load() && atReplica(f, conn) {
		conn.Close()
		return nil, errReplaced
	}
	return conn, nil
}

// session takes a connection, subscribes and receives until the connection breaks. rueidis
// notices a silent server by itself. session reports whether the server has confirmed
// anything.
//
// The connection is dedicated. On the client's shared connection a subscription would last
// only as long as other requests let that connection live, and a slow listener would delay the
// answers to all of them.
//
// The connection is never told to unsubscribe, and never returned to the pool, which would
// tell it. rueidis sends a PING after UNSUBSCRIBE, and takes whatever comes for the answer to
// one or the other. If the server refuses either in a way that rueidis does not expect (BUSY,
// MASTERDOWN, MISCONF), the answers no longer match the requests, and rueidis panics. So a
// subscription ends with its connection.
func (s *Store) session(f *adapter.Feed) (worked bool, err error) {
	primary := s.addr()
	conn, err := s.connect(f)
	if err != nil {
		return false, err
	}
	sub := newPubSubConn(f, conn)
	sub.mute.Store(false)
	defer func() {
		sub.conn.Close()
		if f.Context.Err() != nil {
			s.awaitClosed(f)
		}
	}()
	check, end := s.checks()
	defer end()
	replacing := s.replacePace()
	var replaceAt <-chan time.Time
	for {
		came, _ := f.Changes()
		confirmed, err := s.subscribeAll(f, sub.conn, came)
		worked = worked || confirmed
		if err != nil {
			return worked, err
		}
		if replaceAt == nil && f.NeedsReplacement() {
			replaceAt = replacing.next()
		}
		select {
		case <-f.Wake:
		case <-replaceAt:
			replaceAt = nil
			if f.NeedsReplacement() {
				next, err := s.replace(f, sub)
				if err != nil {
					return worked, err
				}
				replacing.done(next != sub)
				sub = next
			}
		case <-check:
			if s.misplaced(f, sub.conn, primary) {
				return worked, errReplaced
			}
		case <-s.address.demoted:
			if atReplica(f, sub.conn) {
				return worked, errReplaced
			}
		case err := <-sub.lost:
			return worked, cmp.Or(err, errLost)
		case <-f.Context.Done():
			return worked, f.Context.Err()
		}
	}
}

// replacePace is how often a session may replace its connection.
func (s *Store) replacePace() pace {
	if s.mode == rueidis.ClientModeCluster {
		return pace{shortest: shortestPauseAtNode}
	}
	return pace{shortest: shortestPause}
}

// checks ticks when the session must check that the server is a primary.
func (s *Store) checks() (check <-chan time.Time, end func()) {
	if s.mode == rueidis.ClientModeStandalone {
		return nil, func() {}
	}
	tick := time.NewTicker(checkClientEvery)
	if s.mode == rueidis.ClientModeCluster {
		tick.Reset(checkNodeEvery)
	}
	return tick.C, tick.Stop
}

// pubSubConn is a connection that a session listens on.
type pubSubConn struct {
	conn rueidis.DedicatedClient
	lost <-chan error
	mute atomic.Bool // another connection delivers the messages
}

// newPubSubConn makes a connection that delivers nothing yet.
func newPubSubConn(f *adapter.Feed, conn rueidis.DedicatedClient) *pubSubConn {
	sub := &pubSubConn{conn: conn}
	sub.mute.Store(true)
	sub.lost = conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) {
			if !sub.mute.Load() {
				f.Deliver(m.Channel, m.Message)
			}
		},
		OnSubscription: func(e rueidis.PubSubSubscription) {
			if e.Kind == "unsubscribe" || e.Kind == "sunsubscribe" {
				f.Unsubscribed(e.Channel) // the server ended it without a request
			}
		},
	})
	return sub
}

// misplaced reports whether the connection is to a server that is not a primary any more.
func (s *Store) misplaced(f *adapter.Feed, conn rueidis.DedicatedClient, primary string) bool {
	if s.mode == rueidis.ClientModeSentinel {
		return s.addr() != primary
	}
	return atReplica(f, conn)
}

// atReplica reports whether the connection is to a replica. If a node does not answer, rueidis
// gives it up.
func atReplica(f *adapter.Feed, conn rueidis.DedicatedClient) bool {
	return fromReplica(conn.Do(f.Context, conn.B().Arbitrary("HELLO").Build()))
}

// fromReplica reports whether a replica answered HELLO.
func fromReplica(hello rueidis.RedisResult) bool {
	fields, err := hello.AsMap()
	role := fields["role"]
	text, _ := role.ToString()
	return err == nil && text == "replica"
}

// subscribeAll subscribes to new channels. It reports whether the server has confirmed
// anything.
func (s *Store) subscribeAll(f *adapter.Feed, conn rueidis.DedicatedClient, came []string) (worked bool, err error) {
	for _, name := range came {
		err := conn.Do(f.Context, s.subscribe(conn, name)).Error()
		refusal := serverError(err)
		slot, to, _, moved := adapter.Redirection(refusal)
		switch {
		case err == nil:
			worked = true
			f.Confirmed(name)
		case moved:
			worked = true
			f.Moved(name, slot, to)
		case refusal == nil || adapter.Transient(refusal) || f.SubscribeRefused(name, err):
			return worked, err
		}
	}
	return worked, nil
}

func (s *Store) subscribe(conn rueidis.DedicatedClient, name string) rueidis.Completed {
	if s.mode == rueidis.ClientModeCluster {
		return conn.B().Ssubscribe().Channel(name).Build()
	}
	return conn.B().Subscribe().Channel(name).Build()
}
