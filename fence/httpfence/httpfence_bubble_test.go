package httpfence_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fence/httpfence"
	"github.com/holdfast-go/holdfast/fence/redisfence"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
)

// answer is what a caller gets.
type answer struct {
	code    int
	seen    string
	refused error // as Refused says
}

// call serves one request.
func call(ctx context.Context, h http.Handler, method, path string, tokens ...string) answer {
	r := httptest.NewRequest(method, path, nil).WithContext(ctx)
	for _, token := range tokens {
		r.Header.Add(httpfence.Header, token)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	result := w.Result()
	defer result.Body.Close()
	result.Request = r
	return answer{result.StatusCode, result.Header.Get(httpfence.SeenHeader), httpfence.Refused(result)}
}

func TestEachRequestGetsItsStatus(t *testing.T) {
	const (
		largest  = "9223372036854775807"
		tooLarge = "9223372036854775808"
	)
	ran := 0
	h := (&httpfence.Guard{}).Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran++ }))
	for _, c := range []struct {
		method, path string
		tokens       []string
		status       int
		seen         string
	}{
		{"PUT", "/a", nil, 428, ""},
		{"GET", "/a", nil, 200, ""},
		{"PUT", "/a", []string{"5"}, 200, ""},
		{"PUT", "/a", []string{"5"}, 200, ""},
		{"POST", "/a", []string{"4"}, 412, "5"},
		{"GET", "/a", []string{"4"}, 412, "5"},
		{"GET", "/a", []string{"6"}, 200, ""}, // what was shown with a read
		{"DELETE", "/a", []string{"5"}, 412, "6"},
		{"PUT", "/b", []string{"1"}, 200, ""},
		{"PUT", "/a", []string{"0"}, 400, ""},
		{"PUT", "/a", []string{"x"}, 400, ""},
		{"PUT", "/a", []string{""}, 400, ""},
		{"PUT", "/a", []string{"-7"}, 400, ""},
		{"PUT", "/a", []string{tooLarge}, 400, ""},
		{"PUT", "/a", []string{"7", "8"}, 400, ""},
		{"PUT", "/" + strings.Repeat("a", 255), []string{"7"}, 400, ""},
		{"PUT", "/a", []string{largest}, 200, ""},
		{"PUT", "/a", []string{"7"}, 412, largest},
	} {
		before := ran
		got := call(t.Context(), h, c.method, c.path, c.tokens...)
		assert.True(t, got.code == c.status && got.seen == c.seen, "%s %s %q: %+v", c.method, c.path, c.tokens, got)
		assert.True(t, (ran > before) == (c.status == 200),
			"%s %s %q: the handler ran %d times", c.method, c.path, c.tokens, ran-before)
		assert.True(t, errors.Is(got.refused, fence.ErrStale) == (c.status == 412),
			"%s %s %q: Refused: %v", c.method, c.path, c.tokens, got.refused)
	}
}

func TestAnotherFailedPreconditionIsNoStaleToken(t *testing.T) {
	assert.NoError(t, httpfence.Refused(&http.Response{StatusCode: http.StatusPreconditionFailed}))
}

// While a handler runs for one token, an equal one runs beside it, a higher one cancels it and waits
// for its end, and one that is overtaken while it waits is refused.
func TestANewerCallerWaitsForTheHandlersOfOlderOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, leave := make(chan string, 9), make(chan struct{})
		guard := &httpfence.Guard{}
		h := guard.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			token := r.Header.Get(httpfence.Header)
			got, ok := httpfence.Token(r.Context())
			assert.True(t, ok && got != 0, "the handler finds no token")
			began <- token
			if token == "5" {
				<-r.Context().Done()
				var stale *fence.StaleError
				if cause := context.Cause(r.Context()); !errors.As(cause, &stale) || stale.Token != 5 {
					t.Errorf("the older one is cancelled by %v", cause)
				}
				<-leave
			}
		}))
		status := make(chan [2]any, 9)
		start := func(ctx context.Context, token string) {
			go func() { status <- [2]any{token, call(ctx, h, "PUT", "/a", token).code} }()
			synctest.Wait()
		}
		expect := func(token string, code int) {
			t.Helper()
			select {
			case got := <-status:
				assert.Equal(t, got, [2]any{token, code}, "what was handed over")
			default:
				t.Errorf("token %s has no answer", token)
			}
		}
		start(t.Context(), "5")
		start(t.Context(), "5")
		assert.Equal(t, len(began), 2, "handlers for one token")
		start(t.Context(), "6")
		gone, cancel := context.WithCancel(t.Context())
		start(gone, "6")
		cancel() // its client has gone
		synctest.Wait()
		expect("6", http.StatusServiceUnavailable)
		start(t.Context(), "7")
		expect("6", http.StatusPreconditionFailed) // overtaken
		start(t.Context(), "5")
		expect("5", http.StatusPreconditionFailed)
		assert.Equal(t, len(began), 2, "a newer one runs beside the older ones")
		leave <- struct{}{}
		synctest.Wait()
		expect("5", http.StatusOK)
		assert.Equal(t, len(began), 2, "a newer one runs beside one older one")
		leave <- struct{}{}
		synctest.Wait()
		for range 2 { // in any order
			got := <-status
			assert.False(t, got != [2]any{"5", 200} && got != [2]any{"7", 200}, "got %v", got)
		}
		assert.Equal(t, len(began), 3, "handlers that have run")
	})
}

