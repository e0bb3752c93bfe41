package rueidis

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/adapter"
)

// Scan implements [store.Scanner] by SCAN, one primary after the other. The client's user
// needs the permission +scan, which nothing else needs.
func (s *Store) Scan(ctx context.Context, prefix string, visit func(keys []string) error) error {
	if s.unusable != nil {
		return s.unusable
	}
	if s.mode != rueidis.ClientModeCluster {
		return s.scan(ctx, prefix, visit, func(cmd rueidis.Completed) answer { return s.do(ctx, cmd) })
	}
	primaries, err := s.primaries(ctx)
	if err != nil {
		return s.explain(ctx, err, nil)
	}
	for _, primary := range primaries {
		err := s.scan(ctx, prefix, visit, func(cmd rueidis.Completed) answer {
			deadline := s.deadlines.Of(ctx)
			defer deadline.Leave()
			return await(ctx, deadline, func() rueidis.RedisResult { return primary.Do(ctx, cmd) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// scan reads the keys of one server.
func (s *Store) scan(
	ctx context.Context, prefix string, visit func(keys []string) error, send func(cmd rueidis.Completed) answer,
) error {
	return adapter.ScanKeys(prefix, func(cursor uint64, pattern string) (keys []string, next uint64, err error) {
		_, err, broke := s.retry.Do(ctx, func() (string, error) {
			a := send(s.client.B().Scan().Cursor(cursor).Match(pattern).Count(adapter.ScanPage).Build())
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

// primaries returns the nodes that serve slots.
func (s *Store) primaries(ctx context.Context) (list []rueidis.Client, err error) {
	ranges, err := s.slotRanges(ctx, true)
	if err != nil {
		return nil, err
	}
	nodes, taken := s.client.Nodes(), map[string]bool{}
	for _, r := range ranges {
		switch client := nodes[r.addr]; {
		case taken[r.addr]:
		case client == nil:
			s.slots.forget()
			return nil, notSentError{errUnknownNode}
		default:
			taken[r.addr] = true
			list = append(list, client)
		}
	}
	return list, nil
}
