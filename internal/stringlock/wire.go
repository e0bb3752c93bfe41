package stringlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/neighbour"
	"github.com/holdfast-go/holdfast/store"
)

// Wire is a lock that is one string key on every server.
type Wire struct {
	nodes  *Nodes
	traits neighbour.Traits
	tries  atomic.Uint64 // numbers the values on several servers

	mu        lockorder.Mutex[Wire] // guards the fields below; under it nothing is sent
	claims    map[claimKey]*claim
	lastSweep int
}

var _ neighbour.Waker = (*Wire)(nil)

// PollEvery is how often a waiter looks. The originals send no message when they release a lock,
// and look about as often themselves.
const PollEvery = 100 * time.Millisecond

// NewWire makes the wire of a neighbour.
func NewWire(nodes *Nodes, name string) *Wire {
	return &Wire{nodes: nodes, claims: make(map[claimKey]*claim), traits: neighbour.Traits{
		Neighbour: name,
		Modes:     []neighbour.Mode{neighbour.Exclusive},
		Hint:      "use a native lock for that",
		PollEvery: PollEvery,
		Commands: []string{
			"get KEY", "set KEY x nx get px 1", "del KEY", "pexpire KEY 1", "pttl KEY",
		},
	}}
}

// Traits implements [neighbour.Wire].
func (w *Wire) Traits() neighbour.Traits { return w.traits }

// Key implements [neighbour.Wire]: the originals use the name as it is.
func (w *Wire) Key(name string) (string, error) { return name, nil }

// Channel implements [neighbour.Wire].
func (w *Wire) Channel(a neighbour.Attempt) string { return Channel(a.Name) }

// Wakes implements [neighbour.Waker]: a key that is free has place for one.
func (w *Wire) Wakes(string) int { return 1 }

// lock returns what an attempt has, or is about to ask for, on the servers.
//
// On one server its ID is the value, so a repeated request finds its own key. On several, an
// acquisition that fails releases what it got, in the background where a server does not answer.
// So each try has a value of its own: else a late release would delete the key of the next try.
func (w *Wire) lock(a neighbour.Attempt) *claim {
	if w.nodes.Len() == 1 {
		return &claim{Lock: Lock{a.Name, a.ID, a.TTL}}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.claims[claimKey{a.Name, a.ID}]
	if c == nil {
		return nil
	}
	if a.TTL > 0 {
		c.TTL, c.until = a.TTL, clock.Now()+a.TTL+a.Record
	}
	same := *c
	return &same
}

// claim is what an attempt has on several servers.
type claim struct {
	Lock
	doubt []int         // servers on which a request that sets the key got no answer
	until time.Duration // nobody asks about it after that
}

type claimKey struct{ name, id string }

// minSweep is how many claims there are before the first sweep.
const minSweep = 256

// newClaim makes the claim of a try.
func (w *Wire) newClaim(a neighbour.Attempt) *claim {
	value := a.ID + "." + strconv.FormatUint(w.tries.Add(1), 10)
	return &claim{Lock: Lock{a.Name, value, a.TTL}, until: clock.Now() + a.TTL + a.Record}
}

// keep remembers the claim of an attempt that holds the lock.
func (w *Wire) keep(a neighbour.Attempt, c *claim) {
	if w.nodes.Len() == 1 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.claims) >= max(2*w.lastSweep, minSweep) {
		now := clock.Now()
		maps.DeleteFunc(w.claims, func(_ claimKey, c *claim) bool { return c.until < now })
		w.lastSweep = len(w.claims)
	}
	w.claims[claimKey{a.Name, a.ID}] = c
}

func (w *Wire) drop(a neighbour.Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.claims, claimKey{a.Name, a.ID})
}

// Acquire implements [neighbour.Wire]. If too few servers answer, the outcome is unknown. If the
// lock is not granted on several servers, Acquire releases what it got, and waits for that.
func (w *Wire) Acquire(ctx context.Context, a neighbour.Attempt, _ bool) (neighbour.Outcome, error) {
	n, limit := w.nodes, w.limit(ctx)
	c := w.lock(a)
	if c == nil {
		c = w.newClaim(a)
	}
	replies := n.Acquire(ctx, limit, c.Lock)
	held, failed := Count(replies, Held), Failed(replies)
	switch {
	case held >= n.Quorum(): // if that came too late, the client cancels it
		for _, r := range replies {
			if r.Unknown() {
				c.doubt = append(c.doubt, r.Node)
			}
		}
		w.keep(a, c)
		return neighbour.Outcome{Granted: true}, nil
	case n.Len() == 1 && failed == 1:
		return neighbour.Outcome{}, replies[0].Err // the client cancels it
	}
	w.drop(a)
	n.GiveUp(ctx, limit, c.Lock, replies)
	if held+failed >= n.Quorum() {
		return neighbour.Outcome{}, n.tooFew(replies)
	}
	return w.heldBy(replies), w.otherKind(ctx, limit, a.Name, replies)
}

