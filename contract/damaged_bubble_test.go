// Bad records lose nothing: one that no Holdfast wrote is reported and left as it is, and ends no other call (G18).

package contract_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// liar is a server that gives the answers of a script, whatever the request: one line
// after the other, and then again from the start. ME stands for the attempt of the
// request.
//
//	!       the connection breaks
//	?       no answer
//	-CODE … a refusal
//	>…      a push, to all who listen, before the next line
type liar struct {
	born  time.Time
	mu    sync.Mutex
	lines []string
	next  int
	asked int
	ears  map[int]store.Listener
}

func (l *liar) Clock() func() time.Duration {
	return func() time.Duration { return time.Since(l.born) }
}

func (l *liar) Random() func() float64 { return nil }
func (*liar) Group(string) string      { return "" }
func (*liar) Sharded() bool            { return false }
func (*liar) Batches() bool            { return true }

// line is the next answer, after the pushes before it.
func (l *liar) line(me string) string {
	for range l.lines {
		l.mu.Lock()
		line := strings.ReplaceAll(l.lines[l.next%len(l.lines)], "ME", me)
		l.next++
		l.mu.Unlock()
		push, is := strings.CutPrefix(line, ">")
		if !is {
			return line
		}
		l.push(push)
	}
	return "?"
}

func (l *liar) push(payload string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ear := range l.ears {
		if payload == "" {
			ear.Look(true)
		} else {
			ear.Message(payload)
		}
	}
}

func (l *liar) answer(ctx context.Context, me string) (string, error) {
	l.mu.Lock()
	l.asked++
	l.mu.Unlock()
	time.Sleep(time.Millisecond)
	line := l.line(me)
	code, refused := strings.CutPrefix(line, "-")
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case line == "!":
		return "", errLink
	case line == "?":
		at, bounded := ctx.Deadline()
		if !bounded {
			at = time.Now().Add(time.Minute)
		}
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		select {
		case <-timer.C:
			return "", context.DeadlineExceeded
		case <-ctx.Done():
			return "", ctx.Err()
		}
	case refused:
		word, _, _ := strings.Cut(code, " ")
		return "", &holdfast.ServerError{Code: word, Message: code}
	}
	return line, nil
}

func (l *liar) Run(ctx context.Context, _ *script.Script, _, args []string) (string, error) {
	me := "-"
	if len(args) > 0 {
		me = args[0]
	}
	return l.answer(ctx, me)
}

func (l *liar) Listen(_ context.Context, _ string, ear store.Listener) (func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.next<<8 + len(l.ears)
	l.ears[n] = ear
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.ears, n)
	}, nil
}

func (l *liar) Server(ctx context.Context) (store.ServerInfo, error) {
	if line := l.lines[0]; strings.HasPrefix(line, "=") {
		_, err := l.answer(ctx, "-")
		return store.ServerInfo{Product: line, Version: line, Role: line, Mode: line}, err
	}
	return store.ServerInfo{}, nil
}

// patiently makes a call with a limit of ten seconds, and then waits for requests that
// are under way.
func patiently(t *testing.T, what string, call func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	start := time.Now()
	_ = call(ctx)
	assert.AtMost(t, time.Since(start), 30*time.Second, "%s took", what)
}

// against uses every result that the server gives it.
func against(t *testing.T, what string, l *holdfast.Lease, err error) error {
	t.Helper()
	if err != nil {
		assert.True(t, l == nil, "%s: a lease, and %v", what, err)
		return err
	}
	patiently(t, what+", extend", func(ctx context.Context) error { return l.Extend(ctx, 5*time.Second) })
	patiently(t, what+", step", func(ctx context.Context) error { return l.Downgrade(ctx) })
	patiently(t, what+", step", func(ctx context.Context) error { return l.Upgrade(ctx) })
	time.Sleep(2 * time.Second)
	patiently(t, what+", release", func(ctx context.Context) error { return l.Release(ctx) })
	assert.True(t, l.Context().Err() != nil, "%s: the lease's context goes on", what)
	return nil
}

