// A leader that resumes its term after a restart deposes no successor (G22).

package contract_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/store"
)

// crashed is a leadership whose process has died: nobody renews it, and nobody releases it.
func crashed(t *testing.T, w *world, value string, options ...holdfast.LockOption) *holdfast.Leadership {
	t.Helper()
	c := w.client()
	l := mustCampaign(t, c.Election("e", options...), value)
	c.Abandon()
	return l
}

// resumed calls Resume and keeps what it returns.
func resumed(t *testing.T, e *holdfast.Election, former *holdfast.Leadership) (*holdfast.Leadership, error) {
	t.Helper()
	l, err := e.Resume(t.Context(), former.HolderID(), former.Token())
	keep(l)
	return l, err
}

// Other candidates wait, and the restarted leader goes on. It returns only when the former
// leader cannot believe in its lease any more.
func TestARestartedLeaderResumesItsTerm(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		former := crashed(t, w, "here")
		waits := campaigning(t, w.client().Election("e"), "other")
		time.Sleep(10 * time.Second)
		start := time.Now()
		again := w.client()
		l, err := resumed(t, again.Election("e"), former)
		assert.Must(t, err)
		took := time.Since(start)
		assert.True(t, took >= ttl-10*time.Second && took <= ttl-9*time.Second, "resumed after %v", took)
		if l.Token() <= former.Token() || l.Value() != "here" || l.Err() != nil || l.HolderID() == former.HolderID() {
			t.Errorf("term %d after %d, value %q, %v", l.Token(), former.Token(), l.Value(), l.Err())
		}
		wantLeader(t, w.client().Election("e"), "here", l.Token())
		assert.NoError(t, l.Proclaim(t.Context(), "here again"))
		time.Sleep(3 * ttl)
		wantLeader(t, w.client().Election("e"), "here again", l.Token())
		resign(t, l)
		resign(t, <-waits)
	})
}

// The former leader lives. It is deposed at once, and before that nobody else believes.
func TestALeaderThatIsResumedElsewhereNeverBelievesBesideTheOther(t *testing.T) {
	for name, cut := range map[string]bool{"connected": false, "its renewals get no answer": true} {
		runBubble(t, name, func(t *testing.T, w *world) {
			former := mustCampaign(t, w.client().Election("e"), "one")
			if cut {
				w.LoseReply(only("renew", 3, errLink))
			}
			second := w.client().Election("e")
			l, err := resumed(t, second, former)
			assert.Must(t, err)
			wantLost(t, former.Err(), holdfast.LossNotHeld)
			wantLeader(t, second, "one", l.Token())
			assert.Is(t, former.Proclaim(t.Context(), "late"), holdfast.ErrNotHeld)
			assert.Is(t, former.Release(t.Context()), holdfast.ErrNotHeld)
			assert.NoError(t, l.Err())
			resign(t, l)
		})
	}
}

// A resumption counts only when it is acknowledged, like any grant. Otherwise it is given back.
func TestAResumptionThatTooFewAcknowledgeIsGivenBack(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		acks := holdfast.WaitReplicas(1, limit)
		w.SetAcks(store.Acks{Replicas: 1})
		former := crashed(t, w, "here", acks)
		w.SetAcks(store.Acks{})
		l, err := resumed(t, w.client().Election("e", acks), former)
		assert.Is(t, err, holdfast.ErrNotAcked)
		assert.True(t, l == nil, "it leads: %v", l)
		time.Sleep(trusted + time.Second)
		synctest.Wait()
		w.wantFree("e")
	})
}

func TestNothingToResumeIsAnError(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		former := crashed(t, w, "here")
		e := w.client().Election("e")
		time.Sleep(ttl)
		_, err := resumed(t, e, former)
		assert.Is(t, err, holdfast.ErrNotHeld)
		next := mustCampaign(t, e, "next")
		_, err = resumed(t, e, former)
		assert.Is(t, err, holdfast.ErrNotHeld)
		assert.NoError(t, next.Err())
		for _, id := range []string{"", "x", "/1", "a b/1"} {
			_, err := e.Resume(t.Context(), id, 5)
			assert.Is(t, err, holdfast.ErrInvalid)
		}
		_, err = e.Resume(next.Context(), next.HolderID(), next.Token())
		assert.Is(t, err, holdfast.ErrDeadlock)
		resign(t, next)
	})
}

// A reply is lost, or the caller gives up: the restarted leader leads, or nobody does.
func TestAResumptionThatEndsEarlyLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		former := crashed(t, w, "here")
		w.LoseReply(only("resume", 2, errLink))
		l, err := resumed(t, w.client().Election("e"), former)
		assert.MustTrue(t, err == nil && l.Value() == "here", "after two lost replies: %v", err)
		resign(t, l)

		former = crashed(t, w, "here")
		limited, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		c := w.client()
		_, err = c.Election("e").Resume(limited, former.HolderID(), former.Token())
		assert.Is(t, err, context.DeadlineExceeded)
		time.Sleep(ttl)
		w.wantFree("e")

		former = crashed(t, w, "here")
		w.LoseReply(only("resume", -1, errLink))
		limited, cancel = context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err = c.Election("e").Resume(limited, former.HolderID(), former.Token())
		assert.Is(t, err, context.DeadlineExceeded)
		time.Sleep(ttl)
		w.wantFree("e")
	})
}

