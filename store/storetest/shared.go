package storetest

import (
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/script"
)

var sharedTests = []test{
	{"convert", testConvert},
	{"set_limit", testSetLimit},
	{"lessen", testLessen},
	{"await_free", testAwaitFree},
}

func testConvert(s *suite) {
	if s.NoConversions {
		return
	}
	convert := func(attempt, token, want string) string {
		return s.run(script.Convert, attempt, token, want, ttl, retention, s.base)
	}
	rec := s.listen(s.channel("b"))
	s.is(convert(s.attempt("a", 1), "7", "s"), "gone")
	token := s.take(s.attempt("a", 1), "x")
	s.begins(s.acquire(s.attempt("b", 1), "s", waits), "queued 1")
	down := convert(s.attempt("a", 1), token, "s")
	s.begins(down, "granted")
	s.is(convert(s.attempt("a", 1), token, "s"), down)
	s.begins(rec.next(s), "granted "+s.attempt("b", 1))
	token = strings.Fields(down)[1]
	s.begins(convert(s.attempt("a", 1), token, "x"), "busy")
	s.begins(s.run(script.Cancel, s.attempt("b", 1), retention, s.base), "released")
	s.begins(convert(s.attempt("a", 1), token, "x"), "granted")
	s.is(convert(s.attempt("a", 1), token, "s"), "gone")
	s.begins(s.acquire(s.attempt("b", 2), "s", 0), "busy")
}

func testSetLimit(s *suite) {
	if s.NoPermits {
		return
	}
	limit := func(permits int) string { return s.run(script.SetLimit, permits, retention, s.base) }
	rec := s.listen(s.channel("b"))
	s.is(limit(2), "idle")
	token := s.take(s.attempt("a", 1), "p:2:2")
	s.begins(s.acquire(s.attempt("b", 1), "p:1:2", waits), "queued 1")
	s.is(limit(3), "set 3")
	s.begins(rec.next(s), "granted "+s.attempt("b", 1))
	s.is(s.acquire(s.attempt("c", 1), "p:1:2", 0), "conflict 3")
	s.is(limit(1), "set 3")
	s.is(s.release(s.attempt("a", 1), token), "released")
	s.begins(s.acquire(s.attempt("c", 1), "p:1:1", 0), "busy")
}

func testLessen(s *suite) {
	if s.NoPermits {
		return
	}
	lessen := func(attempt string, ttl, permits int) string {
		return s.run(script.Lessen, attempt, ttl, permits, retention, s.base)
	}
	rec := s.listen(s.channel("b"))
	s.is(lessen(s.attempt("a", 1), 1000, 1), "gone")
	token := s.take(s.attempt("a", 1), "p:3:3")
	s.begins(s.acquire(s.attempt("b", 1), "p:2:3", waits), "queued 1")
	s.begins(lessen(s.attempt("a", 1), 0, 1), "lessened")
	s.begins(rec.next(s), "granted "+s.attempt("b", 1))
	left := strings.Fields(lessen(s.attempt("a", 1), 1000, 2))
	if ms, err := strconv.Atoi(left[1]); err != nil || ms > 1000 || left[2] != "1" {
		s.Errorf("what is left: %q", left)
	}
	s.is(s.release(s.attempt("a", 1), token), "released")
	s.is(lessen(s.attempt("a", 1), 1000, 1), "gone")
}

func testAwaitFree(s *suite) {
	if s.NoConversions {
		return
	}
	ask := func(want, watches string) string { return s.run(script.AwaitFree, want, watches, retention, s.base) }
	news := "storetest:watch=" + strings.Trim(s.tag, "{}")
	if s.Store.Sharded() {
		news = s.key + ":watch"
	}
	rec := s.listen(news)
	s.is(ask("x", "1"), "free")
	token := s.take(s.attempt("a", 1), "x")
	s.begins(ask("x", "0"), "busy")
	s.begins(ask("s", "1"), "busy")
	s.begins(s.acquire(s.attempt("b", 1), "x", 0), "busy")
	s.is(s.release(s.attempt("a", 1), token), "released")
	s.begins(rec.next(s), "free - 0 0")
	s.is(ask("p:1:2", "1"), "free")
}
