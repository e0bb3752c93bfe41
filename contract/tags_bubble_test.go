package contract_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// tagged returns the option for one tag.
func tagged(value string) holdfast.Option { return holdfast.Tags(map[string]string{"order": value}) }

// wantTags asserts which tag the holders and the waiters of a lock show.
func wantTags(t *testing.T, s holdfast.LockInfo, holders, waiters string) {
	t.Helper()
	var held, waits []string
	for _, h := range s.Holders {
		held = append(held, h.Tags["order"])
	}
	for _, q := range s.Waiters {
		waits = append(waits, q.Tags["order"])
	}
	assert.True(t, strings.Join(held, " ") == holders && strings.Join(waits, " ") == waiters,
		"%s: the holders show %q and the waiters %q, want %q and %q", s.Name, held, waits, holders, waiters)
}

func TestTheTagsOfHoldersAndWaitersAreShown(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		tags := map[string]string{"order": "42 %+&=", "by": "anne\nå"}
		l := mustLock(t, w.client().Mutex("a", holdfast.Tags(tags)))
		waiter := w.waiting(w.client().Mutex("a", tagged("43")), t.Context())
		last := w.waiting(w.client().Mutex("a"), t.Context())
		time.Sleep(time.Second)
		s := w.state("a")
		wantTags(t, s, "42 %+&=", "43 ")
		if !maps.Equal(s.Holders[0].Tags, tags) || s.Waiters[1].Tags != nil {
			t.Errorf("%q and %q", s.Holders[0].Tags, s.Waiters[1].Tags)
		}
		release(t, l)
		l = (<-waiter).Lease
		wantTags(t, w.state("a"), "43", "")
		release(t, l)
		l = (<-last).Lease
		time.Sleep(time.Second)
		wantTags(t, w.state("a"), "", "")
		release(t, l)
	})
}

// A hold passes from one goroutine to the next, and the tags change with the lease.
func TestTagsChangeWithALocalHandOver(t *testing.T) {
	for _, values := range [][]string{{"1", "2"}, {"1", ""}, {"", "1"}, {"1", "2", "1"}, {"", "1", ""}} {
		bubble(t, func(t *testing.T, w *world) {
			c := w.client()
			var waiters []<-chan outcome
			for _, value := range values {
				var options []holdfast.MutexOption
				if value != "" {
					options = append(options, tagged(value))
				}
				waiters = append(waiters, w.waiting(c.Mutex("a", options...), t.Context()))
			}
			l := (<-waiters[0]).Lease
			holder := l.HolderID()
			for _, next := range waiters[1:] {
				release(t, l)
				l = (<-next).Lease
				assert.MustTrue(t, l.HolderID() == holder, "not handed over")
			}
			time.Sleep(time.Second)
			wantTags(t, w.state("a"), values[len(values)-1], "")
			release(t, l)
		})
	}
}

// Readers of one process share a hold only if that hold has their tags.
func TestReadersWithOtherTagsHaveTheirOwnHold(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		for _, value := range []string{"1", "1", "2"} {
			assert.Must(t, assert.Err(c.RWMutex("a", tagged(value)).RLock(t.Context())))
		}
		time.Sleep(time.Second)
		wantTags(t, w.state("a"), "1 2", "")
	})
}

// Tags cost nothing on the way of a lock, and nothing at all if it is held for a moment. The
// tags of many locks go together.
func TestWhatTagsCost(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("a"))) // registers the client
		time.Sleep(time.Second)
		before := w.net.count("register_client")
		for range 10 {
			release(t, mustLock(t, c.Mutex("a", tagged("1"))))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		n := w.net.count("register_client")
		assert.True(t, n == before, "%d requests for locks that were held for a moment", n-before)
		for i := range 200 {
			mustLock(t, c.Mutex(fmt.Sprint("b", i), tagged(fmt.Sprint(i))))
		}
		time.Sleep(time.Second)
		assert.AtMost(t, w.net.count("register_client")-before, 200/16, "requests for 200 locks")
		wantTags(t, w.state("b7"), "7", "")
		wantTags(t, w.state("b199"), "199", "")
	})
}

// Tags that were not written, or that the server has lost, are there after the next refresh.
func TestTagsAreWrittenAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		w.FailRequest(only("register_client", -1, errLink))
		mustLock(t, c.Mutex("a", tagged("1")))
		time.Sleep(time.Minute)
		wantTags(t, w.state("a"), "", "")
		w.FailRequest(nil)
		time.Sleep(5 * time.Minute)
		wantTags(t, w.state("a"), "1", "")
	})
}

// The record of a client forgets the notes on attempts that are over.
func TestOldTagsAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		for i := range 1000 {
			l := mustLock(t, c.Mutex("a", tagged(fmt.Sprint(i))))
			time.Sleep(50 * time.Millisecond)
			release(t, l)
		}
		assert.AtMost(t, len(w.Dump("holdfast:client:"+c.ID())), 200, "fields after 1000 holds")
		time.Sleep(11 * time.Minute)
		assert.AtMost(t, len(w.Dump("holdfast:client:"+c.ID())), 6, "fields while nothing is held")
	})
}

func TestTagsThatCannotBeStored(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		many := map[string]string{}
		for i := range 17 {
			many[fmt.Sprint(i)] = ""
		}
		for _, c := range []struct {
			tags map[string]string
			want string
		}{
			{many, "17 tags: at most 16"},
			{map[string]string{"": "x"}, "empty key"},
			{map[string]string{strings.Repeat("k", 65): "x"}, "65 bytes, the limit is 64"},
			{map[string]string{"k": strings.Repeat("v", 257)}, "257 bytes, the limit is 256"},
			{map[string]string{"k": "\xff"}, "not valid UTF-8"},
		} {
			_, err := w.client().Mutex("a", holdfast.Tags(c.tags)).Lock(t.Context())
			assert.Is(t, err, holdfast.ErrInvalid)
			assert.False(t, err != nil && !strings.Contains(err.Error(), c.want), "%v, want %q", err, c.want)
		}
		delete(many, "0")
		many[strings.Repeat("k", 64)] = strings.Repeat("é", 128)
		delete(many, "1")
		release(t, mustLock(t, w.client().Mutex("a", holdfast.Tags(many))))
		release(t, mustLock(t, w.client().Mutex("a", holdfast.Tags(nil))))
	})
}
