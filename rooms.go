package holdfast

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/line"
	"github.com/holdfast-go/holdfast/internal/waitqueue"
)

// seats are where the readers of this process meet, by lock.
type seats struct {
	shards [64]shard
}

type shard struct {
	// mu guards the shard, and is held for moments only. While it is locked, the queue must
	// not be called: the queue calls readersWait.
	mu    sync.Mutex
	rooms map[string]*room
}

var seed = maphash.MakeSeed()

func (s *seats) shard(key string) *shard {
	return &s.shards[maphash.String(seed, key)%uint64(len(s.shards))]
}

// readersWait reports whether readers of this process wait for the lock at the server.
func (c *Client) readersWait(key string) bool {
	sh := c.seats.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	rm := sh.rooms[key]
	return rm != nil && rm.waits
}

// room is where the goroutines of this process meet that share a lock: readers
// of one name. Who has the seat asks the server; the others wait for what comes of
// that. The shard's mutex guards it.
type room struct {
	line.Line[*hold]
	hold    *hold           // that readers may join; nil if there is none
	waits   bool            // the one who has the seat waits at the server
	blind   bool            // or for the server: it cannot say who has the lock
	glances []chan<- glance // of those who only try while another one asks
}

// glance is what one who tries is told by the one who asked: a hold that is
// kept for it, or who has the lock, or with neither that it must look itself.
type glance struct {
	hold *hold
	held *HeldError
}

// room is the room of that key; it is made if there is none.
func (sh *shard) room(key string) *room {
	rm := sh.rooms[key]
	if rm == nil {
		if sh.rooms == nil {
			sh.rooms = make(map[string]*room)
		}
		rm = new(room)
		sh.rooms[key] = rm
	}
	return rm
}

// close forgets a room in which nothing is left.
func (sh *shard) close(key string, rm *room) {
	if rm.Idle() && rm.hold == nil {
		delete(sh.rooms, key)
	}
}

// shares reports whether readers on these terms share holds.
func (c *Client) shares(s *spec) bool { return c.queued(s) && !s.whole }

// suits reports whether the hold is what one would get on these terms.
func (h *hold) suits(s *spec) bool {
	return h.spec.client.renewer.TTL(&h.Item) == s.ttl && h.spec.ack == s.ack
}

// next is what a reader does now, while writers of its process want the lock or not. sh.mu is held.
func (c *Client) next(rm *room, s *spec, writers bool) (h *hold, do line.Joining) {
	if h = rm.hold; h == nil || !h.suits(s) {
		return nil, line.MayJoin(0, 0, writers)
	}
	since := c.now() - time.Duration(h.told.Load())
	do = line.MayJoin(since, int(h.waiting.Load()), writers)
	if do == line.Join && !h.promise() {
		return nil, do
	}
	return h, do
}

// enterRoom returns with a hold that is kept for the caller, or with the seat: then
// do says how to ask. When another one asks it waits for what comes of that. On error
// the caller has neither.
func (c *Client) enterRoom(ctx context.Context, s *spec, try bool) (h *hold, do line.Joining, waited bool, err error) {
	sh := c.seats.shard(s.key())
	for {
		writers := c.queue.Busy(s.key(), waitqueue.Exclusive)
		sh.mu.Lock()
		rm := sh.room(s.key())
		h, do = c.next(rm, s, writers)
		if h != nil && do == line.Join || rm.Take() {
			sh.mu.Unlock()
			return h, do, false, nil
		}
		if try {
			h, err = c.peek(ctx, sh, rm, s)
			if h != nil || err != nil {
				return h, line.Join, true, err
			}
			continue
		}
		p := rm.Join()
		sh.mu.Unlock()
		c.observe(Event{Kind: EventWait, Name: s.name, Local: true})
		if err = c.turn(ctx, p.Given); err == nil {
			if p.Hold != nil {
				return p.Hold, line.Join, true, nil
			}
			// The seat came: to ask on the terms of now.
			writers = c.queue.Busy(s.key(), waitqueue.Exclusive)
			sh.mu.Lock()
			h, do = c.next(rm, s, writers)
			if h != nil && do == line.Join {
				c.vacate(sh, rm, s.key())
			}
			sh.mu.Unlock()
			return h, do, true, nil
		}
		c.quit(sh, rm, s.key(), p)
		return nil, do, true, err
	}
}

