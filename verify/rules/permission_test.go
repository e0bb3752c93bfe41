package rules_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// user makes a user of the server with these rules.
func (w *world) user(t *testing.T, name string, rules ...string) harness.Login {
	t.Helper()
	args := []any{"ACL", "SETUSER", name, "reset", "on", ">pw"}
	for _, rule := range rules {
		args = append(args, rule)
	}
	assert.MustEqual(t, w.Do(t, args...), "OK", "ACL SETUSER")
	return harness.Login{User: name, Password: "pw"}
}

// without is what docs/server.md gives a client, but for one command. Without
// publish, pubsub and subscribe there is no hand-over by push, and waiters poll by
// themselves; without hello, unsubscribe and ping, which the clients use if they
// may, all of it works.
func (w *world) without(t *testing.T, command string) []string {
	t.Helper()
	return slices.DeleteFunc(w.Rights(t), func(rule string) bool { return rule == "+"+command })
}

// Least privilege. The least user can do all that the library does: take, wait, be pushed a
// grant, renew, extend, cancel, inspect, evict, give up, close.
func TestTheLeastUserCanDoEverything(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		as := w.user(t, "least", w.without(t, "")...)
		cfg := holdfast.Config{TTL: 6 * time.Second}
		a, seenA := harness.Client(t, w.open(t, as), cfg)
		b, seenB := harness.Client(t, w.open(t, as), cfg)
		l := harness.Lock(t, a.Mutex("x"))
		got := harness.Waiting(t, seenB, b.Mutex("x"))
		seenA.Renewed(t, "x")
		assert.NoError(t, l.Extend(harness.Within(t), 5*time.Second))
		harness.Release(t, l)
		l = harness.Granted(t, got)
		assert.Equal(t, seenB.Await(t, observe.EventGrant, "x", 1).Wake, observe.WakePush, "the grant came by")
		_, err := a.Mutex("x", holdfast.MaxWait(50*time.Millisecond)).Lock(harness.Within(t))
		assert.Is(t, err, holdfast.ErrHeld)
		redistest.Await(t, "who gave up has left", func() bool { return len(state(t, a, "x").Waiters) == 0 })
		s := state(t, a, "x")
		assert.True(t, len(s.Holders) == 1 && s.Holders[0].Client != nil && s.Holders[0].Client.App == "verify",
			"the holder is %+v", s.Holders)
		n, err := a.Evict(harness.Within(t), "x", holdfast.Eviction{By: "test", Reason: "test", AtOnce: true})
		assert.True(t, n == 1 && err == nil, "Evict: %d, %v; want 1 and no error", n, err)
		assert.Is(t, l.Release(harness.Within(t)), holdfast.ErrNotHeld)
		for _, c := range []*holdfast.Client{a, b} {
			assert.NoError(t, c.Close(harness.Within(t)))
		}
	})
}

// A command that is not permitted is a refusal that says so, and the hint
// names what the user needs. Each of the least is needed.
func TestAMissingCommandIsNamed(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for _, rule := range w.Rights(t) {
			command, granted := strings.CutPrefix(rule, "+")
			if !granted {
				continue
			}
			if command == "publish" || command == "pubsub|numsub" || command == "subscribe" { // the next tests
				continue
			}
			w.Do(t, "FLUSHALL")
			w.Do(t, "SCRIPT", "FLUSH")
			as := w.user(t, "ann", w.without(t, command)...)
			err := work(t, w, as)
			if !refused(err, "NOPERM") {
				t.Errorf("without %s: %v", command, err)
				continue
			}
			assert.True(t, strings.Contains(err.Error(), `"x"`), "without %s the lock is not named: %v", command, err)
			hint := holdfast.Hint(err)
			assert.True(t, strings.Contains(hint+" ", "+"+command+" "), "without %s the hint is %q", command, hint)
			// Scripts are not undone: a refusal in the middle would leave this.
			n := w.Do(t, "EXISTS", harness.Key("x"))
			assert.True(t, n == int64(0), "without %s a key is left behind", command)
		}
	})
}

// All that is missing is named at once, with the rule that gives it.
func TestMissingCommandsAreNamedTogether(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		as := w.user(t, "ann", "~locks:*", "&locks:*", "+evalsha", "+eval", "+time", "+hmget", "+hget", "+subscribe")
		c, _ := harness.Client(t, w.open(t, as), holdfast.Config{Prefix: "locks"})
		_, err := c.Mutex("x").Lock(harness.Within(t))
		const rule = "ACL SETUSER USER +hset +hdel +hgetall +hscan +pexpire +pttl"
		assert.True(t, refused(err, "NOPERM") && strings.Contains(err.Error(), rule),
			"want NOPERM and the missing rule, got %v", err)
		// Mended while the program runs, it is found out.
		w.user(t, "ann", append(w.without(t, ""), "~locks:*", "&locks:*")...)
		harness.Release(t, harness.Lock(t, c.Mutex("x")))
	})
}

