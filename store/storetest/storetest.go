// Package storetest is the conformance suite for implementations of store.Store. Every store
// of this repository passes it; so should yours:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) storetest.Env {
//			store := mystore.New(…)
//			return storetest.Env{Store: store, Publish: …}
//		})
//	}
//
// It tests what the Store adds to the scripts (bytes that arrive unchanged, contexts, errors,
// subscriptions), and that the scripts give the right answers in their main cases. The
// transcripts beside the scripts have all the cases.
package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Env is a store under test, with functions that act on its server. The suite uses keys and
// channels that begin with "storetest:" and a number of its own, so the server may be shared.
// If a function is nil, the tests that need it are not run.
type Env struct {
	Store store.Store

	// NoPermits says that the store refuses permits: several servers cannot count them.
	NoPermits bool

	// NoOwners says that the store refuses named owners: over several servers their entries
	// would have different tokens.
	NoOwners bool

	// NoConversions says that the store refuses to convert holds between reading and writing.
	NoConversions bool

	// Publish sends a message on a connection that is not the store's, with SPUBLISH if the
	// store is sharded. It is required.
	Publish func(channel, payload string)

	// Replicas is how many replicas of each server acknowledge its writes, if the store is a
	// store.Acker.
	Replicas int

	// Plant puts a value that is not a hash at key.
	Plant func(key string)

	// FlushScripts makes the server forget the scripts that it knows.
	FlushScripts func()

	// KillSubscribers ends the connections of the store's subscriptions.
	KillSubscribers func()

	// Silence makes the server answer nothing, with its connections open, until resume is
	// called.
	Silence func() (resume func())
}

// patience bounds every wait. It is far longer than anything takes: on a loaded machine a test
// must be late before it is wrong.
const patience = time.Minute

// soon is the timeout of requests that must not be answered.
const soon = 50 * time.Millisecond

// Run runs the suite. It calls open for each test; open cleans up with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Env) {
	for _, area := range []struct {
		name  string
		tests []test
	}{
		{"actions", actionTests},
		{"shared", sharedTests},
		{"entry", entryTests},
		{"bytes", byteTests},
		{"errors", errorTests},
		{"contexts", contextTests},
		{"listen", listenTests},
		{"acknowledgements", ackTests},
		{"scan", scanTests},
		{"server", serverTests},
	} {
		t.Run(area.name, func(t *testing.T) {
			for _, test := range area.tests {
				t.Run(test.name, func(t *testing.T) { test.run(newSuite(t, open(t))) })
			}
		})
	}
}

type test struct {
	name string
	run  func(s *suite)
}

// suite is what one test works with: a lock and a clients' channel of its own.
type suite struct {
	*testing.T
	Env
	tag  string
	key  string
	base string
}

var counter atomic.Int64

func newSuite(t *testing.T, env Env) *suite {
	t.Helper()
	assert.MustTrue(t, env.Store != nil && env.Publish != nil, "storetest: Env needs Store and Publish")
	tag := fmt.Sprintf("{%d-%d}", time.Now().UnixNano(), counter.Add(1))
	s := &suite{T: t, Env: env, tag: tag, key: "storetest:" + tag, base: "storetest:push:"}
	if env.Store.Sharded() {
		s.base += tag + ":"
	}
	return s
}

// channel is the channel of a client. No other test uses its name.
func (s *suite) channel(client string) string { return s.base + s.client(client) }

func (s *suite) client(name string) string { return strings.Trim(s.tag, "{}") + name }

// attempt is the ID of a client's n-th attempt.
func (s *suite) attempt(client string, n int) string {
	return fmt.Sprintf("%s/%d", s.client(client), n)
}

// run executes an action on the test's lock and expects no error.
func (s *suite) run(action *script.Script, args ...any) string {
	s.Helper()
	return s.runOn([]string{s.key}, action, args...)
}

func (s *suite) runOn(keys []string, action *script.Script, args ...any) string {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	answer, err := s.Store.Run(ctx, action, keys, words(args))
	if err != nil {
		s.Fatalf("%s %v: %v", action.Name, args, err)
	}
	return answer
}

func words(args []any) []string {
	list := make([]string, len(args))
	for i, arg := range args {
		list[i] = fmt.Sprint(arg)
	}
	return list
}

// The leases of the suite are long: no test waits for one to end, and a store that bounds its
// requests by a part of the lease leaves them time.
const (
	ttl       = 600_000
	retention = 600_000
	life      = ttl + retention
	waits     = 60_000
)

func (s *suite) acquire(attempt, want string, wait int, owner ...any) string {
	s.Helper()
	return s.run(script.Acquire, append([]any{attempt, ttl, life, want, wait, s.base}, owner...)...)
}

// named returns an owner's name as the last argument of an action: nothing if the store
// refuses named owners.
func (s *suite) named(name string) []any {
	if s.NoOwners {
		return nil
	}
	return []any{name}
}

func (s *suite) release(attempt, token string, owner ...any) string {
	s.Helper()
	return s.run(script.Release, append([]any{attempt, token, retention, s.base}, owner...)...)
}

// take acquires and returns the token.
func (s *suite) take(attempt, want string, owner ...any) (token string) {
	s.Helper()
	answer := s.acquire(attempt, want, 0, owner...)
	s.begins(answer, "granted")
	return strings.Fields(answer)[1]
}

// is expects the whole answer.
func (s *suite) is(got, want string) {
	s.Helper()
	if got != want {
		s.Errorf("answered %q, want %q", got, want)
	}
}

// begins expects the first words of an answer.
func (s *suite) begins(got, want string) {
	s.Helper()
	if got != want && !strings.HasPrefix(got, want+" ") {
		s.Fatalf("answered %q, want %q …", got, want)
	}
}

// within fails unless f returns in time. f runs in a goroutine of its own and must not call
// FailNow.
func (s *suite) within(what string, f func()) {
	s.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		s.Fatalf("%s did not return within %v", what, patience)
	}
}
