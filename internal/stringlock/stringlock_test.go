package stringlock

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/neighbour"
	"github.com/holdfast-go/holdfast/internal/slot"
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
		"held":            {Answer: Held, Left: -1},
		"busy -1 a b  c":  {Answer: Taken, Left: -1, Value: "a b  c"},
		"taken 20 \x00\n": {Answer: Taken, Left: 20 * time.Millisecond, Value: "\x00\n"},
		"busy 20 ":        {Answer: Taken, Left: 20 * time.Millisecond},
		"expired":         {Answer: Expired, Left: -1},
		"busy 9e15 a":     {Answer: Taken, Left: 100 * 365 * 24 * time.Hour, Value: "a"},
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
		for n.until.Pending() > 0 {
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
	assert.MustTrue(t, err == nil && len(list) == 5, "%d files: %v", len(list), err)
	for _, file := range list {
		name := strings.TrimSuffix(file.Name(), ".lua")
		text, err := files.ReadFile(file.Name())
		first, header, _ := strings.Cut(string(text), "\n") // so a replica refuses it, and not a command in it
		assert.True(t, err == nil && strings.HasPrefix(first, "#!lua") && strings.HasPrefix(header, "-- "+name+" — "),
			"%s does not begin with its name", file.Name())
		if code := load(name); strings.Contains(code.Text, "--") || !strings.Contains(code.Text, "redis.call") {
			t.Errorf("%s: %s", name, code.Text)
		}
	}
}
