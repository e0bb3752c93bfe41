// A lease goes from the process that has acquired it to another one, which extends and releases it by its ID.

package contract_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// handed is a lease that a client has acquired for another process, as that process gets it. The client has ended.
func (w *world) handed(options ...holdfast.MutexOption) holdfast.LeaseInfo {
	w.t.Helper()
	c := w.client(holdfast.Config{App: "first"})
	l := mustLock(w.t, c.Mutex("a", append(options, holdfast.NoRenewal())...))
	info, _ := holdfast.LeaseOf(l.Context())
	time.Sleep(time.Second) // the client registers in the background
	c.Abandon()
	return info
}

// left is how long the server keeps the only hold of a lock.
func (w *world) left(name string) time.Duration {
	w.t.Helper()
	s := w.state(name)
	assert.MustTrue(w.t, len(s.Holders) == 1, "%q has the holders %+v", name, s.Holders)
	return s.Holders[0].Remaining
}

func wantNotHeld(t *testing.T, err error, reason holdfast.LossReason) {
	t.Helper()
	assert.Is(t, err, holdfast.ErrNotHeld)
	wantLost(t, err, reason)
}

func TestALeaseIsExtendedAndReleasedByAnotherProcess(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, c := w.handed(), w.client()
		got, err := c.ExtendLease(t.Context(), l, time.Hour)
		assert.Must(t, err)
		l.Remaining = time.Hour - 36*time.Second - 2*time.Millisecond
		assert.Equal(t, got, l, "the extended lease")
		assert.Equal(t, w.left("a"), time.Hour, "on the server")
		_, err = c.ExtendLease(t.Context(), l, ttl)
		assert.Must(t, err)
		assert.Equal(t, w.left("a"), time.Hour, "no extension shortens a lease; on the server")

		time.Sleep(50 * time.Minute)
		h := w.state("a").Holders[0]
		assert.True(t, h.Client != nil && h.Client.App == "first" && h.Token == l.Token,
			"the holder is still known by its name: %+v", h)

		next := w.waiting(c.Mutex("a"), t.Context())
		synctest.Wait()
		assert.Must(t, c.ReleaseLease(t.Context(), l))
		granted := <-next
		assert.Must(t, granted.err)
		assert.NoError(t, c.ReleaseLease(t.Context(), l)) // a second release
		_, err = c.ExtendLease(t.Context(), l, ttl)
		wantNotHeld(t, err, holdfast.LossNotHeld)
		release(t, keep(granted.Lease))
	})
}

// The server keeps an extended lease for its lock-delay, too, which the lease's ID tells.
func TestAnExtensionKeepsTheLockDelay(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, c := w.handed(holdfast.LockDelay(10*time.Second)), w.client()
		got, err := c.ExtendLease(t.Context(), l, time.Hour)
		assert.Must(t, err)
		assert.Equal(t, got.Remaining, time.Hour-36*time.Second-2*time.Millisecond, "trusted for")
		assert.Equal(t, w.left("a"), time.Hour+10*time.Second, "on the server")
		assert.NoError(t, c.ReleaseLease(t.Context(), l))
		assert.Equal(t, len(w.state("a").Holders), 0, "holders after the release")
	})
}

// The process that was to finish the work is late: its release frees the lock when the lock-delay is over.
func TestAReleaseOfAnotherProcessWithinTheLockDelayDoesNotEndIt(t *testing.T) {
	for name, options := range map[string][]holdfast.MutexOption{"plain": nil, "owner": {holdfast.Owner("alice")}} {
		runBubble(t, name, func(t *testing.T, w *world) {
			const d = 10 * time.Second
			l := w.handed(append(options, holdfast.LockDelay(d))...)
			next := w.waiting(w.client().Mutex("a"), t.Context())
			start := time.Now()
			time.Sleep(ttl)
			assert.NoError(t, w.client().ReleaseLease(t.Context(), l))
			got := <-next
			assert.Must(t, got.err)
			after := got.at.Sub(start)
			assert.True(t, after >= ttl-time.Second+d && after <= ttl+d, "free after %v", after)
			assert.Is(t, w.client().ReleaseLease(t.Context(), l), holdfast.ErrNotHeld)
			release(t, keep(got.Lease))
		})
	}
}

// The trust deadline counts from the request of the process that trusts, and not from the answer.
func TestAnExtensionCountsFromItsOwnRequest(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, c := w.handed(), w.client()
		w.net.slow(func(string) (there, back time.Duration) { return 0, time.Second })
		before := time.Now()
		got, err := c.ExtendLease(t.Context(), l, ttl)
		assert.Must(t, err)
		assert.True(t, w.left("a") > got.Remaining, "trusted for %v, kept for %v", got.Remaining, w.left("a"))
		// The call asks first what the server is, which takes no time here.
		assert.AtMost(t, time.Since(before)+got.Remaining, trusted, "trusted since the call")
	})
}

func TestALeaseThatHasEndedIsNotHandedOn(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l := w.handed()
		_, err := c.Evict(t.Context(), "a", holdfast.Eviction{By: "ops", Reason: "test"})
		assert.Must(t, err)
		_, err = c.ExtendLease(t.Context(), l, ttl)
		wantNotHeld(t, err, holdfast.LossEvicted)
		assert.Must(t, c.ReleaseLease(t.Context(), l))
		w.wantFree("a")

		l = w.handed()
		time.Sleep(ttl)
		_, err = c.ExtendLease(t.Context(), l, ttl)
		wantNotHeld(t, err, holdfast.LossNotHeld)
		assert.Must(t, c.ReleaseLease(t.Context(), l)) // nobody has held it since
		l = w.handed()
		time.Sleep(ttl)
		other := mustLock(t, c.Mutex("a"))
		wantNotHeld(t, c.ReleaseLease(t.Context(), l), holdfast.LossNotHeld)
		assert.NoError(t, other.Err())
		release(t, other)
	})
}

