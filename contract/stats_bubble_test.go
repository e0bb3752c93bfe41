package contract_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

func wantStats(t *testing.T, c *holdfast.Client, want holdfast.Stats) {
	t.Helper()
	synctest.Wait()
	assert.Equal(t, c.Stats(), want, "the client does")
}

func TestStatsSayWhatAClientDoes(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		wantStats(t, a, holdfast.Stats{})
		x := mustLock(t, a.Mutex("x"))
		mustLock(t, a.Mutex("y"))
		wantStats(t, a, holdfast.Stats{Holds: 2, Attempts: 2})
		granted := make(chan *holdfast.Lease)
		go func() { granted <- mustLock(t, b.Mutex("x")) }()
		wantStats(t, b, holdfast.Stats{Calls: 1, Waiters: 1, Subscriptions: 1, Attempts: 1})
		release(t, x)
		second := <-granted
		wantStats(t, b, holdfast.Stats{Holds: 1, Subscriptions: 1, Attempts: 1})
		wantStats(t, a, holdfast.Stats{Holds: 1, Attempts: 2})

		// An acquisition without an answer is cancelled until its lease would have ended.
		w.FailRequest(func(string, []string) error { return errors.New("the connection is broken") })
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := b.Mutex("z").TryLock(brief)
		cancel()
		assert.Is(t, err, holdfast.ErrUnknownOutcome)
		synctest.Wait()
		s := b.Stats()
		assert.True(t, s.Cancels == 1, "the client does %+v, want one cancel", s)
		w.FailRequest(nil)
		time.Sleep(2 * ttl)
		wantStats(t, b, holdfast.Stats{Holds: 1, Subscriptions: 1, Attempts: b.Stats().Attempts})
		release(t, second)
		assert.Must(t, b.Close(t.Context()))
		wantStats(t, b, holdfast.Stats{Attempts: b.Stats().Attempts})
	})
}

func TestStatsTellOfAClientThatPolls(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		s := &mute{w.net}
		c, err := holdfast.New(s, holdfast.Config{})
		assert.Must(t, err)
		defer func() { _ = c.Close(t.Context()) }()
		held := mustLock(t, w.client().Mutex("x"))
		_, err = c.Mutex("x", holdfast.MaxWait(time.Second)).Lock(t.Context())
		assert.Is(t, err, holdfast.ErrHeld)
		got := c.Stats()
		assert.True(t, got.PushUnavailable && got.Subscriptions == 0 && got.Waiters == 0, "the client does %+v", got)
		release(t, held)
	})
}
