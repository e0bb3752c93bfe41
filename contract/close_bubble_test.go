// Nothing is left behind: a closed client runs nothing, whatever races with its close (G13).

package contract_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/store"
)

func TestCloseReleasesEveryLeaseAndEndsItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n = 50
		c := w.client()
		var leases []*holdfast.Lease
		for i := range n {
			leases = append(leases, mustLock(t, c.Mutex(fmt.Sprint(i))))
		}
		next := w.waiting(w.client().Mutex("7"), t.Context())
		together, alone := w.net.count("release_idle"), w.net.count("release")
		assert.NoError(t, c.Close(t.Context()))
		together, alone = w.net.count("release_idle")-together, w.net.count("release")-alone
		if together != 2 || alone != 1 { // 32 at a time; somebody waits for one of them
			t.Errorf("%d requests for several leases, and %d for one", together, alone)
		}
		for i, l := range leases {
			assert.Is(t, ended(l.Context()), holdfast.ErrClosed)
			if i != 7 {
				w.wantFree(l.Name())
			}
		}
		release(t, (<-next).Lease)
		assert.NoError(t, c.Close(t.Context()))
	})
}

// Done does not wait for the releases of a Close, and is open while the client works.
func TestDoneIsClosedWhenTheFirstCloseBegins(t *testing.T) {
	for name, end := range map[string]func(context.Context, *holdfast.Client){
		"Close":   func(ctx context.Context, c *holdfast.Client) { _ = c.Close(ctx) },
		"Abandon": func(_ context.Context, c *holdfast.Client) { c.Abandon() },
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			c := w.client()
			l := mustLock(t, c.Mutex("a"))
			select {
			case <-c.Done():
				t.Fatal("closed while the client works")
			default:
			}
			w.net.slow(func(string) (time.Duration, time.Duration) { return 50 * time.Millisecond, 0 })
			start := time.Now()
			ended := make(chan struct{})
			go func() {
				end(t.Context(), c)
				close(ended)
			}()
			<-c.Done()
			assert.Equal(t, time.Since(start), 0, "it waited for the release")
			_, err := c.Mutex("b").Lock(t.Context())
			assert.Is(t, err, holdfast.ErrClosed)
			<-l.Context().Done()
			<-ended
			end(t.Context(), c)
			<-c.Done() // as before
		})
	}
}

func TestCloseEndsEveryWait(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		other := mustLock(t, w.client().Mutex("remote"))
		mustLock(t, c.Mutex("local"))
		waiters := []<-chan outcome{
			w.waiting(c.Mutex("remote"), t.Context()),
			w.waiting(c.Mutex("remote"), t.Context()),
			w.waiting(c.Mutex("local", holdfast.MaxWait(time.Hour)), t.Context()),
		}
		assert.NoError(t, c.Close(t.Context()))
		for _, ch := range waiters {
			assert.Is(t, (<-ch).err, holdfast.ErrClosed)
		}
		s := w.state("remote")
		assert.True(t, len(s.Waiters) == 0, "a closed client waits: %+v", s.Waiters)
		w.wantFree("local")
		release(t, other)
	})
}

// A silent server keeps no acquisition of any kind for longer than two requests: the one that is under way, and a
// last cancel, for many locks as for one.
func TestCloseEndsEveryAcquisitionAtASilentServer(t *testing.T) {
	const request = 500 * time.Millisecond
	for how, end := range map[string]func(c *holdfast.Client){
		"close": func(c *holdfast.Client) { _ = c.Close(context.Background()) }, "abandon": (*holdfast.Client).Abandon,
	} {
		for kind := range closers(nilClient(t)) {
			runBubble(t, how+"/"+kind, func(t *testing.T, w *world) {
				c := w.client(holdfast.Config{RequestTimeout: request})
				release(t, mustLock(t, c.Mutex("warm")))
				ended := taking(t, func(ctx context.Context) (*holdfast.Lease, error) {
					defer w.Stall()()
					time.AfterFunc(request/2, func() { end(c) })
					return closers(c)[kind](ctx)
				})
				start, got := time.Now(), <-ended
				assert.Is(t, got.err, holdfast.ErrClosed)
				assert.False(t, errors.Is(got.err, holdfast.ErrUnknownOutcome), "an unknown outcome: %v", got.err)
				assert.True(t, got.at.Sub(start) <= 2*request, "the call has ended after %v", got.at.Sub(start))
			})
		}
	}
}

