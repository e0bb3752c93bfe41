package stringlock

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/neighbour"
	"github.com/holdfast-go/holdfast/internal/renewer"
	"github.com/holdfast-go/holdfast/internal/slot"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

func TestTheChannelIsInTheSlotOfItsKey(t *testing.T) {
	for key, want := range map[string]string{
		"key":      "holdfast:{key}:free:key",
		"a{b}c":    "holdfast:{b}:free:a{b}c",
		"{b}":      "holdfast:{b}:free:{b}",
		"{}c":      "", // an empty tag is none, and the key cannot be a tag itself
		"a}b":      "",
		"order 42": "holdfast:{order 42}:free:order 42",
	} {
		got := Channel(key)
		assert.True(t, got == want, "%q: %q, want %q", key, got, want)
		if got != "" && slot.Of(got) != slot.Of(key) {
			t.Errorf("%q is in slot %d, and %q in %d", key, slot.Of(key), got, slot.Of(got))
		}
	}
}

func TestAnswersAreRead(t *testing.T) {
	for answer, want := range map[string]Reply{
		"granted":         {Answer: Held, Left: -1},
		"released":        {Answer: Held, Left: -1},
		"held 1500":       {Answer: Held, Left: 1500 * time.Millisecond},
		"busy -1 a b  c":  {Answer: Taken, Left: -1, Value: "a b  c"},
		"taken 20 \x00\n": {Answer: Taken, Left: 20 * time.Millisecond, Value: "\x00\n"},
		"busy 20 ":        {Answer: Taken, Left: 20 * time.Millisecond},
		"expired":         {Answer: Expired, Left: -1},
		"free":            {Answer: Expired, Left: -1},
		"evicted":         {Answer: Held, Left: -1},
	} {
		assert.Equal(t, parse(0, answer), want, "%q", answer)
	}
	got := parse(0, "what")
	assert.True(t, got.Err != nil && got.Unknown(), "an unknown answer: %+v", got)
}

// fake is a server that answers as it is told.
type fake struct {
	store.Store

	run func(ctx context.Context, action string) (string, error)
}

func (f fake) Run(ctx context.Context, action *script.Script, _, _ []string) (string, error) {
	return f.run(ctx, action.Name)
}

func (f fake) Sharded() bool { return false }

// A late copy of the release could end the next acquisition, if that had the same value.
func TestAServerIsNotAskedWhileAReleaseOfTheValueIsUnderWay(t *testing.T) {
	silent := errors.New("no answer")
	asked, answer := make(chan struct{}), make(chan struct{})
	acquires := 0
	n := NewNodes([]store.Store{fake{run: func(_ context.Context, action string) (string, error) {
		if action == "acquire" {
			acquires++
			return "", silent
		}
		asked <- struct{}{}
		<-answer
		return "released", nil
	}}})
	defer n.Close()
	k := Lock{Keys: []string{"key"}, Value: "mine", TTL: time.Minute}
	replies := n.Acquire(t.Context(), time.Second, k, Wait{})
	assert.MustTrue(t, replies[0].Unknown(), "%+v", replies)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	n.GiveUp(ended, time.Second, k, replies)
	<-asked
	r := n.Acquire(t.Context(), time.Second, k, Wait{})[0]
	assert.True(t, errors.Is(r.Err, store.ErrNotSent) && acquires == 1, "asked %d times: %v", acquires, r.Err)
	other := k
	other.Value = "another"
	n.Acquire(t.Context(), time.Second, other, Wait{})
	assert.True(t, acquires == 2, "not asked for another value")
	answer <- struct{}{}
	for n.Pending() > 0 {
		runtime.Gosched() // the goroutine ends
	}
	n.Acquire(t.Context(), time.Second, k, Wait{})
	assert.True(t, acquires == 3, "not asked after the release")
}

// A request to acquire that got no answer may arrive after the release. A string key remembers no
// release, so the client deletes it until it has found it.
func TestAReleaseAlsoDeletesWhatALateAcquireSets(t *testing.T) {
	for _, late := range []bool{false, true} {
		released := make(chan string)
		n := NewNodes([]store.Store{fake{run: func(_ context.Context, action string) (string, error) {
			if action == "acquire" {
				return "granted", nil
			}
			return <-released, nil
		}}})
		t.Cleanup(n.Close)
		w := NewWire(n, "somebody's lock")
		a := neighbour.Attempt{Name: "order", ID: "client/7", TTL: time.Minute, Late: late}
		got, err := w.Acquire(t.Context(), a, true)
		assert.MustTrue(t, err == nil && got.Granted, "%+v, %v", got, err)
		ended := make(chan bool)
		go func() {
			held, err := w.Release(t.Context(), a)
			ended <- held && err == nil
		}()
		released <- "released"
		assert.True(t, <-ended, "the release failed")
		if late {
			released <- "expired" // not yet
			released <- "released"
		}
		for n.Pending() > 0 {
			runtime.Gosched() // the goroutine ends
		}
		select {
		case released <- "again":
			t.Error("it is deleted once more")
		default:
		}
	}
}

// The first lines of a script say what it does, and no comment reaches the server.
func TestScriptsBeginWithTheirNames(t *testing.T) {
	list, err := files.ReadDir(".")
	assert.MustTrue(t, err == nil && len(list) == 6, "%d files: %v", len(list), err)
	for _, file := range list {
		name := strings.TrimSuffix(file.Name(), ".lua")
		text, err := files.ReadFile(file.Name())
		header := strings.TrimPrefix(string(text), "#!lua flags=no-writes\n")
		assert.True(t, err == nil && strings.HasPrefix(header, "-- "+name+" — "),
			"%s does not begin with its name", file.Name())
		if code := load(name); strings.Contains(code.Text, "--") || !strings.Contains(code.Text, "redis.call") {
			t.Errorf("%s: %s", name, code.Text)
		}
	}
}

// A process was paused past its lease, and its user asks before the renewer has run.
func TestAContextThatIsAskedForAfterTheLeaseHasEnded(t *testing.T) {
	gone := errors.New("gone")
	cause := func(string, renewer.Reason) error { return gone }
	holds := NewHolds([]store.Store{memstore.New()}, cause, errors.New("closed"))
	defer holds.Close()
	h := &Hold{holds: holds, parent: t.Context(), lock: Lock{Keys: []string{"a"}}}
	h.start(clock.Now()-time.Hour, time.Minute)
	holds.renewer.Remove(h.item) // so that only the question can tell
	assert.Is(t, context.Cause(h.Context()), gone)
}
