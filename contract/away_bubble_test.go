// A call that waits outlasts a server that is away. One that does not wait asks anew for as long as one request may
// take (G7). A refusal that will not pass, as of a server that is full, is told at once, and the caller holds nothing
// (G14).

package contract_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/store"
)

// takers are all ways to wait for the lock "a", which another client holds.
func takers(
	c *holdfast.Client, options ...holdfast.LockOption,
) map[string]func(context.Context) (*holdfast.Lease, error) {
	return map[string]func(context.Context) (*holdfast.Lease, error){
		"Mutex":   c.Mutex("a", each[holdfast.MutexOption](options)...).Lock,
		"RWMutex": c.RWMutex("a", each[holdfast.RWMutexOption](options)...).Lock,
		"RLock":   c.RWMutex("a", each[holdfast.RWMutexOption](options)...).RLock,
		"permits": func(ctx context.Context) (*holdfast.Lease, error) {
			return c.Semaphore("a", 3, each[holdfast.SemaphoreOption](options)...).Acquire(ctx, 2)
		},
		"All": func(ctx context.Context) (*holdfast.Lease, error) {
			l, err := c.MultiMutex([]string{"0", "a", "b"}, options...).Lock(ctx)
			return nil, errors.Join(err, releaseIf(ctx, l))
		},
		"Campaign": func(ctx context.Context) (*holdfast.Lease, error) {
			_, err := c.Election("a", options...).Campaign(ctx, "me")
			return nil, err
		},
	}
}

func releaseIf(ctx context.Context, l *holdfast.MultiLease) error {
	if l == nil {
		return nil
	}
	return l.Release(ctx)
}

// Requests over a slow link may be at any stage when a wait ends. The error is always the
// end of the wait, with the holder and what is left of its lease.
func TestTheEndOfAWaitIsNoErrorOfARequest(t *testing.T) {
	for kind := range takers(nilClient(t)) {
		t.Run(kind, func(t *testing.T) {
			for ms := 1; ms < 140; ms += 7 {
				bubble(t, func(t *testing.T, w *world) {
					limit := time.Duration(ms) * time.Millisecond
					l := mustLock(t, w.client().Mutex("a"))
					const way = 20 * time.Millisecond
					w.net.slow(func(string) (time.Duration, time.Duration) { return way, way })
					c := w.client()
					held := wantOver(t, limit, takers(c, holdfast.MaxWait(limit))[kind])
					if held.HeldBy != l.HolderID() || held.Remaining <= 0 || held.Waited < limit || held.Err != nil {
						t.Errorf("after %v: %+v", limit, held)
					}
					w.net.slow(nil)
					time.Sleep(time.Second)
					s := w.state("a")
					assert.True(t, len(s.Waiters) == 0, "after %v: waiters %v", limit, s.Waiters)
					release(t, l)
					time.Sleep(time.Second)
					w.wantFree("a")
					w.wantFree("0")
				})
			}
		})
	}
}

// nilClient is only for the names of the takers.
func nilClient(t *testing.T) *holdfast.Client {
	t.Helper()
	c, err := holdfast.New(memstore.New(), holdfast.Config{})
	assert.Must(t, err)
	return c
}

// A call that waits has a time limit. Until then it also waits for an unreachable server.
func TestACallThatWaitsOutlastsAServerThatIsAwayWhenItArrives(t *testing.T) {
	patience := map[string][]holdfast.LockOption{
		"until the context ends": nil,
		"Wait":                   {holdfast.MaxWait(20 * time.Second)},
		"Tries":                  {holdfast.Tries(40, 500*time.Millisecond)},
	}
	for kind := range takers(nilClient(t)) {
		for name, begin := range outages {
			for how, options := range patience {
				runBubble(t, kind+"/"+name+"/"+how, func(t *testing.T, w *world) {
					back := begin(w)
					c := w.client()
					start := time.Now()
					time.AfterFunc(5*time.Second, back)
					l, err := takers(c, options...)[kind](t.Context())
					if took := time.Since(start); err != nil || took < 5*time.Second || took > 9*time.Second {
						t.Errorf("%v after %v", err, took)
					}
					if l != nil {
						release(t, l)
					}
				})
			}
		}
	}
}

