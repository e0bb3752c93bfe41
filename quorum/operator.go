package quorum

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/majority"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// askMajority asks all nodes and waits for each, in order; "" where one failed. The
// error says that fewer than a majority answered.
func (s *Store) askMajority(ctx context.Context, action *script.Script, keys, args []string) ([]string, error) {
	list := make([]string, len(s.nodes))
	timeout := s.requestTimeout(ctx, 0)
	failed, err := s.askEach(ctx, timeout, func(_ context.Context, i int, n *node) (err error) {
		list[i], err = n.call(timeout, action, keys, args)
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

// askInOrder asks the nodes in order until one answers: for attempts that the quorum
// does not know, which hold nothing anywhere.
func (s *Store) askInOrder(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	timeout := s.requestTimeout(ctx, 0)
	failed := make(map[int]error)
	for _, i := range s.order(keys[0]) {
		replies := make(chan reply, 1)
		if !s.life.Go(func() {
			answer, err := s.nodes[i].call(timeout, action, keys, args)
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

// reply is what one node answered.
type reply struct {
	i      int
	answer string
	err    error
}

// inspect reads the lock as a majority sees it: held by those who hold it on a
// majority, waited for by those in the line of its lead.
func (s *Store) inspect(ctx context.Context, keys, args []string) (string, error) {
	merged, _, err := s.readRecord(ctx, keys, args)
	if err != nil {
		return "", err
	}
	return majority.Format(&merged), nil
}

// readRecord is the lock as a majority sees it, and as each node that answered does.
func (s *Store) readRecord(ctx context.Context, keys, args []string) (wire.Record, map[int]wire.Record, error) {
	answers, err := s.askMajority(ctx, script.Inspect, keys, args)
	if err != nil {
		return wire.Record{}, nil, err
	}
	var records []wire.Record
	own := make(map[int]wire.Record)
	for _, i := range s.order(keys[0]) {
		if answers[i] == "" {
			continue
		}
		r, err := wire.ParseRecord(answers[i])
		if err != nil {
			return wire.Record{}, nil, &nodeError{s.nodes[i].name(), err}
		}
		for h := range r.Holders {
			r.Holders[h].Attempt = clientAttempt(r.Holders[h].Attempt)
		}
		for w := range r.Waiters {
			r.Waiters[w].Attempt = clientAttempt(r.Waiters[w].Attempt)
		}
		records = append(records, r)
		own[i] = r
	}
	return majority.Merge(records, len(s.nodes)), own, nil
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

// checkACL asks all nodes what their user may not run: what is missing on one is
// missing.
func (s *Store) checkACL(ctx context.Context, keys, args []string) (string, error) {
	answers, err := s.askMajority(ctx, script.Permit, keys, args)
	if err != nil {
		return "", err
	}
	said := "permitted"
	for _, answer := range answers {
		switch {
		case strings.HasPrefix(answer, "missing "):
			return answer, nil
		case answer == "unknown":
			said = answer
		}
	}
	return said, nil
}

// registerClient makes the client known on the nodes that answer: one is enough.
func (s *Store) registerClient(ctx context.Context, keys, args []string) (string, error) {
	return s.askForFirst(ctx, script.Announce, keys, args, "announced")
}

// readClient asks who a client is: the word of one node is enough.
func (s *Store) readClient(ctx context.Context, keys, args []string) (string, error) {
	return s.askForFirst(ctx, script.Whois, keys, args, "client")
}

// askForFirst asks all nodes and waits for those that are expected to answer. It
// answers what one said that begins with word, else what any said.
func (s *Store) askForFirst(
	ctx context.Context, action *script.Script, keys, args []string, word string,
) (string, error) {
	replies := make(chan reply, len(s.nodes))
	timeout := s.requestTimeout(ctx, 0)
	for i, n := range s.nodes {
		if !s.life.Go(func() {
			answer, err := n.call(timeout, action, keys, args)
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