// A handler that panics lets the next one in.
func TestAHandlerThatPanicsHasEnded(t *testing.T) {
	h := (&httpfence.Guard{}).Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get(httpfence.Header) == "5" {
			panic(http.ErrAbortHandler)
		}
	}))
	func() {
		defer func() { _ = recover() }()
		call(t.Context(), h, "PUT", "/a", "5")
	}()
	code := call(t.Context(), h, "PUT", "/a", "6").code
	assert.True(t, code == http.StatusOK, "%v", code)
}

type memory func(token uint64) error

func (m memory) Raise(_ context.Context, _ string, token uint64) error { return m(token) }

func TestTheMemoryDecidesForAllInstances(t *testing.T) {
	var outcome error
	shown := uint64(0)
	guard := &httpfence.Guard{
		Memory:   memory(func(token uint64) error { shown = token; return outcome }),
		Resource: func(*http.Request) string { return "all" },
	}
	ran := false
	h := guard.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { ran = true }))
	code := call(t.Context(), h, "PUT", "/a", "5").code
	assert.True(t, code == 200 && ran && shown == 5, "accepted: %d, token %d", code, shown)
	ran, outcome = false, fence.Judge("all", 6, 7)
	refused := call(t.Context(), h, "PUT", "/a", "6")
	assert.True(t, refused.code == http.StatusPreconditionFailed && refused.seen == "7" && !ran,
		"refused: %+v", refused)
	outcome = errors.New("the database is away")
	code = call(t.Context(), h, "PUT", "/a", "8").code
	assert.True(t, code == 503 && !ran, "the memory failed: %d", code)
	outcome = redisfence.Guard{}.Raise(t.Context(), "all", 8)
	assert.True(t, errors.Is(outcome, fence.ErrInvalid), "a memory without a Store: %v", outcome)
	code = call(t.Context(), h, "PUT", "/a", "8").code
	assert.True(t, code == 503 && !ran, "a memory without a Store: %d", code)
	// Only the memory remembers, so its reset is enough.
	outcome = nil
	assert.Equal(t, call(t.Context(), h, "PUT", "/a", "1").code, 200, "after a reset of the memory")
}

func TestAResetForgetsTheToken(t *testing.T) {
	guard := &httpfence.Guard{}
	h := guard.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	call(t.Context(), h, "PUT", "/a", "5")
	guard.Reset("/b")
	assert.Equal(t, call(t.Context(), h, "PUT", "/a", "4").code, 412, "after a reset of another resource")
	guard.Reset("/a")
	assert.Equal(t, call(t.Context(), h, "PUT", "/a", "4").code, 200, "after a reset")
}

