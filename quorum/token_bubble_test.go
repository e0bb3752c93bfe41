package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

func TestTokensRiseWhicheverServersGrant(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		a := w.client()
		random := rand.New(rand.NewPCG(1, 2))
		last := uint64(0)
		for range 200 {
			out := random.Perm(5)[:2]
			for _, i := range out {
				w.peers[i].kill()
			}
			l := w.lock(a, "x")
			assert.MustTrue(t, l.Token() > last, "token %d after %d, without %v", l.Token(), last, out)
			last = l.Token()
			w.release(l)
			for _, i := range out {
				w.peers[i].revive(false)
			}
			time.Sleep(time.Duration(random.IntN(3)) * time.Millisecond)
		}
	})
}

// identify makes a client read the marks of new servers, and waits until the servers count.
func (w *world) identify(c *holdfast.Client) {
	if l, err := c.Mutex("other").TryLock(w.t.Context()); err == nil {
		w.release(l)
	}
	time.Sleep(time.Minute + 2*time.Second) // comparisons of clocks are no more exact
}

// One server's clock is an hour ahead, and another one forgets now and then. Two of the others
// are slow, or the first is away and one is slow. If a token of the first server were written
// to the others, they could not continue from it once the second has forgotten it.
func TestTokensRiseThoughOneClockIsAheadAndAnotherServerForgets(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.client()
		w.identify(a)
		w.peers[0].Advance(time.Hour)
		random := rand.New(rand.NewPCG(1, 2))
		last := uint64(0)
		for range 200 {
			slow := random.Perm(3)[:2]
			if random.IntN(2) == 0 {
				w.peers[0].kill()
				slow = slow[:1]
			}
			for _, i := range slow {
				w.peers[2+i].slow(50*time.Millisecond, 50*time.Millisecond)
			}
			l := w.lock(a, "x")
			assert.MustTrue(t, l.Token() > last, "token %d after %d, while %v were slow", l.Token(), last, slow)
			last = l.Token()
			w.release(l)
			w.peers[0].revive(false)
			for _, p := range w.peers[2:] {
				p.slow(0, 0)
			}
			time.Sleep(time.Second)
			if random.IntN(5) == 0 {
				w.peers[1].kill()
				w.peers[1].revive(true)
				w.identify(a)
			}
		}
	})
}

// If a server that is ahead is needed for the majority, the lock is granted all the same.
func TestAServerThatIsAheadCountsWhereItIsNeeded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		w.identify(a)
		w.peers[0].Advance(time.Hour)
		for range 2 { // the step is noticed, and the server counts as one that forgot
			w.identify(a)
		}
		for _, out := range [][]int{{1, 2}, {3, 4}, {2, 4}} {
			for _, i := range out {
				w.peers[i].kill()
			}
			l := w.lock(a, "x")
			next := make(chan *holdfast.Lease, 1)
			go func() { next <- w.lock(b, "x") }()
			synctest.Wait()
			w.release(l)
			if m := <-next; m.Token() <= l.Token() {
				t.Errorf("without %v: token %d after %d", out, m.Token(), l.Token())
			} else {
				w.release(m)
			}
			for _, i := range out {
				w.peers[i].revive(false)
			}
			time.Sleep(time.Second)
		}
	})
}

// A majority was ahead and has been set right, and has written tokens that no clock has
// reached. The lock keeps them and continues from there.
func TestALockGoesOnAfterMostClocksWereAhead(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.client()
		for _, p := range w.peers[:3] {
			p.Advance(time.Hour)
		}
		before := w.lock(a, "x")
		w.release(before)
		for _, p := range w.peers[:3] {
			p.Advance(-time.Hour)
		}
		w.identify(a) // a clock that is set back makes its server a new one
		for range 3 {
			l := w.lock(a, "x")
			assert.More(t, l.Token(), before.Token(), "token")
			before = l
			w.release(l)
		}
	})
}

func TestAnAcquisitionThatDiesBetweenThePhasesHoldsNothingBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.client()
		before := w.lock(a, "x")
		w.release(before)
		for _, p := range w.peers[1:] {
			p.FailRequest(failing("raise_fence", errReset))
		}
		_, err := a.Mutex("x").TryLock(t.Context())
		assert.Is(w.t, err, holdfast.ErrUnknownOutcome)
		for _, p := range w.peers[1:] {
			p.FailRequest(nil)
		}
		time.Sleep(time.Second)
		w.wantOn("x", "00000")
		l := w.lock(a, "x")
		assert.More(t, l.Token(), before.Token(), "token")
		w.release(l)
	})
}

// raw sends one action as a client would.
func raw(t *testing.T, s *quorum.Store, action *script.Script, args ...any) string {
	t.Helper()
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = fmt.Sprint(arg)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	answer, err := s.Run(ctx, action, []string{"holdfast:{x}"}, words)
	assert.MustTrue(t, err == nil, "%s %v: %v", action.Name, args, err)
	return answer
}