// A wait may end while no server answers. It then ends like any other wait, and its error
// says why the server did not answer.
func TestAWaitForAnUnreachableServerReportsItsError(t *testing.T) {
	for kind := range takers(nilClient(t)) {
		for name, begin := range outages {
			runBubble(t, kind+"/"+name, func(t *testing.T, w *world) {
				back := begin(w)
				defer back()
				held := wantOver(t, 5*time.Second, takers(w.client(), holdfast.MaxWait(5*time.Second))[kind])
				if held.Err == nil || holdfast.Hint(held) == "" {
					t.Errorf("%v, hint %q", held, holdfast.Hint(held))
				}
			})
		}
	}
}

func TestTriesThatEndWhileTheServerIsAwayReportItsError(t *testing.T) {
	for kind := range takers(nilClient(t)) {
		for name, begin := range outages {
			runBubble(t, kind+"/"+name, func(t *testing.T, w *world) {
				c := w.client()
				release(t, mustLock(t, c.Mutex("warm"))) // so that a try sends no preflight
				back := begin(w)
				defer back()
				start := time.Now()
				_, err := takers(c, holdfast.Tries(3, 50*time.Millisecond))[kind](t.Context())
				held := wantHeld(t, err, time.Since(start))
				assert.True(t, held.Err != nil && held.Tries == 3, "%+v", held)
			})
		}
	}
}

// An error that will not pass is returned at once, also by a call that waits.
func TestARefusalThatWillNotPassIsToldAtOnce(t *testing.T) {
	for kind := range takers(nilClient(t)) {
		for _, code := range []string{
			"NOPERM", "WRONGPASS", "NOAUTH", "WRONGTYPE", "FORMAT", "OOM", "TLS", "CLIENT", "ERR", "MOVED",
		} {
			runBubble(t, kind+"/"+code, func(t *testing.T, w *world) {
				defer refusing(code)(w)()
				var refused *holdfast.ServerError
				start := time.Now()
				_, err := takers(w.client(), holdfast.MaxWait(time.Minute))[kind](t.Context())
				assert.True(t, errors.As(err, &refused) && refused.Code == code && !errors.Is(err, holdfast.ErrHeld),
					"got %v", err)
				assert.AtMost(t, time.Since(start), 0, "it took")
			})
		}
	}
}

// A single call reports at once that the server is out of memory, or that a replica has not
// acknowledged. A loop lasts for as long as its program, and somebody mends that in the end.
func TestALoopOutlastsWhatEndsASingleCall(t *testing.T) {
	faults := map[string]func(w *world) (end func()){
		"out of memory": refusing("OOM"),
		"no replica":    func(w *world) func() { return func() { w.SetAcks(store.Acks{Replicas: 1}) } },
	}
	acks := holdfast.WaitReplicas(1, time.Second)
	loops := map[string]func(ctx context.Context, c *holdfast.Client, ran func()) error{
		"leaders": func(ctx context.Context, c *holdfast.Client, ran func()) error {
			return c.Election("a", acks).Loop(ctx, "me", func(ctx context.Context, _ *holdfast.Leadership) error {
				ran()
				<-ctx.Done()
				return ctx.Err()
			})
		},
		"job": func(ctx context.Context, c *holdfast.Client, ran func()) error {
			return c.Periodic("a", time.Hour, acks).Loop(ctx, func(context.Context) error { ran(); return nil })
		},
	}
	for kind, loop := range loops {
		for fault, begin := range faults {
			runBubble(t, kind+"/"+fault, func(t *testing.T, w *world) {
				w.SetAcks(store.Acks{Replicas: 1})
				if fault == "no replica" {
					w.SetAcks(store.Acks{})
				}
				time.AfterFunc(30*time.Minute, begin(w))
				ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
				defer cancel()
				seen := new(recorder)
				start, runs := time.Now(), 0
				var late time.Duration
				err := loop(ctx, w.client(holdfast.Config{Observer: seen}), func() {
					runs, late = runs+1, time.Since(start)-30*time.Minute
				})
				assert.Is(t, err, context.DeadlineExceeded)
				assert.Equal(t, runs, 1, "runs")
				assert.AtMost(t, late, 3*time.Second, "after the fault had ended, it took")
				assert.Equal(t, len(seen.all(observe.EventAway)), 1, "reports of a server that is away")
			})
		}
	}
}

