package page

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// A probe has no token. It learns whether the locks can be read, and nothing about them.
func TestAProbeLearnsWhetherTheLocksCanBeRead(t *testing.T) {
	bubble(t, Config{Token: token}, func(t *testing.T, w *world) {
		w.lock("secret-name")
		probe := func(code int, says string) {
			t.Helper()
			answer := httptest.NewRecorder()
			r := request(http.MethodGet, "/healthz", nil)
			r.RemoteAddr = "192.0.2.7:1"
			w.page.ServeHTTP(answer, r)
			text := answer.Body.String()
			assert.True(t, answer.Code == code && strings.Contains(text, says), "%d: %s", answer.Code, text)
			assert.False(t, strings.Contains(text, "secret"), "it tells of a lock: %s", text)
			// A scrape says the same, in the time that a scraper waits.
			up, began := "\nholdfast_server_up 0\n", time.Now()
			if code == http.StatusOK {
				up = "\nholdfast_server_up 1\n"
			}
			answer, r = httptest.NewRecorder(), request(http.MethodGet, "/metrics", nil)
			bearer(token)(r)
			w.page.ServeHTTP(answer, r)
			scrape := answer.Body.String()
			assert.True(t, answer.Code == http.StatusOK && strings.Contains(scrape, up), "%s: %s", up, scrape)
			assert.AtMost(t, time.Since(began), lateAfter, "the time of a scrape")
			w.pass(10 * time.Second) // the next probe
		}
		probe(http.StatusOK, `"status":"ok"`)
		w.store.FailRequest(func(string, []string) error { return context.DeadlineExceeded })
		probe(http.StatusServiceUnavailable, "the locks cannot be read")
		w.store.FailRequest(nil)
		probe(http.StatusOK, `"status":"ok"`)
		w.store.FailRequest(hangs(time.Minute))
		probe(http.StatusServiceUnavailable, "the locks cannot be read")
		w.store.FailRequest(nil)
		w.pass(2 * time.Minute)
	})
}

// hangs makes each request take so long, and fail.
func hangs(d time.Duration) func(string, []string) error {
	return func(string, []string) error {
		<-time.After(d)
		return context.DeadlineExceeded
	}
}

// A viewer learns when the locks were last read, and that a read does not end.
func TestAViewerLearnsThatTheLocksAreOld(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.lock("a")
		s := w.view()
		w.pass(7 * time.Second)
		last := func() event {
			list := s.next()
			assert.MustTrue(t, len(list) > 0, "no event")
			return list[len(list)-1]
		}
		news := last()
		assert.True(t, news.Read.At != "" && !news.Read.Late && news.Read.Error == "", "live: %+v", news.Read)
		w.store.FailRequest(hangs(30 * time.Second))
		w.pass(20 * time.Second)
		news = last()
		old := news.Read.At
		assert.True(t, news.Read.Late && news.Read.Error == "", "while a read does not end: %+v", news.Read)
		assert.True(t, since(t, old, news.Now) > 15*time.Second, "read at %s, and it is %s", old, news.Now)
		var list listJSON
		began := time.Now()
		w.get("/api/locks", &list)
		assert.True(t, list.Read.Late && time.Since(began) <= lateAfter, "the list: %+v", list.Read)
		w.pass(30 * time.Second)
		news = last()
		assert.True(t, news.Read.At == old && news.Read.Error != "", "after it has failed: %+v", news.Read)
		w.store.FailRequest(nil)
		w.pass(time.Minute)
		news = last()
		assert.True(t, since(t, news.Read.At, news.Now) < 3*time.Second && !news.Read.Late && news.Read.Error == "",
			"when it is back: %+v at %s", news.Read, news.Now)
		s.leave()
		<-s.done
	})
}

// The timeline begins at the first read, and has ten minutes at most.
func TestTheTimelineBeginsAtTheFirstRead(t *testing.T) {
	bubble(t, Config{KeepWatching: true}, func(t *testing.T, w *world) {
		w.lock("a")
		w.pass(time.Minute)
		line := w.detail("a").Timeline
		first := line.Watched[0].From
		assert.True(t, line.From == first, "from %s, and the first read was at %s", line.From, first)
		length := since(t, line.From, line.To)
		assert.True(t, length > 55*time.Second && length <= time.Minute, "it has %v", length)
		w.pass(window)
		line = w.detail("a").Timeline
		assert.Equal(t, since(t, line.From, line.To), window, "later, it has")
	})
}
