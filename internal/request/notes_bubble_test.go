package request_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// registered is a client's registration, and the errors of its requests.
func registered(b *bench, id string) (r *request.Registration, failed *[]error) {
	failed = new([]error)
	r = request.NewRegistration(b.Sender, id, "app", "1", func(err error) { *failed = append(*failed, err) })
	r.Start()
	synctest.Wait()
	return r, failed
}

// notes are what the server knows of a client.
func (b *bench) notes(t *testing.T, id string, fields ...string) map[string]string {
	t.Helper()
	answer, err := b.Run(t.Context(), script.ReadClient, []string{wire.ClientKey("holdfast", id)}, fields)
	assert.Must(t, err)
	c, _, err := wire.ParseClient(answer)
	assert.Must(t, err)
	return c.Notes
}

func always() bool { return true }

// soon is after the next write.
func soon() {
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
}

func TestNotesAreWrittenTogetherAndRemovedWithTheNext(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r, _ := registered(b, "c")
		before := b.sent.Load()
		r.Note("tags:1", "one", 1, always)
		r.Note("tags:2", "two", 2, always)
		r.Note("tags:3", "over", 3, func() bool { return false })
		r.Note("tags:2", "two", 4, always) // the same again, by another
		soon()
		assert.Equal(t, b.sent.Load()-before, 1, "requests for two notes")
		got := b.notes(t, "c", "tags:1", "tags:2", "tags:3")
		if got["tags:1"] != "one" || got["tags:2"] != "two" || got["tags:3"] != "" {
			t.Errorf("the record says %q", got)
		}
		before = b.sent.Load()
		r.Unnote("tags:2", 2, true) // no longer its own
		r.Unnote("tags:9", 9, true) // never set
		r.Unnote("tags:1", 1, false)
		soon()
		assert.Equal(t, b.sent.Load()-before, 0, "requests although nothing is to be removed soon")
		r.Note("tags:5", "five", 5, always)
		soon()
		got = b.notes(t, "c", "tags:1", "tags:2", "tags:5")
		if got["tags:1"] != "" || got["tags:2"] != "two" || got["tags:5"] != "five" {
			t.Errorf("after the next note, the record says %q", got)
		}
		r.Unnote("tags:2", 4, true)
		soon()
		if got = b.notes(t, "c", "tags:2"); got["tags:2"] != "" {
			t.Errorf("what is to be removed soon is still there: %q", got)
		}
		r.Stop()
	})
}

// The server can lose the record. The next refresh writes all notes again.
func TestNotesSurviveTheLossOfTheRecord(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r, failed := registered(b, "c")
		for i := range 200 { // several writes, and more than are kept without a look at what is over
			r.Note(fmt.Sprint("tags:", i), "x", i, func() bool { return i%2 == 0 })
		}
		soon()
		soon()
		b.mem.Flush()
		b.count(func(string) error { return errLink })
		time.Sleep(6 * time.Minute) // a refresh fails
		b.count(nil)
		time.Sleep(6 * time.Minute)
		soon()
		for i := range 200 {
			want := map[bool]string{true: "x"}[i%2 == 0]
			if got := b.notes(t, "c", fmt.Sprint("tags:", i)); got[fmt.Sprint("tags:", i)] != want {
				t.Fatalf("note %d: %q, want %q", i, got, want)
			}
		}
		if len(*failed) == 0 || !errors.Is((*failed)[0], errLink) {
			t.Errorf("the failures told are %v", *failed)
		}
		r.Stop()
	})
}

func TestAClosedClientWritesNoNotes(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r, _ := registered(b, "c")
		r.Note("tags:1", "one", 1, always)
		b.life.Stop()
		before := b.sent.Load()
		soon()
		r.Note("tags:2", "two", 2, always)
		time.Sleep(time.Hour)
		assert.Equal(t, b.sent.Load()-before, 0, "requests of a client that is closed")
	})
}