func TestReadersShareAMajorityAndAWriterExcludesThem(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.store(), w.store()
		take := func(s *quorum.Store, attempt, want string, patience int) string {
			return raw(t, s, script.Acquire, attempt, 30_000, 630_000, want, patience, "holdfast:push:")
		}
		token := func(answer string) string {
			t.Helper()
			words := strings.Fields(answer)
			assert.MustEqual(t, words[0], "granted", "answered %q", answer)
			return words[1]
		}
		w.peers[0].kill()
		one := token(take(a, "A/1", "s", 0))
		w.peers[0].revive(false)
		w.peers[4].kill()
		two := token(take(b, "B/1", "s", 0))
		w.peers[4].revive(false)
		for _, s := range []*quorum.Store{a, b} {
			_, err := s.ReadNodes(t.Context(), "holdfast") // it notices that the server is back
			assert.Must(t, err)
		}
		// A client that does not listen blocks nobody.
		stop, err := b.Listen(t.Context(), "holdfast:push:B", store.Listener{Message: func(string) {}})
		assert.Must(t, err)
		defer stop()
		got := take(b, "B/2", "x", 60_000)
		assert.True(t, strings.HasPrefix(got, "queued "), "a writer beside readers: %q", got)
		got = take(a, "A/2", "s", 0)
		assert.True(t, strings.HasPrefix(got, "busy "), "a reader past a waiting writer: %q", got)
		raw(t, a, script.Release, "A/1", one, 600_000, "holdfast:push:")
		raw(t, b, script.Release, "B/1", two, 600_000, "holdfast:push:")
		raw(t, b, script.Poll, "B/2", 30_000, 600_000, 60_000, "holdfast:push:")
		synctest.Wait()
		third := token(raw(t, b, script.Poll, "B/2", 30_000, 600_000, 60_000, "holdfast:push:"))
		assert.True(t, third > one && third > two,
			"tokens %s and %s, and then %s: the last must be the highest", one, two, third)
		got = take(a, "A/3", "s", 0)
		assert.True(t, strings.HasPrefix(got, "busy "), "a reader beside a writer: %q", got)
	})
}

func TestAnEvictedHolderLearnsOfIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := w.lock(a, "x")
		s, err := b.Inspect(t.Context(), "x")
		if err != nil || len(s.Holders) != 1 || s.Holders[0].ClientID != a.ID() || s.Holders[0].Token != l.Token() {
			t.Fatalf("state %+v, %v; token %d", s, err, l.Token())
		}
		w.peers[2].kill()
		n, err := b.Evict(t.Context(), "x", holdfast.Eviction{By: "ops", Reason: "test", Token: l.Token()})
		assert.True(t, n == 1 && err == nil, "evicted %d, %v; want 1 and no error", n, err)
		w.peers[2].revive(false)
		m := w.lock(b, "x")
		assert.More(t, m.Token(), l.Token(), "token")
		<-l.Context().Done()
		var lost *holdfast.LostError
		if err := context.Cause(l.Context()); !errors.As(err, &lost) || lost.Reason != holdfast.LossEvicted {
			t.Errorf("the evicted holder was told %v", err)
		}
		again := holdfast.Eviction{By: "ops", Reason: "test", Token: l.Token()}
		n, err = b.Evict(t.Context(), "x", again)
		assert.True(t, n == 0 && err == nil, "the eviction of a hold that has ended: %d, %v", n, err)
		assert.NoError(t, m.Err())
	})
}

// Each server asks by itself, and a waiter gets the lock when a majority has it back: with the holder's release. One
// server is away when the operator asks, and back before the release.
func TestAnEvictionOverAQuorumDoesNotOverlap(t *testing.T) {
	for away := range 4 { // 3: none
		bubble(t, func(t *testing.T, w *world) {
			a, b, c := w.client(), w.client(), w.client()
			l := w.lock(a, "x")
			next := make(chan *holdfast.Lease, 1)
			go func() { next <- w.lock(b, "x") }()
			time.Sleep(15 * time.Second)
			if away < len(w.peers) {
				w.peers[away].kill()
			}
			start := time.Now()
			n, err := c.Evict(t.Context(), "x", holdfast.Eviction{By: "ops", Reason: "test"})
			assert.True(t, n == 1 && err == nil, "evicted %d, %v; want 1 and no error", n, err)
			if away < len(w.peers) {
				w.peers[away].revive(false)
			}
			<-l.Context().Done()
			assert.AtMost(t, time.Since(start), 10*time.Second, "the holder was told after")
			s, err := c.Inspect(t.Context(), "x")
			assert.True(t, err == nil && len(s.Holders) == 1 && s.Holders[0].Ending, "%+v, %v", s.Holders, err)
			time.Sleep(time.Second)
			assert.Equal(t, len(next), 0, "grants before the release")
			start = time.Now()
			assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
			m := <-next
			assert.AtMost(t, time.Since(start), 5*time.Second, "the next client got the lock after")
			assert.NoError(t, m.Release(t.Context()))
		})
	}
}

