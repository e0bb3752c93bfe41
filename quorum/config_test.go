package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// sharded is a Cluster.
type sharded struct{ *memstore.Store }

func (sharded) Sharded() bool { return true }

// secondRoute is another route to a server.
type secondRoute struct {
	*memstore.Store
	address string
	role    string
}

func (r *secondRoute) Server(ctx context.Context) (store.ServerInfo, error) {
	info, err := r.Store.Server(ctx)
	info.Address = r.address
	if r.role != "" {
		info.Role = r.role
	}
	return info, err
}

func stores(n int) []store.Store {
	list := make([]store.Store, n)
	for i := range list {
		list[i] = memstore.New()
	}
	return list
}

func open(t *testing.T, nodes []store.Store, cfg quorum.Config) (*quorum.Store, *holdfast.Client) {
	t.Helper()
	cfg.Timeout = 10 * time.Second
	w := &world{t: t}
	s := w.storeOver(nodes, cfg)
	return s, w.clientOf(s)
}

func TestNewRefusesWhatCannotBeAQuorum(t *testing.T) {
	one := memstore.New()
	for what, nodes := range map[string][]store.Store{
		"0 nodes":                nil,
		"1 nodes":                stores(1),
		"2 nodes":                stores(2),
		"an odd number":          stores(4),
		"at most":                stores(101),
		"node 2 is nil":          {memstore.New(), nil, memstore.New()},
		"node 3 is nil":          {memstore.New(), memstore.New(), (*memstore.Store)(nil)},
		"node 3 is a Cluster":    {memstore.New(), memstore.New(), sharded{memstore.New()}},
		"nodes 1 and 3 are the ": {one, memstore.New(), one},
	} {
		_, err := quorum.New(nodes, quorum.Config{})
		assert.True(t, errors.Is(err, quorum.ErrConfig) && strings.Contains(err.Error(), what), "%s: %v", what, err)
	}
	// Stores that Go cannot compare are as good as others.
	wrapped := make([]store.Store, 3)
	for i := range wrapped {
		wrapped[i] = struct {
			store.Store
			notes []string
		}{Store: memstore.New()}
	}
	_, err := quorum.New(wrapped, quorum.Config{})
	assert.NoError(t, err)
	for _, cfg := range []quorum.Config{{MaxTTL: time.Millisecond}, {MaxTTL: -1}, {Timeout: -1}, {Timeout: 1}} {
		_, err := quorum.New(stores(3), cfg)
		assert.True(t, errors.Is(err, quorum.ErrConfig), "%+v: %v", cfg, err)
	}
}

func TestTheSameServerTwiceIsRefusedBeforeAnythingIsAcquired(t *testing.T) {
	one, two := memstore.New(), memstore.New()
	_, c := open(t, []store.Store{
		&secondRoute{Store: one, address: "10.0.0.1:6379"}, &secondRoute{Store: two, address: "10.0.0.2:6379"},
		&secondRoute{Store: one, address: "lock-1.example:6379"},
	}, quorum.Config{})
	for range 2 {
		_, err := c.Mutex("x").Lock(t.Context())
		assert.MustTrue(t, errors.Is(err, quorum.ErrSameServer) && !errors.Is(err, holdfast.ErrUnknownOutcome),
			"error %v", err)
		for _, address := range []string{"10.0.0.1:6379", "lock-1.example:6379"} {
			assert.True(t, strings.Contains(err.Error(), address), "error %q does not name %s", err, address)
		}
	}
	for _, s := range []*memstore.Store{one, two} {
		got := s.Dump("holdfast:{x}")
		assert.True(t, got == nil, "taken all the same: %v", got)
	}
}

func TestAReplicaInAQuorumIsRefused(t *testing.T) {
	nodes := stores(3)
	nodes[1] = &secondRoute{Store: memstore.New(), address: "10.0.0.2:6379", role: "replica"}
	_, c := open(t, nodes, quorum.Config{})
	_, err := c.Mutex("x").Lock(t.Context())
	assert.True(t, err != nil && strings.Contains(err.Error(), "10.0.0.2:6379 is a replica"),
		"want an error that names the replica, got %v", err)
}

func TestUnsupportedActionsAreRefused(t *testing.T) {
	nodes := stores(3)
	s, c := open(t, nodes, quorum.Config{})
	refused := func(err, kind error) {
		t.Helper()
		var server *store.ServerError
		assert.True(t, errors.Is(err, kind) && errors.As(err, &server),
			"error %v (%T), want a refusal by %v", err, err, kind)
	}
	key := []string{"holdfast:{x}"}
	_, err := s.Run(t.Context(), script.Acquire, key,
		[]string{"A/1", "30000", "600000", "p:1:3", "0", "holdfast:push:"})
	refused(err, quorum.ErrUnsupported)
	for _, action := range []*script.Script{script.RaiseFence, script.MarkServer, {Name: "of a later version"}} {
		_, err = s.Run(t.Context(), action, key, []string{"A/1", "7", "600000"})
		refused(err, quorum.ErrUnsupported)
	}
	_, err = c.Mutex("x", holdfast.TTL(2*time.Minute)).Lock(t.Context())
	refused(err, quorum.ErrTTLTooLong)

	l, err := c.Mutex("x").Lock(t.Context())
	assert.Must(t, err)
	refused(l.Extend(t.Context(), 2*time.Minute), quorum.ErrTTLTooLong)
	assert.NoError(t, l.Err())
	assert.NoError(t, l.Release(t.Context()))
	s.Close()
	s.Close()
	assert.Is(t, assert.Err(s.Run(t.Context(), script.Inspect, key, nil)), quorum.ErrClosed)
}

func TestAnActionWithTooFewArgumentsIsRefused(t *testing.T) {
	s, _ := open(t, stores(3), quorum.Config{})
	for _, action := range []*script.Script{
		script.Acquire, script.Release, script.Renew, script.Poll, script.Cancel, script.Evict,
	} {
		var refused *store.ServerError
		_, err := s.Run(t.Context(), action, []string{"holdfast:{x}"}, nil)
		assert.True(t, errors.As(err, &refused), "%s: %v", action.Name, err)
		_, err = s.Run(t.Context(), action, nil, nil)
		assert.True(t, errors.As(err, &refused), "%s without a key: %v", action.Name, err)
	}
}

func TestAQuorumDescribesItself(t *testing.T) {
	s, _ := open(t, []store.Store{
		&secondRoute{Store: memstore.New(), address: "a:1"}, &secondRoute{Store: memstore.New(), address: "b:2"},
		&secondRoute{Store: memstore.New(), address: "c:3"},
	}, quorum.Config{})
	info, err := s.Server(t.Context())
	assert.True(t, err == nil && info.Mode == "quorum" && info.Role == "master" && info.Address == "a:1,b:2,c:3",
		"%+v, %v", info, err)
}

// If the time limit of a request ended the connection attempts, the error is that of the
// limit. That one node was not reached does not say that no node was.
func TestWithoutAMajorityTheErrorSaysThatTheTimeIsOver(t *testing.T) {
	for _, cause := range []error{context.DeadlineExceeded, context.Canceled} {
		err := error(&quorum.NoMajorityError{
			Nodes: 5, Missing: []error{fmt.Errorf("%w: %w", store.ErrNotSent, cause)},
		})
		over, notSent := errors.Is(err, cause), errors.Is(err, store.ErrNotSent)
		assert.True(t, over && !notSent, "%v: is it %v: %v; not sent: %v", err, cause, over, notSent)
	}
}
