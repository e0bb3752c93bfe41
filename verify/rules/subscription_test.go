package rules_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// handOver lets c wait for another's lock, three times, and answers the hint
// that was given for it once.
func (w *world) handOver(t *testing.T, c *holdfast.Client, seen *harness.Watch, said *assert.Log) (hint string) {
	t.Helper()
	other, _ := w.local(t, holdfast.Config{TTL: time.Minute})
	for n := 1; n <= 3; n++ {
		l := harness.Lock(t, other.Mutex("x"))
		got := harness.Acquiring(harness.Within(t), c.Mutex("x").Lock)
		seen.Await(t, observe.EventWait, "x", n)
		s := state(t, other, "x")
		assert.True(t, len(s.Waiters) == 1 && s.Waiters[0].ClientID == c.ID(), "the queue is %+v", s.Waiters)
		harness.Release(t, l)
		next := harness.Granted(t, got) // long before the lease of a minute would have ended
		assert.Equal(t, seen.Await(t, observe.EventGrant, "x", n).Wake, observe.WakePoll, "the grant came by")
		s = state(t, other, "x")
		assert.True(t, len(s.Waiters) == 0, "the queue is still %+v", s.Waiters)
		harness.Release(t, next)
	}
	n := strings.Count(said.String(), "so waiters poll")
	assert.True(t, n == 1, "said %d times:\n%s", n, said.String())
	unavailable := seen.Of(observe.EventPushUnavailable, "")
	assert.MustEqual(t, len(unavailable), 1, "the observer is told %v", unavailable)
	return holdfast.Hint(unavailable[0].Err)
}

// A client that may not receive pushes can wait, too. It finds out by itself, reports it
// once with what to do about it, and polls.
func TestAClientThatMayNotSubscribePolls(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for name, test := range map[string]struct {
			rules []string
			hint  string
		}{
			"command": {w.without(t, "subscribe"), "+subscribe"},
			"channel": {append(w.Rights(t), "resetchannels", "&other:*"), "+publish &" + redistest.Prefix() + ":*"},
			"publish": {w.without(t, "publish"), "+publish"},
		} {
			said := &assert.Log{}
			as := w.user(t, "ann", test.rules...)
			cfg := holdfast.Config{TTL: time.Minute, Logger: slog.New(slog.NewTextHandler(said, nil))}
			c, seen := harness.Client(t, w.open(t, as), cfg)
			if name == "publish" {
				// It receives pushes, but a client with the same rights cannot send them.
				w.mutual(t, as, c, seen)
				n := strings.Count(said.String(), "so waiters poll")
				assert.True(t, n == 1, "%s: said %d times", name, n)
				continue
			}
			hint := w.handOver(t, c, seen, said)
			assert.True(t, strings.Contains(hint, test.hint), "%s: the hint is %q", name, hint)
		}
	})
}

// A client waits, and receives pushes. Then its connection for them ends, and it may not subscribe again. It polls.
func TestAWaiterThatLosesItsSubscriptionPolls(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		as := w.user(t, "ann", w.Rights(t)...)
		c, seen := harness.Client(t, w.open(t, as), holdfast.Config{})
		other, _ := w.local(t, holdfast.Config{TTL: time.Hour}) // no end of a lease helps
		l := harness.Lock(t, other.Mutex("x"))
		got := harness.Waiting(t, seen, c.Mutex("x"))
		w.Do(t, "ACL", "SETUSER", "ann", "-subscribe")
		w.Do(t, "CLIENT", "KILL", "TYPE", "pubsub", "USER", "ann")
		redistest.Await(t, "it has no subscription", func() bool { return w.listeners(t, c) == 0 })
		harness.Release(t, l)
		harness.Release(t, harness.Granted(t, got))
	})
}

// mutual lets two clients of one user hand over to each other, neither of which
// may publish.
func (w *world) mutual(t *testing.T, as harness.Login, c *holdfast.Client, seen *harness.Watch) {
	t.Helper()
	other, _ := harness.Client(t, w.open(t, as), holdfast.Config{TTL: time.Minute})
	l := harness.Lock(t, other.Mutex("x"))
	got := harness.Waiting(t, seen, c.Mutex("x"))
	harness.Release(t, l)
	harness.Release(t, harness.Granted(t, got))
}

// A command that the server does not have is a lack like any other.
func TestWhereSubscribeIsUnknownWaitersPoll(t *testing.T) {
	for _, a := range harness.Adapters {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Args("--rename-command", "SUBSCRIBE", ""))
			w := &world{server, a}
			said := &assert.Log{}
			cfg := holdfast.Config{TTL: time.Minute, Logger: slog.New(slog.NewTextHandler(said, nil))}
			c, seen := w.local(t, cfg)
			w.handOver(t, c, seen, said)
		})
	}
}
