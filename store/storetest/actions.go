package storetest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/script"
)

var actionTests = []test{
	{"acquire", testAcquire},
	{"release", testRelease},
	{"named owner", testNamedOwner},
	{"hand-over", testHandOver},
	{"nobody listens", testNobodyListens},
	{"renew", testRenew},
	{"poll", testPoll},
	{"cancel", testCancel},
	{"inspect", testInspect},
	{"check", testCheck},
	{"evict", testEvict},
	{"register_client and read_client", testRegisterClient},
	{"many at once", testManyAtOnce},
	{"one at a time", testOneAtATime},
}

func testAcquire(s *suite) {
	token := s.take(s.attempt("a", 1), "x")
	s.is(s.acquire(s.attempt("a", 1), "x", 0), "granted "+token+" 0")
	s.begins(s.acquire(s.attempt("b", 1), "x", 0), "busy")
	s.begins(s.acquire(s.attempt("b", 1), "s", 0), "busy")
	s.begins(s.acquire(s.attempt("b", 2), "x", waits), "queued 1")
	s.begins(s.acquire(s.attempt("b", 2), "x", waits), "queued 1")
	s.begins(s.acquire(s.attempt("c", 1), "s", waits), "queued 2")
	s.is(s.acquire(s.attempt("a", 1), "x", 0), "granted "+token+" 2")

	s.key += "shared"
	s.take(s.attempt("a", 2), "s")
	s.take(s.attempt("b", 3), "s")
	s.begins(s.acquire(s.attempt("c", 2), "x", 0), "busy")

	if s.NoPermits {
		_ = s.refused(script.Acquire, []any{s.attempt("c", 2), ttl, retention, "p:1:1", 0, s.base})
		return
	}
	s.begins(s.acquire(s.attempt("c", 2), "p:1:1", 0), "busy")
	s.key += "permits"
	s.take(s.attempt("a", 3), "p:2:3")
	s.begins(s.acquire(s.attempt("b", 4), "p:2:3", 0), "busy")
	s.take(s.attempt("b", 4), "p:1:3")
	s.is(s.acquire(s.attempt("c", 3), "p:1:4", 0), "conflict 3")
}

func testRelease(s *suite) {
	first := s.take(s.attempt("a", 1), "x")
	s.is(s.release(s.attempt("a", 1), first), "released")
	s.is(s.release(s.attempt("a", 1), first), "released")
	second := s.take(s.attempt("b", 1), "x")
	if len(second) < len(first) || len(second) == len(first) && second <= first {
		s.Errorf("token %s was granted after %s", second, first)
	}
	s.is(s.release(s.attempt("a", 1), first), "released")
	s.begins(s.acquire(s.attempt("c", 1), "x", 0), "busy")
	s.is(s.release(s.attempt("b", 1), second), "released")
	s.key += "never"
	s.is(s.release(s.attempt("a", 1), first), "gone")
}

func testNamedOwner(s *suite) {
	if s.NoOwners {
		_ = s.refused(script.Acquire, []any{s.attempt("a", 1), ttl, life, "x", 0, s.base, "alice"})
		s.is(s.run(script.Inspect), "absent")
		return
	}
	token := s.take(s.attempt("a", 1), "x", "alice")
	s.is(s.acquire(s.attempt("b", 1), "x", 0, "alice"), "granted "+token+" 0")
	s.begins(s.acquire(s.attempt("c", 1), "x", 0, "carol"), "busy")
	s.is(s.release(s.attempt("a", 1), token, "alice"), "held 1")
	s.is(s.release(s.attempt("a", 1), token, "alice"), "held 1")
	s.is(s.release(s.attempt("b", 1), token, "alice"), "released")
	s.is(s.release(s.attempt("b", 1), token, "alice"), "released")
}

