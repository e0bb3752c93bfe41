package adapter

import (
	"cmp"
	"context"
	"fmt"
	"strings"
)

// ScanPage is how many keys a server visits for one SCAN. It takes some ten microseconds, so that
// even a server that just lost its processor for a while delays nobody by a millisecond.
const ScanPage = 100

// ScanKeys reads the keys of one server that begin with prefix. ask sends one SCAN and
// returns the keys of the page and the next cursor.
func ScanKeys(
	prefix string, ask func(cursor uint64, pattern string) (keys []string, next uint64, err error),
	visit func(keys []string) error,
) error {
	pattern := literally.Replace(prefix) + "*"
	for cursor := uint64(0); ; {
		keys, next, err := ask(cursor, pattern)
		if err != nil {
			return err
		}
		if err := visit(keys); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// scanTries is how often a request of a scan is sent again after its connection broke.
const scanTries = 3

// OfOneNode is a Retry for a scan of one node of a Cluster. Nothing replaces that node, so it waits
// for none.
func (r Retry) OfOneNode() Retry {
	r.Tries, r.Failover = scanTries, false
	return r
}

// ScanNodes reads the keys of each node of a Cluster. A node that fails hides no other: its error
// comes when all are read, and names the nodes that failed. The end of ctx, or an error of visit,
// ends the scan at once.
func ScanNodes[N any](
	ctx context.Context, nodes []N, addr func(N) string, visit func(keys []string) error,
	scan func(node N, visit func(keys []string) error) error,
) error {
	var failed []string
	var first error
	for _, node := range nodes {
		var stopped error
		err := scan(node, func(keys []string) error {
			stopped = visit(keys)
			return stopped
		})
		switch {
		case stopped != nil:
			return stopped
		case err == nil:
			continue
		}
		failed, first = append(failed, addr(node)), cmp.Or(first, err)
		if Ended(ctx) {
			break
		}
	}
	if first == nil {
		return nil
	}
	return fmt.Errorf("node %s: %w", strings.Join(failed, ", "), first)
}

// literally escapes what has a meaning in a pattern of SCAN.
var literally = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
