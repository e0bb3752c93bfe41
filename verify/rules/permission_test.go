package rules_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// user makes a user of the server with these rules.
func (w *world) user(t *testing.T, name string, rules ...string) login {
	t.Helper()
	args := []any{"ACL", "SETUSER", name, "reset", "on", ">pw"}
	for _, rule := range rules {
		args = append(args, rule)
	}
	if reply := w.Do(t, args...); reply != "OK" {
		t.Fatalf("ACL SETUSER: %v", reply)
	}
	return login{name, "pw"}
}

// without is what docs/operating.md gives a client, but for one command. Without
// publish, pubsub and subscribe there is no hand-over by push, and waiters look by
// themselves; without hello, unsubscribe and ping, which the clients use if they
// may, all of it works.
func (w *world) without(t *testing.T, command string) []string {
	t.Helper()
	return slices.DeleteFunc(w.Rights(t), func(rule string) bool { return rule == "+"+command })
}

// Least privilege. The least user can do all that the library does: take, wait, be pushed a
// grant, renew, extend, cancel, look, evict, give up, close.
func TestTheLeastUserCanDoEverything(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		as := w.user(t, "least", w.without(t, "")...)
		cfg := holdfast.Config{TTL: 1500 * time.Millisecond, RequestTimeout: 700 * time.Millisecond}
		a, seenA := on(t, w.open(t, w.Addr(), as), cfg)
		b, seenB := on(t, w.open(t, w.Addr(), as), cfg)
		l := lock(t, a.Mutex("x"))
		got := locking(within(t), b.Mutex("x"))
		seenB.await(t, holdfast.EventWait, "x", 1)
		seenA.renewed(t, "x")
		if err := l.Extend(within(t), 2*time.Second); err != nil {
			t.Errorf("Extend: %v", err)
		}
		release(t, l)
		l = granted(t, got)
		if e := seenB.await(t, holdfast.EventGrant, "x", 1); e.Wake != holdfast.WakePush {
			t.Errorf("the grant came by %v", e.Wake)
		}
		_, err := a.Mutex("x", holdfast.MaxWait(50*time.Millisecond)).Lock(within(t))
		if !errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("Lock: %v", err)
		}
		redistest.Await(t, "who gave up has left", func() bool { return len(state(t, a, "x").Waiters) == 0 })
		s := state(t, a, "x")
		if len(s.Holders) != 1 || s.Holders[0].Client == nil || s.Holders[0].Client.App != "rules" {
			t.Errorf("the holder is %+v", s.Holders)
		}
		if n, err := a.Evict(within(t), "x", holdfast.Eviction{By: "test", Reason: "test"}); n != 1 || err != nil {
			t.Errorf("Evict: %d, %v", n, err)
		}
		if err := l.Release(within(t)); !errors.Is(err, holdfast.ErrNotHeld) {
			t.Errorf("Release: %v", err)
		}
		for _, c := range []*holdfast.Client{a, b} {
			if err := c.Close(within(t)); err != nil {
				t.Errorf("Close: %v", err)
			}
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
			if !strings.Contains(err.Error(), `"x"`) {
				t.Errorf("without %s the lock is not named: %v", command, err)
			}
			if hint := holdfast.Hint(err); !strings.Contains(hint+" ", "+"+command+" ") {
				t.Errorf("without %s the hint is %q", command, hint)
			}
			// Scripts are not undone: a refusal in the middle would leave this.
			if n := w.Do(t, "EXISTS", record("x")); n != int64(0) {
				t.Errorf("without %s a key is left behind", command)
			}
		}
	})
}

// All that is missing is named at once, with the rule that gives it.
func TestMissingCommandsAreNamedTogether(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		as := w.user(t, "ann", "~locks:*", "&locks:*", "+evalsha", "+eval", "+time", "+hmget", "+hget", "+subscribe")
		c, _ := on(t, w.open(t, w.Addr(), as), holdfast.Config{Prefix: "locks"})
		_, err := c.Mutex("x").Lock(within(t))
		const rule = "ACL SETUSER USER +hset +hdel +hgetall +pexpire +pttl"
		if !refused(err, "NOPERM") || !strings.Contains(err.Error(), rule) {
			t.Errorf("it says %v", err)
		}
		// Mended while the program runs, it is found out.
		w.user(t, "ann", append(w.without(t, ""), "~locks:*", "&locks:*")...)
		release(t, lock(t, c.Mutex("x")))
	})
}

