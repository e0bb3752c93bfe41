package rules_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// journal is what a logger wrote.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) count(word string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.text.String(), word)
}

// handOver lets c wait for another's lock, three times, and answers the hint
// that was given for it once.
func (w *world) handOver(t *testing.T, c *holdfast.Client, seen *watch, said *journal) (hint string) {
	t.Helper()
	other, _ := w.local(t, holdfast.Config{TTL: time.Minute})
	for n := 1; n <= 3; n++ {
		l := lock(t, other.Mutex("x"))
		got := locking(within(t), c.Mutex("x"))
		seen.await(t, holdfast.EventWait, "x", n)
		if s := state(t, other, "x"); len(s.Waiters) != 1 || s.Waiters[0].ClientID != c.ID() {
			t.Errorf("in the line stand %+v", s.Waiters)
		}
		release(t, l)
		next := granted(t, got) // long before the lease of a minute would have ended
		if e := seen.await(t, holdfast.EventGrant, "x", n); e.Wake != holdfast.WakePoll {
			t.Errorf("the grant came by %v", e.Wake)
		}
		if s := state(t, other, "x"); len(s.Waiters) != 0 {
			t.Errorf("in the line still stand %+v", s.Waiters)
		}
		release(t, next)
	}
	if n := said.count("so waiters poll"); n != 1 {
		t.Errorf("said %d times:\n%s", n, said.text.String())
	}
	deaf := seen.of(holdfast.EventPushUnavailable, "")
	if len(deaf) != 1 {
		t.Fatalf("the observer is told %v", deaf)
	}
	return holdfast.Hint(deaf[0].Err)
}

// Who may not hear pushes waits all the same: it finds out by itself, says so
// once and what to do about it, and looks.
func TestWhoMayNotSubscribeWaitsByLooking(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for name, test := range map[string]struct {
			rules []string
			hint  string
		}{
			"command": {w.without(t, "subscribe"), "+subscribe"},
			"channel": {append(w.Rights(t), "resetchannels", "&other:*"), "+publish &" + redistest.Prefix() + ":*"},
			"publish": {w.without(t, "publish"), "+publish"},
		} {
			said := &journal{}
			as := w.user(t, "ann", test.rules...)
			cfg := holdfast.Config{TTL: time.Minute, Logger: slog.New(slog.NewTextHandler(said, nil))}
			c, seen := on(t, w.open(t, w.Addr(), as), cfg)
			if name == "publish" {
				// It can hear; but who is like it would not push.
				w.mutual(t, as, c, seen)
				if n := said.count("so waiters poll"); n != 1 {
					t.Errorf("%s: said %d times", name, n)
				}
				continue
			}
			if hint := w.handOver(t, c, seen, said); !strings.Contains(hint, test.hint) {
				t.Errorf("%s: the hint is %q", name, hint)
			}
		}
	})
}

// mutual lets two clients of one user hand over to each other, neither of which
// may publish.
func (w *world) mutual(t *testing.T, as login, c *holdfast.Client, seen *watch) {
	t.Helper()
	other, _ := on(t, w.open(t, w.Addr(), as), holdfast.Config{TTL: time.Minute})
	l := lock(t, other.Mutex("x"))
	got := locking(within(t), c.Mutex("x"))
	seen.await(t, holdfast.EventWait, "x", 1)
	release(t, l)
	release(t, granted(t, got))
}

// A command that the server does not have is a lack like any other.
func TestWhereSubscribeIsUnknownWaitersLook(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Args("--rename-command", "SUBSCRIBE", ""))
			w := &world{Server: server, adapter: a.name, open: a.open}
			said := &journal{}
			cfg := holdfast.Config{TTL: time.Minute, Logger: slog.New(slog.NewTextHandler(said, nil))}
			c, seen := w.local(t, cfg)
			w.handOver(t, c, seen, said)
		})
	}
}