// closers are takers, and the acquisitions that do not wait for a lock.
func closers(c *holdfast.Client) map[string]func(context.Context) (*holdfast.Lease, error) {
	all, names := takers(c), make([]string, holdfast.MaxLocks)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	all["All"] = func(ctx context.Context) (*holdfast.Lease, error) {
		return nil, assert.Err(c.MultiMutex(names).Lock(ctx))
	}
	all["Periodic"] = func(ctx context.Context) (*holdfast.Lease, error) {
		return nil, assert.Err(c.Periodic("a", time.Hour).Do(ctx, func(context.Context) error { return nil }))
	}
	all["Resume"] = func(ctx context.Context) (*holdfast.Lease, error) {
		return nil, assert.Err(c.Election("a").Resume(ctx, "former/1", 1<<20))
	}
	return all
}

// An acquisition that is under way when the client closes may be granted. The grant is
// then released, and no lease is returned.
func TestAGrantThatArrivesDuringCloseIsGivenBack(t *testing.T) {
	for there := range 20 {
		for back := range 20 {
			bubble(t, func(t *testing.T, w *world) {
				c := w.client()
				release(t, mustLock(t, c.Mutex("warm")))
				w.net.slow(func(action string) (time.Duration, time.Duration) {
					if action == "acquire" {
						return time.Duration(there) * time.Millisecond, time.Duration(back) * time.Millisecond
					}
					return 5 * time.Millisecond, 5 * time.Millisecond
				})
				late := w.waiting(c.Mutex("a"), t.Context())
				time.Sleep(10 * time.Millisecond)
				assert.NoError(t, c.Close(t.Context()))
				got := <-late
				if got.err == nil {
					assert.Is(t, ended(got.Context()), holdfast.ErrClosed)
				} else {
					assert.Is(t, got.err, holdfast.ErrClosed)
				}
				w.wantFree("a")
			})
			assert.MustTrue(t, !t.Failed(), "%dms there, %dms back", there, back)
		}
	}
}

func TestCloseRacingWithEverythingLeavesNothingBehind(t *testing.T) {
	for range 30 {
		bubble(t, func(t *testing.T, w *world) {
			c := w.client()
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for {
						l, err := c.Mutex("a").Lock(t.Context())
						if err != nil {
							assert.Is(t, err, holdfast.ErrClosed)
							return
						}
						if err := l.Release(t.Context()); err != nil {
							assert.Is(t, err, holdfast.ErrClosed)
						}
						time.Sleep(time.Microsecond)
					}
				})
			}
			time.Sleep(50 * time.Microsecond)
			assert.NoError(t, c.Close(t.Context()))
			all.Wait()
			w.wantFree("a")
		})
		if t.Failed() {
			return
		}
	}
}

func TestCloseWaitsForPendingCancels(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("warm")))
		w.LoseReply(only("acquire", 1, errLink))
		w.FailRequest(only("cancel", 5, errLink))
		_, err := c.Mutex("a").TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrUnknownOutcome)
		assert.MustTrue(t, w.state("a").Held(), "nothing is to be undone")
		assert.NoError(t, c.Close(t.Context()))
		w.wantFree("a")
	})
}

func TestCloseWorksAlthoughItsContextHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		over, cancel := context.WithCancel(t.Context())
		cancel()
		c := w.client()
		mustLock(t, c.Mutex("a"))
		assert.NoError(t, c.Close(over))
		w.wantFree("a")

		c = w.client(holdfast.Config{RequestTimeout: time.Second})
		mustLock(t, c.Mutex("b"))
		resume := w.Stall()
		defer resume()
		start := time.Now()
		assert.Is(t, c.Close(over), holdfast.ErrUnknownOutcome)
		assert.AtMost(t, time.Since(start), 2*time.Second, "closing took")
	})
}

