// Package scan finds the records under a prefix by their keys.
package scan

import (
	"context"
	"strings"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/store"
)

// Record is a record that exists: that of a lock, or of a periodic job.
type Record struct {
	Name string
	Job  bool
}

// Records calls found once for each record under prefix whose name matches. If found returns
// an error, Records returns it.
func Records(
	ctx context.Context, s store.Scanner, prefix string, match func(name string) bool, found func(Record) error,
) error {
	seen := make(map[Record]bool) // a scan may repeat keys
	return s.Scan(ctx, prefix+":{", func(keys []string) error {
		for _, key := range keys {
			r, ok := parse(prefix, key)
			if !ok || seen[r] || !match(r.Name) {
				continue
			}
			seen[r] = true
			if err := found(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// parse reads the key of a record.
func parse(prefix, key string) (Record, bool) {
	rest, ok := strings.CutPrefix(key, prefix+":{")
	if !ok {
		return Record{}, false
	}
	name, end, ok := strings.Cut(rest, "}")
	r := Record{Name: wire.Decode(name), Job: end == ":periodic"}
	return r, ok && (end == "" || r.Job)
}
