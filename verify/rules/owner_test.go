package rules_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// run runs an action as any client of the protocol might.
func run(t *testing.T, s store.Store, action *script.Script, keys []string, args ...string) string {
	t.Helper()
	answer, err := s.Run(harness.Within(t), action, keys, args)
	assert.MustTrue(t, err == nil, "%s: %v", action.Name, err)
	return answer
}

// Rule 5. A holder whose name begins with another's is not that other.
func TestOwnershipIsEqualityOfTheWholeName(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		s := w.open(t, harness.Login{})
		keys := []string{harness.Key("x")}
		answer := run(t, s, script.Acquire, keys, "worker/10", "60000", "61000", "x", "0", pushes)
		token := strings.Fields(answer)[1]
		for _, other := range []string{"worker/1", "worker/100", "worker", "", "WORKER/10"} {
			for _, try := range []struct {
				action *script.Script
				args   []string
				want   string
			}{
				{script.Acquire, []string{other, "60000", "61000", "x", "0", pushes}, "busy"},
				{script.Renew, []string{"1000", "60000", other}, "renewed -"},
				{script.Cancel, []string{other, "1000", pushes}, "none"},
				{script.Poll, []string{other, "60000", "1000", "60000", pushes}, "gone"},
			} {
				if got := run(t, s, try.action, keys, try.args...); !strings.HasPrefix(got, try.want) {
					t.Errorf("%s by %q is answered %q, want %q", try.action.Name, other, got, try.want)
				}
			}
			run(t, s, script.Release, keys, other, token, "1000", pushes)
			assert.MustEqual[any](t, w.Do(t, "HGET", keys[0], "lock"), token+" 60000 worker/10",
				"after the release by %q the record says", other)
		}
	})
}

// Rule 5. Somebody deletes the record and somebody else takes the lock: the
// old holder's renewals, extension and release do nothing to the new hold.
func TestAStaleHolderDoesNothingToTheNext(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		// The old one asks for a minute, the new one has ten seconds.
		a, seen := w.local(t, holdfast.Config{TTL: time.Minute})
		b, _ := w.local(t, holdfast.Config{TTL: 10 * time.Second})
		for _, act := range []struct {
			name string
			do   func(*holdfast.Lease) error
		}{
			{"Extend", func(l *holdfast.Lease) error { return l.Extend(harness.Within(t), time.Minute) }},
			{"Release", func(l *holdfast.Lease) error { return l.Release(harness.Within(t)) }},
			{"ReleaseAfter", func(l *holdfast.Lease) error { return l.ReleaseAfter(harness.Within(t), time.Minute) }},
		} {
			stale := harness.Lock(t, a.Mutex(act.name))
			w.Do(t, "DEL", harness.Key(act.name))
			fresh := harness.Lock(t, b.Mutex(act.name))
			if err := act.do(stale); !errors.Is(err, holdfast.ErrNotHeld) || !errors.Is(err, holdfast.ErrLost) {
				t.Errorf("%s of the stale lease: %v", act.name, err)
			}
			lostOrReleased(t, stale)
			s := state(t, b, act.name)
			if len(s.Holders) != 1 || s.Holders[0].HolderID != fresh.HolderID() ||
				s.Holders[0].Remaining > 10*time.Second {
				t.Errorf("after %s: %+v", act.name, s.Holders)
			}
			assert.More(t, fresh.Token(), stale.Token(), "token")
			stale.Release(harness.Within(t))
			harness.Release(t, fresh)
		}
		assert.Equal(t, len(seen.Of(observe.EventRenew, "")), 0, "renewals in between")
	})
}

func lostOrReleased(t *testing.T, l *holdfast.Lease) {
	t.Helper()
	redistest.Next(t, "the end of the lease", l.Context().Done())
	assert.True(t, l.Err() != nil, "the lease goes on")
}

// Rule 6. A Mutex shared by goroutines keeps nothing of theirs: the first
// one's late release does not free what the second one holds.
func TestALeaseBelongsToOneAcquisition(t *testing.T) {
	for name, passes := range map[string]int{"Passing": 0, "WithoutPassing": -1} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, w *world) {
				a, seen := w.local(t, holdfast.Config{MaxLocalHandOvers: passes})
				mu := a.Mutex("x")
				first := harness.Lock(t, mu)
				got := harness.Acquiring(harness.Within(t), mu.Lock)
				seen.Await(t, observe.EventWait, "x", 1)
				harness.Release(t, first)
				second := harness.Granted(t, got)
				assert.Is(t, first.Release(harness.Within(t)), holdfast.ErrReleased)
				assert.True(t, second.Err() == nil && state(t, a, "x").Held(),
					"the late release freed the second lease")
				assert.More(t, second.Token(), first.Token(), "token")
				// A lease that was lost, released late, frees nobody's either.
				w.Do(t, "DEL", harness.Key("x"))
				third := mu
				if passes < 0 {
					l := harness.Lock(t, third)
					assert.Is(t, second.Release(harness.Within(t)), holdfast.ErrNotHeld)
					s := state(t, a, "x")
					assert.True(t, s.Held() && s.Holders[0].HolderID == l.HolderID(), "the state is %+v", s)
					harness.Release(t, l)
					return
				}
				assert.Is(t, second.Release(harness.Within(t)), holdfast.ErrNotHeld)
			})
		})
	}
}

// Rules 5 and 6. Many goroutines of several processes and one counter that
// nothing but the lock protects.
func TestOneHolderAtATime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		const clients, goroutines, rounds = 3, 8, 25
		counter, inside := 0, 0 // unprotected: the race detector watches them
		var tokens []uint64
		var wg sync.WaitGroup
		for range clients {
			c, _ := w.local(t, holdfast.Config{TTL: 10 * time.Second})
			mu := c.Mutex("x")
			for range goroutines {
				wg.Go(func() {
					for range rounds {
						err := mu.Do(harness.Within(t), func(context.Context) error {
							inside++
							assert.True(t, inside == 1, "%d holders", inside)
							counter++
							inside--
							return nil
						})
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
		}
		c, _ := w.local(t, holdfast.Config{TTL: 10 * time.Second})
		wg.Go(func() {
			for range rounds {
				l, err := c.Mutex("x").Lock(harness.Within(t))
				if err != nil {
					t.Error(err)
					return
				}
				tokens = append(tokens, l.Token())
				l.Release(harness.Within(t))
			}
		})
		wg.Wait()
		assert.Equal(t, counter, clients*goroutines*rounds, "the counter")
		for i := 1; i < len(tokens); i++ {
			assert.More(t, tokens[i], tokens[i-1], "token")
		}
	})
}
