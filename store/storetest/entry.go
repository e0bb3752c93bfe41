package storetest

import (
	"strings"

	"github.com/holdfast-go/holdfast/script"
)

var entryTests = []test{
	{"entering together", testTogether},
	{"release_after", testReleaseAfter},
	{"check_acl", testCheckACL},
}

// If an owner is granted, all waiters of that owner are granted, and each gets a push.
func testTogether(s *suite) {
	if s.NoOwners {
		return
	}
	rec := s.listen(s.channel("b"))
	token := s.take(s.attempt("a", 1), "x")
	s.begins(s.acquire(s.attempt("b", 1), "x", waits, "alice"), "queued 1")
	s.begins(s.acquire(s.attempt("c", 1), "x", waits, "carol"), "queued 2")
	s.begins(s.acquire(s.attempt("b", 2), "x", waits, "alice"), "queued 3")
	s.is(s.release(s.attempt("a", 1), token), "released")
	first, second := strings.Fields(rec.next(s)), strings.Fields(rec.next(s))
	if len(first) < 4 || len(second) < 4 || first[1] != s.attempt("b", 1) || second[1] != s.attempt("b", 2) {
		s.Fatalf("pushed %q and %q, want a grant to each in order", first, second)
	}
	if first[2] != second[2] {
		s.Errorf("tokens %s and %s of one hold", first[2], second[2])
	}
	s.is(s.release(s.attempt("b", 1), first[2], "alice"), "held 1")
	s.begins(s.acquire(s.attempt("c", 1), "x", waits, "carol"), "queued 1")
}

// A lock that is released and kept has no holder, and the first waiter is told for how long.
func testReleaseAfter(s *suite) {
	giveUp := func(attempt, token string, least int, owner ...any) string {
		return s.run(script.ReleaseAfter, append([]any{attempt, token, least, 0, retention, s.base}, owner...)...)
	}
	rec := s.listen(s.channel("b"))
	s.is(giveUp(s.attempt("a", 1), "7", 5000), "gone")
	token := s.take(s.attempt("a", 1), "x")
	s.begins(s.acquire(s.attempt("b", 1), "x", waits), "queued 1")
	s.begins(giveUp(s.attempt("a", 1), token, 5000), "kept")
	s.begins(rec.next(s), "kept "+s.attempt("b", 1))
	s.begins(giveUp(s.attempt("a", 1), token, 5000), "kept")
	s.is(s.run(script.Renew, retention, ttl, s.attempt("a", 1)), "renewed -")
	s.begins(s.acquire(s.attempt("c", 1), "x", 0), "busy")

	if s.NoOwners {
		return
	}
	s.key += "entries"
	token = s.take(s.attempt("a", 2), "x", "alice")
	s.is(s.acquire(s.attempt("c", 2), "x", 0, "alice"), "granted "+token+" 0")
	s.is(giveUp(s.attempt("a", 2), token, 5000, "alice"), "held 1")
	s.is(giveUp(s.attempt("c", 2), token, 0, "alice"), "released")
}

func testCheckACL(s *suite) {
	answer := s.run(script.CheckACL, s.channel("a"))
	if answer != "permitted" && answer != "unknown" {
		s.Errorf("the user of this suite may not run everything: %s", answer)
	}
	s.is(s.run(script.Inspect), "absent")
}
