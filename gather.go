package holdfast

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/internal/batch"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// asked is an acquisition or a release that may travel with others.
type asked struct{ key, attempt string }

// told is what became of it. The zero value says nothing: ask alone.
type told struct {
	done  bool
	token uint64
	err   error
}

type (
	road = batch.Batcher[asked, told]
	ride = batch.Item[asked, told]
)

// roads are the ways of a client on which requests travel together when many
// of its goroutines send them at one time: one for releases, and one for the
// acquisitions of each TTL.
type roads struct {
	open bool
	out  *road

	mu sync.Mutex // guards in
	in map[string]*road
}

// mostRoads bounds how many TTLs have a road; others go alone.
const mostRoads = 64

func (c *Client) openRoads() {
	g, ok := c.store.(store.Batcher)
	if !ok || !g.Batches() {
		return
	}
	c.roads.open, c.roads.in = true, make(map[string]*road)
	c.roads.out = batch.New(c.releaseTogether, c.life.Go)
}

// road is the way of a manner's acquisitions; nil if they go alone.
func (c *Client) road(m *manner) *road {
	if !c.roads.open || m.want != wire.Exclusive || m.owner != "" || m.ack.wanted() {
		return nil
	}
	c.roads.mu.Lock()
	defer c.roads.mu.Unlock()
	r := c.roads.in[m.ttlMS]
	if r == nil && len(c.roads.in) < mostRoads {
		ttl, life := m.ttlMS, m.life
		r = batch.New(func(batch []*ride) { c.acquireTogether(batch, ttl, life) }, c.life.Go)
		c.roads.in[m.ttlMS] = r
	}
	return r
}

// acquireTogether takes those locks of a batch that are free. An error tells
// each of them what it would tell a request of its own.
func (c *Client) acquireTogether(batch []*ride, ttl, life string) {
	keys, args := make([]string, len(batch)), make([]string, 2, 2+len(batch))
	args[0], args[1] = ttl, life
	for i, s := range batch {
		keys[i], args = s.Request.key, append(args, s.Request.attempt)
	}
	c.together(batch, script.AcquireFree, keys, args)
}

// releaseTogether gives up those locks of a batch that nobody waits for.
func (c *Client) releaseTogether(batch []*ride) {
	keys, args := make([]string, len(batch)), make([]string, len(batch))
	for i, s := range batch {
		keys[i], args[i] = s.Request.key, s.Request.attempt
	}
	c.together(batch, script.ReleaseIdle, keys, args)
}

func (c *Client) together(batch []*ride, action *script.Script, keys, args []string) {
	answer, err := c.run(c.life.Context(), action, keys, args)
	var token uint64
	var each string
	if err == nil {
		token, each, err = wire.ParseSeveral(answer, len(batch))
	}
	for i, s := range batch {
		t := told{err: err}
		if err == nil && each[i] == '1' {
			t = told{done: true, token: token}
		}
		s.Answer <- t
	}
}

// first sends the first request of an attempt, with those of others if many
// are under way.
func (at *attempt) first(ctx context.Context) (a wire.Answer, err error) {
	road := at.spec.road
	if road == nil {
		return at.ask(ctx, script.Acquire)
	}
	entered := at.c.now() // before anything is sent, so trust may be counted from it
	s := road.Enter(asked{at.spec.key(), at.id})
	if s == nil {
		defer road.Exit()
		return at.ask(ctx, script.Acquire)
	}
	var t told
	select {
	case t = <-s.Answer:
	case <-ctx.Done():
		if s.Leave() {
			return a, ctx.Err() // before anything was sent
		}
		t.err = ctx.Err()
	}
	switch {
	case t.err != nil:
		at.risk = !request.Definite(t.err)
		return a, t.err
	case !t.done:
		return at.ask(ctx, script.Acquire)
	}
	at.asked, at.sure, at.risk = entered, true, true
	return wire.Answer{Kind: wire.Granted, Token: t.token}, nil
}

// leaveTogether releases the hold with others if many are under way, and
// reports whether it did. If not, nothing or no more is known than before.
func (h *hold) leaveTogether(ctx context.Context, alone func() error) (err error) {
	out := h.spec.client.roads.out
	_, limited := ctx.Deadline()
	if out == nil || limited || h.spec.want != wire.Exclusive || h.spec.owner != "" || h.waiting.Load() > 0 {
		return alone()
	}
	s := out.Enter(asked{h.spec.key(), h.attempt})
	if s == nil {
		defer out.Exit()
		return alone()
	}
	if t := <-s.Answer; t.done {
		return nil
	}
	// Not done, or not known: release finds out, for it may come twice.
	return alone()
}
