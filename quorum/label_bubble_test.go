package quorum_test

import (
	"bytes"
	"context"
	"maps"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// What goes on after a call has returned is labelled in profiles, and not as the caller's.
// What a call waits for is the caller's.
func TestGoroutinesOfAQuorumAreLabelled(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		line := regexp.MustCompile(`(?m)^# labels: \{(.*)\}$`)
		var mu sync.Mutex // guards seen
		seen := map[string]bool{}
		check := func() {
			var profile bytes.Buffer
			assert.NoError(t, pprof.Lookup("goroutine").WriteTo(&profile, 1))
			mu.Lock()
			defer mu.Unlock()
			for _, m := range line.FindAllStringSubmatch(profile.String(), -1) {
				seen[m[1]] = true
			}
		}
		slow := func(p *peer, by time.Duration) {
			p.setDelay(func(string) (there, back time.Duration) {
				check()
				return by, by
			})
		}
		for _, p := range w.peers {
			slow(p, time.Millisecond)
		}
		pprof.Do(t.Context(), pprof.Labels("caller", "a program"), func(ctx context.Context) {
			held := w.lock(w.client(), "x")
			granted := make(chan struct{})
			go func() {
				defer close(granted)
				w.release(w.lock(w.client(), "x"))
			}()
			synctest.Wait()
			time.Sleep(time.Second)
			w.release(held)
			<-granted
			c := w.client()
			w.release(w.lock(c, "y")) // its first requests are over, and the next one need not wait for them
			synctest.Wait()
			slow(w.peers[4], 5*time.Second) // no answer comes in time, so the grant is cancelled
			w.release(w.lock(c, "y"))
			time.Sleep(time.Minute)
		})
		mu.Lock()
		defer mu.Unlock()
		for _, want := range []string{
			`"holdfast":"quorum: cancel"`, `"holdfast":"quorum: read the nodes"`, `"holdfast":"quorum: subscription"`,
			`"caller":"a program"`,
		} {
			if !seen[want] {
				t.Errorf("no goroutine had the label %s; seen: %v", want, slices.Sorted(maps.Keys(seen)))
			}
		}
		for labels := range seen {
			assert.False(t, strings.Contains(labels, `"holdfast"`) && strings.Contains(labels, `"caller"`),
				"a goroutine has the labels %s", labels)
		}
	})
}
