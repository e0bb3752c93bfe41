package history_test

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/verify/history"
)

// all has every field set, so that none is forgotten by who writes or reads lines.
func all(t *testing.T) history.Event {
	t.Helper()
	e := history.Event{
		At: -1, Kind: history.Got, Proc: 2, Client: "c", Work: "mutex", Lock: "a/1", ID: math.MaxUint64, Mode: "x",
		Weight: 2, Owner: "c/1", Name: "n", Token: math.MaxUint64, Asked: 5, Trusted: 6, How: history.NotHeld, Err: "e",
		Local: true, Least: time.Second, Value: 7, Plain: 8, Stale: true, Text: "t",
		Fault: &history.FaultSpan{Name: "kill"}, Setup: &history.Setup{Topology: "quorum"},
		Counts: map[string]int64{"files": 1},
	}
	v := reflect.ValueOf(e)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Fatalf("the test leaves %s out", v.Type().Field(i).Name)
		}
	}
	return e
}

func events(t *testing.T) []history.Event {
	t.Helper()
	long := all(t)
	short := long
	short.Fault, short.Setup, short.Counts = nil, nil, nil
	list := []history.Event{long, short, {}, {At: 3, Kind: history.Note, Text: "1\nacquire\n\tk\n"}}
	for _, s := range []string{"ä \u2028", `"\/`, "<&>", "\x00\r", "\xff", "\x7f", strings.Repeat("a\n", 3000)} {
		e := short
		e.Err, e.Owner, e.Lock = s, s, s
		list = append(list, e)
	}
	return list
}

func TestALineIsWhatJSONWrites(t *testing.T) {
	for _, e := range events(t) {
		want, err := json.Marshal(e)
		assert.Must(t, err)
		got := history.AppendLine([]byte("before "), &e)
		assert.True(t, string(got) == "before "+string(want)+"\n", "got  %s\nwant %s", got, want)
	}
}

func TestALineIsReadAsJSONReadsIt(t *testing.T) {
	var in history.Reader
	lines := []string{
		`{"text":"a\u00e4","at":1}`, ` {"at":1}`, `{"at": 1}`, `{"at":1,"more":[1,{"a":"}"}],"proc":2}`, `{}`,
		`{"at":1,"local":false}`, `{"at":1e3}`, `{"at":1`, `{"at":1}x`, `{"at":"1"}`, `{"kind":1}`, ``, `{`, `}`,
		`{"at"}`, `{"err":"a\\"}`, `{"err":"a\"}`, `{"err":"a\`, `{"local":1}`, `{"at":1,}`, `{"local":t}`,
	}
	for _, e := range events(t) {
		lines = append(lines, string(history.AppendLine(nil, &e)))
	}
	for _, line := range lines {
		var want history.Event
		wrong := json.Unmarshal([]byte(line), &want)
		got, err := in.Line([]byte(line))
		assert.True(t, (err != nil) == (wrong != nil), "%.80q: %v, and JSON says %v", line, err, wrong)
		if err == nil {
			assert.True(t, reflect.DeepEqual(got, want), "%.80q:\ngot  %+v\nwant %+v", line, got, want)
		}
	}
}

func TestAHistoryIsReadAsItWasWritten(t *testing.T) {
	var file bytes.Buffer
	log := history.NewLog(&file, nil)
	for _, e := range events(t)[:4] {
		e.At = 9 // without a time it would be now
		log.Add(e)
	}
	assert.Must(t, log.Flush())
	got, err := history.Read(&file)
	if err != nil || !reflect.DeepEqual(got, log.Events()) {
		t.Errorf("%v\ngot  %+v\nwant %+v", err, got, log.Events())
	}
	assert.True(t, assert.Err(history.Read(strings.NewReader("{\"at\":1}\n{\"at\":"))) != nil,
		"a history that is cut off is read as if it were whole")
}

func BenchmarkLines(b *testing.B) {
	e := history.Event{
		At: 860542093357, Kind: history.Got, Proc: 5, Client: "U_lKWy1_VcV6wwKfaQOmcg", Work: "owners", Lock: "owners",
		ID: 104, Mode: "x", Owner: "U_lKWy1_VcV6wwKfaQOmcg/121", Token: 1838455995882375168, Asked: 860521030396,
	}
	var in history.Reader
	var line []byte
	for b.Loop() {
		line = history.AppendLine(line[:0], &e)
		if _, err := in.Line(line); err != nil {
			b.Fatal(err)
		}
	}
}
