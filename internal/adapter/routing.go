package adapter

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/internal/label"
)

// routeTimeout limits one request for the nodes of channels.
const routeTimeout = 3 * time.Second

var errNowhere = errors.New("no node is known to serve its slot")

// router finds the nodes of unrouted channels, while there are any.
type router struct {
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{} // buffers one signal: a channel has become unrouted
}

var routeLabel = label.New("routing")

// startRouting begins the search for a channel's node. mu is held.
func (h *Hub) startRouting(name string, c *channel) {
	if h.unrouted == nil {
		h.unrouted = make(map[string]*channel)
	}
	h.unrouted[name] = c
	if h.router == nil {
		p := &router{wake: make(chan struct{}, 1)}
		p.ctx, p.cancel = context.WithCancel(context.Background())
		h.router = p
		go func() {
			routeLabel.Set()
			h.route(p)
		}()
	}
	select {
	case h.router.wake <- struct{}{}:
	default:
	}
}

// endRouting ends the search for a channel, and the router with the last one. mu is held.
func (h *Hub) endRouting(name string) {
	delete(h.unrouted, name)
	if len(h.unrouted) == 0 && h.router != nil {
		h.router.cancel()
		h.router = nil
	}
}

// route assigns channels to nodes until none is unrouted.
func (h *Hub) route(p *router) {
	for {
		names, channels, stale, next := h.dueChannels(p)
		if len(names) > 0 {
			ctx, cancel := context.WithTimeout(p.ctx, routeTimeout)
			nodes, err := h.Driver.Nodes(ctx, names, stale)
			cancel()
			h.assignAll(names, channels, nodes, err)
			continue
		}
		timer := time.NewTimer(next)
		select {
		case <-timer.C:
		case <-p.wake:
		case <-p.ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
	}
}

// dueChannels assigns the channels whose node a redirection named. It returns the channels to
// ask about now, or after which time the next is due.
func (h *Hub) dueChannels(p *router) (names []string, channels []*channel, stale bool, next time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.router != p {
		return nil, nil, false, routeTimeout // it is cancelled
	}
	now := time.Now()
	next = routeTimeout
	for name, c := range h.unrouted {
		switch wait := c.retryAt.Sub(now); {
		case wait > 0:
			next = min(next, wait)
		case c.movedTo != "":
			h.assign(name, c, c.movedTo)
		default:
			names, channels = append(names, name), append(channels, c)
			stale = stale || c.stale
		}
	}
	if len(h.unrouted) == 0 {
		p.cancel()
		h.router = nil
	}
	return names, channels, stale, next
}

// assignAll assigns the channels whose nodes are known.
func (h *Hub) assignAll(names []string, channels []*channel, nodes []string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, name := range names {
		c := channels[i]
		if h.unrouted[name] != c {
			continue // it has no listeners any more
		}
		if err == nil && nodes[i] != "" {
			h.assign(name, c, nodes[i])
			continue
		}
		c.failures++
		c.retryAt = time.Now().Add(Backoff(c.failures))
		if c.lastErr = err; err == nil {
			c.lastErr = errNowhere
		}
		c.stale = true
	}
	if len(h.unrouted) == 0 && h.router != nil {
		h.router.cancel()
		h.router = nil
	}
}