func testHandOver(s *suite) {
	rec := s.listen(s.channel("b"))
	token := s.take(s.attempt("a", 1), "x")
	s.begins(s.acquire(s.attempt("b", 1), "x", waits), "queued 1")
	s.begins(s.acquire(s.attempt("b", 2), "x", waits), "queued 2")
	s.is(s.release(s.attempt("a", 1), token), "released")
	push := rec.next(s)
	s.begins(push, "granted "+s.attempt("b", 1))
	words := strings.Fields(push)
	if len(words) != 4 && len(words) != 6 || words[3] != "1" {
		s.Fatalf("pushed %q, want granted ATTEMPT TOKEN 1, and when and for how long or neither", push)
	}
	s.is(s.acquire(s.attempt("b", 1), "x", waits), "granted "+words[2]+" 1")
	s.is(s.release(s.attempt("b", 1), words[2]), "released")
	s.begins(rec.next(s), "granted "+s.attempt("b", 2))
}

// A release skips a waiter without a subscription, so a store must end the subscriptions
// of clients that have stopped.
func testNobodyListens(s *suite) {
	stopped := s.listen(s.channel("b"))
	rec := s.listen(s.channel("c"))
	token := s.take(s.attempt("a", 1), "x")
	s.begins(s.acquire(s.attempt("b", 1), "x", waits), "queued 1")
	s.begins(s.acquire(s.attempt("c", 1), "x", waits), "queued 2")
	stopped.stop()
	s.is(s.release(s.attempt("a", 1), token), "released")
	s.begins(rec.next(s), "granted "+s.attempt("c", 1))
	s.begins(s.acquire(s.attempt("b", 1), "x", waits), "queued 1")
}

func testRenew(s *suite) {
	keys := []string{s.key + "a", s.key + "b", s.key + "c"}
	for _, key := range keys[1:] {
		if s.Store.Group(key) != s.Store.Group(keys[0]) {
			s.Fatalf("%q and %q share a hash tag, but not a group", key, keys[0])
		}
	}
	lock := func(key, attempt, want string, owner ...any) {
		s.key = key
		s.take(attempt, want, owner...)
	}
	lock(keys[0], s.attempt("a", 1), "x")
	owner := s.named("alice")
	lock(keys[1], s.attempt("a", 2), "x", owner...)
	lock(keys[2], s.attempt("b", 1), "s")
	s.begins(s.acquire(s.attempt("c", 1), "x", waits), "queued")
	named := func(owner string) string {
		return strings.TrimSpace(fmt.Sprint(s.attempt("a", 2), " ", ttl, " ", owner))
	}
	s.is(s.runOn(keys, script.Renew, retention, ttl,
		s.attempt("a", 1), named(strings.Join(words(owner), "")), s.attempt("b", 1)), "renewed 0 0 1")
	s.is(s.runOn(keys, script.Renew, retention, ttl,
		s.attempt("z", 1), named("bob"), s.attempt("b", 1)), "renewed - - 1")
	s.is(s.run(script.Evict, "ops", "test", 0, retention, s.base), "evicted 1")
	s.is(s.run(script.Renew, retention, ttl, s.attempt("b", 1)), "renewed evicted")
}

func testPoll(s *suite) {
	poll := func(attempt string) string {
		return s.run(script.Poll, attempt, ttl, retention, waits, s.base)
	}
	s.is(poll(s.attempt("b", 1)), "gone")
	token := s.take(s.attempt("a", 1), "x")
	s.is(poll(s.attempt("a", 1)), "granted "+token+" 0")
	s.begins(s.acquire(s.attempt("b", 1), "x", waits), "queued 1")
	s.begins(poll(s.attempt("b", 1)), "queued 1")
	s.is(s.release(s.attempt("a", 1), token), "released")
	s.begins(poll(s.attempt("b", 1)), "granted")
	s.is(poll(s.attempt("a", 1)), "gone")
}

func testCancel(s *suite) {
	cancel := func(attempt string) string { return s.run(script.Cancel, attempt, retention, s.base) }
	s.is(cancel(s.attempt("a", 1)), "none")
	s.take(s.attempt("a", 1), "x")
	s.begins(s.acquire(s.attempt("b", 1), "x", waits), "queued 1")
	s.is(cancel(s.attempt("b", 1)), "withdrawn")
	s.is(cancel(s.attempt("b", 1)), "none")
	s.is(cancel(s.attempt("a", 1)), "released")
	s.is(cancel(s.attempt("a", 1)), "none")
	s.take(s.attempt("c", 1), "x")
}

