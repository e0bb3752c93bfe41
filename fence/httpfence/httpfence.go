// Package httpfence refuses late callers of an HTTP service. The client sends the token of its lease in
// a header, and a middleware of the service compares it with the highest one.
//
// The client:
//
//	service := &http.Client{Transport: httpfence.Transport{}}
//	…
//	r, err := http.NewRequestWithContext(lease.Context(), http.MethodPut, url, body)
//	answer, err := service.Do(r) // with the lease's token
//	if err == nil {
//		err = httpfence.Refused(answer) // fence.ErrStale
//	}
//
// The service:
//
//	guard := &httpfence.Guard{}
//	mux.Handle("/invoices/", guard.Handler(invoices))
//
// A client that may send requests can send any token. Put the middleware behind the one that
// authenticates.
package httpfence

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
)

// Guard keeps the highest token of each resource of a service. The zero value keeps them in this
// process. Its methods may be called from many goroutines.
type Guard struct {
	// Memory remembers the tokens for several instances of the service, and over a restart:
	// sqlfence.Guard.Memory or a redisfence.Guard. Or it asks the locks' server, see [Ask]. Without
	// one, a restart forgets them, and then a late caller is accepted until a newer one has come.
	//
	// Without one, the Guard keeps the tokens of at most [MostResources] resources. Of those with the
	// oldest tokens it keeps only the highest token, and judges every resource that it does not know
	// by that. So it accepts no late caller. It may refuse a caller that acquired its lock before that
	// token was given: this caller gets through when it has acquired the lock again. If the locks of
	// the callers are on servers whose clocks differ, or have another library's numbers as tokens, use a Memory.
	Memory fence.Memory
	// Resource names what a request is about. Default: the path of its URL.
	Resource func(*http.Request) string

	mu        sync.Mutex // guards the fields below, and the resources
	resources map[string]*resource
	forgotten uint64 // the highest token of the resources that were forgotten
}

// MostResources is how many resources a [Guard] without a Memory knows by name.
const MostResources = 10_000

// resource is what this process knows about one.
type resource struct {
	highest uint64
	active  map[*caller]struct{} // what handlers run for
	users   int                  // requests that run or wait
	changed chan struct{}        // closed and replaced when a handler ends or highest rises
}

// caller is a request that is in its handler.
type caller struct {
	token uint64
	end   context.CancelCauseFunc
}

// Handler is the middleware. It answers in place of next:
//
//   - 412 Precondition Failed, with [SeenHeader], if the resource has seen a higher token;
//   - 428 Precondition Required if a request has no token and its method is not safe (GET, HEAD,
//     OPTIONS, TRACE);
//   - 400 Bad Request if the header, or the name of the resource, cannot be right, or if the server that [Ask] asks
//     cannot know the token;
//   - 503 Service Unavailable if Memory fails, or is misconfigured: the outcome of its check is unknown, next does
//     not run.
//
// A safe request that has a token shows it, so that what is written later can depend on what it
// reads.
//
// In this process, unless Memory is an [Ask], next runs for one token of a resource at a time. If a
// request comes with a higher token, the contexts of those that run are cancelled with a [*fence.StaleError] as
// cause, and the new one waits until they have returned. So put an http.TimeoutHandler around the Guard's handler:
// in it, it would return before the work has ended. Between instances only the check at
// the beginning is shared. A handler that writes to a database checks there too, with the token
// that [Token] returns.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		values := r.Header.Values(Header)
		if len(values) == 0 {
			if safe(r.Method) {
				next.ServeHTTP(w, r)
				return
			}
			http.Error(w, "the request needs a fencing token in the header "+Header, http.StatusPreconditionRequired)
			return
		}
		token, err := strconv.ParseUint(values[0], 10, 64)
		name := g.name(r)
		if err = errors.Join(err, fence.Check(name, token)); err != nil || len(values) > 1 {
			http.Error(w, "the header "+Header+" needs the token of one lease, and the resource needs a name of "+
				"up to 255 bytes", http.StatusBadRequest)
			return
		}
		ctx := r.Context()
		if _, asks := g.Memory.(Ask); !asks { // tokens that are live together have no order
			var leave func()
			if ctx, leave, err = g.enter(ctx, name, token); err == nil {
				defer leave()
			}
		}
		if err == nil && g.Memory != nil {
			err = g.Memory.Raise(ctx, name, token)
		}
		if err != nil {
			refuse(w, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, tokenKey{}, token)))
	})
}