// The context of a function under a lock ends with the first step of Close.
func TestCloseWithTheContextOfALeaseReleasesIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		w.net.slow(func(string) (time.Duration, time.Duration) { return time.Millisecond, time.Millisecond })
		err := c.MultiMutex([]string{"a", "b"}).Do(t.Context(), func(ctx context.Context) error {
			assert.NoError(t, c.Close(ctx))
			return context.Cause(ctx)
		})
		assert.Is(t, err, holdfast.ErrClosed)
		w.wantFree("a")
		w.wantFree("b")

		c = w.client()
		err = c.Mutex("a").Do(t.Context(), func(ctx context.Context) error {
			defer w.Stall()()
			ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			start := time.Now()
			assert.Is(t, c.Close(ctx), holdfast.ErrUnknownOutcome)
			assert.AtMost(t, time.Since(start), 200*time.Millisecond, "closing took")
			return nil
		})
		assert.Is(t, err, holdfast.ErrClosed)
	})
}

func TestAbandonSendsNothingAndTheLeaseExpires(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := mustLock(t, c.Mutex("a"))
		synctest.Wait()
		before := w.net.count("release") + w.net.count("register_client") + w.net.count("cancel")
		c.Abandon()
		assert.Is(t, ended(l.Context()), holdfast.ErrClosed)
		assert.Is(t, l.Release(t.Context()), holdfast.ErrClosed)
		after := w.net.count("release") + w.net.count("register_client") + w.net.count("cancel")
		assert.True(t, after == before, "sent %v", w.net.sent)
		start := time.Now()
		release(t, mustLock(t, w.client().Mutex("a")))
		waited := time.Since(start)
		assert.True(t, waited >= ttl && waited <= ttl+time.Second, "the next one came after %v", waited)
		assert.NoError(t, c.Close(t.Context()))
	})
}

func TestCloseReportsNoErrorForALeaseThatWasLostBefore(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := mustLock(t, c.Mutex("a"))
		mustLock(t, c.Mutex("b"))
		w.Flush()
		assert.NoError(t, c.Close(t.Context()))
		assert.Is(t, l.Release(t.Context()), holdfast.ErrClosed)
	})
}

func TestAnIdleClientRunsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, err := holdfast.New(w.net, holdfast.Config{})
		assert.Must(t, err)
		l := mustLock(t, c.Mutex("a"))
		release(t, l)
		// The client is not closed and has never waited: the bubble finds no goroutine of
		// it.
		n := w.net.count("acquire") + w.net.count("release")
		assert.True(t, n == 2, "sent %v", w.net.sent)
	})
}

// Guarantee: a grant may be confirmed while the client closes. If the client has released
// it by then, the call returns no lease.
func TestAGrantThatIsConfirmedAsTheClientClosesIsNoLease(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.SetAcks(store.Acks{Replicas: 1})
		confirmed, goOn := make(chan struct{}), make(chan struct{})
		w.LoseReply(func(action string, _ []string) error {
			if action == "renew" {
				close(confirmed)
				<-goOn
			}
			return nil
		})
		c := w.client()
		next := w.waiting(c.Mutex("a", holdfast.WaitReplicas(1, time.Second)), t.Context())
		<-confirmed
		closed := make(chan error, 1)
		go func() { closed <- c.Close(t.Context()) }()
		synctest.Wait()
		close(goOn)
		got := <-next
		assert.Is(t, got.err, holdfast.ErrClosed)
		assert.True(t, got.Lease == nil, "it got a lease: %v", got.Lease)
		assert.NoError(t, <-closed)
		w.wantFree("a")
	})
}