// The same is true of a refusal while the call waits already, for example when the slot moves away.
func TestARefusalThatWillNotPassEndsAWait(t *testing.T) {
	waits := map[string]func(ctx context.Context, c *holdfast.Client) error{
		"AwaitFree": func(ctx context.Context, c *holdfast.Client) error { return c.Mutex("a").AwaitFree(ctx) },
		"campaign in a loop": func(ctx context.Context, c *holdfast.Client) error {
			lead := func(context.Context, *holdfast.Leadership) error { return nil }
			return c.Election("a").Loop(ctx, "me", lead)
		},
		"observation": func(ctx context.Context, c *holdfast.Client) error {
			for _, err := range c.Election("a").Observe(ctx) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"job in a loop": func(ctx context.Context, c *holdfast.Client) error {
			return c.Periodic("a", time.Minute).Loop(ctx, func(context.Context) error { return nil })
		},
	}
	for kind := range takers(nilClient(t)) {
		waits[kind] = func(ctx context.Context, c *holdfast.Client) error {
			_, err := takers(c)[kind](ctx)
			return err
		}
	}
	for kind, wait := range waits {
		runBubble(t, kind, func(t *testing.T, w *world) {
			mustLock(t, w.client().Mutex("a", holdfast.TTL(24*time.Hour)))
			ended := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			go func() { ended <- wait(ctx, w.client()) }()
			synctest.Wait()
			defer refusing("MOVED")(w)()
			start := time.Now()
			var refused *holdfast.ServerError
			err := <-ended
			assert.True(t, errors.As(err, &refused) && refused.Code == "MOVED", "got %v", err)
			assert.AtMost(t, time.Since(start), time.Minute, "it took")
		})
	}
}

// A context's error always means the caller's context, whatever was under way at its end.
func TestTheEndOfTheCallersContextIsTold(t *testing.T) {
	for kind := range takers(nilClient(t)) {
		for name, begin := range outages {
			runBubble(t, kind+"/"+name, func(t *testing.T, w *world) {
				defer begin(w)()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				_, err := takers(w.client(), holdfast.MaxWait(time.Minute))[kind](ctx)
				assert.Is(t, err, context.DeadlineExceeded)
				assert.False(t, errors.Is(err, holdfast.ErrHeld), "it says %v", err)
				assert.True(t, holdfast.Hint(err) != "", "no hint for: %v", err)
			})
		}
	}
}

// A server accepts requests and never answers. All kinds tell that alike, also those that make two
// attempts, of which the second ends with the context.
func TestEveryKindTellsTheCallersContextOfASilentServer(t *testing.T) {
	for how, warm := range map[string]bool{"first call": false, "later": true} {
		told := map[string]string{}
		kinds := takers(nilClient(t))
		kinds["Periodic"] = nil
		for kind := range kinds {
			runBubble(t, how+"/"+kind, func(t *testing.T, w *world) {
				c := w.client(holdfast.Config{RequestTimeout: 500 * time.Millisecond})
				if warm {
					release(t, mustLock(t, c.Mutex("warm")))
				}
				defer w.Stall()()
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				take := takers(c)[kind]
				if take == nil {
					take = func(ctx context.Context) (*holdfast.Lease, error) {
						_, err := c.Periodic("a", time.Hour, holdfast.MaxWait(time.Minute)).
							Do(ctx, func(context.Context) error { return nil })
						return nil, err
					}
				}
				_, err := take(ctx)
				assert.Is(t, err, context.DeadlineExceeded)
				assert.Equal(t, errors.Is(err, holdfast.ErrUnknownOutcome), warm, "an unknown outcome: %v", err)
				told[kind] = strings.ReplaceAll(err.Error(), `"0"`, `"a"`) + "\n" + holdfast.Hint(err)
			})
		}
		for kind, text := range told {
			assert.Equal(t, text, told["Mutex"], "%s, %s", how, kind)
		}
		assert.Contains(t, told["Mutex"], "; the last request failed: ")
		assert.Contains(t, told["Mutex"], "\ncheck that the server is running")
	}
}

// The store knows which server has not answered when the context ends, and the error of each kind says it.
func TestAnInterruptedRequestNamesTheServer(t *testing.T) {
	for kind := range takers(nilClient(t)) {
		runBubble(t, kind, func(t *testing.T, w *world) {
			c := w.client()
			release(t, mustLock(t, c.Mutex("warm")))
			w.FailRequest(func(string, []string) error {
				time.Sleep(2 * time.Second)
				return fmt.Errorf("goredis: h:1: %w", context.DeadlineExceeded)
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := takers(c)[kind](ctx)
			assert.Is(t, err, context.DeadlineExceeded, holdfast.ErrUnknownOutcome)
			assert.Contains(t, fmt.Sprint(err), "context deadline exceeded; goredis: h:1: no answer by then")

			later, end := context.WithTimeout(t.Context(), time.Second)
			defer end()
			_, err = c.Periodic("a", time.Hour).Do(later, func(context.Context) error { return nil })
			assert.Is(t, err, context.DeadlineExceeded, holdfast.ErrUnknownOutcome)
			assert.Contains(t, fmt.Sprint(err), "unknown: goredis: h:1: ")
			w.FailRequest(nil)
		})
	}
}

// In a Cluster, a store repeats a request until the context ends. The error still has the last refusal.
func TestWhyARequestFailedIsToldThoughTheContextHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("warm")))
		for text, failure := range map[string]error{
			"CLUSTERDOWN": &store.ServerError{Code: "CLUSTERDOWN", Message: "CLUSTERDOWN The cluster is down"},
			"no route":    fmt.Errorf("%w: no route", store.ErrNotSent),
		} {
			w.FailRequest(func(string, []string) error {
				time.Sleep(time.Second)
				return failure
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := c.Mutex("a").TryLock(ctx)
			cancel()
			assert.Is(t, err, context.DeadlineExceeded)
			assert.Contains(t, err.Error(), text)
			assert.True(t, holdfast.Hint(err) != "", "no hint for: %v", err)
		}
	})
}

