package sim

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// user is one goroutine of a process. It does what the scheduler tells it, one call at a
// time; all fields belong to the scheduler.
type user struct {
	w      *world
	n      int
	link   *link
	lock   *object
	rounds int
	busy   bool // a call is under way
	asks   bool // it is one for a lock
	waits  bool // and one that waits
	since  time.Duration
	cancel context.CancelFunc

	lease  *holdfast.Lease // nil: it holds nothing
	ctx    context.Context
	mode   byte // x, s or p
	weight int
	last   uint64 // token
	over   bool   // it has begun to give the lease up

	work chan func()
}

func (u *user) String() string { return fmt.Sprintf("%s.u%d", u.link, u.n) }

// done says whether the user has nothing left to do.
func (u *user) done() bool {
	return u.link.dead || !u.busy && u.lease == nil && (u.rounds == 0 || u.w.quiet)
}

// boot starts a process.
func (w *world) boot() {
	n := len(w.links)
	l := &link{w: w, n: n, belief: newBelief()}
	l.client = w.client(l, byte(n))
	w.links = append(w.links, l)
	var names []string
	for _, l := range w.links {
		names = append(names, l.client.ID(), l.String())
	}
	w.names = strings.NewReplacer(names...)
	for i := range w.each {
		u := &user{w: w, n: i, link: l, rounds: w.rounds, work: make(chan func()), lock: w.objects[0]}
		w.users = append(w.users, u)
		go func() {
			for f := range u.work {
				f()
			}
		}()
		u.rest()
	}
}

// naming guards the source of IDs, which is one for all worlds.
var naming sync.Mutex

// client makes a client. Its ID is the same in each run: records are ordered by IDs.
func (w *world) client(l *link, n byte) *holdfast.Client {
	naming.Lock()
	defer naming.Unlock()
	was := crand.Reader
	crand.Reader = bytes.NewReader(bytes.Repeat([]byte{n + 1}, 16))
	defer func() { crand.Reader = was }()
	c, err := holdfast.New(l, holdfast.Config{
		TTL: w.ttl, Retention: w.retention, MaxLocalHandOvers: w.passes[int(n)%w.processes], App: "sim",
	})
	if err != nil {
		panic(err)
	}
	return c
}

// do has the user make a call; after is what the scheduler makes of what came of it.
func (u *user) do(what string, call func() error, after func(err error)) {
	u.busy = true
	u.w.note(fmt.Sprintf("  %s: %s", u, what))
	u.work <- func() {
		err := call()
		says := "ok"
		if err != nil {
			says = err.Error()
		}
		u.w.arrive(u.link, fmt.Sprintf("%s: %s: %s", u, what, says), func() {
			u.busy, u.asks, u.waits = false, false, false
			if u.link.dead {
				return
			}
			u.w.counts[what]++
			after(err)
		})
	}
}

// rest is the pause before the next round, and that round.
func (u *user) rest() {
	w := u.w
	w.in(w.upTo(2*w.work)+w.upTo(w.ttl/10), fmt.Sprintf("%s wakes", u), func() {
		switch {
		case u.done() || w.quiet:
		case u.link.paused > w.now():
			u.rest()
		default:
			u.rounds--
			u.ask()
		}
	})
}

