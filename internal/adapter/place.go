package adapter

import (
	"context"
	"errors"
	"time"
)

// placeLimit bounds one question for the places of channels.
const placeLimit = 3 * time.Second

var errNowhere = errors.New("no node is known to serve its slot")

// placer finds the nodes of homeless channels, while there are any.
type placer struct {
	ctx    context.Context
	cancel context.CancelFunc
	wake   chan struct{} // has room for one: a channel has become homeless
}

// seek begins the search for a channel's place. mu is held.
func (h *Hub) seek(name string, c *channel) {
	if h.homeless == nil {
		h.homeless = make(map[string]*channel)
	}
	h.homeless[name] = c
	if h.placer == nil {
		p := &placer{wake: make(chan struct{}, 1)}
		p.ctx, p.cancel = context.WithCancel(context.Background())
		h.placer = p
		go h.place(p)
	}
	select {
	case h.placer.wake <- struct{}{}:
	default:
	}
}

// found ends the search for a channel, and the placer with the last. mu is held.
func (h *Hub) found(name string) {
	delete(h.homeless, name)
	if len(h.homeless) == 0 && h.placer != nil {
		h.placer.cancel()
		h.placer = nil
	}
}

// place finds homes until none is without one.
func (h *Hub) place(p *placer) {
	for {
		names, channels, stale, next := h.due(p)
		if len(names) > 0 {
			ctx, cancel := context.WithTimeout(p.ctx, placeLimit)
			nodes, err := h.Wire.Place(ctx, names, stale)
			cancel()
			h.placed(names, channels, nodes, err)
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

// due houses the channels that were told where they live, and returns those to
// ask about now, or after which time the next is due.
func (h *Hub) due(p *placer) (names []string, channels []*channel, stale bool, next time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.placer != p {
		return nil, nil, false, placeLimit // it is cancelled
	}
	now := time.Now()
	next = placeLimit
	for name, c := range h.homeless {
		switch wait := c.due.Sub(now); {
		case wait > 0:
			next = min(next, wait)
		case c.hint != "":
			h.house(name, c, c.hint)
		default:
			names, channels = append(names, name), append(channels, c)
			stale = stale || c.stale
		}
	}
	if len(h.homeless) == 0 {
		p.cancel()
		h.placer = nil
	}
	return names, channels, stale, next
}

// placed houses the channels whose nodes are known.
func (h *Hub) placed(names []string, channels []*channel, nodes []string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, name := range names {
		c := channels[i]
		if h.homeless[name] != c {
			continue // nobody listens any more
		}
		if err == nil && nodes[i] != "" {
			h.house(name, c, nodes[i])
			continue
		}
		c.failures++
		c.due = time.Now().Add(Backoff(c.failures))
		if c.why = err; err == nil {
			c.why = errNowhere
		}
		c.stale = true
	}
	if len(h.homeless) == 0 && h.placer != nil {
		h.placer.cancel()
		h.placer = nil
	}
}
