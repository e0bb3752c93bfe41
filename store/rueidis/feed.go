package rueidis

import (
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/adapter"
)

// glance is how often a subscription makes sure that it is at a primary. A
// server that is replaced may live on as a replica, and keep its subscriptions,
// but nobody counts them. Behind Sentinel rueidis knows the primary; in a
// Cluster the node is asked, which costs a client that waits a request to each
// node every few seconds.
const (
	glanceAtClient = time.Second
	glanceAtNode   = 3 * time.Second
)

var (
	errReplaced = errors.New("another server is the primary now")
	errUnknown  = errors.New("the client does not know the node")
)

// connect takes a connection to f's node out of the client's pool.
func (s *Store) connect(f *adapter.Feed) (rueidis.DedicatedClient, error) {
	client := s.client
	if s.mode == rueidis.ClientModeCluster {
		if client = s.client.Nodes()[f.Node]; client == nil {
			return nil, errUnknown
		}
	}
	conn, _ := client.Dedicate()
	return conn, nil
}

// session takes a connection, subscribes and receives until it breaks, which
// rueidis notices by itself: it asks after a silent server. session reports
// whether the server has confirmed anything.
//
// The connection is dedicated. Over the client's shared one a subscription
// would last as long as somebody else's requests let that connection live,
// and a listener would hold up everybody's answers.
func (s *Store) session(f *adapter.Feed) (worked bool, err error) {
	primary := s.addr()
	conn, err := s.connect(f)
	if err != nil {
		return false, err
	}
	defer conn.Close() // it must not go back to the pool with subscriptions
	lost := conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { f.Deliver(m.Channel, m.Message) },
		OnSubscription: func(e rueidis.PubSubSubscription) {
			if e.Kind == "unsubscribe" || e.Kind == "sunsubscribe" {
				f.Ended(e.Channel)
			}
		},
	})
	var look <-chan time.Time
	if s.mode != rueidis.ClientModeStandalone {
		tick := time.NewTicker(glanceAtClient)
		if s.mode == rueidis.ClientModeCluster {
			tick.Reset(glanceAtNode)
		}
		defer tick.Stop()
		look = tick.C
	}
	for {
		heard, err := s.tell(f, conn)
		worked = worked || heard
		if err != nil {
			return worked, err
		}
		select {
		case <-f.Wake:
		case <-look:
			if s.strayed(f, conn, primary) {
				return worked, errReplaced
			}
		case err := <-lost:
			if err == nil {
				err = errors.New("the connection was lost")
			}
			return worked, err
		case <-f.Context.Done():
			return worked, f.Context.Err()
		}
	}
}

// strayed reports whether the connection is to a server that is no primary any
// more. A node that does not answer is for rueidis to give up.
func (s *Store) strayed(f *adapter.Feed, conn rueidis.DedicatedClient, primary string) bool {
	if s.mode == rueidis.ClientModeSentinel {
		return s.addr() != primary
	}
	a := answer{result: conn.Do(f.Context, conn.B().Arbitrary("HELLO").Build())}
	fields, err := a.fields()
	role := fields["role"]
	text, _ := role.ToString()
	return err == nil && text == "replica"
}

// tell tells the server what has changed. It reports whether the server has
// confirmed anything.
func (s *Store) tell(f *adapter.Feed, conn rueidis.DedicatedClient) (worked bool, err error) {
	came, went := f.Changes()
	for _, name := range went {
		err := conn.Do(f.Context, s.unsubscribe(conn, name)).Error()
		switch {
		case err == nil:
		case adapter.Unsubscribing(serverError(err)):
			f.Kept()
		default:
			return worked, err
		}
	}
	for _, name := range came {
		err := conn.Do(f.Context, s.subscribe(conn, name)).Error()
		refused := serverError(err)
		slot, to, _, moved := adapter.Redirection(refused)
		switch {
		case err == nil:
			worked = true
			f.Confirmed(name)
		case moved:
			worked = true
			f.Moved(name, slot, to)
		case refused == nil || adapter.Passing(refused) || f.Refused(name, err):
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

func (s *Store) unsubscribe(conn rueidis.DedicatedClient, name string) rueidis.Completed {
	if s.mode == rueidis.ClientModeCluster {
		return conn.B().Sunsubscribe().Channel(name).Build()
	}
	return conn.B().Unsubscribe().Channel(name).Build()
}