// otherKind returns the servers' refusal of a key of another kind, if too few servers are left
// without it. Such a key never becomes free, and the originals wait for it for ever.
func (w *Wire) otherKind(ctx context.Context, limit time.Duration, name string, replies []Reply) error {
	noValue := func(r Reply) bool { return r.Answer == Taken && r.Value == "" }
	if !slices.ContainsFunc(replies, noValue) {
		return nil
	}
	var refusal error
	count := 0
	for _, r := range w.nodes.Read(ctx, limit, name) {
		var refused *store.ServerError
		if errors.As(r.Err, &refused) && refused.Code == "WRONGTYPE" {
			refusal = refused
			count++
		}
	}
	if count <= w.nodes.Len()-w.nodes.Quorum() {
		return nil
	}
	return refusal
}

// heldBy says who has a lock that is taken, as far as one server tells.
func (w *Wire) heldBy(replies []Reply) neighbour.Outcome {
	out := neighbour.Outcome{Left: neighbour.Unknown}
	for _, r := range replies {
		if r.Err != nil || r.Answer != Taken {
			continue
		}
		if out.Holder == "" {
			out.Holder = w.holderOf(r.Value)
		}
		if r.Left >= 0 && (out.Left < 0 || r.Left < out.Left) {
			out.Left = r.Left
		}
	}
	return out
}

// limit is the time limit of the requests to the servers. When some do not answer, enough is
// left to release what the others gave.
func (w *Wire) limit(ctx context.Context) time.Duration {
	limit := RequestTimeout
	if at, ok := ctx.Deadline(); ok {
		limit = min(limit, time.Until(at))
	}
	if w.nodes.Len() > 1 {
		limit /= 2
	}
	return max(limit, time.Millisecond)
}

// Failed counts the servers without an answer.
func Failed(replies []Reply) (count int) {
	for _, r := range replies {
		if r.Err != nil {
			count++
		}
	}
	return count
}

// tooFewError says that too few servers have answered. It is not a definite answer.
type tooFewError struct{ replies []Reply }

func (e *tooFewError) Error() string {
	said := []string{fmt.Sprintf("holdfast: too few of %d servers have answered", len(e.replies))}
	for _, r := range e.replies {
		if r.Err != nil {
			said = append(said, fmt.Sprintf("server %d: %v", r.Node, r.Err))
		}
	}
	return strings.Join(said, "; ")
}

func (n *Nodes) tooFew(replies []Reply) error {
	if n.Len() == 1 {
		return replies[0].Err
	}
	return &tooFewError{replies}
}

// Release implements [neighbour.Wire]. If a request to acquire may still arrive, the key that it would
// set is deleted in the background.
func (w *Wire) Release(ctx context.Context, a neighbour.Attempt) (held bool, err error) {
	held, err = w.release(ctx, a)
	if c := w.lock(a); err == nil && a.Late && c != nil && w.nodes.Len() == 1 {
		w.nodes.Clear(0, c.Lock, true)
	}
	return held, err
}

func (w *Wire) release(ctx context.Context, a neighbour.Attempt) (held bool, err error) {
	c := w.lock(a)
	if c == nil {
		return false, nil
	}
	replies := w.nodes.Release(ctx, w.limit(ctx), c.Lock)
	held = Count(replies, Held) >= w.nodes.Quorum()
	if !held && Count(replies, Held)+Failed(replies) >= w.nodes.Quorum() {
		return false, w.nodes.tooFew(replies) // the client releases again
	}
	if w.nodes.Len() > 1 {
		w.drop(a)
		for _, r := range replies {
			if doubt := slices.Contains(c.doubt, r.Node); r.Err != nil || doubt && r.Answer != Held {
				w.nodes.Clear(r.Node, c.Lock, doubt)
			}
		}
	}
	return held, nil
}

