package wire

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// A note is one word, whatever it says, and reads as it was written.
func TestNotes(t *testing.T) {
	for _, name := range []string{"a", "a b", "a,b;c=d&e", "%41\n+", "日本語"} {
		at := time.UnixMilli(1_700_000_000_000)
		waits := []WaitNote{{name, "c/7", at, true, 3}, {"z", LocalWait("c", 8), at, false, 0}}
		tags := map[string]string{name: name, "k": ""}
		for _, word := range []string{Waits(waits), Tags(tags)} {
			assert.True(t, !strings.ContainsAny(word, " \n\t") && word != "", "%q is no word", word)
		}
		assert.EqualSlices(t, ParseWaits(Waits(waits)), waits, "ParseWaits")
		got := ParseTags(Tags(tags))
		assert.True(t, maps.Equal(got, tags), "%v, want %v", got, tags)
	}
}

// What is no note of this form is no wait and no tag.
func TestNotesOfAnotherForm(t *testing.T) {
	for _, word := range []string{"", ";", "a,c/1,x,b", "a,c/1", ",c/1,5,b", "%,c/1,5,b"} {
		got := ParseWaits(word)
		assert.True(t, got == nil, "%q: %v", word, got)
	}
	for _, word := range []string{"", "%zz=1", "a;b"} {
		got := ParseTags(word)
		assert.True(t, got == nil, "%q: %v", word, got)
	}
	got := ParseWaits("a,c/1,5,b,x,later;b,c/2,6,-")
	assert.True(t, len(got) == 2 && got[0].Breaks && !got[1].Breaks && got[0].Repeats == 0, "a later version: %v", got)
	client, local := LocalClient("c/1")
	assert.True(t, !local, "%q waits inside its process", client)
	client, local = LocalClient(LocalWait("c", 1))
	assert.True(t, client == "c" && local, "%q, %v", client, local)
}

func TestAnAttemptTellsItsLockDelay(t *testing.T) {
	for attempt, want := range map[string]struct {
		number string
		delay  time.Duration
	}{
		"c/7":                    {"7", 0},
		"c/7" + Suffix(false, 0): {"7", 0},
		"c/7" + Suffix(true, 0):  {"7", 0},
		"c/7" + Suffix(false, 1500*time.Millisecond): {"7", 1500 * time.Millisecond},
		"c/7" + Suffix(true, 1500*time.Millisecond):  {"7", 1500 * time.Millisecond},
		"c/7~1500.3": {"7~1500.3", 0}, // of one server of a quorum
		"c/7~":       {"7~", 0},
		"c/7~-1":     {"7~-1", 0},
		"c/7~x":      {"7~x", 0},
		"~c/7":       {"7", 0},
	} {
		assert.True(t, NumberOf(attempt) == want.number && Delay(attempt) == want.delay && Client(attempt) != "",
			"%q is %q with %v", attempt, NumberOf(attempt), Delay(attempt))
	}
}
