package quorum

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/batch"
	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// Example: a lease has the token 30, on servers 1 and 2. Server 3 holds it, too, but the second
// phase did not reach it, so it has the token 28 that it drew itself. If 1 and 2 answer, two of
// three say that 30 is live there, and nothing else is asked. If server 1 is away, server 2 says so
// alone. Then the records tell that the attempt with the token 30 holds on server 3, too.

// check says for which tokens there is a live lease: a majority must have it.
//
// A "no" needs the records: too few servers may have the token, though a majority has the attempt.
// A "yes" needs one request to each server. An error says that no majority answered, and nothing is
// known of any token.
func (s *Store) check(ctx context.Context, keys, args []string) (string, error) {
	if len(args) != len(keys) {
		return "", refuse(errInvalidCall, "ERR", "check takes %d tokens for as many keys, not %d", len(keys), len(args))
	}
	timeout := s.requestTimeout(ctx, 0)
	own, err := askEach(ctx, s.servers, func(ctx context.Context, _ int, n *node) ([]wire.CheckLine, error) {
		return n.check(ctx, timeout, keys, args)
	})
	if err != nil {
		return "", err
	}
	lines, unread := make([]wire.CheckLine, len(keys)), make(map[string][]int)
	for l, key := range keys {
		live := 0
		for _, list := range own {
			if list[l].Live {
				live++
			}
		}
		if lines[l].Live = live >= s.majority; !lines[l].Live {
			unread[key] = append(unread[key], l)
		}
	}
	if err := s.checkRecords(ctx, unread, args, lines); err != nil {
		return "", err
	}
	words := make([]string, len(keys))
	for l := range lines {
		words[l] = lines[l].String()
	}
	return strings.Join(words, "\n"), nil
}

// check asks a node about several tokens. If it refuses because of one key, the others are asked for without that: see
// node.renew. What it refuses is unread.
func (n *node) check(ctx context.Context, timeout time.Duration, keys, args []string) ([]wire.CheckLine, error) {
	list := make([]wire.CheckLine, len(keys))
	send := func(from, to int) error {
		answer, err := n.call(ctx.Done(), timeout, script.Check, keys[from:to], args[from:to])
		if err != nil {
			return err
		}
		some, err := wire.ParseChecks(answer, to-from)
		copy(list[from:], some)
		return err
	}
	err := send(0, len(keys))
	if !batch.ConcernsAKey(err) || len(keys) == 1 {
		return list, err
	}
	for l, refused := range batch.Apart(len(keys), err, send) {
		list[l].Unread = list[l].Unread || refused != nil
	}
	return list, nil
}

// mostRecords is how many records a check reads at the same time, at most. Each is read on all
// servers.
const mostRecords = 16

// checkRecords writes the lines of the tokens that too few servers have called live. unread has their places, by
// key. A record is read once, and several at the same time: stale tokens would delay the others of their batch.
func (s *Store) checkRecords(
	ctx context.Context, unread map[string][]int, args []string, lines []wire.CheckLine,
) (first error) {
	slots := make(chan struct{}, mostRecords)
	var all sync.WaitGroup
	var once sync.Once
	for key, places := range unread {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			if err := s.checkRecord(ctx, key, places, args, lines); err != nil {
				once.Do(func() { first = err })
			}
		})
	}
	all.Wait()
	return first
}

// checkRecord is check of some tokens by the records of a key. It writes only the lines at these
// places, so the goroutines of checkRecords need no mutex.
func (s *Store) checkRecord(
	ctx context.Context, key string, places []int, args []string, lines []wire.CheckLine,
) error {
	merged, own, err := s.readRecord(ctx, []string{key})
	if err != nil {
		return err
	}
	for _, l := range places {
		token, err := strconv.ParseUint(args[l], 10, 64)
		if err != nil {
			return refuse(errInvalidCall, "ERR", "check: the token %q is not a number", args[l])
		}
		lines[l] = s.checkToken(&merged, own, token)
	}
	return nil
}

// checkToken is check by the records. A server that the second phase has not reached has
// another token for the same attempt. So the token tells the attempt, as in tokensOnNodes, and the attempt must
// hold on a majority. Two attempts have one token only if they are readers that were granted at the same time.
func (s *Store) checkToken(merged *wire.Record, own map[int]wire.Record, token uint64) wire.CheckLine {
	attempt, live, answer := "", 0, wire.CheckLine{}
	for _, r := range own {
		for _, h := range r.Holders {
			if h.Token == token && !h.Kept {
				attempt, answer = h.Attempt, h.Check()
			}
		}
	}
	for _, r := range own {
		for _, h := range r.Holders {
			if attempt != "" && h.Attempt == attempt && !h.Kept {
				live++
			}
		}
	}
	switch {
	case live >= s.majority:
		return answer
	case majority.MayHold(live, len(own), len(s.nodes)):
		return wire.CheckLine{Unread: true} // the client then reads the record, which says which servers did not answer
	}
	found := merged.Check(token)
	found.Live, found.Unknown = false, false // a majority has the attempt, but not as a live hold
	return found
}
