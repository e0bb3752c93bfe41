package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// link is a process's way to the server: the store that its client is given.
// Whatever goes through waits for the scheduler.
type link struct {
	w        *world
	n        int
	client   *holdfast.Client
	dead     bool          // nothing passes any more
	paused   time.Duration // nothing arrives and nothing leaves until then
	halfOpen bool          // pushes get lost, and the server does not know
	swallows int           // requests that go over connections that a router has forgotten
	subs     []*sub
	belief

	slept atomic.Int64 // for which its machine slept: its clock counts that, its timers do not
}

var (
	_ store.Batcher   = (*link)(nil)
	_ store.Simulated = (*link)(nil)
)

// errLink is what a broken connection says.
var errLink = errors.New("connection reset by peer")

func (l *link) String() string { return fmt.Sprintf("c%d", l.n) }

// now is the clock of the process.
func (l *link) now() time.Duration { return l.w.now() + time.Duration(l.slept.Load()) }

func (l *link) Clock() func() time.Duration { return l.now }

// Random spreads the polls of the process. It is drawn anew for each instant: which of
// two goroutines draws first at one instant is not the world's to decide.
func (l *link) Random() func() float64 {
	return func() float64 {
		return rand.New(rand.NewPCG(l.w.seed<<8|uint64(l.n), uint64(l.w.now()))).Float64()
	}
}

func (l *link) Sharded() bool { return l.w.sharded }
func (l *link) Batches() bool { return l.w.gathers }

// Group makes a slot of every name in a Cluster.
func (l *link) Group(key string) string {
	if l.w.sharded {
		return key
	}
	return ""
}

// call is one request on its way.
type call struct {
	link   *link
	says   string
	action *script.Script // nil: it is none
	keys   []string
	args   []string
	sent   time.Duration // by the clock of the process
	due    time.Duration // the caller is gone by then; 0: never
	run    func() reply  // at the server
	back   chan reply
	gone   atomic.Bool // the caller does not wait any more
	told   bool
	denied bool // the server has refused it
}

type reply struct {
	answer string
	err    error
	stop   func()
}

// send lets a request through the gate, and waits for what comes of it.
func (l *link) send(ctx context.Context, c *call) reply {
	if err := ctx.Err(); err != nil {
		return reply{err: err}
	}
	c.link, c.sent, c.back = l, l.now(), make(chan reply, 1)
	if at, ok := ctx.Deadline(); ok {
		// Before the context's own timer, so that the scheduler does it, and so long before
		// that several which end at one time all come before it.
		c.due = max(at.Sub(l.w.born)-time.Microsecond, 1)
	}
	l.w.arrive(l, fmt.Sprintf("%s sends %s", l, c.says), func() { l.w.dispatch(c) })
	select {
	case r := <-c.back:
		return r
	case <-ctx.Done():
		c.gone.Store(true)
		return reply{err: ctx.Err()}
	}
}

// Run is a request.
func (l *link) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	c := &call{action: action, keys: slices.Clone(keys), args: slices.Clone(args)}
	if action == script.RegisterClient { // it says who runs the test
		c.says = "register_client"
	} else {
		c.says = action.Name + " " + strings.Join(keys, " ") + " " + strings.Join(args, " ")
	}
	c.run = func() reply { return l.w.execute(c) }
	r := l.send(ctx, c)
	return r.answer, r.err
}

// Server asks who is there.
func (l *link) Server(ctx context.Context) (store.ServerInfo, error) {
	info := store.ServerInfo{Product: "sim", Version: "7.0.0", Role: "master", Mode: "standalone"}
	r := l.send(ctx, &call{says: "hello", run: func() reply { return reply{} }})
	return info, r.err
}

// tell gives a caller its answer, if it still waits for one.
func (c *call) tell(r reply) bool {
	if c.told || c.gone.Load() {
		return false
	}
	c.told = true
	if r.err == nil {
		c.link.believe(c, r.answer)
	}
	c.back <- r
	return true
}