// Close sends one round for all leases. The round has a time limit, also if the caller
// set none.
func TestCloseOfManyLeasesAtASilentServerIsBounded(t *testing.T) {
	for name, begin := range outages {
		runBubble(t, name, func(t *testing.T, w *world) {
			const n = 1000
			c := w.client()
			for i := range n {
				mustLock(t, c.Mutex(fmt.Sprint(i)))
			}
			defer begin(w)()
			start := time.Now()
			err := c.Close(context.Background())
			assert.AtMost(t, time.Since(start), 5*time.Second, "it took")
			assert.True(t, err != nil && strings.HasPrefix(err.Error(), "the release of 1000 of 1000 leases"),
				"want an error about 1000 of 1000 leases, got %v", err)
			assert.False(t, errors.Is(err, context.DeadlineExceeded), "no context of the caller's has ended: %v", err)
		})
	}
}

func TestCloseOfManyLeasesOverASlowLinkReleasesThem(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		for i := range 1000 {
			mustLock(t, c.Mutex(fmt.Sprint(i)))
		}
		l := must(t, c.RWMutex("read").RLock)
		keep(l)
		next := w.waiting(w.client().Mutex("7"), t.Context())
		const way = 300 * time.Millisecond
		w.net.slow(func(string) (time.Duration, time.Duration) { return way, way })
		assert.NoError(t, c.Close(context.Background()))
		w.net.slow(nil)
		release(t, (<-next).Lease)
		for i := range 1000 {
			w.wantFree(fmt.Sprint(i))
		}
		w.wantFree("read")
	})
}

func TestASecondCloseReturnsWhenTheFirstHas(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		mustLock(t, c.Mutex("a"))
		defer w.Stall()()
		start := time.Now()
		first := make(chan error, 1)
		go func() { first <- c.Close(context.Background()) }()
		synctest.Wait()
		second := c.Close(context.Background())
		took := time.Since(start)
		assert.True(t, took >= 3*time.Second && took <= 5*time.Second, "the second one returned after %v", took)
		err := <-first
		assert.True(t, err != nil && errors.Is(second, err), "the first says %v, the second %v", err, second)
	})
}

// Pending cancels delay Close for no longer than its other work.
func TestCloseDoesNotWaitForeverForPendingCancels(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("warm")))
		w.LoseReply(only("acquire", 1, errLink))
		w.FailRequest(only("cancel", -1, errLink))
		_, err := c.Mutex("a").TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrUnknownOutcome)
		start := time.Now()
		_ = c.Close(context.Background())
		assert.AtMost(t, time.Since(start), 5*time.Second, "it took")
		w.FailRequest(nil)
	})
}

// If the server is silent, a release takes the time of one request, for every kind of hold.
func TestAReleaseIsBounded(t *testing.T) {
	for name, begin := range outages {
		runBubble(t, name, func(t *testing.T, w *world) {
			c := w.client(holdfast.Config{RequestTimeout: time.Second})
			lead, err := c.Election("e").Campaign(t.Context(), "me")
			assert.Must(t, err)
			sem, err := c.Semaphore("s", 2).Acquire(t.Context(), 1)
			assert.Must(t, err)
			leases := []*holdfast.Lease{
				keep(sem), mustLock(t, c.Mutex("a")), mustLock(t, c.Mutex("b", holdfast.Owner("ann"))),
				mustLock(t, c.Mutex("m", holdfast.MinHold(time.Millisecond))),
			}
			all, err := c.MultiMutex([]string{"x", "y"}).Lock(t.Context())
			assert.Must(t, err)
			back := begin(w)
			bounded := func(what string, limit time.Duration, do func(context.Context) error) {
				start := time.Now()
				err := do(context.Background())
				took := time.Since(start)
				assert.True(t, took <= limit && err != nil && !errors.Is(err, context.DeadlineExceeded),
					"%s: %v after %v", what, err, took)
			}
			for _, l := range leases {
				bounded(l.Name(), time.Second, l.Release)
			}
			bounded("several", time.Second, all.Release)
			bounded("lead", 2*time.Second, lead.Release)
			back()
			time.Sleep(ttl)
		})
	}
}

