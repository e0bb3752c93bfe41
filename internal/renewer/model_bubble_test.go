package renewer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/leasetime"
)

// belief is the model of one lease: until when it may be trusted, by the confirmed
// renewals, and how it ended.
type belief struct {
	trust   time.Duration
	removed bool
	told    bool // the server said that it is lost
}

// chance is a server that renews, fails, hangs, delays and refuses at random. It has the
// model of what it confirmed.
type chance struct {
	mu      sync.Mutex
	rng     *rand.Rand
	server  *server
	beliefs map[*Item]*belief
	silent  bool
}

func (c *chance) answer(ctx context.Context, batch []Asked) ([]Outcome, error) {
	sent := c.server.now()
	c.mu.Lock()
	dice, pause := c.rng.IntN(10), time.Duration(c.rng.Int64N(int64(4*time.Second)))
	silent := c.silent
	c.mu.Unlock()
	switch {
	case dice < 2 || silent:
		return hang(ctx, batch)
	case dice < 4:
		return nil, errSilent
	case dice < 6:
		time.Sleep(pause) // it ignores ctx: the answer may come after the timeout, or after the end
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	outcomes := make([]Outcome, len(batch))
	for i, a := range batch {
		b := c.beliefs[a.Item]
		if _, lost := c.server.lossOf(a.Item); lost || b.removed || c.server.now() >= b.trust {
			continue
		}
		if c.rng.IntN(20) == 0 {
			outcomes[i].Lost, b.told = NotHeld, true
			continue
		}
		b.trust = max(b.trust, leasetime.Deadline(sent, a.For))
	}
	return outcomes, nil
}

// step makes one random call of a client.
func (c *chance) step(leases []*Item) []*Item {
	r, now := c.server.renewer, c.server.now()
	pick := func() *Item { return leases[c.rng.IntN(len(leases))] }
	ttl := time.Duration(50+c.rng.IntN(20_000)) * time.Millisecond
	switch dice := c.rng.IntN(4); {
	case dice < 2 || len(leases) == 0:
		it := &Item{Hold: own(fmt.Sprint(c.rng.IntN(3))), TTL: ttl, NoRenewal: c.rng.IntN(5) == 0}
		c.beliefs[it] = &belief{trust: leasetime.Deadline(now, ttl)}
		if c.rng.IntN(2) == 0 {
			r.Add(it, now, now)
			return append(leases, it)
		}
		since, lasts := now-time.Duration(c.rng.Int64N(int64(ttl)/4)), ttl/2
		c.beliefs[it].trust = leasetime.Deadline(since, lasts)
		r.AddPushed(it, since, lasts, now)
		return append(leases, it)
	case dice == 2:
		it := pick()
		if r.Remove(it) {
			c.beliefs[it].removed = true
		}
	default:
		it := pick()
		if r.Extended(it, now, ttl) {
			b := c.beliefs[it]
			b.trust = max(b.trust, leasetime.Deadline(now, ttl))
		}
	}
	return leases
}

// judge compares the renewer with the model at the end.
func (c *chance) judge(t *testing.T, leases []*Item) {
	t.Helper()
	for i, it := range leases {
		b := c.beliefs[it]
		v, lost := c.server.lossOf(it)
		switch {
		case it.Deadline() != b.trust:
			t.Errorf("lease %d: trusted until %v, confirmed until %v", i, it.Deadline(), b.trust)
		case b.removed && lost:
			t.Errorf("lease %d: removed, then lost at %v for %q", i, v.at, v.reason)
		case b.removed:
		case !lost:
			t.Errorf("lease %d: no end was told", i)
		case b.told && v.reason != NotHeld:
			t.Errorf("lease %d: the server denied it, and it was lost for %q", i, v.reason)
		case v.reason == Expired && v.at != b.trust, v.at > b.trust:
			t.Errorf("lease %d: lost at %v for %q, trusted until %v", i, v.at, v.reason, b.trust)
		}
	}
}

// Whatever the server does, and in whatever order leases begin, end and are extended:
// each lease ends once. It ends at its trust deadline, and earlier only if the server
// says so.
func TestEveryLeaseEndsOnceAndOnTime(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			s := serve(t)
			c := &chance{rng: rand.New(rand.NewPCG(seed, 1)), server: s, beliefs: map[*Item]*belief{}}
			s.answer = c.answer
			var leases []*Item
			for range 60 {
				c.mu.Lock()
				leases = c.step(leases)
				pause := time.Duration(c.rng.Int64N(int64(time.Second)))
				c.mu.Unlock()
				time.Sleep(pause)
			}
			c.silence()
			time.Sleep(time.Minute)
			c.judge(t, leases)
		})
		assert.MustTrue(t, !t.Failed(), "seed %d", seed)
	}
}

// silence makes every later request hang.
func (c *chance) silence() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = true
}