// dispatch decides what becomes of a request.
func (w *world) dispatch(c *call) {
	l := c.link
	if l.dead {
		c.tell(reply{err: errLink})
		return
	}
	c.says = w.plain(c.says)
	l.asks(c)
	if c.due > 0 {
		w.at(c.due, "", func() {
			if c.tell(reply{err: context.DeadlineExceeded}) && !l.dead {
				w.note(fmt.Sprintf("%s waits no more for %s", l, c.says))
			}
		})
	}
	if l.swallows > 0 {
		w.swallow(c)
		return
	}
	wait := max(l.paused-w.now(), 0)
	there, back := wait+w.travel(), w.travel()
	repeats := w.repeats
	if w.now() < w.copies {
		repeats = 0.7
	}
	if c.action != nil && w.chance(repeats) {
		w.again(c, there+w.upTo(pick(w, 2*w.work, w.ttl, latest*w.ttl)))
	}
	lost, cut := w.chance(w.loss), w.chance(0.5)
	switch {
	case lost && cut:
		w.in(there, fmt.Sprintf("%s loses its connection before %s", l, c.says), func() {
			w.counts["lost requests"]++
			c.tell(reply{err: errLink})
		})
		return
	case lost:
		w.counts["lost requests"]++
		return
	case w.chance(w.refusal):
		c.denied = true
		w.in(there+back, fmt.Sprintf("%s is refused %s", l, c.says), func() {
			w.counts["refusals"]++
			c.tell(reply{err: &holdfast.ServerError{Code: "LOADING", Message: "LOADING a data set"}})
		})
		return
	}
	w.reach(c, there, back)
	if c.action != nil && w.chance(w.double) {
		w.counts["doubled requests"]++
		w.reach(c, there+w.upTo(lateness*w.ttl), back)
	}
}

// swallow lets a request vanish without a word. Sometimes the store gives the connection up before the caller's
// time is over.
func (w *world) swallow(c *call) {
	c.link.swallows--
	w.counts["swallowed requests"]++
	w.note("  it is swallowed")
	if c.due > 0 && w.chance(0.5) {
		w.in(w.upTo(max(c.due-w.now(), 0)), fmt.Sprintf("%s gives up the connection of %s", c.link, c.says), func() {
			c.tell(reply{err: errLink})
		})
	}
}

// again has a copy of a request arrive once more, later. Nobody hears its answer.
func (w *world) again(c *call, delay time.Duration) {
	twin := &call{link: c.link, says: c.says, action: c.action, keys: c.keys, args: c.args, told: true}
	w.in(delay, fmt.Sprintf("a late copy of %s's %s arrives", c.link, c.says), func() {
		if w.down > w.now() {
			return
		}
		if err := w.refused(twin); err != nil {
			w.note("  " + err.Error())
			return
		}
		w.counts["late copies that arrived"]++
		if c.denied {
			w.counts["late copies of what was refused"]++
		}
		had := w.holds(twin)
		w.note("  " + w.plain(w.execute(twin).answer))
		if !had && w.holds(twin) {
			w.counts["grants to late copies"]++
		}
	})
}

// holds says whether the attempt of an acquisition has the lock.
func (w *world) holds(c *call) bool {
	if c.action != script.Acquire {
		return false
	}
	r := w.locks[c.keys[0]]
	return r != nil && r.holds[c.args[0]].expiry > w.serverNow()
}

// reach has a request arrive at the server, and its answer come back.
func (w *world) reach(c *call, there, back time.Duration) {
	l := c.link
	w.in(there, fmt.Sprintf("%s's %s arrives", l, c.says), func() {
		if w.down > w.now() {
			w.reach(c, w.down-w.now()+w.travel(), back)
			return
		}
		if err := w.refused(c); err != nil {
			c.denied = true
			w.note("  " + err.Error())
			w.answer(c, reply{err: err}, back)
			return
		}
		r := c.run()
		if r.err == nil {
			w.note("  " + w.plain(r.answer))
		}
		if w.chance(w.loss) {
			w.counts["lost answers"]++
			if w.chance(0.5) {
				r = reply{err: errLink, stop: r.stop}
			} else {
				c.orphan(r)
				return
			}
		}
		w.answer(c, r, back)
	})
}

