package workload

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
	rueidisstore "github.com/holdfast-go/holdfast/store/rueidis"
)

// The client libraries that a client process can work with.
const (
	Goredis = "goredis"
	Rueidis = "rueidis"
)

// Servers says how a client process reaches the servers.
type Servers struct {
	URL       string            `json:"url,omitempty"`       // one server: with user, password and TLS
	Sentinels []string          `json:"sentinels,omitempty"` // addresses of those that watch Master
	Master    string            `json:"master,omitempty"`
	Nodes     []string          `json:"nodes,omitempty"`  // addresses of a Cluster's nodes
	Quorum    []string          `json:"quorum,omitempty"` // URLs of independent servers
	Route     map[string]string `json:"route,omitempty"`  // instead of the address that a server says it has
}

// dial goes the way that Route says: through a proxy that can be faulty. The
// suite's own servers may be secured, and the proxies are then too.
func (s Servers) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if over, ok := s.Route[addr]; ok {
		addr = over
	}
	dialer := net.Dialer{Timeout: dialTimeout, KeepAlive: -1}
	if trust := redistest.TLS(); trust != nil {
		return (&tls.Dialer{NetDialer: &dialer, Config: trust}).DialContext(ctx, network, addr)
	}
	return dialer.DialContext(ctx, network, addr)
}

// dialTimeout bounds the making of a connection.
const dialTimeout = time.Second

// Open makes a store on the servers with the client library of that name. maxTTL
// is the longest lease that anybody takes.
func (s Servers) Open(library string, maxTTL time.Duration) (store.Store, func(), error) {
	if len(s.Quorum) > 0 {
		return s.openQuorum(library, maxTTL)
	}
	switch library {
	case Goredis:
		return s.openGoredis()
	case Rueidis:
		return s.openRueidis()
	}
	return nil, nil, fmt.Errorf("no client library is called %q", library)
}

// openQuorum makes a store over a store for each of the servers, of which one may be away.
func (s Servers) openQuorum(library string, maxTTL time.Duration) (store.Store, func(), error) {
	var nodes []store.Store
	var all closers
	for _, url := range s.Quorum {
		one := Servers{URL: url, Route: s.Route}
		nodes = append(nodes, quorum.Lazy(func() (store.Store, error) {
			node, closed, err := one.Open(library, maxTTL)
			if err == nil {
				all.add(closed)
			}
			return node, err
		}))
	}
	st, err := quorum.New(nodes, quorum.Config{MaxTTL: maxTTL})
	if err != nil {
		return nil, nil, err
	}
	return st, func() { st.Close(); all.close() }, nil // the store first: it still speaks to the servers
}

// closers close what was opened, also what is opened after the end.
type closers struct {
	mu   sync.Mutex
	over bool
	list []func()
}

func (c *closers) add(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		f()
		return
	}
	c.list = append(c.list, f)
}

func (c *closers) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for _, f := range c.list {
		f()
	}
}

func (s Servers) openGoredis() (store.Store, func(), error) {
	logging.Disable()
	switch {
	case len(s.Sentinels) > 0:
		rdb := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: s.Master, SentinelAddrs: s.Sentinels, Dialer: s.dial, ContextTimeoutEnabled: true,
		})
		return goredis.New(rdb), func() { _ = rdb.Close() }, nil
	case len(s.Nodes) > 0:
		rdb := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: s.Nodes, Dialer: s.dial, ContextTimeoutEnabled: true,
		})
		return goredis.New(rdb), func() { _ = rdb.Close() }, nil
	}
	opts, err := redis.ParseURL(s.URL)
	if err != nil {
		return nil, nil, err
	}
	opts.ContextTimeoutEnabled = true
	if opts.TLSConfig == nil || redistest.Secured() {
		opts.TLSConfig, opts.Dialer = nil, s.dial
	}
	rdb := redis.NewClient(opts)
	return goredis.New(rdb), func() { _ = rdb.Close() }, nil
}

func (s Servers) openRueidis() (store.Store, func(), error) {
	opts := rueidis.ClientOption{DisableCache: true, ConnWriteTimeout: 2 * time.Second}
	switch {
	case len(s.Sentinels) > 0:
		opts.InitAddress = s.Sentinels
		opts.Sentinel = rueidis.SentinelOption{MasterSet: s.Master}
	case len(s.Nodes) > 0:
		opts.InitAddress = s.Nodes
	default:
		of, err := rueidis.ParseURL(s.URL)
		if err != nil {
			return nil, nil, err
		}
		of.DisableCache, of.ConnWriteTimeout, of.ForceSingleClient = true, opts.ConnWriteTimeout, true
		opts = of
	}
	if opts.TLSConfig == nil || redistest.Secured() {
		opts.TLSConfig, opts.DialCtxFn = nil, s.dialRueidis
	}
	rdb, err := rueidis.NewClient(opts)
	if err != nil {
		return nil, nil, err
	}
	return rueidisstore.New(rdb), rdb.Close, nil
}

func (s Servers) dialRueidis(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
	return s.dial(ctx, "tcp", addr)
}
