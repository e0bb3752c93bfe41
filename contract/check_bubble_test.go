// A check tells the truth of a moment (G39): a token is live while the server has its lease, and not after.

package contract_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// wantLive asserts that the lease with the token is live.
func wantLive(t *testing.T, c *holdfast.Client, name string, token uint64) {
	t.Helper()
	assert.NoError(t, c.Check(t.Context(), name, token))
}

// wantOut asserts that it is not, and returns what the error says.
func wantOut(t *testing.T, c *holdfast.Client, name string, token uint64) *holdfast.NotHeldError {
	t.Helper()
	err := c.Check(t.Context(), name, token)
	var out *holdfast.NotHeldError
	assert.Is(t, err, holdfast.ErrNotHeld)
	if !errors.As(err, &out) || out.Name != name || out.Token != token {
		t.Fatalf("the check of %d says %v", token, err)
	}
	assert.Equal(t, errors.Is(err, holdfast.ErrHeldByOther), out.Now != 0, "another holds it")
	return out
}

// Guarantee: G39.
func TestACheckKnowsTheLeasesOfEveryKind(t *testing.T) {
	type kept struct {
		name    string
		token   uint64
		release func(context.Context) error
	}
	of := func(l *holdfast.Lease) kept { return kept{l.Name(), l.Token(), l.Release} }
	for what, acquire := range map[string]func(t *testing.T, c *holdfast.Client) kept{
		"a mutex": func(t *testing.T, c *holdfast.Client) kept {
			return of(mustLock(t, c.Mutex("a", holdfast.Checked())))
		},
		"a mutex with a limit": func(t *testing.T, c *holdfast.Client) kept {
			return of(mustLock(t, c.Mutex("a", holdfast.MaxHold(time.Hour))))
		},
		"an owner": func(t *testing.T, c *holdfast.Client) kept {
			return of(mustLock(t, c.Mutex("a", holdfast.Owner("ann"))))
		},
		"a writer": func(t *testing.T, c *holdfast.Client) kept {
			return of(must(t, c.RWMutex("a", holdfast.Checked()).Lock))
		},
		"a reader": func(t *testing.T, c *holdfast.Client) kept { return of(must(t, c.RWMutex("a").RLock)) },
		"a reader that was a writer": func(t *testing.T, c *holdfast.Client) kept {
			l := must(t, c.RWMutex("a").Lock)
			assert.Must(t, l.Downgrade(t.Context()))
			return of(l)
		},
		"a reader under a writer that became a reader": func(t *testing.T, c *holdfast.Client) kept {
			m := c.RWMutex("a")
			l := must(t, m.Lock)
			inner := readWithin(t, m, l)
			assert.Must(t, l.Downgrade(t.Context()))
			release(t, l)
			return of(inner)
		},
		"a writer that was a reader": func(t *testing.T, c *holdfast.Client) kept {
			l := must(t, c.RWMutex("a", holdfast.Checked()).RLock)
			before := l.Token()
			assert.Must(t, l.Upgrade(t.Context()))
			wantOut(t, c, "a", before)
			return of(l)
		},
		"permits": func(t *testing.T, c *holdfast.Client) kept { return of(must(t, permits(c.Semaphore("a", 3), 2))) },
		"several locks": func(t *testing.T, c *holdfast.Client) kept {
			l := mustLockAll(t, c.MultiMutex([]string{"a", "b"}, holdfast.Checked()))
			wantLive(t, c, "b", l.Token("b"))
			return kept{"a", l.Token("a"), l.Release}
		},
		"a leader": func(t *testing.T, c *holdfast.Client) kept {
			l := mustCampaign(t, c.Election("a"), "here")
			return kept{"a", l.Token(), l.Release}
		},
	} {
		runBubble(t, what, func(t *testing.T, w *world) {
			c, service := w.client(), w.client()
			l := acquire(t, c)
			wantLive(t, service, l.name, l.token)
			wantOut(t, service, l.name, l.token+1<<10)
			time.Sleep(10 * ttl) // it is renewed
			wantLive(t, service, l.name, l.token)
			assert.Must(t, l.release(t.Context()))
			out := wantOut(t, service, l.name, l.token)
			assert.True(t, out.Now == 0 && out.HeldBy == "", "of a free lock: %+v", out)
			next := mustLock(t, c.Mutex(l.name))
			out = wantOut(t, service, l.name, l.token)
			assert.True(t, out.Now == next.Token() && out.HeldBy == next.HolderID(), "of a held lock: %+v", out)
			release(t, next)
		})
	}
	runBubble(t, "the run of a job", func(t *testing.T, w *world) {
		c, token := w.client(), uint64(0)
		assert.Must(t, assert.Err(c.Periodic("a", time.Hour).Do(t.Context(), func(ctx context.Context) error {
			l, _ := holdfast.LeaseOf(ctx)
			token = l.Token
			assert.NoError(t, c.CheckJob(ctx, "a", token))
			wantOut(t, c, "a", token)
			return nil
		})))
		assert.Is(t, c.CheckJob(t.Context(), "a", token), holdfast.ErrNotHeld)
	})
}