// everything makes every call, one after the other.
func everything(t *testing.T, c *holdfast.Client) {
	t.Helper()
	rw, sem := c.RWMutex("b"), c.Semaphore("c", 3)
	for what, take := range map[string]func(context.Context) (*holdfast.Lease, error){
		"lock":  c.Mutex("a").Lock,
		"try":   c.Mutex("a").TryLock,
		"rlock": rw.RLock,
		"write": rw.Lock,
		"permits": func(ctx context.Context) (*holdfast.Lease, error) {
			return sem.Acquire(ctx, 2)
		},
	} {
		patiently(t, what, func(ctx context.Context) error {
			l, err := take(ctx)
			return against(t, what, l, err)
		})
	}
	work := func(context.Context) error { return nil }
	patiently(t, "all", func(ctx context.Context) error { return c.MultiMutex([]string{"a", "b"}).Do(ctx, work) })
	patiently(t, "every", func(ctx context.Context) error { return c.Periodic("d", time.Minute).Loop(ctx, work) })
	patiently(t, "limit", func(ctx context.Context) error { return sem.SetLimit(ctx, 4) })
	patiently(t, "campaign", func(ctx context.Context) error {
		return c.Election("e").Do(ctx, "me", func(context.Context, *holdfast.Leadership) error { return nil })
	})
	patiently(t, "leader", func(ctx context.Context) error { _, err := c.Election("e").Leader(ctx); return err })
	patiently(t, "observe", func(ctx context.Context) error {
		for range c.Election("e").Observe(ctx) {
		}
		return nil
	})
	patiently(t, "inspect", func(ctx context.Context) error { _, err := c.Inspect(ctx, "a"); return err })
	patiently(t, "evict", func(ctx context.Context) error {
		_, err := c.Evict(ctx, "a", holdfast.Eviction{By: "me", Reason: "why not"})
		return err
	})
}

// Whatever a broken or hostile server answers and pushes: every call returns, nothing
// panics, the client closes, and it does not send requests all the time.
func FuzzReplies(f *testing.F) {
	for _, lines := range []string{
		"granted 1795252066322120 3", "queued 1 0 7", "queued 1 3153600000000 7", "busy 0 -", "conflict 3",
		"gone", "none\nreleased", "!", "?", "-OOM command not allowed", "-FORMAT the record", "-",
		"queued 1 500 0\n>granted ME 5 0\nqueued 1 500 9007199254740991",
		">\nqueued 2 1 0", "renewed -", "renewed 0 -", "renewed evicted",
		"granted 5 1\nrenewed 0\ngranted 5 1", "granted 5 11", "granted 1 0 2 0", "busy 1 0 c/7", "busy 9 9 9",
		"early 3153600000000 c/7", "early 0 -", "leader 7 1000 20 c/7 =a", "leader 7 1000 0 c/7 =", "none 0",
		"lock 1 2 0 3 0 0\nholder x c/1 - 1 2 1 5 1", "granted 9007199254740991 0", "=99999999999999999999.0", "",
		"granted 5 0\nreleased", "granted 5 0\nheld 2", "set 2\nidle", "held -1", "queued -1 5 0", "queued 1 5",
		"proclaimed\nlate\ngone",
	} {
		f.Add(lines)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		synctest.Test(t, func(t *testing.T) {
			l := &liar{born: time.Now(), lines: strings.Split(lines, "\n"), ears: map[int]store.Listener{}}
			c, err := holdfast.New(l, holdfast.Config{TTL: 3 * time.Second})
			assert.Must(t, err)
			start := time.Now()
			everything(t, c)
			patiently(t, "close", c.Close)
			synctest.Wait()
			most := 1000 + int(time.Since(start)/(2*time.Millisecond))
			assert.True(t, l.asked <= most, "it asked %d times in %v", l.asked, time.Since(start))
			assert.Equal(t, len(l.ears), 0, "subscriptions are left")
		})
	})
}