func (w *world) answer(c *call, r reply, back time.Duration) {
	w.in(back, fmt.Sprintf("%s hears of %s", c.link, c.says), func() {
		switch l := c.link; {
		case l.dead:
			c.orphan(r)
		case l.paused > w.now():
			w.answer(c, r, l.paused-w.now()+w.travel())
		case !c.tell(r) || r.err != nil:
			c.orphan(r)
		}
	})
}

// orphan ends a subscription that nobody has heard of.
func (c *call) orphan(r reply) {
	if r.stop != nil {
		r.stop()
	}
}

// travel is how long one way takes.
func (w *world) travel() time.Duration {
	d := time.Microsecond + w.upTo(w.lag)
	if w.chance(w.late) {
		w.counts["late messages"]++
		d += w.upTo(lateness * w.ttl)
	}
	return d
}

// sub is one subscription of a process.
type sub struct {
	link    *link
	channel string
	to      store.Listener
	unsub   func()        // at the server; nil while it is broken
	number  int           // of the connection that it has; what comes over an earlier one is swallowed
	ended   atomic.Bool   // by the client
	last    time.Duration // when the last message was heard: they come in order
}

// Listen subscribes.
func (l *link) Listen(ctx context.Context, channel string, to store.Listener) (func(), error) {
	s := &sub{link: l, channel: channel, to: to}
	r := l.send(ctx, &call{says: "subscribe " + channel, run: func() reply {
		l.subs = append(l.subs, s)
		s.stand()
		return reply{stop: func() { l.w.arrive(l, fmt.Sprintf("%s unsubscribes %s", l, channel), s.end) }}
	}})
	if r.err != nil {
		return nil, r.err
	}
	return func() {
		s.ended.Store(true)
		r.stop()
	}, nil
}

// stand subscribes at the server.
func (s *sub) stand() {
	w := s.link.w
	s.number++
	number := s.number
	s.unsub, _ = w.store.Listen(context.Background(), s.channel, store.Listener{Message: func(payload string) {
		w.arrive(s.link, fmt.Sprintf("%s is pushed %s", s.link, payload), func() {
			if s.number != number {
				w.counts["swallowed pushes"]++
				return
			}
			w.push(s, payload)
		})
	}})
}

// end unsubscribes at the server.
func (s *sub) end() {
	s.ended.Store(true)
	s.fall()
	s.link.subs = slices.DeleteFunc(s.link.subs, func(other *sub) bool { return other == s })
}

// fall breaks the subscription, and the server knows.
func (s *sub) fall() {
	if s.unsub != nil {
		s.unsub()
		s.unsub = nil
	}
}

// rest lets the connection be forgotten: pushes are swallowed, and the server counts the subscription for longer
// than the client has it. After a while the store notices, and subscribes over another connection.
func (s *sub) rest(while time.Duration) {
	w, old := s.link.w, s.unsub
	s.number++
	number := s.number
	w.in(while, fmt.Sprintf("%s subscribes over a new connection", s.link), func() {
		if s.unsub == nil || s.number != number || s.link.dead || s.ended.Load() {
			return
		}
		s.stand()
		w.in(w.travel(), fmt.Sprintf("%s resumes", s.link), s.look)
		w.in(w.upTo(2*w.ttl), "the server misses a subscriber", old)
	})
}

// look tells the process that its subscription is restored.
func (s *sub) look() { s.to.Look(true) }

// push brings a message to a process.
func (w *world) push(s *sub, payload string) {
	if s.link.dead {
		return
	}
	if s.link.halfOpen || w.chance(w.loss) {
		w.counts["lost pushes"]++
		return
	}
	s.last = max(s.last+1, w.now()+w.travel())
	w.hear(s, payload)
}

func (w *world) hear(s *sub, payload string) {
	w.at(s.last, fmt.Sprintf("%s hears %s", s.link, w.plain(payload)), func() {
		switch l := s.link; {
		case l.dead || s.ended.Load() || s.unsub == nil:
		case l.paused > w.now():
			s.last = max(s.last+1, l.paused+w.travel())
			w.hear(s, payload)
		default:
			l.pushed(payload)
			s.to.Message(payload)
		}
	})
}