// The token of a fresh lease is the one that Inspect, list and status show.
func TestTheServerShowsTheTokenOfAFreshLease(t *testing.T) {
	type token func(t *testing.T, c *holdfast.Client) uint64
	of := func(options ...holdfast.MutexOption) token {
		return func(t *testing.T, c *holdfast.Client) uint64 { return mustLock(t, c.Mutex("a", options...)).Token() }
	}
	for what, acquire := range map[string]token{
		"a mutex":           of(),
		"a checked mutex":   of(holdfast.Checked()),
		"a reentrant mutex": of(holdfast.Reentrant()),
		"an owner":          of(holdfast.Owner("ann")),
		"a writer": func(t *testing.T, c *holdfast.Client) uint64 {
			return must(t, c.RWMutex("a").Lock).Token()
		},
		"a reader": func(t *testing.T, c *holdfast.Client) uint64 {
			return must(t, c.RWMutex("a").RLock).Token()
		},
		"permits": func(t *testing.T, c *holdfast.Client) uint64 {
			return must(t, permits(c.Semaphore("a", 3), 2)).Token()
		},
		"several locks": func(t *testing.T, c *holdfast.Client) uint64 {
			return mustLockAll(t, c.MultiMutex([]string{"a", "b"})).Token("a")
		},
		"a leader": func(t *testing.T, c *holdfast.Client) uint64 {
			return mustCampaign(t, c.Election("a"), "here").Token()
		},
	} {
		runBubble(t, what, func(t *testing.T, w *world) {
			token := acquire(t, w.client())
			assert.Equal(t, w.state("a").Holders[0].Token, token, "the token that the server shows")
		})
	}
}

// Two goroutines of a process, one after the other: the token of the first is refused when the second has the lock.
// Guarantee: G39.
func TestTheTokenOfAnEarlierLeaseOfTheSameProcessIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, service := w.client(), w.client()
		m := c.Mutex("a", holdfast.Checked())
		first := mustLock(t, m)
		second := w.waiting(m, t.Context())
		wantLive(t, service, "a", first.Token())
		release(t, first)
		l := (<-second).Lease
		out := wantOut(t, service, "a", first.Token())
		assert.True(t, out.Now == l.Token() && out.HeldBy == l.HolderID(), "it says %+v of %s", out, l.HolderID())
		wantLive(t, service, "a", l.Token())
		release(t, l)

		// Without the option a lease is handed over in the process. The server knows neither of the two.
		m = c.Mutex("a")
		first = mustLock(t, m)
		second = w.waiting(m, t.Context())
		release(t, first)
		l = (<-second).Lease
		assert.Equal(t, l.HolderID(), first.HolderID(), "the hold")
		assert.True(t, l.Token() != first.Token(), "both have the token %d", l.Token())
		for _, token := range []uint64{first.Token(), l.Token(), 0, 7} {
			err := service.Check(t.Context(), "a", token)
			assert.Is(t, err, holdfast.ErrInvalid)
			says := strings.Contains(err.Error(), "without the option Checked") &&
				strings.Contains(holdfast.Hint(err), "holdfast.Checked")
			assert.Equal(t, says, token > 7, "it names the option: %v", err)
		}
		release(t, l)
		for _, token := range []uint64{first.Token(), l.Token()} { // of a hold that has ended
			out = wantOut(t, service, "a", token)
			assert.True(t, out.Now == 0 && out.HeldBy == "", "of a free lock: %+v", out)
		}
		other := mustLock(t, c.Mutex("a", holdfast.Checked()))
		out = wantOut(t, service, "a", l.Token())
		assert.True(t, out.Now == other.Token() && out.HeldBy == other.HolderID(), "of a held lock: %+v", out)
		// No lease of a hold that is never handed over has such a token.
		assert.Is(t, service.Check(t.Context(), "a", other.Token()+1), holdfast.ErrInvalid)
		release(t, other)

		// Nor do readers share a hold with it.
		rw := c.RWMutex("a", holdfast.Checked())
		one, two := must(t, rw.RLock), must(t, rw.RLock)
		release(t, one)
		out = wantOut(t, service, "a", one.Token())
		assert.True(t, out.Now == two.Token() && out.HeldBy == "", "beside another reader: %+v", out)
		wantLive(t, service, "a", two.Token())
		release(t, two)
	})
}