// Prefixes may consist of words of the protocol and contain each other. Their locks, jobs
// and elections are independent.
func TestPrefixesThatContainEachOtherAreSeparate(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		prefixes := []string{
			"app", "app:every", "app:watch", "app:push", "app:client", "app:quorum", "app:every:every",
			"app:watch:watch", "app:periodic", "app:",
		}
		names := []string{"job", "{job}", "}:periodic", "watch:job", "every:{job}", "job}:periodic", "push:job", "=job"}
		heard := make(map[string]*atomic.Int64)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		clients := make(map[string]*holdfast.Client)
		for _, prefix := range prefixes {
			clients[prefix] = w.client(holdfast.Config{Prefix: prefix})
			for _, name := range names {
				_, err := clients[prefix].Mutex(name).TryLock(ctx)
				assert.MustTrue(t, err == nil, "%s: Mutex(%q): %v", prefix, name, err)
			}
		}
		for prefix, c := range clients { // while all locks are held
			for _, name := range names {
				turn, err := c.Periodic(name, time.Hour).Do(ctx, func(context.Context) error { return nil })
				assert.MustTrue(t, err == nil && turn.Ran, "%s: Periodic(%q): %+v, %v", prefix, name, turn, err)
			}
			told := new(atomic.Int64)
			heard[prefix] = told
			go func() {
				for range c.Election("news:" + prefix).Observe(ctx) {
					told.Add(1)
				}
			}()
			synctest.Wait()
		}
		// An observer is told of its own election only.
		before := heard["app:watch"].Load()
		lead := mustCampaign(t, w.client(holdfast.Config{Prefix: "app"}).Election("news:app"), "one")
		synctest.Wait()
		if heard["app"].Load() == 0 || heard["app:watch"].Load() != before {
			t.Errorf("heard %d and %d times", heard["app"].Load(), heard["app:watch"].Load())
		}
		resign(t, lead)
		assert.Equal(t, w.Publish("app:watch=news:app", "leader 1"), 1, "observers of the election")
		cancel()
		synctest.Wait()
	})
}

// A damaged record is refused with a hint, and only an eviction by force removes it. Guarantee: I14.
func TestADamagedRecordIsRemovedByForce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		endless := map[string]string{"lock": "5 0 - +", "birth": "5", "queue": "1 1 9007199254740992"}
		w.PlantRecord("holdfast:{a}", endless)
		_, err := c.Mutex("a").TryLock(t.Context())
		assert.True(t, strings.Contains(err.Error(), "is damaged: ") && strings.Contains(holdfast.Hint(err), "--force"),
			"%v; hint: %s", err, holdfast.Hint(err))
		_, err = c.Evict(t.Context(), "a", holdfast.Eviction{By: "ann", Reason: "broken", Force: true, Token: 5})
		assert.Is(t, err, holdfast.ErrInvalid)
		_, err = c.Evict(t.Context(), "a", holdfast.Eviction{By: "ann", Reason: "broken"})
		assert.True(t, err != nil, "an eviction without force has removed it")
		for _, ended := range []int{1, 0} {
			name := map[int]string{1: "a", 0: "nobody"}[ended]
			n, err := c.Evict(t.Context(), name, holdfast.Eviction{By: "ann", Reason: "broken", Force: true})
			assert.True(t, n == ended && err == nil, "%s: %d, %v", name, n, err)
		}
		info, err := c.Inspect(t.Context(), "a")
		assert.Must(t, err)
		assert.True(t, !info.Held() && info.LastEviction.Reason == "broken", "%+v", info)
		release(t, mustLock(t, c.Mutex("a")))
	})
}

// So it is with the record of a job, and a lock of the same name stays as it is.
func TestADamagedJobIsRemovedByForce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := mustLock(t, c.Mutex("a"))
		for field, value := range map[string]string{"period": "soon", "undone": "a b", "lock": "5 abc"} {
			damaged := map[string]string{"lock": "5", "birth": "5"}
			damaged[field] = value
			w.PlantRecord("holdfast:{a}:periodic", damaged)
			e := holdfast.Eviction{By: "ann", Reason: "broken", Job: true}
			_, err := c.Evict(t.Context(), "a", e)
			assert.True(t, err != nil && strings.Contains(err.Error(), "is damaged: "), "%s: %v", field, err)
			e.Force = true
			n, err := c.Evict(t.Context(), "a", e)
			assert.True(t, n == 1 && err == nil, "%s: %d, %v", field, n, err)
			result, err := c.Periodic("a", time.Hour).Do(t.Context(), func(context.Context) error { return nil })
			assert.True(t, result.Ran && err == nil, "%s: %+v, %v", field, result, err)
		}
		release(t, l)
	})
}