// Cancel implements [neighbour.Wire]. On several servers an acquisition that failed has released
// what it got, so nothing is left but what is held.
func (w *Wire) Cancel(ctx context.Context, a neighbour.Attempt) (found bool, err error) {
	return w.release(ctx, a) // the client goes on to cancel what may be late
}

// Renew implements [neighbour.Wire].
func (w *Wire) Renew(ctx context.Context, holds []neighbour.Attempt) ([]neighbour.Renewal, error) {
	limit, each := w.limit(ctx), make([][]Reply, len(holds))
	var asking sync.WaitGroup
	for i, a := range holds {
		if c := w.lock(a); c != nil {
			asking.Go(func() { each[i] = w.nodes.Extend(ctx, limit, c.Lock, true) })
		}
	}
	asking.Wait()
	answers, unsure := make([]neighbour.Renewal, len(holds)), 0
	var silent []Reply
	for i, replies := range each {
		switch held := Count(replies, Held); {
		case held >= w.nodes.Quorum():
			answers[i] = neighbour.Renewed
		case held+Failed(replies) >= w.nodes.Quorum():
			answers[i], silent = neighbour.Unsure, replies
			unsure++
		}
	}
	if unsure == len(holds) {
		return nil, w.nodes.tooFew(silent)
	}
	return answers, nil
}

// Keep implements [neighbour.Wire].
func (w *Wire) Keep(ctx context.Context, a neighbour.Attempt, left time.Duration) (held bool, err error) {
	c := w.lock(a)
	if c == nil {
		return false, nil
	}
	c.TTL = left
	replies := w.nodes.Extend(ctx, w.limit(ctx), c.Lock, false)
	switch held := Count(replies, Held); {
	case held >= w.nodes.Quorum():
		return true, nil
	case held+Failed(replies) < w.nodes.Quorum():
		return false, nil
	}
	return false, w.nodes.tooFew(replies)
}

// holderOf is the holder that a value names. That of an attempt on several servers has the number of its try behind
// the attempt, see newClaim.
func (w *Wire) holderOf(value string) string {
	if parts := attemptAndTry.FindStringSubmatch(value); parts != nil && w.nodes.Len() > 1 {
		return strings.TrimSuffix(value, parts[1])
	}
	return value
}

// attemptAndTry is a value of newClaim. Its second part is the try.
var attemptAndTry = regexp.MustCompile(`^[A-Za-z0-9_-]{22}/[0-9]+(?:~[0-9]+)?(\.[0-9]+)$`)

// Inspect implements [neighbour.Wire]. The holder is the client that has the key on a majority. If no client has, and
// too few servers are free for an acquisition to succeed, the holder is unknown.
func (w *Wire) Inspect(ctx context.Context, name string) (neighbour.State, error) {
	replies := w.nodes.Read(ctx, w.limit(ctx), name)
	if Failed(replies) > w.nodes.Len()-w.nodes.Quorum() {
		return neighbour.State{}, w.nodes.tooFew(replies)
	}
	if Count(replies, Expired) >= w.nodes.Quorum() {
		return neighbour.State{Absent: true}, nil
	}
	holder := func(id string, left time.Duration) neighbour.State {
		return neighbour.State{Holders: []neighbour.Holder{{
			ID: id, Mode: neighbour.Exclusive, Permits: 1, Entries: 1, Left: left,
		}}}
	}
	values := make(map[string][]Reply)
	for _, r := range replies {
		if r.Err == nil && r.Answer == Taken {
			values[r.Value] = append(values[r.Value], r)
		}
	}
	for value, one := range values {
		if len(one) >= w.nodes.Quorum() {
			return holder(cmp.Or(w.holderOf(value), "unknown"), w.heldBy(one).Left), nil
		}
	}
	return holder("unknown", w.heldBy(replies).Left), nil
}

// Evict implements [neighbour.Wire]. No hold has a token.
func (w *Wire) Evict(ctx context.Context, name string, token uint64) (ended int, err error) {
	if token != 0 {
		return 0, nil
	}
	replies := w.nodes.Evict(ctx, w.limit(ctx), name)
	if Failed(replies) > w.nodes.Len()-w.nodes.Quorum() {
		return 0, w.nodes.tooFew(replies)
	}
	if Count(replies, Held) > 0 {
		return 1, nil
	}
	return 0, nil
}
