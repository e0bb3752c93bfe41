package storetest

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

var ackTests = []test{
	{"as many as there are", testAcked},
	{"more than there are", testAckedShort},
	{"forgotten scripts", testAckedForgotten},
	{"refused", testAckedRefused},
	{"ended", testAckedEnded},
}

// acked acquires, and waits for that many replicas.
func (s *suite) acked(acker store.Acker, replicas int, limit time.Duration) (string, store.Acks) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	answer, got, err := acker.RunAcked(ctx, script.Acquire, []string{s.key},
		words([]any{s.attempt("a", 1), ttl, retention, "x", 0, s.base}),
		store.Acks{Replicas: replicas}, limit)
	if err != nil {
		s.Fatalf("RunAcked: %v", err)
	}
	return answer, got
}

// On a loaded machine a time limit may pass without a fault of the store. So it is tried again: the grant is the same.
func testAcked(s *suite) {
	acker, able := s.Store.(store.Acker)
	if !able || s.Replicas == 0 {
		return
	}
	var got store.Acks
	for late := time.Now().Add(patience); time.Now().Before(late) && got.Replicas < s.Replicas; {
		var answer string
		answer, got = s.acked(acker, s.Replicas, 2*time.Second)
		s.begins(answer, "granted")
	}
	if got.Replicas != s.Replicas || got.LocalAOF != 0 {
		s.Errorf("acknowledged by %v, want %d replicas", got, s.Replicas)
	}
}

func testAckedShort(s *suite) {
	if acker, able := s.Store.(store.Acker); able {
		answer, got := s.acked(acker, s.Replicas+1, soon)
		s.begins(answer, "granted")
		if got.Replicas > s.Replicas {
			s.Errorf("acknowledged by %v, there are %d replicas", got, s.Replicas)
		}
	}
}

func testAckedForgotten(s *suite) {
	if acker, able := s.Store.(store.Acker); able && s.FlushScripts != nil {
		s.FlushScripts()
		answer, _ := s.acked(acker, 1, soon)
		s.begins(answer, "granted")
	}
}

func testAckedRefused(s *suite) {
	acker, able := s.Store.(store.Acker)
	if !able || s.Plant == nil {
		return
	}
	s.Plant(s.key)
	_, _, err := acker.RunAcked(s.Context(), script.Inspect, []string{s.key}, nil,
		store.Acks{Replicas: 1}, soon)
	var refused *store.ServerError
	if !errors.As(err, &refused) || !strings.HasPrefix(refused.Message, "WRONGTYPE ") {
		s.Errorf("got %v", err)
	}
}

func testAckedEnded(s *suite) {
	acker, able := s.Store.(store.Acker)
	if !able {
		return
	}
	ended, cancel := context.WithCancel(s.Context())
	cancel()
	_, _, err := acker.RunAcked(ended, script.Inspect, []string{s.key}, nil, store.Acks{Replicas: 1}, soon)
	s.failed("RunAcked", err, context.Canceled)
}