// tokenRun is one process that acquires and releases the lock, and what all processes have
// seen.
type tokenRun struct {
	mu     sync.Mutex
	inside *holdfast.Lease
	last   uint64
	grants int
}

func (run *tokenRun) run(t *testing.T, c *holdfast.Client, random *rand.Rand, until time.Time) {
	for time.Now().Before(until) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		l, err := c.Mutex("x").Lock(ctx)
		cancel()
		if err != nil {
			time.Sleep(time.Duration(random.IntN(1000)) * time.Millisecond)
			continue
		}
		run.mu.Lock()
		if run.inside != nil && run.inside.Err() == nil {
			t.Errorf("%s was granted while %s holds", l.HolderID(), run.inside.HolderID())
		}
		assert.More(t, l.Token(), run.last, "token")
		run.inside, run.last, run.grants = l, l.Token(), run.grants+1
		run.mu.Unlock()
		select {
		case <-time.After(time.Duration(random.IntN(20_000)) * time.Millisecond):
		case <-l.Context().Done():
		}
		run.mu.Lock()
		if run.inside == l {
			run.inside = nil
		}
		run.mu.Unlock()
		_ = l.Release(t.Context())
	}
}

// harm does one thing to a server, and reverts it after a while.
func (w *world) harm(random *rand.Rand, p *peer) {
	spell := time.Duration(1+random.IntN(60)) * time.Second
	switch random.IntN(5) {
	case 0:
		p.kill()
		time.Sleep(spell)
		p.revive(random.IntN(2) == 0)
	case 1:
		resume := p.Stall()
		time.Sleep(spell)
		resume()
	case 2:
		p.slow(time.Duration(random.IntN(400))*time.Millisecond, time.Duration(random.IntN(400))*time.Millisecond)
		time.Sleep(spell)
		p.slow(0, 0)
	case 3:
		p.DropPushes(-1)
		p.LoseReply(func(string, []string) error {
			if random.IntN(3) == 0 {
				return errReset
			}
			return nil
		})
		time.Sleep(spell)
		p.LoseReply(nil)
		p.DropPushes(0)
	case 4:
		p.kill()
		p.revive(true)
		time.Sleep(spell + time.Minute)
	}
}

// One server at a time loses its memory or falls silent, and a second one is slow or loses
// answers. No two clients ever hold the lock, and tokens rise.
func TestNeverTwoHoldersWhateverHappensToAMinority(t *testing.T) {
	for seed := range uint64(max(8/few, 2)) { //nolint:unconvert // the constant has no type
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				random := rand.New(&lockedSource{src: rand.NewPCG(seed, 7)})
				run, until := &tokenRun{}, time.Now().Add(30*time.Minute)
				var all sync.WaitGroup
				for range 4 {
					c := w.client()
					all.Go(func() { run.run(t, c, random, until) })
				}
				for lane := range 2 {
					all.Go(func() {
						for time.Now().Before(until) {
							w.harm(random, w.peers[lane+2*random.IntN(2)])
							time.Sleep(time.Duration(random.IntN(30)) * time.Second)
						}
					})
				}
				all.Wait()
				assert.AtLeast(t, run.grants, 30, "grants in 30 minutes")
				time.Sleep(3 * time.Minute)
				w.wantOn("x", "00000")
			})
		})
	}
}

// lockedSource is a random source for many goroutines.
type lockedSource struct {
	mu  sync.Mutex
	src rand.Source
}

func (l *lockedSource) Uint64() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.src.Uint64()
}

// By force each server loses the record that it had, whether it can be read or not, and only once.
func TestAnEvictionByForceRemovesTheRecordOfEachServer(t *testing.T) {
	for damaged := range 6 {
		identifiedBubble(t, func(t *testing.T, w *world) {
			a, b := w.client(), w.client()
			l := w.lock(a, "x")
			for _, p := range w.peers[:damaged] {
				p.PlantRecord("holdfast:{x}", map[string]string{"lock": "no record"})
			}
			n, err := b.Evict(t.Context(), "x", holdfast.Eviction{By: "ops", Reason: "broken", Force: true})
			assert.True(t, n == 1 && err == nil, "%d damaged: %d, %v", damaged, n, err)
			w.wantOn("x", "00000")
			for i, p := range w.peers {
				// Each server draws its tokens from its clock, and a removal raises its fence.
				removed := strings.Fields(p.Dump("holdfast:{x}")["evicted"])
				assert.True(t, len(removed) == 3 && removed[2] == "broken", "server %d: %v", i, removed)
			}
			w.release(w.lock(b, "x"))
			err = l.Release(t.Context())
			// A majority that has lost its fences does not know which tokens it has granted.
			assert.True(t, err != nil || damaged > 2, "%d damaged: the lease went on", damaged)
			n, err = b.Evict(t.Context(), "nobody", holdfast.Eviction{By: "ops", Reason: "broken", Force: true})
			assert.True(t, n == 0 && err == nil, "no record: %d, %v", n, err)
		})
	}
}
