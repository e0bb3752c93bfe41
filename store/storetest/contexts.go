package storetest

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

var contextTests = []test{
	{"ended", testEndedContext},
	{"silent server", testSilentServer},
	{"silent server, cancelled", testCancelled},
	{"after the silence", testAfterSilence},
}

// calls are the functions of a Store that take a context.
func (s *suite) calls() map[string]func(ctx context.Context) error {
	return map[string]func(ctx context.Context) error{
		"Run": func(ctx context.Context) error {
			_, err := s.Store.Run(ctx, script.Inspect, []string{s.key}, nil)
			return err
		},
		"Listen": func(ctx context.Context) error {
			stop, err := s.Store.Listen(ctx, s.channel("silence"), store.Listener{})
			if err == nil {
				stop()
			}
			return err
		},
		"Server": func(ctx context.Context) error {
			_, err := s.Store.Server(ctx)
			return err
		},
	}
}

// failed expects an error that wraps the context's and is not a refusal.
func (s *suite) failed(name string, err, cause error) {
	s.Helper()
	var refused *store.ServerError
	if !errors.Is(err, cause) || errors.As(err, &refused) {
		s.Errorf("%s: %v (%T), want %v", name, err, err, cause)
	}
}

func testEndedContext(s *suite) {
	ended, cancel := context.WithCancel(s.Context())
	cancel()
	for name, call := range s.calls() {
		s.within(name, func() { s.failed(name, call(ended), context.Canceled) })
	}
	_, err := s.Store.Run(ended, script.Acquire, []string{s.key},
		words([]any{s.attempt("a", 1), ttl, life, "x", 0, s.base}))
	s.failed("Run", err, context.Canceled)
	s.is(s.run(script.Inspect), "absent")
}

// steady makes so many requests that a store may have all its connections, and takes its server for one that answers.
func (s *suite) steady() {
	for range 100 {
		s.run(script.Inspect)
	}
}

// A silent server delays no caller beyond its context.
func testSilentServer(s *suite) {
	if s.Silence == nil {
		return
	}
	s.steady()
	s.listen(s.channel("b"))
	resume := s.Silence()
	defer resume()
	for name, call := range s.calls() {
		ctx, cancel := context.WithTimeout(s.Context(), soon)
		s.within(name, func() { s.failed(name, call(ctx), context.DeadlineExceeded) })
		cancel()
	}
}

func testCancelled(s *suite) {
	if s.Silence == nil {
		return
	}
	s.steady()
	resume := s.Silence()
	defer resume()
	for name, call := range s.calls() {
		ctx, cancel := context.WithCancel(s.Context())
		errs := make(chan error)
		go func() { errs <- call(ctx) }()
		cancel()
		s.within(name, func() { s.failed(name, <-errs, context.Canceled) })
	}
}

// Late answers to requests that were given up do not reach later requests.
func testAfterSilence(s *suite) {
	if s.Silence == nil {
		return
	}
	rec := s.listen(s.channel("b"))
	s.take(s.attempt("a", 1), "x")
	resume := s.Silence()
	for range 3 {
		for _, call := range s.calls() {
			ctx, cancel := context.WithTimeout(s.Context(), soon)
			if err := call(ctx); err == nil {
				s.Error("a silent server answered")
			}
			cancel()
		}
	}
	resume()
	s.begins(s.run(script.Inspect), "lock")
	s.begins(s.acquire(s.attempt("b", 1), "x", 0), "busy")
	s.eventually(rec, s.channel("b"))
}
