package observe_test

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/observe/otel"
	"github.com/holdfast-go/holdfast/observe/page"
	"github.com/holdfast-go/holdfast/observe/prom"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// group groups the locks of the run.
func group(name string) string { return strings.SplitN(name, "/", 2)[0] }

// requestObserver is what both observers are.
type requestObserver interface {
	observe.Observer
	observe.RequestObserver
}

// observers make the observers, each with the registry in which its metrics are.
var observers = map[string]func(t *testing.T) (requestObserver, prometheus.Gatherer){
	"prom": func(*testing.T) (requestObserver, prometheus.Gatherer) {
		registry, o := prometheus.NewPedanticRegistry(), prom.New(prom.Config{Group: group})
		registry.MustRegister(o)
		return o, registry
	},
	"otel": func(t *testing.T) (requestObserver, prometheus.Gatherer) {
		registry := prometheus.NewPedanticRegistry()
		exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo(),
			otelprom.WithoutTargetInfo())
		assert.Must(t, err)
		provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
		o, err := otel.New(otel.Config{MeterProvider: provider, Group: group})
		assert.Must(t, err)
		return o, registry
	},
}

// tee is an observer that passes everything on, and hands it to the test.
type tee struct {
	requestObserver
	events chan observe.Event
}

func (o tee) Observe(e observe.Event) {
	o.requestObserver.Observe(e)
	o.events <- e
}

// await waits for the next such event, and skips those before it.
func (o tee) await(t *testing.T, what string, such func(e observe.Event) bool) {
	t.Helper()
	for !such(redistest.Next(t, what, o.events)) {
	}
}

// scrapes are the scrapes of this run of the tests. One of each observer serves all tests.
var scrapes struct {
	mu   sync.Mutex // held while a scrape is made, so it is made once
	done map[string]*scraped
}

// scrape returns what Prometheus gets from a process after everything that can happen to a
// lock has happened, on a real server.
func scrape(t *testing.T, name string) *scraped {
	t.Helper()
	scrapes.mu.Lock()
	defer scrapes.mu.Unlock()
	if scrapes.done == nil {
		scrapes.done = map[string]*scraped{}
	}
	switch {
	case scrapes.done[name] != nil:
	case name == "serve":
		scrapes.done[name] = serve(t)
	default:
		scrapes.done[name] = live(t, name)
	}
	return scrapes.done[name]
}

// open makes a client, which is closed with the test.
func open(t *testing.T, addr string, o observe.Observer) *holdfast.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: redistest.TLS()})
	t.Cleanup(func() { _ = rdb.Close() })
	c, err := holdfast.New(goredis.New(rdb),
		holdfast.Config{Observer: o, Prefix: redistest.Prefix(), TTL: 3 * time.Second})
	assert.Must(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// serve is a scrape of the page over a server, as holdfast serve has it over a quorum.
func serve(t *testing.T) *scraped {
	t.Helper()
	p, err := page.New(open(t, redistest.Start(t).Addr(), nil), page.Config{
		NoToken: true, Nodes: func(context.Context) []page.Node { return []page.Node{{Answers: true, Counts: true}} },
	})
	assert.Must(t, err)
	defer p.Close()
	server := httptest.NewServer(p)
	defer server.Close()
	return getFrom(t, server, "/metrics")
}

// live lives through it.
func live(t *testing.T, name string) *scraped {
	t.Helper()
	observer, registry := observers[name](t)
	o := tee{observer, make(chan observe.Event, 1024)}
	addr := redistest.Start(t).Addr()
	a, b, operator := open(t, addr, o), open(t, addr, o), open(t, addr, nil)
	ctx, cancel := context.WithTimeout(t.Context(), redistest.Patience)
	defer cancel()

	// One waits for another, and gets a push.
	first, err := a.Mutex("invoice/1").Lock(ctx)
	assert.Must(t, err)
	granted := make(chan *holdfast.Lease)
	go func() {
		l, err := b.Mutex("invoice/1").Lock(ctx)
		assert.NoError(t, err)
		granted <- l
	}()
	o.await(t, "the wait", func(e observe.Event) bool { return e.Kind == observe.EventWait })
	brief := a.Mutex("invoice/1", holdfast.MaxWait(time.Millisecond))
	assert.Is(t, assert.Err(brief.Lock(ctx)), holdfast.ErrHeld)
	assert.NoError(t, first.Release(ctx))
	second := <-granted
	if second == nil {
		t.FailNow()
	}
	// A renewal, which is more than the confirmation of a pushed grant; then an eviction.
	o.await(t, "a renewal", func(e observe.Event) bool { return e.Kind == observe.EventRenew && e.TTL != 0 })
	n, err := operator.Evict(ctx, "invoice/1", holdfast.Eviction{By: "a test", Reason: "to see it"})
	assert.MustTrue(t, n == 1 && err == nil, "%d holds were evicted: %v", n, err)
	<-second.Context().Done()
	o.await(t, "the loss", func(e observe.Event) bool { return e.Kind == observe.EventLost })
	// The program still has the lease: a lease that nothing points to may be reported as leaked, not as lost.
	assert.Is(t, second.Release(ctx), holdfast.ErrLost)
	// A reader, and permits.
	reader, err := a.RWMutex("page/1").RLock(ctx)
	assert.Must(t, err)
	assert.NoError(t, reader.Release(ctx))
	permits, err := a.Semaphore("pool/1", 3).Acquire(ctx, 2)
	assert.Must(t, err)
	assert.NoError(t, permits.Release(ctx))
	return get(t, registry)
}

// scraped is the text of a scrape, taken apart.
type scraped struct {
	text   string
	names  map[string]map[string]bool // of a sample, with the labels that it has
	values map[string]map[string]bool // of a label
}

var (
	sampleLine = regexp.MustCompile(`(?m)^(\w+)(?:\{(.*)\})? `)
	labelPair  = regexp.MustCompile(`(\w+)="([^"]*)"`)
)

// get scrapes a registry over HTTP.
func get(t *testing.T, registry prometheus.Gatherer) *scraped {
	t.Helper()
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()
	return getFrom(t, server, "/")
}

func getFrom(t *testing.T, server *httptest.Server, path string) *scraped {
	t.Helper()
	defer server.Client().CloseIdleConnections()
	answer, err := server.Client().Get(server.URL + path)
	assert.Must(t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	assert.MustTrue(t, err == nil && answer.StatusCode == http.StatusOK, "the scrape: %v, %v", answer.Status, err)
	s := &scraped{string(text), map[string]map[string]bool{}, map[string]map[string]bool{}}
	for _, m := range sampleLine.FindAllStringSubmatch(s.text, -1) {
		if s.names[m[1]] == nil {
			s.names[m[1]] = map[string]bool{}
		}
		for _, pair := range labelPair.FindAllStringSubmatch(m[2], -1) {
			s.names[m[1]][pair[1]] = true
			if s.values[pair[1]] == nil {
				s.values[pair[1]] = map[string]bool{}
			}
			s.values[pair[1]][pair[2]] = true
		}
	}
	return s
}

// with is a scrape of both.
func (s *scraped) with(other *scraped) *scraped {
	both := &scraped{s.text + other.text, maps.Clone(s.names), maps.Clone(s.values)}
	maps.Copy(both.names, other.names)
	maps.Copy(both.values, other.values)
	return both
}
