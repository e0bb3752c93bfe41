package page

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestTheListHasEveryKind(t *testing.T) {
	bubble(t, Config{Title: "here", AllowEvict: true}, func(t *testing.T, w *world) {
		ctx := t.Context()
		w.lock("mutex", holdfast.LockDelay(time.Minute))
		assert.Must(t, assert.Err(w.client.RWMutex("rw").RLock(ctx)))
		assert.Must(t, assert.Err(w.client.Semaphore("pool", 5).Acquire(ctx, 2)))
		assert.Must(t, assert.Err(w.client.Election("boss").Campaign(ctx, "10.0.0.1:80")))
		began, end, ended := make(chan struct{}), make(chan struct{}), make(chan error)
		go func() {
			_, err := w.client.Periodic("nightly", time.Hour).Do(ctx, func(context.Context) error {
				close(began)
				<-end
				return nil
			})
			ended <- err
		}()
		<-began
		w.pass(3 * time.Second)
		var list listJSON
		w.get("/api/locks", &list)
		got := map[string]*lockJSON{}
		for _, l := range list.Locks {
			got[l.Kind+" "+l.Name] = l
		}
		for _, want := range []string{"exclusive mutex", "shared rw", "permits pool", "leader boss", "job nightly"} {
			l := got[want]
			assert.MustTrue(t, l != nil && l.Held && len(l.Holders) == 1, "%s: %+v", want, l)
			h := l.Holders[0]
			if *h.AgeMS < 3000 || *h.AgeMS > 5000 || *h.RemainingMS < 25_000 || h.LeaseMS < *h.RemainingMS ||
				h.App != "worker" {
				t.Errorf("%s: %+v, age %d, remaining %d", want, h, *h.AgeMS, *h.RemainingMS)
			}
		}
		delay := got["exclusive mutex"].Holders[0].LockDelayMS // assets/detail.js shows it
		assert.Equal(t, delay, int64(60_000), "lock-delay")
		l := got["permits pool"]
		assert.True(t, l.Limit == 5 && l.Used == 2, "%+v", l)
		l = got["leader boss"]
		assert.True(t, l.Leader.Value == "10.0.0.1:80", "%+v", l.Leader)
		if list.Title != "here" || !list.AllowEvict || list.Version != holdfast.Version || list.Totals.Held != 5 {
			t.Errorf("%+v", list)
		}
		var job detailJSON
		w.get("/api/lock?name=nightly&kind=job", &job)
		if job.Lock.Job.PeriodMS != time.Hour.Milliseconds() || !job.Lock.Held || len(job.Timeline.Holds) != 1 {
			t.Errorf("%+v", job.Lock)
		}
		if d := w.detail("nightly"); d.Lock.Held || d.Lock.Kind != "free" { // the lock of this name
			t.Errorf("%+v", d.Lock)
		}
		close(end)
		assert.NoError(t, <-ended)
	})
}

func TestABadRequestIsRefused(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		for path, code := range map[string]int{
			"/api/lock": 400, "/api/lock?name=" + strings.Repeat("x", 5000): 400,
			"/api/lock?name=a&kind=door": 400, "/api/none": 404,
		} {
			answer := httptest.NewRecorder()
			w.page.ServeHTTP(answer, request(http.MethodGet, path, nil))
			assert.True(t, answer.Code == code, "%s: %d, want %d: %s", path, answer.Code, code, answer.Body)
		}
	})
}

// Every error of the API is JSON, whatever its status is.
func TestEveryErrorIsJSON(t *testing.T) {
	bubble(t, Config{AllowEvict: true}, func(t *testing.T, w *world) {
		long := `{"name":"` + strings.Repeat("x", maxBody) + `"}`
		for what, test := range map[string]struct {
			method, path, body string
			code               int
			allow              string
		}{
			"no such path":      {"GET", "/api/none", "", 404, ""},
			"another method":    {"DELETE", "/api/locks", "", 405, "GET, HEAD"},
			"a read by POST":    {"POST", "/api/lock", "", 405, "GET, HEAD"},
			"a write by GET":    {"GET", "/api/evict", "", 405, "POST"},
			"the metrics":       {"PUT", "/metrics", "", 405, "GET, HEAD"},
			"the form":          {"PUT", "/login", "", 405, "GET, HEAD, POST"},
			"the page":          {"POST", "/", "", 405, "GET, HEAD"},
			"a bad name":        {"GET", "/api/lock", "", 400, ""},
			"no JSON":           {"POST", "/api/evict", "{", 400, ""},
			"too long":          {"POST", "/api/evict", long, 413, ""},
			"no login":          {"GET", "/login", "", 404, ""},
			"an unclean path":   {"GET", "/api//locks", "", 404, ""},
			"a path upwards":    {"GET", "/../", "", 404, ""},
			"a strange request": {"GET", "", "", 404, ""},
		} {
			r := request(test.method, "/", strings.NewReader(test.body))
			r.URL.Path, r.RequestURI = test.path, "//"+test.path
			r.Header.Set("Content-Type", "application/json")
			answer := httptest.NewRecorder()
			w.page.ServeHTTP(answer, r)
			var told map[string]string
			err := json.Unmarshal(answer.Body.Bytes(), &told)
			assert.True(t, answer.Code == test.code && err == nil && told["error"] != "" &&
				answer.Header().Get("Content-Type") == "application/json" && answer.Header().Get("Allow") == test.allow,
				"%s: %d, %v: %s, allowed are %q", what, answer.Code, err, answer.Body, answer.Header().Get("Allow"))
		}
	})
}