// A key that is named like a record and holds something else does not end the listing.
func TestListLeavesOutWhatIsNoLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(holdfast.Config{})
		w.Store.PlantForeign("holdfast:{a}")
		release(t, mustLock(t, c.Mutex("b")))
		w.Store.PlantForeign("holdfast:{c}:periodic")
		var names []string
		for s, err := range c.List(t.Context(), "") {
			assert.Must(t, err)
			names = append(names, s.Name)
		}
		assert.EqualSlices(t, names, []string{"b"}, "the list")
	})
}

// A record that cannot be read hides no other: it has its place in the listing, with the error.
func TestListGoesOnAfterAnUnreadableRecord(t *testing.T) {
	failing := func(err error) func(*world) {
		return func(w *world) {
			w.Store.FailRequest(func(action string, keys []string) error {
				if action == "inspect" && strings.HasPrefix(keys[0], "holdfast:{bad") {
					return err
				}
				return nil
			})
		}
	}
	for what, spoil := range map[string]func(*world){
		"a later format": func(w *world) {
			for _, key := range []string{"holdfast:{bad}", "holdfast:{bad2}", "holdfast:{bad}:periodic"} {
				w.Store.PlantNewerFormat(key)
			}
		},
		"a key without permission": failing(&store.ServerError{Code: "NOPERM", Message: "NOPERM no key"}),
		"a script that fails":      failing(&store.ServerError{Code: "ERR", Message: "ERR user_script:83: attempt"}),
		"words that make no sense": failing(wire.BadAnswer("lock x")),
	} {
		runBubble(t, what, func(t *testing.T, w *world) {
			c := w.client(holdfast.Config{})
			for _, name := range []string{"a", "bad", "bad2", "z"} {
				release(t, mustLock(t, c.Mutex(name)))
			}
			job := c.Periodic("bad", time.Hour)
			assert.Must(t, assert.Err(job.Do(t.Context(), func(context.Context) error { return nil })))
			spoil(w)
			var got []string
			for s, err := range c.List(t.Context(), "") {
				if err != nil {
					assert.Contains(t, err.Error(), fmt.Sprintf("%q", s.Name))
				}
				job := s.Job != nil && s.Job.Name == s.Name
				got = append(got, fmt.Sprintf("%s job=%t bad=%t", s.Name, job, err != nil))
			}
			slices.Sort(got)
			assert.EqualSlices(t, got, []string{
				"a job=false bad=false", "bad job=false bad=true", "bad job=true bad=true",
				"bad2 job=false bad=true", "z job=false bad=false",
			}, "the list")
		})
	}
}

// A server that refuses to read any record is one error and not a row for each.
func TestListEndsIfTheServerRefusesEveryRecord(t *testing.T) {
	for name, records := range map[string]int{"NOPERM": 3, "ERR": 3, "NOPERM of many": 1000} {
		runBubble(t, name, func(t *testing.T, w *world) {
			code, _, _ := strings.Cut(name, " ")
			c := w.client(holdfast.Config{})
			for i := range records {
				release(t, mustLock(t, c.Mutex(strconv.Itoa(i))))
			}
			var asked atomic.Int64
			w.Store.FailRequest(func(action string, _ []string) error {
				if action == "inspect" {
					asked.Add(1)
					return &store.ServerError{Code: code, Message: code + " unknown command"}
				}
				return nil
			})
			rows := 0
			for s, err := range c.List(t.Context(), "") {
				rows++
				var refused *holdfast.ServerError
				assert.True(t, s.Name == "" && errors.As(err, &refused) && refused.Code == code, "%q: %v", s.Name, err)
			}
			assert.Equal(t, rows, 1, "rows")
			assert.True(t, asked.Load() < 200, "it asked %d times", asked.Load())
		})
	}
}

// One record that the script fails on is a row, also if it is the only one.
func TestListNamesTheOnlyRecordIfItIsDamaged(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(holdfast.Config{})
		release(t, mustLock(t, c.Mutex("bad")))
		w.Store.FailRequest(func(action string, keys []string) error {
			if action == "inspect" && keys[0] == "holdfast:{bad}" {
				return &store.ServerError{Code: "ERR", Message: "ERR user_script:83: attempt"}
			}
			return nil
		})
		var got []string
		for s, err := range c.List(t.Context(), "") {
			got = append(got, fmt.Sprintf("%s bad=%t", s.Name, err != nil))
		}
		assert.EqualSlices(t, got, []string{"bad bad=true"}, "the list")
	})
}