// Guarantee: G39.
func TestALeaseIsLiveUntilItsEndAtTheServer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, service := w.client(), w.client()
		// Paused past its lease: refused, though nobody has acquired the lock since.
		l := keep(mustLock(t, c.Mutex("a", holdfast.NoRenewal())))
		time.Sleep(ttl - time.Millisecond)
		assert.True(t, l.Err() != nil, "its client believes it")
		wantLive(t, service, "a", l.Token())
		time.Sleep(time.Millisecond)
		assert.Equal(t, wantOut(t, service, "a", l.Token()).Now, uint64(0), "the present token")

		// With a lock-delay: live until that is over.
		l = keep(mustLock(t, c.Mutex("delayed", holdfast.NoRenewal(), holdfast.LockDelay(time.Minute))))
		time.Sleep(ttl + time.Minute - time.Millisecond)
		wantLive(t, service, "delayed", l.Token())
		time.Sleep(time.Millisecond)
		wantOut(t, service, "delayed", l.Token())

		// Asked to end: live until it is released.
		l = mustLock(t, c.Mutex("b", holdfast.Checked()))
		evict(t, service, "b", l.Token())
		wantLive(t, service, "b", l.Token())
		<-l.Context().Done()
		wantLive(t, service, "b", l.Token())
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
		wantOut(t, service, "b", l.Token())

		// Ended at once by an operator.
		l = mustLock(t, c.Mutex("c", holdfast.Checked()))
		takeAway(t, service, "c", l.Token())
		wantOut(t, service, "c", l.Token())
		_ = l.Release(t.Context())

		// Released, and kept for its minimum time.
		l = mustLock(t, c.Mutex("d", holdfast.MinHold(time.Minute)))
		release(t, l)
		assert.True(t, w.state("d").Held(), "the lock is free")
		out := wantOut(t, service, "d", l.Token())
		assert.True(t, out.Kept && out.Now == 0 && out.HeldBy == "", "of a kept lock: %+v", out)
		assert.True(t, strings.Contains(out.Error(), "which is kept for a while after its release"), "it says %v", out)
		time.Sleep(time.Minute)
		out = wantOut(t, service, "d", l.Token())
		assert.True(t, !out.Kept && strings.HasSuffix(out.Error(), "nobody holds the lock"), "it says %v", out)

		// A reader's is live until then.
		r := must(t, c.RWMutex("e").RLock)
		assert.Must(t, r.ReleaseAfter(t.Context(), time.Minute))
		time.Sleep(time.Minute - time.Second)
		wantLive(t, service, "e", r.Token())
		time.Sleep(time.Second)
		assert.True(t, !wantOut(t, service, "e", r.Token()).Kept, "a reader's lock is kept")
	})
}

// A grant is pushed, and its client has not confirmed it yet. Guarantee: G39.
func TestAGrantIsLiveAsSoonAsItsClientMayHaveHeardOfIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		first := mustLock(t, w.client().Mutex("a", holdfast.Checked()))
		service := w.client()
		next := w.waiting(w.client().Mutex("a", holdfast.Checked()), t.Context())
		w.net.slow(slowly("renew", time.Second, 0)) // the confirmation
		release(t, first)
		l := (<-next).Lease
		wantLive(t, service, "a", l.Token())
		time.Sleep(2 * ttl)
		wantLive(t, service, "a", l.Token())
		w.net.slow(nil)
		release(t, l)
	})
}