// An answer of several lines arrives unchanged.
func testInspect(s *suite) {
	s.is(s.run(script.Inspect), "absent")
	owner := s.named("alice")
	token := s.take(s.attempt("a", 1), "x", owner...)
	s.acquire(s.attempt("b", 1), "s", waits)
	lines := strings.Split(s.run(script.Inspect), "\n")
	if len(lines) != 3 {
		s.Fatalf("inspect answered %q, want three lines", lines)
	}
	s.begins(lines[0], "lock")
	s.is(strings.Fields(lines[0])[2], token)
	name := append(words(owner), "-")[0]
	s.begins(lines[1], "holder x "+s.attempt("a", 1)+" "+name+" 1 "+token)
	s.begins(lines[2], "waiter 1 s "+s.attempt("b", 1)+" - 1")
}

func testCheck(s *suite) {
	s.is(s.run(script.Check, 7), "free")
	attempt := s.attempt("a", 1) + "="
	token := s.take(attempt, "x")
	s.is(s.run(script.Check, token), "live")
	s.is(s.run(script.Check, 7), "held "+token+" "+attempt)
	s.is(s.release(attempt, token), "released")
	s.is(s.run(script.Check, token), "free")
}

func testEvict(s *suite) {
	s.is(s.run(script.Evict, "ops", "test", 0, retention, s.base), "free")
	rec := s.listen(s.channel("b"))
	token := s.take(s.attempt("a", 1), "x")
	s.is(s.run(script.Evict, "ops", "test", 7, retention, s.base), "changed "+token)
	s.acquire(s.attempt("b", 1), "x", waits)
	s.is(s.run(script.Evict, "ops", "test", token, retention, s.base), "evicted 1")
	s.begins(rec.next(s), "granted "+s.attempt("b", 1))
	s.is(s.release(s.attempt("a", 1), token), "gone")
}

func testRegisterClient(s *suite) {
	s.is(s.run(script.ReadClient), "unknown")
	s.is(s.run(script.RegisterClient, ttl, "shop", "web-1", 42, "v1", 1700000000000), "announced")
	s.is(s.run(script.ReadClient), "client shop web-1 42 v1 1700000000000")
	note := func(more ...any) {
		said := append([]any{ttl, "shop", "web-1", 42, "v1", 1700000000000}, more...)
		s.is(s.run(script.RegisterClient, said...), "announced")
	}
	note("tags:1", "order=42", "tags:2", "x")
	note("tags:2", "")
	s.is(s.run(script.ReadClient, "tags:1", "tags:2"),
		"client shop web-1 42 v1 1700000000000\nnoted\nnote tags:1 order=42")
}

// Many goroutines use a Store; every answer belongs to its request.
func testManyAtOnce(s *suite) {
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			mine := *s
			mine.key = s.key + s.attempt("lock", i)
			for n := range 20 {
				attempt := s.attempt("a", i*100+n)
				answer, err := mine.Store.Run(s.Context(), script.Acquire, []string{mine.key},
					words([]any{attempt, ttl, life, "x", 0, mine.base}))
				if err != nil || !strings.HasPrefix(answer, "granted ") {
					s.Errorf("acquire: %q, %v", answer, err)
					return
				}
				answer, err = mine.Store.Run(s.Context(), script.Release, []string{mine.key},
					words([]any{attempt, strings.Fields(answer)[1], retention, mine.base}))
				if err != nil || answer != "released" {
					s.Errorf("release: %q, %v", answer, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Of many attempts at the same time one gets the lock.
func testOneAtATime(s *suite) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	for i := range 16 {
		wg.Go(func() {
			answer, err := s.Store.Run(s.Context(), script.Acquire, []string{s.key},
				words([]any{s.attempt("a", i), ttl, life, "x", 0, s.base}))
			if err != nil {
				s.Errorf("acquire: %v", err)
			}
			if strings.HasPrefix(answer, "granted ") {
				mu.Lock()
				defer mu.Unlock()
				granted++
			}
		})
	}
	wg.Wait()
	if granted != 1 {
		s.Errorf("%d of 16 were granted the lock", granted)
	}
}
