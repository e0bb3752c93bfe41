package rueidis

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/adapter"
)

// Scan implements [store.Scanner] by SCAN, one primary after the other. A primary that
// fails hides no other: Scan reads the others, and returns the error last. The client's user needs
// the permission +scan, which nothing else needs.
func (s *Store) Scan(ctx context.Context, prefix string, visit func(keys []string) error) error {
	if s.unusable != nil {
		return s.unusable
	}
	if s.mode != rueidis.ClientModeCluster {
		return s.scan(ctx, s.retry, prefix, visit, func(cmd rueidis.Completed) answer { return s.do(ctx, cmd) })
	}
	primaries, err := s.primaries(ctx)
	if err != nil {
		return s.explain(ctx, err, nil)
	}
	addr := func(n node) string { return n.addr }
	return adapter.ScanNodes(ctx, primaries, addr, visit, func(n node, visit func([]string) error) error {
		if n.client == nil {
			s.slots.forget()
			return s.explain(ctx, adapter.Unsent(errUnknownNode), nil)
		}
		return s.scan(ctx, s.retry.OfOneNode(), prefix, visit, func(cmd rueidis.Completed) answer {
			deadline := s.deadlines.Of(ctx)
			defer deadline.Leave()
			return await(ctx, deadline, func(ctx context.Context) rueidis.RedisResult { return n.client.Do(ctx, cmd) })
		})
	})
}

// scan reads the keys of one server.
func (s *Store) scan(
	ctx context.Context, retry adapter.Retry, prefix string, visit func(keys []string) error,
	send func(cmd rueidis.Completed) answer,
) error {
	return adapter.ScanKeys(prefix, func(cursor uint64, pattern string) (keys []string, next uint64, err error) {
		_, err, broke := retry.Do(ctx, true, func() (string, error) {
			// rueidis would repeat what it knows to be only a reading, while ctx allows.
			a := send(s.client.B().Arbitrary("SCAN", strconv.FormatUint(cursor, 10), "MATCH", pattern,
				"COUNT", strconv.Itoa(adapter.ScanPage)).Build())
			if a.err != nil {
				return "", a.err
			}
			page, err := a.result.AsScanEntry()
			keys, next = page.Elements, page.Cursor
			return "", err
		})
		if err != nil {
			err = s.explain(ctx, err, broke)
		}
		return keys, next, err
	}, visit)
}

// primaries returns the nodes that serve slots. A node that rueidis does not know has no client.
func (s *Store) primaries(ctx context.Context) (list []node, err error) {
	ranges, err := s.slotRanges(ctx, true)
	if err != nil {
		return nil, err
	}
	nodes, taken := s.client.Nodes(), map[string]bool{}
	for _, r := range ranges {
		if !taken[r.addr] {
			taken[r.addr] = true
			list = append(list, node{r.addr, nodes[r.addr]})
		}
	}
	return list, nil
}
