package contract_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
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
			ear.Resumed()
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
