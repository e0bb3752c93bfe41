package page

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
)

// world is a server in memory, a client that holds locks, and a page over another client, in
// virtual time.
type world struct {
	t      *testing.T
	store  *memstore.Store
	client *holdfast.Client
	page   *Page
}

func bubble(t *testing.T, cfg Config, f func(*testing.T, *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, store: memstore.New()}
		w.client = w.newClient("worker")
		p, err := New(w.newClient("page"), forAll(cfg))
		assert.Must(t, err)
		defer p.Close()
		w.page = p
		f(t, w)
	})
}

func (w *world) newClient(app string) *holdfast.Client {
	w.t.Helper()
	c, err := holdfast.New(w.store, holdfast.Config{App: app})
	assert.Must(w.t, err)
	w.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func (w *world) lock(name string, options ...holdfast.MutexOption) *holdfast.Lease {
	w.t.Helper()
	l, err := w.client.Mutex(name, options...).TryLock(w.t.Context())
	assert.Must(w.t, err)
	synctest.Wait() // the client has registered
	return l
}

func (w *world) release(l *holdfast.Lease) {
	w.t.Helper()
	assert.Must(w.t, l.Release(w.t.Context()))
}

// pass lets virtual time pass, and everything happen that belongs to it.
func (w *world) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// request is one that a browser of this machine would send.
func request(method, path string, body io.Reader) *http.Request {
	r := httptest.NewRequest(method, path, body)
	r.RemoteAddr, r.Host = "127.0.0.1:40000", "localhost:8380"
	return r
}

// get decodes the answer to a GET into v.
func (w *world) get(path string, v any) {
	w.t.Helper()
	answer := httptest.NewRecorder()
	w.page.ServeHTTP(answer, request(http.MethodGet, path, nil))
	if err := json.Unmarshal(answer.Body.Bytes(), v); err != nil || answer.Code != http.StatusOK {
		w.t.Fatalf("%s: %d, %v: %s", path, answer.Code, err, answer.Body)
	}
}

// scrape is the text of the metrics.
func (w *world) scrape() string {
	w.t.Helper()
	answer := httptest.NewRecorder()
	w.page.ServeHTTP(answer, request(http.MethodGet, "/metrics", nil))
	kind := answer.Header().Get("Content-Type")
	assert.True(w.t, strings.HasPrefix(kind, "text/plain; version=0.0.4"), "the type is %s", kind)
	return answer.Body.String()
}

func (w *world) detail(name string) (d detailJSON) {
	w.t.Helper()
	w.get("/api/lock?name="+name, &d)
	return d
}

// stream is a viewer of api/events. It keeps what it was told as the page in a browser does.
type stream struct {
	t     *testing.T
	leave context.CancelFunc
	done  chan struct{}

	mu     sync.Mutex
	header http.Header
	buffer bytes.Buffer
	events []event
}

type event struct {
	name, id string
	newsJSON
	Title string     `json:"title"`
	Locks []lockJSON `json:"locks"`
	Gone  []string   `json:"gone"`
}

func (w *world) view() *stream {
	s := &stream{t: w.t, done: make(chan struct{}), header: http.Header{}}
	var ctx context.Context
	ctx, s.leave = context.WithCancel(w.t.Context())
	go func() {
		defer close(s.done)
		w.page.ServeHTTP(s, request(http.MethodGet, "/api/events", nil).WithContext(ctx))
	}()
	synctest.Wait()
	return s
}

func (s *stream) Header() http.Header { return s.header }
func (s *stream) WriteHeader(int)     {}
func (s *stream) Flush()              {}
func (s *stream) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buffer.Write(b)
	for {
		text, rest, whole := bytes.Cut(s.buffer.Bytes(), []byte("\n\n"))
		if !whole {
			return len(b), nil
		}
		s.read(string(text))
		s.buffer = *bytes.NewBuffer(bytes.Clone(rest))
	}
}

func (s *stream) read(text string) {
	var e event
	for line := range strings.Lines(text) {
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			err := json.Unmarshal([]byte(value), &e)
			assert.True(s.t, err == nil, "%v in %s", err, value)
		}
	}
	if e.name != "" {
		s.events = append(s.events, e)
	}
}

// next returns the events since the last call.
func (s *stream) next() []event {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.events
	s.events = nil
	return list
}

// names are the names of events, without ticks.
func names(events []event) (list []string) {
	for _, e := range events {
		if e.name != "tick" {
			list = append(list, e.name)
		}
	}
	return list
}

// replay is what a viewer knows after events.
func replay(t *testing.T, known map[string]lockJSON, events []event) {
	t.Helper()
	for _, e := range events {
		if e.name == "snapshot" {
			clear(known)
		}
		for _, l := range e.Locks {
			known[l.ID] = l
		}
		for _, id := range e.Gone {
			_, ok := known[id]
			assert.True(t, ok, "%s is gone, and was never told", id)
			delete(known, id)
		}
	}
}

func sorted(known map[string]lockJSON) []string { return slices.Sorted(maps.Keys(known)) }