// work does all that needs a command, and returns the first error.
func work(t *testing.T, w *world, as login) error {
	t.Helper()
	cfg := holdfast.Config{TTL: time.Minute}
	c, seen := on(t, w.open(t, w.Addr(), as), cfg)
	l, err := c.Mutex("x").Lock(within(t))
	if err != nil {
		return err
	}
	if _, err := c.Inspect(within(t), "x"); err != nil {
		return err
	}
	if err := l.Release(within(t)); err != nil {
		return err
	}
	// It waits for somebody, and two wait for it.
	other, _ := w.local(t, cfg)
	theirs := lock(t, other.Mutex("x"))
	ended := make(chan outcome, 1)
	go func() {
		l, err := c.Mutex("x").Lock(within(t))
		ended <- outcome{lease: l, err: err}
	}()
	redistest.Await(t, "it waits, or is refused", func() bool {
		return len(ended) > 0 || len(seen.of(holdfast.EventWait, "x")) > 0
	})
	release(t, theirs)
	o := redistest.Next(t, "Lock", ended)
	if o.err != nil {
		return o.err
	}
	got := queue(t, 2, func() (*holdfast.Client, *watch) { return w.local(t, cfg) })
	if err = o.lease.Release(within(t)); err != nil {
		// It holds the lock still: a refused action has changed nothing.
		if n, err := other.Evict(within(t), "x", holdfast.Eviction{By: "test", Reason: "test"}); n != 1 || err != nil {
			t.Errorf("Evict after a refused release: %d, %v", n, err)
		}
	}
	for _, next := range got {
		release(t, granted(t, next))
	}
	return err
}

// Who may not publish hands over all the same: the next finds its turn by
// looking, at the latest when the lease would have ended.
func TestWithoutPublishTheLineMovesByLooking(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		for name, rules := range map[string][]string{
			"command": w.without(t, "publish"),
			"count":   w.without(t, "pubsub|numsub"),
			"channel": append(w.without(t, ""), "resetchannels", "&other:*"),
		} {
			as := w.user(t, "ann", rules...)
			holder, _ := on(t, w.open(t, w.Addr(), as), holdfast.Config{TTL: 3 * time.Second})
			b, seen := w.local(t, holdfast.Config{TTL: time.Minute})
			l := lock(t, holder.Mutex(name))
			got := locking(within(t), b.Mutex(name))
			seen.await(t, holdfast.EventWait, name, 1)
			release(t, l)
			next := granted(t, got)
			if e := seen.await(t, holdfast.EventGrant, name, 1); e.Wake != holdfast.WakePoll {
				t.Errorf("the grant came by %v", e.Wake)
			}
			release(t, next)
		}
	})
}

// Keys that are not permitted are told apart from commands.
func TestAForbiddenKeyIsNamed(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		as := w.user(t, "ann", append(w.without(t, ""), "resetkeys", "~other:*")...)
		c, _ := on(t, w.open(t, w.Addr(), as), holdfast.Config{Prefix: "shop"})
		_, err := c.Mutex("x").Lock(within(t))
		if !refused(err, "NOPERM") || !strings.Contains(err.Error(), "key") || !strings.Contains(err.Error(), `"x"`) {
			t.Errorf("no permission for the key: %v", err)
		}
		if hint := holdfast.Hint(err); !strings.Contains(hint, "~shop:*") {
			t.Errorf("no permission for the key: the hint is %q", hint)
		}
	})
}

// Wrong and missing passwords are said to be that, and not shown. A rueidis
// client connects, and is refused, before the library knows it.
func TestAWrongPasswordIsNamed(t *testing.T) {
	w := &world{Server: redistest.Start(t), open: openGoRedis}
	w.user(t, "ann", w.without(t, "")...)
	w.user(t, "default", "resetpass", ">secret", "~*", "&*", "+@all")
	for _, test := range []struct {
		as   login
		code string
	}{
		{login{"ann", "guess"}, "WRONGPASS"},
		{login{"nobody", "pw"}, "WRONGPASS"},
		{login{"", "guess"}, "WRONGPASS"},
		{login{}, "NOAUTH"},
	} {
		c, _ := on(t, w.open(t, w.Addr(), test.as), holdfast.Config{})
		_, err := c.Mutex("x").Lock(within(t))
		if !refused(err, test.code) {
			t.Errorf("%+v: %v", test.as, err)
		}
		if hint := holdfast.Hint(err); !strings.Contains(hint, "password") {
			t.Errorf("%+v: the hint is %q", test.as, hint)
		}
		if text := err.Error() + holdfast.Hint(err); strings.Contains(text, "guess") {
			t.Errorf("the error shows the password: %s", text)
		}
	}
}