func safe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		return true
	}
	return false
}

func (g *Guard) name(r *http.Request) string {
	if g.Resource != nil {
		return g.Resource(r)
	}
	return r.URL.Path
}

func refuse(w http.ResponseWriter, err error) {
	var stale *fence.StaleError
	switch {
	case errors.Is(err, holdfast.ErrInvalid): // of Ask; a fence.ErrInvalid alone is of a misconfigured memory
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	case !errors.As(err, &stale):
		http.Error(w, "the fencing token could not be checked", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set(SeenHeader, strconv.FormatUint(stale.Seen, 10))
	http.Error(w, stale.Error(), http.StatusPreconditionFailed)
}

type tokenKey struct{}

// Token returns the token of the request that a handler behind [Guard.Handler] serves. ok is false
// for a request without one.
func Token(ctx context.Context) (token uint64, ok bool) {
	token, ok = ctx.Value(tokenKey{}).(uint64)
	return token, ok
}

// enter waits until no handler runs for a lower token. The context that it returns ends when a
// higher one comes. On error nothing was entered.
func (g *Guard) enter(ctx context.Context, name string, token uint64) (context.Context, func(), error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.resources == nil {
		g.resources = make(map[string]*resource)
	}
	r := g.resources[name]
	if r == nil {
		r = &resource{highest: g.forgotten, active: make(map[*caller]struct{}), changed: make(chan struct{})}
		g.resources[name] = r
	}
	r.users++
	g.forgetOldest()
	for {
		if err := fence.Judge(name, token, r.highest); err != nil {
			g.leave(name, r)
			return nil, nil, err
		}
		older := false
		for c := range r.active {
			if c.token < token {
				older = true
				c.end(fence.Judge(name, c.token, token))
			}
		}
		if token > r.highest {
			r.highest = token
			r.wake() // what waits with a lower token waits in vain
		}
		if !older {
			break
		}
		changed := r.changed
		g.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		g.mu.Lock()
		if ctx.Err() != nil {
			g.leave(name, r)
			return nil, nil, context.Cause(ctx)
		}
	}
	ctx, end := context.WithCancelCause(ctx)
	c := &caller{token, end}
	r.active[c] = struct{}{}
	return ctx, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		end(nil)
		delete(r.active, c)
		r.wake()
		g.leave(name, r)
	}, nil
}

func (r *resource) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// forgetOldest forgets a tenth of the resources if there are too many: those with the oldest tokens that
// nobody uses. Anybody can name a resource, so without a bound their number is that of the names that
// callers make up. g.mu is locked.
func (g *Guard) forgetOldest() {
	if len(g.resources) <= MostResources {
		return
	}
	var idle []string
	for name, r := range g.resources {
		if r.users == 0 {
			idle = append(idle, name)
		}
	}
	slices.SortFunc(idle, func(a, b string) int {
		return cmp.Compare(g.resources[a].highest, g.resources[b].highest)
	})
	for _, name := range idle[:min(len(idle), MostResources/10)] {
		g.forgotten = max(g.forgotten, g.resources[name].highest)
		delete(g.resources, name)
	}
}

// leave forgets a resource that nobody uses, if a Memory remembers its token. g.mu is locked.
func (g *Guard) leave(name string, r *resource) {
	if r.users--; r.users == 0 && g.Memory != nil && g.resources[name] == r {
		delete(g.resources, name)
	}
}

// Reset makes this process forget the token of a resource. It is for an operator, if the lock gives
// lower tokens than before, because its server lost the data and then the clock was set back. Stop
// all writers of the resource first: until the next request, the oldest of them would be
// accepted. A Memory has a Reset of its own.
func (g *Guard) Reset(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch r := g.resources[name]; {
	case r != nil:
		r.highest = 0
	case g.Memory == nil && g.forgotten > 0:
		// Known by name, so that it is not judged by the forgotten ones.
		g.resources[name] = &resource{active: make(map[*caller]struct{}), changed: make(chan struct{})}
	}
}
