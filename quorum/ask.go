package quorum

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/script"
)

// Three ways to ask the servers, for actions that are no acquisition.
//
//   - askEach asks all and needs a majority. Example: inspect reads the record on each server.
//   - askInOrder asks one after the other, until one answers. Example: a poll for an attempt that
//     this process does not know, which holds nothing anywhere.
//   - askForFirst asks all and takes the best of the answers. Example: reading what a client has
//     registered, where one server that knows it is enough.
//
// None of them waits for a silent server once the others are enough. A server is silent if its last
// request got no answer, see node.noteAnswers.
//
// In each of them one goroutine per server sends a request and puts the result into a channel that
// has room for all. So the call can end before its goroutines do: with a majority, or with its
// context. Each request is bounded by requestTimeout, so each goroutine ends, too.

// forever is the delay of a timer that is not set yet.
const forever = math.MaxInt64 * time.Nanosecond

// requestTimeout bounds one request to one node, for a lease of ttl; 0 means no lease.
//
// Example: Timeout is 500 ms, and the lease 2 s. A request gets 200 ms. If a majority of the
// servers takes 100 ms to answer, it gets 300 ms: three times as long.
func (s *servers) requestTimeout(ctx context.Context, ttl time.Duration) time.Duration {
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

// askEach asks all nodes at once and returns the answers by node. ask limits its own time. Once a
// majority has answered, it does not wait for silent nodes. If no majority answers, it returns an
// error. ask gets a context that ends with the call: what is not sent by then need not be.
//
// A silent node is asked all the same, and its answer counts if it comes before the others are done.
//
// Example: 3 of five servers is silent. 1, 2 and 4 have answered after 1 ms: a majority, but 5 is
// expected to answer, too. It does after 2 ms, and the call ends with four answers.
func askEach[T any](
	ctx context.Context, s *servers, ask func(ctx context.Context, i int, n *node) (T, error),
) (map[int]T, error) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	// A goroutine may write its answer after this call has returned. Nobody reads it then.
	got := make([]T, len(s.nodes)) // each is written before its result is sent
	done := s.startOnEach(func(i int, n *node) (err error) {
		got[i], err = ask(ctx, i, n)
		return err
	})
	answers, failed, heard := make(map[int]T), make(map[int]error), make([]bool, len(s.nodes))
	for open := len(s.nodes); open > 0 && (len(answers) < s.majority || !s.onlySilentLeft(heard)); open-- {
		select {
		case r := <-done:
			if heard[r.i] = true; r.err != nil {
				failed[r.i] = r.err
			} else {
				answers[r.i] = got[r.i]
			}
		case <-ctx.Done():
			return nil, s.interrupted(ctx, failed, heard)
		}
	}
	if len(answers) < s.majority {
		return nil, s.noMajority(failed)
	}
	return answers, nil
}

// askInOrder asks one node after the other until one answers. It serves attempts that the
// quorum does not know: they hold nothing on any node.
func (s *servers) askInOrder(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	timeout := s.requestTimeout(ctx, 0)
	failed, unasked := make(map[int]error), slices.Repeat([]bool{true}, len(s.nodes))
	for _, i := range s.order(keys[0]) {
		unasked[i] = false
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
			return "", s.interrupted(ctx, failed, unasked)
		}
	}
	return "", s.noMajority(failed)
}

// askForFirst asks all nodes and waits for those that are expected to answer. It prefers an
// answer that begins with word; without one it returns any answer.
func (s *servers) askForFirst(
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
			return "", s.interrupted(ctx, failed, heard)
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
func (s *servers) startOnEach(ask func(i int, n *node) error) <-chan result {
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
// A wait that has what it needs ends by it, so one dead server costs the first request a timeout, and
// the later ones nothing. A wait that lacks a majority goes on: a silent server may be back.
func (s *servers) onlySilentLeft(heard []bool) bool {
	for i, n := range s.nodes {
		if !heard[i] && !n.isSilent() {
			return false
		}
	}
	return true
}