// The second of two resignations returns after the leadership has ended. Observers are
// told before there can be a next leader.
func TestTwoResignAtTheSameTime(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		lead, err := c.Election("e").Campaign(t.Context(), "me")
		assert.Must(t, err)
		w.net.slow(func(string) (time.Duration, time.Duration) { return 50 * time.Millisecond, 50 * time.Millisecond })
		start := time.Now()
		first := make(chan error, 1)
		go func() { first <- lead.Release(t.Context()) }()
		synctest.Wait()
		assert.Is(t, lead.Release(t.Context()), holdfast.ErrReleased)
		if took := time.Since(start); took < 200*time.Millisecond {
			t.Errorf("the second one returned after %v: before the lead was given up", took)
		}
		assert.NoError(t, <-first)
		w.net.slow(nil)
		w.wantFree("e")
	})
}

// labelSets collects the labels of all goroutines, as the goroutine profile shows them.
type labelSets struct {
	mu   sync.Mutex
	seen map[string]bool
}

var labelLine = regexp.MustCompile(`(?m)^# labels: \{(.*)\}$`)

func (s *labelSets) check() {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 1); err != nil {
		panic(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range labelLine.FindAllStringSubmatch(profile.String(), -1) {
		s.seen[m[1]] = true
	}
}

// Observe implements [observe.Observer].
func (s *labelSets) Observe(observe.Event) { s.check() }

// checkingStore checks the labels while a subscription is made.
type checkingStore struct {
	*network
	labels *labelSets
}

func (s *checkingStore) Listen(ctx context.Context, channel string, l store.Listener) (func(), error) {
	s.labels.check()
	return s.network.Listen(ctx, channel, l)
}

// Every goroutine in the background has a label that says what it does, and none of the
// labels of the caller that happened to start it.
func TestBackgroundGoroutinesAreLabelled(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := &labelSets{seen: map[string]bool{}}
		delay := func(string) (there, back time.Duration) {
			s.check()
			return time.Millisecond, time.Millisecond
		}
		w.net.slow(delay)
		pprof.Do(t.Context(), pprof.Labels("caller", "a program"), func(ctx context.Context) {
			c := w.client(holdfast.Config{Observer: s})
			watch, stop := context.WithCancel(ctx)
			var calls sync.WaitGroup
			calls.Go(func() {
				for range c.Election("e").Observe(watch) {
					s.check()
				}
			})
			// Many goroutines at once, which share requests.
			for i := range 50 {
				calls.Go(func() { release(t, mustLock(t, c.Mutex(fmt.Sprint("many", i)))) })
			}
			held := mustLock(t, c.Mutex("x"))
			brief, cancel := context.WithTimeout(ctx, time.Minute)
			other := w.over(&checkingStore{w.net, s}, holdfast.Config{})
			_, err := other.Mutex("x").Lock(brief) // meanwhile x is renewed
			cancel()
			assert.Is(t, err, context.DeadlineExceeded)
			// A request without an answer is cancelled.
			w.LoseReply(func(action string, _ []string) error {
				if action == "acquire" || action == "acquire_free" {
					return errors.New("the connection is broken")
				}
				return nil
			})
			_, err = c.Mutex("y").TryLock(ctx)
			assert.Is(t, err, holdfast.ErrUnknownOutcome)
			synctest.Wait()
			w.LoseReply(nil)
			time.Sleep(time.Second)
			// A loss is reported in the background.
			w.Flush()
			<-held.Context().Done()
			synctest.Wait()
			s.check()
			stop()
			calls.Wait()
		})
		s.mu.Lock()
		all := maps.Clone(s.seen)
		s.mu.Unlock()
		for _, want := range []string{
			"renewals", "subscription", "events", "registration", "cancel", "batch", "election", "memstore",
		} {
			if !all[fmt.Sprintf("%q:%q", "holdfast", want)] {
				t.Errorf("no goroutine had the label %q; seen: %v", want, slices.Sorted(maps.Keys(all)))
			}
		}
		for labels := range all {
			assert.False(t, strings.Contains(labels, `"holdfast"`) && strings.Contains(labels, `"caller"`),
				"a goroutine has the labels %s", labels)
		}
	})
}