// ask takes a lock in one of the ways that there are.
func (u *user) ask() {
	w, c := u.w, u.link.client
	u.lock = pick(w, w.objects...)
	u.mode, u.weight = 'x', 1
	name, try, delay := u.lock.name, w.chance(0.2), holdfast.LockDelay(u.lock.delay)
	var take func(context.Context) (*holdfast.Lease, error)
	switch kind := u.lock.kind; {
	case kind == 's':
		u.mode, u.weight = 'p', 1+w.rng.IntN(u.lock.limit)
		s := c.Semaphore(name, u.lock.limit, delay)
		n := u.weight
		take = func(ctx context.Context) (*holdfast.Lease, error) { return s.Acquire(ctx, n) }
		if try {
			take = func(ctx context.Context) (*holdfast.Lease, error) { return s.TryAcquire(ctx, n) }
		}
	case kind == 'r' && w.chance(0.6):
		u.mode = 's'
		if take = c.RWMutex(name, delay).RLock; try {
			take = c.RWMutex(name, delay).TryRLock
		}
	case kind == 'r':
		if take = c.RWMutex(name, delay).Lock; try {
			take = c.RWMutex(name, delay).TryLock
		}
	default:
		if take = c.Mutex(name, delay).Lock; try {
			take = c.Mutex(name, delay).TryLock
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	u.asks, u.waits, u.since, u.cancel = true, !try, w.now(), cancel
	asked := u.since
	if w.chance(0.3) {
		w.in(w.upTo(2*w.ttl), fmt.Sprintf("%s gives up", u), func() {
			if u.asks && u.since == asked {
				w.counts["cancellations"]++
				cancel()
			}
		})
	}
	var l *holdfast.Lease
	u.do(fmt.Sprintf("%c %s try=%v", u.mode, name, try), func() (err error) {
		l, err = take(ctx)
		return err
	}, func(err error) { u.taken(l, err) })
}

// taken is what came of it.
func (u *user) taken(l *holdfast.Lease, err error) {
	w := u.w
	if u.link.dead {
		return
	}
	if err != nil {
		u.refused(err)
		u.rest()
		return
	}
	w.counts["leases"]++
	u.lease, u.ctx, u.over = l, l.Context(), false
	u.token()
	u.use()
}

// refused asserts that the error is one that there may be.
func (u *user) refused(err error) {
	for _, may := range []error{holdfast.ErrHeld, context.Canceled} {
		if errors.Is(err, may) {
			return
		}
	}
	if u.w.kind != calm {
		for _, may := range []error{
			holdfast.ErrUnknownOutcome, holdfast.ErrUnreachable, holdfast.ErrLost, holdfast.ErrClosed,
		} {
			if errors.Is(err, may) {
				return
			}
		}
		if _, ok := errors.AsType[*holdfast.ServerError](err); ok {
			return
		}
	}
	u.w.violatef("%s is told: %v", u, err)
}

// token asserts I3 on what clients are told: a writer's token is higher than every one
// before, and that of readers higher than every writer's before.
func (u *user) token() {
	if u.lease.Err() != nil || u.mode == 'p' || u.w.excused(u.lock) {
		return
	}
	o, t := u.lock, u.lease.Token()
	if t == u.last {
		return // it had not downgraded, and does not upgrade
	}
	u.last = t
	if t <= o.writer || u.mode == 'x' && t <= o.highest {
		u.w.violatef("I3: %s has token %d on %s after %d and a writer's %d", u, t, o.name, o.highest, o.writer)
	}
	o.highest = max(o.highest, t)
	if u.mode == 'x' {
		o.writer = t
	}
}

// use is one thing that is done with a lease after a while.
func (u *user) use() {
	w := u.w
	w.in(w.upTo(w.work), fmt.Sprintf("%s is ready", u), func() {
		switch {
		case u.link.dead:
		case u.link.paused > w.now():
			u.use()
		case w.quiet:
			u.release()
		case w.chance(0.1):
			ttl := pick(w, w.ttl, 2*w.ttl, 4*w.ttl)
			u.act("extend", func() error { return u.lease.Extend(context.Background(), ttl) })
		case u.lock.kind == 'r' && w.chance(0.3):
			u.step()
		case u.lock.kind == 'r' && w.chance(0.1):
			u.act("enter again", u.enter)
		default:
			u.release()
		}
	})
}

// act is a call on the lease, which may end by it.
func (u *user) act(what string, call func() error) {
	u.do(what, call, func(err error) {
		if u.link.dead {
			return
		}
		if err != nil {
			u.ended(err)
		}
		u.use()
	})
}

// enter takes the lock again as a reader under the lease, and leaves again.
func (u *user) enter() error {
	inner, err := u.link.client.RWMutex(u.lock.name, holdfast.LockDelay(u.lock.delay)).RLock(u.lease.Context())
	if err != nil && u.lease.Err() != nil {
		return u.lease.Err() // the context was that of a lost lease
	}
	if err != nil {
		return err
	}
	return inner.Release(context.Background())
}

// step goes from writing to reading or back. Until it is known what came of it, the
// user reads and does not write.
func (u *user) step() {
	if u.mode == 'x' {
		u.mode = 's'
		u.act("downgrade", func() error { return u.lease.Downgrade(context.Background()) })
		return
	}
	u.do("upgrade", func() error { return u.lease.Upgrade(context.Background()) }, func(err error) {
		if u.link.dead {
			return
		}
		if err == nil {
			u.mode = 'x'
			u.token()
		} else {
			u.ended(err)
		}
		u.use()
	})
}

// ended asserts that a call on a lease failed in a way in which it may.
func (u *user) ended(err error) {
	if errors.Is(err, holdfast.ErrHeld) {
		return
	}
	if u.w.kind == calm {
		u.w.violatef("%s is told: %v", u, err)
		return
	}
	var refused *holdfast.ServerError
	if errors.Is(err, holdfast.ErrNotHeld) || errors.Is(err, holdfast.ErrUnknownOutcome) ||
		errors.Is(err, holdfast.ErrUnreachable) ||
		errors.Is(err, holdfast.ErrClosed) || errors.Is(err, holdfast.ErrLost) || errors.As(err, &refused) {
		return
	}
	u.w.violatef("%s is told: %v", u, err)
}

// release gives the lease up.
func (u *user) release() {
	w := u.w
	u.over = true
	ctx, cancel := context.WithCancel(context.Background())
	if w.chance(0.2) {
		cancel()
	}
	what, call := "release", func() error { return u.lease.Release(ctx) }
	if w.chance(0.05) {
		delay := w.upTo(w.ttl)
		what, call = "release after", func() error { return u.lease.ReleaseAfter(ctx, delay) }
	}
	u.do(what, call, func(err error) {
		cancel()
		if u.link.dead {
			return
		}
		if err != nil {
			u.ended(err)
		}
		if u.ctx.Err() == nil {
			w.violatef("I8: the context of %s goes on after its release", u)
		}
		u.lease = nil
		u.rest()
	})
}

// dismiss ends what the user may be waiting for.
func (u *user) dismiss() {
	if u.cancel != nil {
		u.cancel()
	}
}
