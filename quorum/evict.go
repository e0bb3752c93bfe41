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

// An operator evicts the holder that it has seen, by the token. Suppose that inspect showed token
// 30, and that the second phase did not reach server 2, so the same attempt has token 28 there. Then
// servers 1 and 3 are told to evict token 30, and server 2 token 28. If the holder has changed
// meanwhile, nobody is evicted, and the answer names the token of the new holder.

// evict ends the holds on all nodes that answer, which must be a majority, or asks for their end there. The
// holder's next renewal then finds that it holds nothing, or is not renewed. The number of holds is that of a majority.
//
// Each node gets an ID of its own request, and its own bound: the nodes count their tokens separately.
//
// The second phase may write the token of the hold at the same time. A node whose token has
// changed since it was read says "changed", and is asked again with the token that it has now.
// The attempt is remembered over these tries, because the token that named it may be gone.
//
// After an error some nodes may have ended their holds, and the holder may have lost its majority:
// its next renewal tells. The operator can repeat the eviction with the same token. A node that has
// ended its hold already then says that it is free.
//
// Example: two of three nodes answer, and one of these had a holder. Its hold has ended there, and if it has a majority
// with the third node, it loses that. But whether it held the lock is not known, so the answer is an error.
func (s *Store) evict(ctx context.Context, keys, args []string) (string, error) {
	if len(args) != 5 && len(args) != 7 && len(args) != 8 {
		return "", refuse(ErrUnsupported, "ERR", "evict takes 5, 7 or 8 arguments, not %d", len(args))
	}
	ended, attempt, known := make(map[int]int), "", make(map[int]uint64)
	for tries := 0; ; tries++ {
		tokens, fences, of, err := s.tokensOnNodes(ctx, keys, args[2], attempt)
		if err != nil {
			return "", err
		}
		attempt = of
		if args[2] == wire.Force {
			for i, fence := range known { // what cannot be read has none
				fences[i] = wire.Number(fence)
			}
		}
		// Each try is a request of its own to the nodes, so it has an ID of its own, too.
		each := make([][]string, len(s.nodes))
		for i := range each {
			each[i] = append(slices.Clone(args[:2]), tokens[i], args[3], args[4])
			if len(args) > 5 {
				each[i] = append(each[i], fmt.Sprintf("%s.%d", args[5], tries), fences[i])
				each[i] = append(each[i], args[7:]...) // whether it asks
			}
		}
		changed, silent, err := s.evictTokens(ctx, keys, each, ended)
		if err != nil {
			return "", err
		}
		if args[2] == wire.Force && tries < 3 {
			maps.DeleteFunc(changed, func(i int, _ uint64) bool { return ended[i] > 0 })
			if maps.Copy(known, changed); len(changed) > 0 {
				continue // these nodes have said which record they have
			}
		}
		switch n := majority.Rank(slices.Collect(maps.Values(ended)), len(s.nodes)); {
		case n > 0:
			return fmt.Sprintf("evicted %d", n), nil
		case len(changed) == 0 && args[2] != wire.Force && // a record that is removed by force need not be a holder's
			majority.MayHold(len(ended), len(s.nodes)-len(silent), len(s.nodes)):
			return "", fmt.Errorf("quorum: the holds on the servers that answered have ended, or are to end: %w",
				&wire.UnprovenError{Silent: silent})
		case len(changed) == 0:
			return "free", nil
		case len(ended) == 0 || tries == 3:
			return fmt.Sprintf("changed %d", majority.Rank(slices.Collect(maps.Values(changed)), len(s.nodes))), nil
		}
		// The second phase was just writing the hold's token to some nodes.
	}
}

// evictTokens evicts the holder on each node by the holder's token there, and adds the number
// of ended holds to ended. It returns the tokens of other holders that it met, by node, and which nodes did not answer.
func (s *Store) evictTokens(
	ctx context.Context, keys []string, args [][]string, ended map[int]int,
) (changed map[int]uint64, silent []string, err error) {
	changed = make(map[int]uint64)
	timeout := s.requestTimeout(ctx, 0)
	answers, err := askEach(ctx, s.servers, func(ctx context.Context, i int, n *node) (wire.Answer, error) {
		return wire.Parsed(n.call(ctx.Done(), timeout, script.Evict, keys, args[i]))
	})
	if err != nil {
		return nil, nil, err
	}
	for i, a := range answers {
		switch a.Kind {
		case wire.Evicted:
			ended[i] += a.Count
		case wire.Changed:
			changed[i] = a.Token
		default: // free on this node
		}
	}
	return changed, silentOf(s.servers, answers), nil
}

// tokensOnNodes returns the tokens that the nodes have for the hold with this token on the
// majority. A node that the second phase has not reached has another one.
// If attempt is known already, the hold is that attempt's. fences are the highest tokens of the nodes; a
// node that did not answer has none, and nothing ends there.
//
// The operator's token is that of the lease. It tells which attempt is meant, and the attempt tells
// which token each node has. A node that has another holder gets the operator's token, and says
// that it has changed.
func (s *Store) tokensOnNodes(
	ctx context.Context, keys []string, token, attempt string,
) (list, fences []string, of string, err error) {
	list, fences = slices.Repeat([]string{token}, len(s.nodes)), slices.Repeat([]string{"0"}, len(s.nodes))
	if token == wire.Force {
		return list, fences, "", nil
	}
	_, own, err := s.readRecord(ctx, keys)
	if err != nil {
		return nil, nil, "", err
	}
	for i, r := range own {
		fences[i] = wire.Number(r.Fence)
	}
	if token == "0" {
		return list, fences, "", nil
	}
	for _, r := range own {
		for _, h := range r.Holders {
			if attempt == "" && wire.Number(h.Token) == token {
				attempt = h.Attempt // readers that were granted at the same time may share it: then one of them
			}
		}
	}
	for i, r := range own {
		for _, holder := range r.Holders {
			if attempt != "" && holder.Attempt == attempt {
				list[i] = wire.Number(holder.Token)
			}
		}
	}
	return list, fences, attempt, nil
}