// turn waits for something that is given, for ctx or for the client's closing.
func (c *Client) turn(ctx context.Context, given <-chan struct{}) error {
	select {
	case <-given:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.life.Closing():
		return ErrClosed
	}
}

// quit leaves the line. What came as we left is given on or back.
func (c *Client) quit(sh *shard, rm *room, key string, p *line.Place[*hold]) {
	sh.mu.Lock()
	left := rm.Leave(p)
	if !left && p.Hold == nil {
		c.vacate(sh, rm, key)
	}
	sh.mu.Unlock()
	if !left && p.Hold != nil {
		p.Hold.breakPromise()
	}
}

// peek is a try while another one asks: it takes as long as that request. sh.mu
// is held, and released here. With neither hold nor error the caller looks again.
func (c *Client) peek(ctx context.Context, sh *shard, rm *room, s *spec) (*hold, error) {
	if rm.waits {
		blind := rm.blind
		sh.mu.Unlock()
		if blind {
			return nil, errBlind
		}
		return nil, &HeldError{Name: s.name}
	}
	told := make(chan glance, 1)
	rm.glances = append(rm.glances, told)
	sh.mu.Unlock()
	var err error
	select {
	case g := <-told:
		if g.held != nil {
			return nil, g.held
		}
		return g.hold, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-c.life.Closing():
		err = ErrClosed
	}
	// The one who asks tells it in any case: what it keeps for us is given back.
	c.life.Go(func() {
		if g := <-told; g.hold != nil {
			g.hold.breakPromise()
		}
	})
	return nil, err
}

// vacate gives the seat to the next in line, who asks itself. Those who
// only try look again. sh.mu is held.
func (c *Client) vacate(sh *shard, rm *room, key string) {
	rm.waits, rm.blind = false, false
	rm.tell(glance{})
	rm.Give(nil)
	sh.close(key, rm)
}

func (rm *room) tell(g glance) {
	for _, told := range rm.glances {
		told <- g
	}
	rm.glances = nil
}

// leaveRoom gives up the seat after an attempt that brought nothing.
func (c *Client) leaveRoom(s *spec, err error) {
	sh := c.seats.shard(s.key())
	sh.mu.Lock()
	defer sh.mu.Unlock()
	rm := sh.rooms[s.key()]
	var held *HeldError
	if errors.As(err, &held) {
		rm.tell(glance{held: held})
	}
	c.vacate(sh, rm, s.key())
}

// errBlind is for who tries while another one waits for the server.
var errBlind = errors.New("the server has not answered the one who asks: ask alone")

// standing notes that the one who has the seat waits at the server from now on,
// or without held for the server.
func (c *Client) standing(s *spec, held *HeldError) {
	sh := c.seats.shard(s.key())
	sh.mu.Lock()
	defer sh.mu.Unlock()
	rm := sh.rooms[s.key()]
	rm.waits, rm.blind = true, held == nil
	rm.tell(glance{held: held})
}

// gather lets everybody in who waits in the room, and gives up the seat: waiting
// readers come in together. Those who come later look at who waits by then.
func (c *Client) gather(s *spec, h *hold) {
	sh := c.seats.shard(s.key())
	sh.mu.Lock()
	defer sh.mu.Unlock()
	rm := sh.rooms[s.key()]
	rm.waits, rm.blind = false, false
	if h.joinable() {
		rm.hold = h
	}
	for _, told := range rm.glances {
		if h.promise() {
			told <- glance{hold: h}
		} else {
			told <- glance{}
		}
	}
	rm.glances = nil
	for rm.Waiting() > 0 && h.promise() {
		rm.Give(h)
	}
	rm.Give(nil)
	sh.close(s.key(), rm)
}

// settle makes a hold the one that readers of this process may join, unless
// they have one.
func (c *Client) settle(h *hold) {
	if !c.shares(h.spec) {
		return
	}
	sh := c.seats.shard(h.spec.key())
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if rm := sh.room(h.spec.key()); rm.hold == nil && h.joinable() {
		rm.hold = h
	} else {
		sh.close(h.spec.key(), rm)
	}
}

// detach has no reader join the hold any more.
func (c *Client) detach(h *hold) {
	if !h.spec.rw.any() {
		return
	}
	sh := c.seats.shard(h.spec.key())
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if rm := sh.rooms[h.spec.key()]; rm != nil && rm.hold == h {
		rm.hold = nil
		sh.close(h.spec.key(), rm)
	}
}
