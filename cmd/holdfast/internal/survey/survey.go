// Package survey finds the locks on servers by their keys. It reads a page of keys at a
// time, so no command keeps a server busy for long, however many other keys there are.
package survey

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// page is how many keys a server looks at for one SCAN: a tenth of a millisecond.
const page = 250

// Found is a lock, or a periodic job, that has a record.
type Found struct {
	Name string
	Job  bool
}

// Scan calls found with the locks and jobs of a prefix, a page at a time and each of them
// once. Calls follow one another. If found returns an error, Scan ends with it. looked counts
// the keys that the servers have looked at.
func Scan(
	ctx context.Context, nodes []redis.UniversalClient, prefix string, looked *atomic.Int64,
	found func([]Found) error,
) error {
	seen := make(map[Found]bool) // a page may repeat keys, and the nodes of a quorum have the same locks
	return each(ctx, nodes, prefix+":{*", looked, func(_ redis.UniversalClient, keys []string) error {
		var list []Found
		for _, key := range keys {
			if f, ok := parse(prefix, key); ok && !seen[f] {
				seen[f] = true
				list = append(list, f)
			}
		}
		if len(list) == 0 {
			return nil
		}
		return found(list)
	})
}

// parse reads the key of a record.
func parse(prefix, key string) (Found, bool) {
	rest, ok := strings.CutPrefix(key, prefix+":{")
	if !ok {
		return Found{}, false
	}
	name, end, ok := strings.Cut(rest, "}")
	f := Found{Name: wire.Decode(name), Job: end == ":periodic"}
	return f, ok && (end == "" || f.Job)
}

// each reads the keys that match a pattern from every primary of every node.
func each(
	ctx context.Context, nodes []redis.UniversalClient, pattern string, looked *atomic.Int64,
	visit func(rdb redis.UniversalClient, keys []string) error,
) error {
	var mu sync.Mutex // visit is called by one primary at a time
	scan := func(ctx context.Context, rdb redis.UniversalClient) error {
		for cursor := uint64(0); ; {
			keys, next, err := rdb.Scan(ctx, cursor, pattern, page).Result()
			if err != nil {
				return err
			}
			looked.Add(page)
			if len(keys) > 0 {
				mu.Lock()
				err = visit(rdb, keys)
				mu.Unlock()
			}
			if cursor = next; err != nil || cursor == 0 {
				return err
			}
		}
	}
	var failed []error
	for _, rdb := range nodes {
		var err error
		if cluster, ok := rdb.(*redis.ClusterClient); ok {
			err = cluster.ForEachMaster(ctx, func(ctx context.Context, primary *redis.Client) error {
				return scan(ctx, primary)
			})
		} else {
			err = scan(ctx, rdb)
		}
		if err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) > (len(nodes)-1)/2 {
		return errors.Join(failed...)
	}
	return nil // a majority has every lock
}

// Size is how many keys the servers have in all, for a progress display; 0 if a server does
// not say.
func Size(ctx context.Context, nodes []redis.UniversalClient) (n int64) {
	for _, rdb := range nodes {
		keys, err := rdb.DBSize(ctx).Result()
		if err != nil {
			return 0
		}
		n += keys
	}
	return n
}

// Glob is a pattern for names: * is any text, ? is any character, [abc] one of these, and \
// takes a special character as it is.
func Glob(pattern string) (match func(name string) bool, err error) {
	if pattern == "" {
		return func(string) bool { return true }, nil
	}
	var b strings.Builder
	b.WriteString(`(?s)^`)
	class := false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		case class:
			class = c != ']'
			b.WriteByte(c)
		case c == '[':
			class = true
			b.WriteByte(c)
		case c == '*':
			b.WriteString(`.*`)
		case c == '?':
			b.WriteString(`.`)
		default:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	b.WriteString(`$`)
	re, err := regexp.Compile(b.String())
	if err != nil {
		return nil, errors.New("a [ has no ], or a range has no end")
	}
	return re.MatchString, nil
}