// The transport sends the token of the lease whose context a request has, and changes no other.
func TestTheTransportSendsTheLeasesToken(t *testing.T) {
	sent := make(chan string, 1)
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		sent <- r.Header.Get(httpfence.Header)
	}))
	defer service.Close()
	locks, err := holdfast.New(memstore.New(), holdfast.Config{})
	assert.Must(t, err)
	defer locks.Close(context.Background())
	lease, err := locks.Mutex("a").Lock(t.Context())
	assert.Must(t, err)
	for _, c := range []struct {
		name  string
		ctx   context.Context
		own   uint64
		token uint64
		base  http.RoundTripper
	}{
		{"under a lease", lease.Context(), 0, lease.Token(), nil},
		{"under a lease, with a token of its own", lease.Context(), 7, 7, nil},
		{"under no lease", t.Context(), 0, 0, nil},
		{"over another transport", lease.Context(), 0, lease.Token(), &http.Transport{DisableKeepAlives: true}},
	} {
		r, err := http.NewRequestWithContext(c.ctx, http.MethodPut, service.URL, nil)
		assert.Must(t, err)
		if c.own > 0 {
			httpfence.Set(r, c.own)
		}
		before := r.Header.Get(httpfence.Header)
		got, err := (&http.Client{Transport: httpfence.Transport{Base: c.base}}).Do(r)
		assert.Must(t, err)
		got.Body.Close()
		wanted := http.Header{}
		if c.token > 0 {
			fake := &http.Request{Header: wanted}
			httpfence.Set(fake, c.token)
		}
		token := <-sent
		assert.True(t, token == wanted.Get(httpfence.Header), "%s: sent %q, want %d", c.name, token, c.token)
		assert.Equal(t, r.Header.Get(httpfence.Header), before, "%s: the caller's request was changed", c.name)
	}
}

// A context may belong to leases of several locks. Their tokens say nothing about each other, so the transport
// sends the one of the lock that it is told, and none if it is not told.
func TestTheTransportSendsTheTokenOfTheNamedLock(t *testing.T) {
	locks, err := holdfast.New(memstore.New(), holdfast.Config{})
	assert.Must(t, err)
	defer locks.Close(context.Background())
	outer, err := locks.Mutex("job").Lock(t.Context())
	assert.Must(t, err)
	inner, err := locks.Mutex("invoice").Lock(outer.Context())
	assert.Must(t, err)
	var sent *http.Request
	base := transportFunc(func(r *http.Request) (*http.Response, error) {
		sent = r
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
	})
	for _, c := range []struct {
		lock  string
		token string
	}{
		{"job", strconv.FormatUint(outer.Token(), 10)},
		{"invoice", strconv.FormatUint(inner.Token(), 10)},
		{"other", ""},
	} {
		r, err := http.NewRequestWithContext(inner.Context(), http.MethodPut, "http://service/a", nil)
		assert.Must(t, err)
		named := httpfence.Transport{Base: base, Lock: func(*http.Request) string { return c.lock }}
		answer, err := named.RoundTrip(r)
		assert.Must(t, err)
		answer.Body.Close()
		assert.Equal(t, sent.Header.Get(httpfence.Header), c.token, "the token for %s", c.lock)
	}
	sent = nil
	r, err := http.NewRequestWithContext(inner.Context(), http.MethodPut, "http://service/a", nil)
	assert.Must(t, err)
	_, err = httpfence.Transport{Base: base}.RoundTrip(r) //nolint:bodyclose // there is no answer
	assert.True(t, errors.Is(err, fence.ErrInvalid) && sent == nil, "two locks and no name: %v, sent %v", err, sent)
}

