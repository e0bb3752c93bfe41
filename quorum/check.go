package quorum

import (
	"context"
	"strconv"
	"strings"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// Example: a lease has the token 30, on servers 1 and 2. Server 3 granted late, and drew 28. If 1 and 2
// answer, two of three say that 30 is live there, and nothing else is asked. If server 1 is away, server 2 says
// so alone. Then the records tell that the attempt with the token 30 holds on server 3, too.

// check says for which tokens there is a live lease: a majority must have it.
func (s *Store) check(ctx context.Context, keys, args []string) (string, error) {
	if len(args) != len(keys) {
		return "", refuse(errInvalidCall, "ERR", "check takes %d tokens for as many keys, not %d", len(keys), len(args))
	}
	timeout := s.requestTimeout(ctx, 0)
	own, err := askEach(ctx, s.servers, func(ctx context.Context, _ int, n *node) ([]wire.CheckLine, error) {
		answer, err := n.call(ctx.Done(), timeout, script.Check, keys, args)
		if err != nil {
			return nil, err
		}
		return wire.ParseChecks(answer, len(keys))
	})
	if err != nil {
		return "", err
	}
	lines := make([]string, len(keys))
	for l, key := range keys {
		live := 0
		for _, list := range own {
			if list[l].Live {
				live++
			}
		}
		line := wire.CheckLine{Live: live >= s.majority}
		if !line.Live {
			if line, err = s.checkRecord(ctx, key, args[l]); err != nil {
				return "", err
			}
		}
		lines[l] = line.String()
	}
	return strings.Join(lines, "\n"), nil
}

// checkRecord is check by the records. A server that granted late, or that the second phase did not reach, has
// another token for the same attempt. So the token tells the attempt, as in tokensOnNodes, and the attempt must
// hold on a majority. No server has both the token and another attempt.
func (s *Store) checkRecord(ctx context.Context, key, word string) (wire.CheckLine, error) {
	merged, own, err := s.readRecord(ctx, []string{key})
	if err != nil {
		return wire.CheckLine{}, err
	}
	token, err := strconv.ParseUint(word, 10, 64)
	if err != nil {
		return wire.CheckLine{}, refuse(errInvalidCall, "ERR", "check: the token %q is not a number", word)
	}
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
	if live >= s.majority {
		return answer, nil
	}
	found := merged.Check(token)
	found.Live, found.Unknown = false, false // a majority has the attempt, but not as a live hold
	return found, nil
}