// evictLeader returns a function that asks the leader to end, in the name of another client.
func evictLeader(w *world) func() {
	operator := w.client()
	return func() {
		_, err := operator.Evict(context.Background(), "e", holdfast.Eviction{By: "ann", Reason: "test"})
		assert.NoError(w.t, err)
	}
}

// Resume fails, and the former leader lives and learns of nothing. Nobody leads before that one's lease
// is over. Guarantee: G22.
func TestAResumptionThatFailsLetsNobodyLeadBesideTheFormerLeader(t *testing.T) {
	for name, fail := range map[string]func(w *world, c *holdfast.Client, end func()){
		"the caller gives up": func(_ *world, _ *holdfast.Client, end func()) { time.AfterFunc(time.Second, end) },
		"the client closes": func(_ *world, c *holdfast.Client, _ func()) {
			time.AfterFunc(time.Second, func() { _ = c.Close(context.Background()) })
		},
		"the answers are lost": func(w *world, _ *holdfast.Client, end func()) {
			w.LoseReply(only("resume", -1, errLink))
			time.AfterFunc(time.Second, end)
		},
		"the second answer arrives": func(w *world, _ *holdfast.Client, end func()) {
			w.LoseReply(only("resume", 1, errLink))
			time.AfterFunc(time.Second, end)
		},
		"an operator evicts the caller": func(w *world, _ *holdfast.Client, _ func()) {
			time.AfterFunc(time.Second, evictLeader(w))
		},
		"the caller gives up, and an operator evicts": func(w *world, _ *holdfast.Client, end func()) {
			time.AfterFunc(time.Second, end)
			time.AfterFunc(2*time.Second, evictLeader(w))
		},
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			former := mustCampaign(t, w.client().Election("e"), "one")
			w.FailRequest(only("renew", -1, errLink))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			c := w.client()
			fail(w, c, cancel)
			_, err := c.Election("e").Resume(ctx, former.HolderID(), former.Token())
			assert.True(t, err != nil, "it leads")
			next := mustCampaign(t, w.client().Election("e"), "two")
			assert.True(t, former.Err() != nil, "two lead, for %v", former.Remaining())
			_ = former.Release(t.Context())
			resign(t, next)
		})
	}
}

// Who knows that the former leader has ended need not wait for the end of its lease.
func TestALeaderWhoseFormerSelfHasEndedResumesAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		former := crashed(t, w, "here")
		waits := campaigning(t, w.client().Election("e"), "other")
		start := time.Now()
		e := w.client().Election("e")
		l, err := e.ResumeAtOnce(t.Context(), former.HolderID(), former.Token())
		assert.Must(t, err)
		assert.AtMost(t, time.Since(start), time.Second, "resumed after")
		if l.Token() <= former.Token() || l.Value() != "here" || l.Err() != nil {
			t.Errorf("term %d after %d, value %q, %v", l.Token(), former.Token(), l.Value(), l.Err())
		}
		wantLeader(t, w.client().Election("e"), "here", l.Token())
		_, err = e.ResumeAtOnce(t.Context(), former.HolderID(), former.Token())
		assert.Is(t, err, holdfast.ErrNotHeld)
		time.Sleep(2 * ttl)
		assert.NoError(t, l.Err())
		resign(t, l)
		resign(t, <-waits)
	})
}

// While Resume waits, its context or its client ends. Then it returns at once, and does not lead.
func TestAResumptionEndsWithItsContextAndWithItsClient(t *testing.T) {
	for name, end := range map[string]struct {
		by   func(cancel func(), c *holdfast.Client)
		want error
	}{
		"context": {func(cancel func(), _ *holdfast.Client) { cancel() }, context.Canceled},
		"Close":   {func(_ func(), c *holdfast.Client) { _ = c.Close(context.Background()) }, holdfast.ErrClosed},
		"Abandon": {func(_ func(), c *holdfast.Client) { c.Abandon() }, holdfast.ErrClosed},
	} {
		runBubble(t, name, func(t *testing.T, w *world) {
			former := crashed(t, w, "here")
			c := w.client()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, err := c.Election("e").Resume(ctx, former.HolderID(), former.Token())
				done <- err
			}()
			time.Sleep(5*time.Second + 300*time.Millisecond)
			start := time.Now()
			go end.by(cancel, c)
			assert.Is(t, <-done, end.want)
			assert.AtMost(t, time.Since(start), time.Second, "Resume returned after")
			if errors.Is(end.want, context.Canceled) {
				time.Sleep(ttl)
				w.wantFree("e")
			}
		})
	}
}
