package rules_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// Rule 2. A client's clock decides nothing: no request carries its time. What
// looks like a time is either a token that the server gave, or the instant at
// which the program says that it was started, for people to read.
func TestNoRequestCarriesAClocksTime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		proxy := redistest.NewProxy(t, w.Addr())
		var mu sync.Mutex
		var requests [][]string
		proxy.Hook(func(e redistest.Event) {
			if e.Stage == redistest.Arrived {
				mu.Lock()
				requests = append(requests, e.Request)
				mu.Unlock()
			}
		})
		cfg := holdfast.Config{TTL: 6 * time.Second, MaxLocalHandOvers: -1}
		a, seenA := w.client(t, proxy.Addr(), cfg)
		b, seenB := w.client(t, proxy.Addr(), cfg)
		given := map[string]bool{}
		note := func(l *holdfast.Lease) *holdfast.Lease {
			given[strconv.FormatUint(l.Token()>>10, 10)] = true
			return l
		}
		l := note(harness.Lock(t, a.Mutex("x")))
		got := harness.Waiting(t, seenB, b.Mutex("x"))
		seenA.Renewed(t, "x")
		seenB.Await(t, observe.EventWake, "x", 1) // a poll
		ctx, cancel := context.WithCancel(harness.Within(t))
		left := harness.Acquiring(ctx, a.Mutex("x", holdfast.MaxWait(time.Hour)).Lock)
		seenA.Await(t, observe.EventWait, "x", 1)
		cancel()
		o := redistest.Next(t, "Lock", left)
		assert.True(t, errors.Is(o.Err, context.Canceled), "Lock: %v", o.Err)
		assert.NoError(t, l.Extend(harness.Within(t), 5*time.Second))
		state(t, a, "x")
		harness.Release(t, l)
		l = note(harness.Granted(t, got))
		assert.NoError(t, l.ReleaseAfter(harness.Within(t), 100*time.Millisecond))
		a.Evict(harness.Within(t), "x", holdfast.Eviction{By: "test", Reason: "test"})
		redistest.Await(t, "the waiter has left", func() bool { return len(state(t, a, "x").Waiters) == 0 })

		mu.Lock()
		defer mu.Unlock()
		sent := map[string]bool{}
		for _, request := range requests {
			for _, s := range script.All() {
				if is(request, s.SHA1) {
					sent[s.Name] = true
				}
			}
			if strings.HasPrefix(keyOf(request), redistest.Prefix()+":client:") {
				continue
			}
			for _, word := range request {
				if looksLikeATime(word) {
					assert.True(t, given[word], "%s is sent in %.60q: a time, and no token", word, request)
				}
			}
		}
		for _, name := range []string{"acquire", "release", "renew", "poll", "cancel", "inspect", "evict"} {
			assert.True(t, sent[name], "%s was not sent: nothing is shown about it", name)
		}
	})
}

// looksLikeATime reports a number that is within a day of now in any unit.
func looksLikeATime(word string) bool {
	n, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return false
	}
	now := time.Now()
	for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond, time.Nanosecond} {
		there := n * float64(unit)
		if d := there - float64(now.UnixNano()); d < float64(24*time.Hour) && d > -float64(24*time.Hour) {
			return true
		}
	}
	return false
}
