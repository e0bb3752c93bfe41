package quorum

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/script"
)

// forever is the delay of a timer that is not set yet.
const forever = math.MaxInt64 * time.Nanosecond

// requestTimeout bounds one request to one node, for a lease of ttl; 0 means no lease.
func (s *Store) requestTimeout(ctx context.Context, ttl time.Duration) time.Duration {
	var left time.Duration
	if at, ok := ctx.Deadline(); ok {
		left = max(time.Until(at), time.Millisecond)
	}
	paces := make([]time.Duration, len(s.nodes))
	for i, n := range s.nodes {
		paces[i] = time.Duration(n.pace.Load())
	}
	return majority.RequestTimeout(s.cfg.Timeout, ttl, left, majority.PaceOfMost(paces))
}

// askEach asks all nodes at once and waits for all of them, each for at most timeout. It
// returns the errors of the nodes that failed. Its own error is that of ctx.
func (s *Store) askEach(
	ctx context.Context, timeout time.Duration, ask func(ctx context.Context, i int, n *node) error,
) (map[int]error, error) {
	failed := make(map[int]error)
	done := s.startOnEach(func(i int, n *node) error {
		bounded, cancel := context.WithTimeout(s.life.Context(), timeout)
		defer cancel()
		return ask(bounded, i, n)
	})
	for range s.nodes {
		select {
		case r := <-done:
			if r.err != nil {
				failed[r.i] = r.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return failed, nil
}

// askMajority asks all nodes and waits for all of them. It returns their answers by node, ""
// for a node that failed. It returns an error if fewer than a majority answered.
func (s *Store) askMajority(ctx context.Context, action *script.Script, keys, args []string) ([]string, error) {
	list := make([]string, len(s.nodes))
	timeout := s.requestTimeout(ctx, 0)
	failed, err := s.askEach(ctx, timeout, func(_ context.Context, i int, n *node) (err error) {
		list[i], err = n.call(ctx.Done(), timeout, action, keys, args)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(failed) > len(s.nodes)-s.majority:
		return nil, s.noMajority(failed)
	}
	return list, nil
}

// askInOrder asks one node after the other until one answers. It serves attempts that the
// quorum does not know: they hold nothing on any node.
func (s *Store) askInOrder(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	timeout := s.requestTimeout(ctx, 0)
	failed := make(map[int]error)
	for _, i := range s.order(keys[0]) {
		replies := make(chan reply, 1)
		if !s.life.Go(label.Caller, func() {
			answer, err := s.nodes[i].call(ctx.Done(), timeout, action, keys, args)
			replies <- reply{i, answer, err}
		}) {
			return "", ErrClosed
		}
		select {
		case r := <-replies:
			if r.err == nil || isRefusal(r.err) {
				return r.answer, r.err
			}
			failed[i] = r.err
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	return "", s.noMajority(failed)
}

// askForFirst asks all nodes and waits for those that are expected to answer. It prefers an
// answer that begins with word; without one it returns any answer.
func (s *Store) askForFirst(
	ctx context.Context, action *script.Script, keys, args []string, word string,
) (string, error) {
	replies := make(chan reply, len(s.nodes))
	timeout := s.requestTimeout(ctx, 0)
	for i, n := range s.nodes {
		if !s.life.Go(label.Caller, func() {
			answer, err := n.call(ctx.Done(), timeout, action, keys, args)
			replies <- reply{i, answer, err}
		}) {
			return "", ErrClosed
		}
	}
	found, heard, failed := "", make([]bool, len(s.nodes)), make(map[int]error)
	for open := len(s.nodes); open > 0 && (found == "" || !s.onlySilentLeft(heard)); open-- {
		select {
		case r := <-replies:
			heard[r.i] = true
			if r.err != nil {
				failed[r.i] = r.err
			} else if found == "" || strings.HasPrefix(r.answer, word+" ") {
				found = r.answer
			}
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	if found == "" {
		return "", s.noMajority(failed)
	}
	return found, nil
}

// reply is the answer of one node.
type reply struct {
	i      int
	answer string
	err    error
}

// startOnEach runs ask for every node at once. It sends each result, whether anybody still
// waits for it or not.
func (s *Store) startOnEach(ask func(i int, n *node) error) <-chan result {
	done := make(chan result, len(s.nodes))
	for i, n := range s.nodes {
		if !s.life.Go(label.Caller, func() { done <- result{i, ask(i, n)} }) {
			done <- result{i, ErrClosed}
		}
	}
	return done
}

// result is the outcome of a request to a node.
type result struct {
	i   int
	err error
}

// onlySilentLeft reports whether every node that has not been heard is a silent one, from
// which no answer is expected.
func (s *Store) onlySilentLeft(heard []bool) bool {
	for i, n := range s.nodes {
		if !heard[i] && !n.isSilent() {
			return false
		}
	}
	return true
}
