package wire

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// A note is one word, whatever it says, and reads as it was written.
func TestNotes(t *testing.T) {
	for _, name := range []string{"a", "a b", "a,b;c=d&e", "%41\n+", "日本語"} {
		at := time.UnixMilli(1_700_000_000_000)
		waits := []WaitNote{{name, "c/7", at, true, 3}, {"z", LocalWait("c", 8), at, false, 0}}
		tags := map[string]string{name: name, "k": ""}
		for _, word := range []string{Waits(waits), Tags(tags)} {
			if strings.ContainsAny(word, " \n\t") || word == "" {
				t.Errorf("%q is no word", word)
			}
		}
		if got := ParseWaits(Waits(waits)); !slices.Equal(got, waits) {
			t.Errorf("%v, want %v", got, waits)
		}
		if got := ParseTags(Tags(tags)); !maps.Equal(got, tags) {
			t.Errorf("%v, want %v", got, tags)
		}
	}
}

// What is no note of this form is no wait and no tag.
func TestNotesOfAnotherForm(t *testing.T) {
	for _, word := range []string{"", ";", "a,c/1,x,b", "a,c/1", ",c/1,5,b", "%,c/1,5,b"} {
		if got := ParseWaits(word); got != nil {
			t.Errorf("%q: %v", word, got)
		}
	}
	for _, word := range []string{"", "%zz=1", "a;b"} {
		if got := ParseTags(word); got != nil {
			t.Errorf("%q: %v", word, got)
		}
	}
	got := ParseWaits("a,c/1,5,b,x,later;b,c/2,6,-")
	if len(got) != 2 || !got[0].Breaks || got[1].Breaks || got[0].Looks != 0 {
		t.Errorf("a later version: %v", got)
	}
	if client, local := LocalClient("c/1"); local {
		t.Errorf("%q waits inside its process", client)
	}
	if client, local := LocalClient(LocalWait("c", 1)); client != "c" || !local {
		t.Errorf("%q, %v", client, local)
	}
}