type transportFunc func(r *http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A guard without a memory keeps a bounded number of names. It refuses what is older than what it has
// forgotten, and a caller that has acquired its lock again gets through.
func TestAGuardThatForgetsNamesAcceptsNoLateCaller(t *testing.T) {
	guard := &httpfence.Guard{}
	h := guard.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	put := func(n, token int) int {
		return call(t.Context(), h, "PUT", fmt.Sprint("/", n), strconv.Itoa(token)).code
	}
	for n := range httpfence.MostResources + 1 {
		assert.Equal(t, put(n, 100+n), 200, "resource %d", n)
	}
	assert.Equal(t, put(0, 99), 412, "a late caller of a name that was forgotten")
	assert.Equal(t, put(-1, 99), 412, "a name that was never known, with an older token than a forgotten one")
	assert.Equal(t, put(-1, 100+httpfence.MostResources), 200, "the same after its lock was acquired again")
	assert.Equal(t, put(5000, 5099), 412, "a late caller of a name that is known")
	guard.Reset("/1")
	assert.Equal(t, put(1, 1), 200, "after a reset")
}

// A guard that asks refuses a caller as soon as its lease is over, with no newer caller, in each of its instances.
// Guarantee: G39.
func TestAGuardThatAsksRefusesAnEndedLeaseInEveryInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := memstore.New()
		c, err := holdfast.New(server, holdfast.Config{})
		assert.Must(t, err)
		defer func() { assert.NoError(t, c.Close(t.Context())) }()
		instance := func() http.Handler {
			guard := &httpfence.Guard{
				Memory:   httpfence.Ask(c.Check),
				Resource: func(r *http.Request) string { return r.URL.Path[1:] },
			}
			return guard.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		}
		one, other := instance(), instance()
		first, err := c.Mutex("a", holdfast.Checked()).Lock(t.Context())
		assert.Must(t, err)
		token := strconv.FormatUint(first.Token(), 10)
		for _, h := range []http.Handler{one, other, one} {
			assert.Equal(t, call(t.Context(), h, "PUT", "/a", token).code, http.StatusOK, "while it is held")
		}
		assert.Equal(t, call(t.Context(), one, "PUT", "/b", token).code, 412, "for another lock")
		assert.Must(t, first.Release(t.Context()))
		for _, h := range []http.Handler{one, other} {
			got := call(t.Context(), h, "PUT", "/a", token)
			assert.True(t, got.code == 412 && got.seen == token && errors.Is(got.refused, fence.ErrStale),
				"of a free lock: %+v", got)
		}
		next, err := c.Mutex("a").Lock(t.Context())
		assert.Must(t, err)
		now := strconv.FormatUint(next.Token(), 10)
		got := call(t.Context(), one, "GET", "/a", token)
		assert.True(t, got.code == 412 && got.seen == now, "of a lock that another holds: %+v", got)
		got = call(t.Context(), one, "PUT", "/a", strconv.FormatUint(next.Token(), 10))
		assert.Equal(t, got.code, http.StatusBadRequest, "without the option Checked")
		assert.Must(t, next.Release(t.Context()))
		for _, add := range []uint64{0, 1} { // 1: of a lease that was handed over inside its process
			got = call(t.Context(), one, "PUT", "/a", strconv.FormatUint(next.Token()+add, 10))
			assert.True(t, got.code == 412 && errors.Is(got.refused, fence.ErrStale), "after its end: %+v", got)
		}
		server.FailRequest(func(string, []string) error { return errors.New("the link is down") })
		assert.Equal(t, call(t.Context(), one, "PUT", "/a", token).code, 503, "without the server")
		server.FailRequest(nil)
	})
}

// Tokens that are live together, as of two readers, have no order. And a token that is refused ends nothing.
func TestAGuardThatAsksCancelsNoHandlerOfALiveLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := holdfast.New(memstore.New(), holdfast.Config{})
		assert.Must(t, err)
		defer func() { assert.NoError(t, c.Close(context.Background())) }()
		permit := func(ctx context.Context) (*holdfast.Lease, error) { return c.Semaphore("a", 2).Acquire(ctx, 1) }
		var tokens []string
		for _, acquire := range []func(context.Context) (*holdfast.Lease, error){
			permit, permit, c.Mutex("other", holdfast.Checked()).Lock,
		} {
			time.Sleep(time.Second) // so that each lock gives a higher token than the one before
			lease, err := acquire(t.Context())
			assert.Must(t, err)
			tokens = append(tokens, strconv.FormatUint(lease.Token(), 10))
		}
		began, leave := make(chan context.Context, 9), make(chan struct{})
		guard := &httpfence.Guard{
			Memory: httpfence.Ask(c.Check), Resource: func(*http.Request) string { return "a" },
		}
		h := guard.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			began <- r.Context()
			if r.Method == http.MethodPut {
				select {
				case <-leave:
				case <-r.Context().Done():
				}
			}
		}))
		done := make(chan answer, 1)
		go func() { done <- call(t.Context(), h, "PUT", "/", tokens[0]) }()
		running := <-began
		for _, refused := range []string{tokens[2], "9223372036854774784"} { // of another lock, and made up
			assert.Equal(t, call(t.Context(), h, "POST", "/", refused).code, 412, "token %s", refused)
			assert.NoError(t, context.Cause(running))
		}
		for _, live := range []string{tokens[1], tokens[0]} {
			assert.Equal(t, call(t.Context(), h, "POST", "/", live).code, 200, "token %s", live)
			assert.NoError(t, context.Cause(running))
		}
		close(leave)
		assert.Equal(t, (<-done).code, 200, "the first")
	})
}