// work does all that needs a command, and returns the first error.
func work(t *testing.T, w *world, as harness.Login) error {
	t.Helper()
	cfg := holdfast.Config{TTL: time.Minute}
	c, seen := harness.Client(t, w.open(t, as), cfg)
	l, err := c.Mutex("x").Lock(harness.Within(t))
	if err != nil {
		return err
	}
	if _, err := c.Inspect(harness.Within(t), "x"); err != nil {
		return err
	}
	if err := l.Release(harness.Within(t)); err != nil {
		return err
	}
	// It waits for somebody, and two wait for it.
	other, _ := w.local(t, cfg)
	theirs := harness.Lock(t, other.Mutex("x"))
	ended := harness.Acquiring(harness.Within(t), c.Mutex("x").Lock)
	redistest.Await(t, "it waits, or is refused", func() bool {
		return len(ended) > 0 || len(seen.Of(observe.EventWait, "x")) > 0
	})
	harness.Release(t, theirs)
	o := redistest.Next(t, "Lock", ended)
	if o.Err != nil {
		return o.Err
	}
	got := queue(t, 2, func() (*holdfast.Client, *harness.Watch) { return w.local(t, cfg) })
	if err = o.Lease.Release(harness.Within(t)); err != nil {
		// It holds the lock still: a refused action has changed nothing.
		n, err := other.Evict(harness.Within(t), "x", holdfast.Eviction{By: "test", Reason: "test"})
		assert.True(t, n == 1 && err == nil,
			"Evict after a refused release: %d, %v; want 1 and no error", n, err)
	}
	for _, next := range got {
		harness.Release(t, harness.Granted(t, next))
	}
	return err
}

// A client that may not publish hands over all the same: the next waiter finds its grant
// by polling, at the latest when the lease would have expired.
func TestWithoutPublishWaitersPoll(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for name, rules := range map[string][]string{
			"command": w.without(t, "publish"),
			"count":   w.without(t, "pubsub|numsub"),
			"channel": append(w.without(t, ""), "resetchannels", "&other:*"),
		} {
			as := w.user(t, "ann", rules...)
			holder, _ := harness.Client(t, w.open(t, as), holdfast.Config{TTL: 3 * time.Second})
			b, seen := w.local(t, holdfast.Config{TTL: time.Minute})
			l := harness.Lock(t, holder.Mutex(name))
			got := harness.Acquiring(harness.Within(t), b.Mutex(name).Lock)
			seen.Await(t, observe.EventWait, name, 1)
			harness.Release(t, l)
			next := harness.Granted(t, got)
			assert.Equal(t, seen.Await(t, observe.EventGrant, name, 1).Wake, observe.WakePoll, "the grant came by")
			harness.Release(t, next)
		}
	})
}

// Keys that are not permitted are told apart from commands.
func TestAForbiddenKeyIsNamed(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		as := w.user(t, "ann", append(w.without(t, ""), "resetkeys", "~other:*")...)
		c, _ := harness.Client(t, w.open(t, as), holdfast.Config{Prefix: "shop"})
		_, err := c.Mutex("x").Lock(harness.Within(t))
		if !refused(err, "NOPERM") || !strings.Contains(err.Error(), "key") || !strings.Contains(err.Error(), `"x"`) {
			t.Errorf("no permission for the key: %v", err)
		}
		assert.Contains(t, holdfast.Hint(err), "~shop:*")
	})
}

// Wrong and missing passwords are said to be that, and not shown. A rueidis
// client connects, and is refused, before the library knows it.
func TestAWrongPasswordIsNamed(t *testing.T) {
	w := &world{redistest.Start(t), harness.GoRedis}
	w.user(t, "ann", w.without(t, "")...)
	w.user(t, "default", "resetpass", ">secret", "~*", "&*", "+@all")
	for _, test := range []struct {
		as   harness.Login
		code string
	}{
		{harness.Login{User: "ann", Password: "guess"}, "WRONGPASS"},
		{harness.Login{User: "nobody", Password: "pw"}, "WRONGPASS"},
		{harness.Login{User: "", Password: "guess"}, "WRONGPASS"},
		{harness.Login{}, "NOAUTH"},
	} {
		c, _ := harness.Client(t, w.open(t, test.as), holdfast.Config{})
		_, err := c.Mutex("x").Lock(harness.Within(t))
		assert.True(t, refused(err, test.code), "%+v: %v", test.as, err)
		hint := holdfast.Hint(err)
		assert.True(t, strings.Contains(hint, "password"), "%+v: the hint is %q", test.as, hint)
		text := err.Error() + holdfast.Hint(err)
		assert.True(t, !strings.Contains(text, "guess"), "the error shows the password: %s", text)
	}
}
