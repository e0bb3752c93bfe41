package page

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

// The servers of a quorum are in the stream, in the list and in the metrics. Viewers learn at
// once that one of them is in trouble; a round trip that differs is not sent.
func TestThePageShowsTheServersOfAQuorum(t *testing.T) {
	var down atomic.Bool
	var asked atomic.Int64
	nodes := func(context.Context) []Node {
		list := []Node{
			{Address: "a:1", Answers: true, Counts: true, RoundTrip: time.Duration(asked.Add(1)) * time.Millisecond},
			{
				Address: "b:1", Answers: true, Why: "is new",
				ClockOffset: -2 * time.Millisecond, ClockError: time.Millisecond,
			},
			{Address: "c:1", Answers: true, Counts: true},
		}
		list[2].Answers = !down.Load()
		return list
	}
	bubble(t, Config{Nodes: nodes}, func(t *testing.T, w *world) {
		s := w.view()
		w.pass(time.Millisecond)
		first := s.next()
		assert.MustTrue(t, len(first) == 1 && len(first[0].Nodes) == 3, "%+v", first)
		if n := first[0].Nodes[1]; n != (lockjson.Node{
			Address: "b:1", Answers: true, Why: "is new", ClockOffsetMS: -2, ClockErrorMS: 1,
		}) {
			t.Errorf("%+v", n)
		}
		w.pass(3 * time.Second)
		more := names(s.next())
		assert.True(t, len(more) == 0, "only a round trip differs, and there are %q", more)
		down.Store(true)
		w.pass(time.Second)
		if told := s.next(); len(names(told)) != 1 || told[0].Nodes[2].Answers || told[0].Nodes[0].RoundTripMS < 4 {
			t.Errorf("a server is down: %+v", told)
		}
		w.pass(tickEvery)
		ticks := s.next()
		last := ticks[len(ticks)-1]
		assert.False(t, last.name != "tick" || len(last.Nodes) != 3 || last.Nodes[0].RoundTripMS < 5, "%+v", ticks)
		s.leave()
		<-s.done
		var list listJSON
		w.get("/api/locks", &list)
		assert.True(t, len(list.Nodes) == 3 && !list.Nodes[2].Answers, "the list: %+v", list.Nodes)
		answer := httptest.NewRecorder()
		w.page.ServeHTTP(answer, request(http.MethodGet, "/metrics", nil))
		for _, line := range []string{"holdfast_server_nodes 3", "holdfast_server_nodes_counting 1"} {
			assert.True(t, strings.Contains(answer.Body.String(), "\n"+line+"\n"),
				"no line %q in\n%s", line, answer.Body)
		}
	})
	bubble(t, Config{}, func(t *testing.T, w *world) {
		answer := httptest.NewRecorder()
		w.page.ServeHTTP(answer, request(http.MethodGet, "/api/locks", nil))
		assert.True(t, strings.Contains(answer.Body.String(), `"nodes":[]`), "one server: %s", answer.Body)
	})
}
