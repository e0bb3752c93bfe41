package holdfast_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
)

// story returns events as one line.
func story(events []holdfast.Event) string {
	var words []string
	for _, e := range events {
		word := e.Kind.String()
		if e.Wake != holdfast.WakeNone {
			word += "/" + e.Wake.String()
		}
		if e.Local {
			word += "/here"
		}
		if e.Err != nil {
			word += "/error"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

func TestTheObserverIsToldAWholeLife(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		events := &recorder{}
		c := w.client(holdfast.Config{Observer: events})
		other := mustLock(t, w.client().Mutex("a"))
		next := w.waiting(c.Mutex("a"), t.Context())
		time.Sleep(time.Second)
		release(t, other)
		l := (<-next).Lease
		local := w.waiting(c.Mutex("a"), t.Context())
		time.Sleep(5 * time.Millisecond)
		release(t, l)
		l = (<-local).Lease
		time.Sleep(ttl / 2)
		_, err := c.Mutex("a").TryLock(t.Context())
		wantIs(t, err, holdfast.ErrHeld)
		w.Flush()
		<-l.Context().Done()
		synctest.Wait()
		want := "wait wake/push grant/push wait/here release/here grant/local/here renew fail/error lost/error"
		got := story(events.all())
		// A local hand-over wakes the next goroutine before the release is reported:
		// either event may be first.
		got = strings.Replace(got, "grant/local/here release/here", "release/here grant/local/here", 1)
		// The pushed grant is confirmed at the same time.
		if n := strings.Count(got, " renew"); n != 2 {
			t.Errorf("renewed %d times in half a TTL: %s", n, got)
		}
		got = strings.Replace(got, " renew", "", 1)
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		all := events.all()
		wait, grant, lost := all[0], all[2], all[len(all)-1]
		if wait.Position != 1 || wait.Name != "a" || !strings.HasPrefix(wait.HolderID, c.ID()) {
			t.Errorf("wait %+v", wait)
		}
		if grant.Wait != time.Second || grant.Token == 0 || grant.HolderID != wait.HolderID || grant.Waiters != 0 {
			t.Errorf("grant %+v", grant)
		}
		if lost.Token != l.Token() || lost.Held < ttl/2 || lost.HolderID != l.HolderID() {
			t.Errorf("lost %+v", lost)
		}
	})
}

// ends are the events that end a grant.
var ends = []holdfast.EventKind{holdfast.EventRelease, holdfast.EventLost, holdfast.EventLeak}

func TestEveryGrantIsFollowedByOneEnd(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		events := &recorder{}
		c := w.client(holdfast.Config{Observer: events})
		release(t, mustLock(t, c.Mutex("released")))
		if err := mustLock(t, c.Mutex("later")).ReleaseAfter(t.Context(), time.Second); err != nil {
			t.Error(err)
		}
		closed := mustLock(t, c.Mutex("closed"))
		mustLock(t, c.Mutex("closed, never released"))
		failed := mustLock(t, c.Mutex("failed"))
		w.FailRequest(only("release", 2, errLink))
		wantIs(t, failed.Release(t.Context()), holdfast.ErrUnknownOutcome)
		time.Sleep(time.Minute)
		lost := mustLock(t, c.Mutex("lost"))
		w.FailRequest(func(action string, keys []string) error {
			if action == "renew" && len(keys) == 1 && keys[0] == "holdfast:{lost}" {
				return errLink
			}
			return nil
		})
		if _, err := c.Evict(t.Context(), "lost", holdfast.Eviction{By: "ann", Reason: "test"}); err != nil {
			t.Fatal(err)
		}
		<-lost.Context().Done()
		synctest.Wait()
		wantIs(t, lost.Release(t.Context()), holdfast.ErrNotHeld)
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		wantIs(t, closed.Release(t.Context()), holdfast.ErrClosed)

		count := map[string]int{}
		for _, e := range events.all(ends...) {
			count[e.Name]++
		}
		for _, e := range events.all(holdfast.EventGrant) {
			if count[e.Name] != 1 {
				t.Errorf("%q ended %d times", e.Name, count[e.Name])
			}
		}
	})
}

func TestALostLeaseIsLoggedWithoutSecrets(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var log bytes.Buffer
		c := w.client(holdfast.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		l := mustLock(t, c.Mutex("a"))
		w.Flush()
		<-l.Context().Done()
		synctest.Wait()
		token := fmt.Sprint("token=", l.Token())
		for _, want := range []string{"level=WARN", "lease lost", "lock=a", `reason="not held"`, token} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%q is not in %q", want, log.String())
			}
		}
	})
}

func TestEventsHaveNames(t *testing.T) {
	for kind := holdfast.EventWait; kind <= holdfast.EventLeak; kind++ {
		if kind.String() == "" {
			t.Errorf("event %d has no name", kind)
		}
	}
	for wake := holdfast.WakeNone; wake <= holdfast.WakeLocal; wake++ {
		if wake.String() == "" {
			t.Errorf("wake %d has no name", wake)
		}
	}
}