// Others of an owner keep the lock when one entry of it is released elsewhere.
func TestAnEntryOfAnOwnerIsHandedOver(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		owner := holdfast.Owner("order 42")
		l, c := w.handed(owner), w.client()
		assert.Equal(t, l.Owner, "order 42", "the owner")
		other := mustLock(t, c.Mutex("a", owner))
		_, err := c.ExtendLease(t.Context(), l, time.Hour)
		assert.Must(t, err)
		assert.Equal(t, w.left("a"), time.Hour, "on the server")
		assert.Must(t, c.ReleaseLease(t.Context(), l))
		assert.Equal(t, len(w.state("a").Holders), 1, "the other entry holds")
		release(t, other)
		w.wantFree("a")
	})
}

// Without an answer the outcome is unknown, and both calls may be repeated. A release is sent although its context
// has ended.
func TestAHandedLeaseWithoutAnAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l, c := w.handed(), w.client()
		assert.Must(t, assert.Err(c.Holders(t.Context(), "a")))
		w.LoseReply(func(string, []string) error { return errLink })
		_, err := c.ExtendLease(t.Context(), l, time.Hour)
		assert.Is(t, err, holdfast.ErrUnknownOutcome)
		assert.Is(t, c.ReleaseLease(t.Context(), l), holdfast.ErrUnknownOutcome)
		w.LoseReply(nil)
		w.wantFree("a")
		assert.NoError(t, c.ReleaseLease(t.Context(), l))

		l = w.handed()
		over, cancel := context.WithCancel(t.Context())
		cancel()
		sent := w.net.count("renew")
		_, err = c.ExtendLease(over, l, time.Hour)
		assert.Is(t, err, context.Canceled)
		assert.Equal(t, w.net.count("renew"), sent, "renewals under an ended context")
		assert.Must(t, c.ReleaseLease(over, l))
		w.wantFree("a")
	})
}

func TestWhatIsNoHandedLeaseIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, none := w.client(), context.Context(nil)
		l := holdfast.LeaseInfo{Name: "a", HolderID: c.ID() + "/1", Token: 1 << 20}
		for _, bad := range []func(l *holdfast.LeaseInfo){
			func(l *holdfast.LeaseInfo) { l.Name = "" },
			func(l *holdfast.LeaseInfo) { l.HolderID = "" },
			func(l *holdfast.LeaseInfo) { l.HolderID = c.ID() },
			func(l *holdfast.LeaseInfo) { l.HolderID = "x/1 30000" },
		} {
			wrong := l
			bad(&wrong)
			assert.Is(t, assert.Err(c.ExtendLease(t.Context(), wrong, ttl)), holdfast.ErrInvalid)
			assert.Is(t, c.ReleaseLease(t.Context(), wrong), holdfast.ErrInvalid)
		}
		assert.Is(t, assert.Err(c.ExtendLease(t.Context(), l, time.Millisecond)), holdfast.ErrInvalid)
		assert.Is(t, assert.Err(c.ExtendLease(none, l, ttl)), holdfast.ErrInvalid)
		assert.Is(t, c.ReleaseLease(none, l), holdfast.ErrInvalid)
		assert.Equal(t, w.net.count("renew")+w.net.count("release"), 0, "requests")
		assert.Must(t, c.Close(t.Context()))
		assert.Is(t, assert.Err(c.ExtendLease(t.Context(), l, ttl)), holdfast.ErrClosed)
		assert.Is(t, c.ReleaseLease(t.Context(), l), holdfast.ErrClosed)
	})
}

// A key is where the server has the record, whatever the name is.
func TestTheKeyOfALock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const odd = "a b}{%\n日本"
		release(t, mustLock(t, w.client(holdfast.Config{Prefix: "shop"}).Mutex(odd)))
		key, err := holdfast.Key("shop", odd)
		assert.Must(t, err)
		found := false
		assert.Must(t, w.Scan(t.Context(), "shop:{", func(keys []string) error {
			found = found || len(keys) == 1 && keys[0] == key
			return nil
		}))
		assert.True(t, found, "the server has no key %q", key)
		for _, bad := range [][2]string{{"", "a"}, {"a b", "a"}, {"shop", ""}, {"shop", strings.Repeat("x", 513)}} {
			key, err := holdfast.Key(bad[0], bad[1])
			assert.True(t, key == "" && errors.Is(err, holdfast.ErrInvalid), "%q: %q, %v", bad, key, err)
		}
	})
}

// An answer that no version gives can be told from a server that does not answer.
func TestAnAnswerOfNoVersionIsTold(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		type unknown interface {
			error
			UnknownAnswer() bool
		}
		nonsense := w.hook(func(_ context.Context, action string, answer *string) { *answer = "what? " + action })
		_, err := nonsense.Inspect(t.Context(), "a")
		var told unknown
		assert.True(t, errors.As(err, &told) && told.UnknownAnswer(), "an unknown answer: %v", err)
		w.FailRequest(func(string, []string) error { return errLink })
		_, err = w.client().Inspect(t.Context(), "a")
		assert.True(t, err != nil && !errors.As(err, &told), "no answer: %v", err)
	})
}
