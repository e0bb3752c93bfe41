package quorum

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// evict takes the lock away on all nodes that answer, which must be a majority:
// the holder's next renewal then finds that it has none. As many holds have
// ended as a majority says.
func (s *Store) evict(ctx context.Context, keys, args []string) (string, error) {
	if len(args) != 5 {
		return "", refuse(ErrUnsupported, "ERR", "evict takes 5 arguments, not %d", len(args))
	}
	ended, attempt := make(map[int]int), ""
	for tries := 0; ; tries++ {
		tokens, of, err := s.tokensOnNodes(ctx, keys, args[2], attempt)
		if err != nil {
			return "", err
		}
		attempt = of
		changed, err := s.evictTokens(ctx, keys, args, tokens, ended)
		if err != nil {
			return "", err
		}
		switch n := majority.Rank(slices.Collect(maps.Values(ended)), len(s.nodes)); {
		case n > 0:
			return fmt.Sprintf("evicted %d", n), nil
		case len(changed) == 0:
			return "free", nil
		case len(ended) == 0 || tries == 3:
			return fmt.Sprintf("changed %d", majority.Rank(changed, len(s.nodes))), nil
		}
		// The token of the hold that is meant was just being lifted on some.
	}
}

// evictTokens evicts on each node who holds there by its token, and adds to ended how
// many holds that were. It answers the tokens of others who hold instead.
func (s *Store) evictTokens(
	ctx context.Context, keys, args, tokens []string, ended map[int]int,
) (changed []uint64, err error) {
	answers := make([]string, len(s.nodes))
	timeout := s.requestTimeout(ctx, 0)
	failed, err := s.askEach(ctx, timeout, func(_ context.Context, i int, n *node) (err error) {
		own := slices.Clone(args)
		own[2] = tokens[i]
		answers[i], err = n.call(timeout, script.Evict, keys, own)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(failed) > len(s.nodes)-s.majority:
		return nil, s.noMajority(failed)
	}
	for i, answer := range answers {
		if answer == "" {
			continue
		}
		a, err := wire.Parse(answer)
		if err != nil {
			return nil, &nodeError{s.nodes[i].name(), err}
		}
		switch a.Kind {
		case wire.Evicted:
			ended[i] += a.Count
		case wire.Changed:
			changed = append(changed, a.Token)
		default: // free there
		}
	}
	return changed, nil
}

// tokensOnNodes are what the nodes call the hold that has this token in sum: a node
// that granted late, or was not reached by the second phase, has another. The hold
// is that of attempt, if that is known already.
func (s *Store) tokensOnNodes(
	ctx context.Context, keys []string, token, attempt string,
) (list []string, of string, err error) {
	list = slices.Repeat([]string{token}, len(s.nodes))
	if token == "0" {
		return list, "", nil
	}
	_, own, err := s.readRecord(ctx, keys, nil)
	if err != nil {
		return nil, "", err
	}
	for _, r := range own {
		for _, h := range r.Holders {
			if attempt == "" && wire.Number(h.Token) == token {
				attempt = h.Attempt // no two leases have it, on any node
			}
		}
	}
	for i, r := range own {
		for _, mine := range r.Holders {
			if attempt != "" && mine.Attempt == attempt {
				list[i] = wire.Number(mine.Token)
			}
		}
	}
	return list, attempt, nil
}