// A record that cannot be read hides no other, and is no lost lease.
func TestAnUnreadableRecordIsNamed(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.lock("a")
		w.lock("b")
		s := w.view()
		w.pass(2 * time.Second)
		s.next()
		w.store.PlantNewerFormat("holdfast:{b}")
		w.store.PlantNewerFormat("holdfast:{c}:periodic")
		w.pass(2 * time.Second)
		var list listJSON
		w.get("/api/locks", &list)
		assert.True(t, len(list.Locks) == 1 && list.Locks[0].Name == "a" && list.Totals.Lost == 0 &&
			list.Read.Error == "" && list.Totals.Unreadable == 2, "%+v", list)
		bad := list.Read.Unreadable
		assert.MustTrue(t, len(bad) == 2, "%+v", bad)
		assert.True(t, bad[0].ID == "job:c" && bad[1].Name == "b" && strings.Contains(bad[1].Error, "newer Holdfast") &&
			strings.Contains(bad[1].Hint, "update"), "%+v", bad)
		news := s.next()
		assert.True(t, news[0].name == "change" && news[0].Totals.Unreadable == 2 && len(news[0].Gone) == 1,
			"%+v", news)
		answer := httptest.NewRecorder()
		w.page.ServeHTTP(answer, request(http.MethodGet, "/metrics", nil))
		assert.Contains(t, answer.Body.String(), "\nholdfast_server_unreadable 2\n")
		assert.Contains(t, answer.Body.String(), "\nholdfast_server_leases_lost_total 0\n")
		s.leave()
		<-s.done
	})
}

func TestAListHasTheFirstWaitersAndTheDetailHasAll(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.lock("a")
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		const n = shownWaiters + 3
		for range n {
			c := w.newClient("waiter")
			go func() {
				_, err := c.Mutex("a").Lock(ctx)
				done <- err
			}()
		}
		w.pass(5 * time.Second)
		var list listJSON
		w.get("/api/locks", &list)
		if l := list.Locks[0]; len(l.Waiters) != shownWaiters || l.Waiting != n || *l.Waiters[0].WaitedMS < 4000 {
			t.Errorf("%d of %d waiters", len(l.Waiters), l.Waiting)
		}
		assert.Equal(t, len(w.detail("a").Lock.Waiters), n, "waiters")
		cancel()
		for range n {
			<-done
		}
	})
}

func TestTheMetricsTellOfTheServerAndNameNoLock(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, w *world) {
		w.lock("secret-name")
		assert.Must(t, assert.Err(w.client.Semaphore("pool", 5).Acquire(t.Context(), 2)))
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() { gone <- assert.Err(w.newClient("waiter").Mutex("secret-name").Lock(ctx)) }()
		w.pass(7 * time.Second)
		text := w.scrape()
		for _, line := range []string{
			"holdfast_server_up 1", `holdfast_server_locks_held{kind="exclusive"} 1`, "holdfast_server_waiters 1",
			"holdfast_server_longest_wait_seconds 7.", "holdfast_server_deadlocks 0",
			"holdfast_server_evictions_total 0",
			`holdfast_server_locks_held{kind="permits"} 1`, "holdfast_server_locks 2", "holdfast_serve_reads_total 1",
			"holdfast_serve_read_errors_total 0", "# TYPE holdfast_serve_reads_total counter",
			"holdfast_server_oldest_hold_seconds 7.",
		} {
			assert.True(t, strings.Contains("\n"+text, "\n"+line), "no line %q in\n%s", line, text)
		}
		assert.False(t, strings.Contains(text, "secret-name"), "a label has the name of a lock")
		cancel()
		<-gone
		if w.pass(time.Minute); w.reads() != 1 {
			t.Errorf("one look at the metrics made %d reads", w.reads())
		}
		w.store.FailRequest(func(string, []string) error { return context.DeadlineExceeded })
		text = w.scrape()
		for _, line := range []string{"holdfast_server_up 0", "holdfast_serve_read_errors_total 1"} {
			assert.True(t, strings.Contains("\n"+text, "\n"+line+"\n"), "no line %q in\n%s", line, text)
		}
		w.store.FailRequest(nil)
	})
}