// A request that was not sent leaves nothing to cancel.
func TestWhatWasNotSentLeavesNothingBehind(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("warm")))
		back := outages["nothing is sent"](w)
		for range 100 {
			_, err := c.Mutex("a").TryLock(t.Context())
			assert.Is(t, err, holdfast.ErrUnreachable)
			assert.MustTrue(t, !errors.Is(err, holdfast.ErrUnknownOutcome), "it says %v", err)
		}
		_, err := c.MultiMutex([]string{"a", "b"}).TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrUnreachable)
		_, err = c.Semaphore("s", 2).TryAcquire(t.Context(), 1)
		assert.Is(t, err, holdfast.ErrUnreachable)
		_, err = c.Periodic("e", time.Hour).Do(t.Context(), func(context.Context) error { return nil })
		assert.Is(t, err, holdfast.ErrUnreachable)
		synctest.Wait()
		assert.AtMost(t, w.net.count("cancel")+w.net.count("cancel_run"), 0, "requests to cancel what was not sent")
		back()
	})
}

// A job that waits for its run also outlasts an unreachable server.
func TestAPeriodicJobThatWaitsOutlastsTheServer(t *testing.T) {
	for name, begin := range outages {
		runBubble(t, name, func(t *testing.T, w *world) {
			back := begin(w)
			time.AfterFunc(5*time.Second, back)
			job := w.client().Periodic("a", time.Hour, holdfast.MaxWait(time.Minute))
			turn, err := job.Do(t.Context(), func(context.Context) error { return nil })
			assert.True(t, err == nil && turn.Ran, "want a run and no error, got %+v, %v", turn, err)
			defer begin(w)()
			start := time.Now()
			other := w.client().Periodic("b", time.Hour, holdfast.MaxWait(5*time.Second))
			_, err = other.Do(t.Context(), func(context.Context) error { return nil })
			held := wantHeld(t, err, time.Since(start))
			assert.True(t, held.Err != nil, "%+v", held)
		})
	}
}

// A client whose acquisitions are answered too late would ask anew behind its own grants, for
// as long as the server is that slow. So it gives each further one more time.
func TestAnAcquisitionIsGivenMoreTimeAfterALateAnswer(t *testing.T) {
	for _, late := range []time.Duration{350 * time.Millisecond, 600 * time.Millisecond} {
		bubble(t, func(t *testing.T, w *world) {
			c := w.client(holdfast.Config{TTL: time.Second})
			release(t, mustLock(t, c.Mutex("another")))
			w.net.slow(slowly("acquire", 0, late))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			l, err := c.Mutex("a").Lock(ctx)
			assert.MustTrue(t, err == nil, "answers come after %v: %v", late, err)
			release(t, l)
			_, err = c.Mutex("b").TryLock(t.Context()) // a try has no further request
			assert.Is(t, err, holdfast.ErrUnknownOutcome)
		})
	}
}
