package redistest

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"sync/atomic"
)

// Router dials for a client. It can forget the connections that exist, as a router or a balancer does:
// what is sent over them is swallowed in both directions, without a reset. New ones work.
type Router struct {
	mu    sync.Mutex
	conns []*routed
}

// Dial connects to addr, with TLS if the servers are secured.
func (r *Router) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var c net.Conn
	var err error
	if secured := TLS(); secured != nil {
		c, err = (&tls.Dialer{Config: secured}).DialContext(ctx, network, addr)
	} else {
		c, err = new(net.Dialer).DialContext(ctx, network, addr)
	}
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	one := &routed{Conn: c}
	r.conns = append(r.conns, one)
	return one, nil
}

// Forget forgets all connections, and returns how many there were.
func (r *Router) Forget() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.forgotten.Store(true)
	}
	return len(r.conns)
}

type routed struct {
	net.Conn
	forgotten atomic.Bool
}

func (c *routed) Write(b []byte) (int, error) {
	if c.forgotten.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *routed) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err != nil || !c.forgotten.Load() {
			return n, err
		}
	}
}