func TestWaitsAreShownUnderTheAttemptThatHolds(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r, _ := registered(b, "c")
		waits := request.NewWaitNotes(r)
		since := time.UnixMilli(time.Now().UnixMilli())
		x := wire.WaitNote{Name: "x", ID: "c/2", Since: since}
		y := wire.WaitNote{Name: "y", ID: "c/3", Since: since, Breaks: true}
		waits.Show("c/1", "first", x)
		waits.Show("c/1", "second", y)
		x.Repeats = 7
		waits.Show("c/1", "first", x) // says so again
		assert.True(t, waits.AnyFor("x") && !waits.AnyFor("z"),
			"For must know x, which is waited for, and not z")
		soon()
		field := wire.WaitsField("1")
		if got := wire.ParseWaits(b.notes(t, "c", field)[field]); len(got) != 2 || got[0] != y || got[1] != x {
			t.Errorf("the record says %+v", got)
		}
		waits.Hide("c/1", "second")
		// The server does not know it yet, but whoever asks the client does.
		now := wire.ParseWaits(waits.Current(b.notes(t, "c", field), []string{field, "tags:1"})[field])
		assert.True(t, len(now) == 1 && now[0] == x, "now there are %+v, want x alone", now)
		waits.Hide("c/1", "first")
		soon()
		if got := b.notes(t, "c", field)[field]; got != "" || waits.AnyFor("x") {
			t.Errorf("after the last wait, the record says %q", got)
		}
		r.Stop()
	})
}

func TestAProcessInsideAHoldAmendsItsWaits(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		outer, _ := registered(b, "outer")
		inner, _ := registered(b, "inner")
		other, _ := registered(b, "other")
		field := wire.InnerField("1")
		read := func() []wire.WaitNote { return wire.ParseWaits(b.notes(t, "outer", field)[field]) }
		since := time.UnixMilli(time.Now().UnixMilli())
		one := wire.WaitNote{Name: "x", ID: wire.LocalWait("inner", 1), Since: since}
		two := wire.WaitNote{Name: "y", ID: wire.LocalWait("other", 1), Since: since}
		amend := func(r *request.Registration, note *wire.WaitNote) {
			t.Helper()
			assert.NoError(t, r.AmendWaitNote(t.Context(), "outer/1", note))
		}
		amend(inner, &one)
		amend(other, &two)
		if got := read(); len(got) != 2 || got[0] != one || got[1] != two {
			t.Errorf("the record says %+v", got)
		}
		before := b.sent.Load()
		amend(other, &two)
		assert.Equal(t, b.sent.Load()-before, 1, "requests for what the record says already")
		amend(inner, nil)
		if got := read(); len(got) != 1 || got[0] != two {
			t.Errorf("after the inner one has ended, the record says %+v", got)
		}
		assert.NoError(t, inner.AmendWaitNote(t.Context(), "stranger/1", &one))
		assert.True(t, len(b.notes(t, "stranger", field)) == 0, "a client without a record has one now")
		b.count(func(string) error { return errLink })
		assert.Is(t, inner.AmendWaitNote(t.Context(), "outer/1", &one), errLink)
		for _, r := range []*request.Registration{outer, inner, other} {
			r.Stop()
		}
	})
}

func TestARequestMayHaveATimeLimitOfItsOwn(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		start := time.Now()
		resume := b.mem.Stall()
		_, err := b.AskWithin(t.Context(), new(request.Buffer), timeout/4,
			script.Cancel, []string{key}, []string{"c/1", "60000", base})
		resume()
		if !request.Transient(err) || time.Since(start) != timeout/4 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		assert.True(t, err.Error() != "", "the error says nothing")
	})
}

func TestTheRecordIsRead(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.acquire(t, "c/1")
		record, err := b.Record(t.Context(), []string{key})
		if err != nil || len(record.Holders) != 1 || record.Holders[0].Attempt != "c/1" {
			t.Errorf("%+v, %v", record, err)
		}
		b.count(func(string) error { return errLink })
		if _, err := b.Record(t.Context(), []string{key}); !errors.Is(err, errLink) {
			t.Errorf("without an answer: %v", err)
		}
	})
}