// Many checks at once cost few requests, and each is answered by a request that was sent after it began.
// Guarantee: G39.
func TestChecksThatComeTogetherShareRequests(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, service := w.client(), w.client()
		var leases []*holdfast.Lease
		for i := range 8 {
			leases = append(leases, mustLock(t, c.Mutex(fmt.Sprint("a", i), holdfast.Checked())))
		}
		wantLive(t, service, "a0", leases[0].Token()) // the preflight
		w.PlantForeign("holdfast:{foreign}")
		w.FailRequest(func(_ string, keys []string) error {
			if slices.Contains(keys, "holdfast:{forbidden}") { // all of a request is refused for one key
				return &holdfast.ServerError{Code: "NOPERM", Message: "NOPERM No permissions to access a key"}
			}
			return nil
		})
		w.net.slow(slowly("check", time.Millisecond, time.Millisecond))
		before := w.net.count("check")
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				l := leases[i%8]
				wantLive(t, service, l.Name(), l.Token())
				if i%10 == 0 {
					wantOut(t, service, l.Name(), l.Token()+1<<10)
					for name, code := range map[string]string{"foreign": "WRONGTYPE", "forbidden": "NOPERM"} {
						var refused *holdfast.ServerError
						err := service.Check(t.Context(), name, l.Token())
						assert.True(t, errors.As(err, &refused) && refused.Code == code, "%s: %v", name, err)
					}
				}
			})
		}
		all.Wait()
		asked := w.net.count("check") - before
		assert.True(t, asked < 50, "%d requests for 130 checks", asked)

		// A request is under way that has read the lock before its release. A check that begins after
		// the release does not share it.
		w.net.slow(slowly("check", 0, time.Second))
		for i := range 10 {
			all.Go(func() { wantLive(t, service, leases[i%8].Name(), leases[i%8].Token()) })
		}
		time.Sleep(time.Second / 2)
		for _, l := range leases {
			release(t, l)
		}
		for _, l := range leases {
			all.Go(func() { wantOut(t, service, l.Name(), l.Token()) })
		}
		all.Wait()
	})
}

// Guarantee: G39.
func TestACheckThatCannotAskSaysNothingOfTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, service := w.client(), w.client()
		l := mustLock(t, c.Mutex("a", holdfast.Checked()))
		wantLive(t, service, "a", l.Token())
		for _, fault := range []error{
			errLink, &holdfast.ServerError{Code: "READONLY", Message: "READONLY a replica"}, holdfast.ErrUnreachable,
		} {
			w.FailRequest(only("check", -1, fault))
			err := service.Check(t.Context(), "a", l.Token())
			assert.True(t, err != nil && !errors.Is(err, holdfast.ErrNotHeld), "%v: %v", fault, err)
		}
		w.FailRequest(nil)
		resume := w.Stall()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		var all sync.WaitGroup
		for range 10 { // alone, and in a batch
			all.Go(func() { assert.Is(t, service.Check(ctx, "a", l.Token()), context.DeadlineExceeded) })
		}
		all.Wait()
		cancel()
		resume()
		synctest.Wait()
		wantLive(t, service, "a", l.Token())
		release(t, l)
		assert.NoError(t, service.Close(t.Context()))
		assert.Is(t, service.Check(t.Context(), "a", l.Token()), holdfast.ErrClosed)
	})
}

// A step reads some of very many holders, and further requests read the rest. Guarantee: G39.
func TestACheckFindsItsLeaseAmongVeryManyHolders(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, service := w.client(), w.client()
		const n = 600
		var leases []*holdfast.Lease
		for range n {
			leases = append(leases, must(t, permits(c.Semaphore("a", n), 1)))
		}
		for i := 0; i < n; i += 53 {
			wantLive(t, service, "a", leases[i].Token())
		}
		release(t, leases[n-1])
		out := wantOut(t, service, "a", leases[n-1].Token())
		assert.True(t, out.Now != 0 && out.HeldBy == "", "it says %+v", out)
		for _, l := range leases[:n-1] {
			release(t, l)
		}
	})
}
