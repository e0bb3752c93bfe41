package storetest

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

var errorTests = []test{
	{"wrong type", testWrongType},
	{"wrong arguments", testWrongArguments},
	{"forgotten scripts", testForgottenScripts},
}

// A refusal is a *ServerError with the server's code and its whole message.
func testWrongType(s *suite) {
	if s.Plant == nil {
		return
	}
	s.Plant(s.key)
	for action, args := range map[*script.Script][]any{
		script.Acquire:  {s.attempt("a", 1), ttl, life, "x", 0, s.base},
		script.Release:  {s.attempt("a", 1), 7, retention, s.base},
		script.Poll:     {s.attempt("a", 1), ttl, retention, waits, s.base},
		script.Cancel:   {s.attempt("a", 1), retention, s.base},
		script.Evict:    {"ops", "test", 0, retention, s.base},
		script.Convert:  {s.attempt("a", 1), 7, "s", ttl, retention, s.base},
		script.SetLimit: {2, retention, s.base},
		script.Inspect:  nil,
	} {
		if action == script.Convert && s.NoConversions || action == script.SetLimit && s.NoPermits {
			continue
		}
		refused := s.refused(action, args)
		if refused.Code != "WRONGTYPE" || !strings.HasPrefix(refused.Message, "WRONGTYPE ") {
			s.Errorf("%s: code %q, message %q", action.Name, refused.Code, refused.Message)
		}
	}
	s.is(s.run(script.Renew, retention, ttl, s.attempt("a", 1)), "renewed -")
}

// A script that fails is a refusal, too: the server has answered.
func testWrongArguments(s *suite) {
	refused := s.refused(script.Acquire, []any{"only-an-attempt", "a-word"})
	if refused.Code == "" || refused.Message == "" {
		s.Errorf("code %q, message %q", refused.Code, refused.Message)
	}
}

func (s *suite) refused(action *script.Script, args []any) *store.ServerError {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	answer, err := s.Store.Run(ctx, action, []string{s.key}, words(args))
	var refused *store.ServerError
	if !errors.As(err, &refused) {
		s.Fatalf("%s answered %q and the error %v, want a *store.ServerError", action.Name, answer, err)
	}
	if answer != "" {
		s.Errorf("%s answered %q beside its error", action.Name, answer)
	}
	return refused
}

// A server forgets scripts when it restarts or fails over. No caller notices.
func testForgottenScripts(s *suite) {
	if s.FlushScripts == nil {
		return
	}
	token := s.take(s.attempt("a", 1), "x")
	s.FlushScripts()
	s.is(s.acquire(s.attempt("a", 1), "x", 0), "granted "+token+" 0")
	s.is(s.run(script.Renew, retention, ttl, s.attempt("a", 1)), "renewed 0")
	s.FlushScripts()
	s.is(s.release(s.attempt("a", 1), token), "released")
	s.FlushScripts()
	testOneAtATime(s)
}
