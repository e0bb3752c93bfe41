package scan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
)

// pages is a store whose scan has these pages.
type pages struct {
	*memstore.Store
	list [][]string
}

func (p pages) Scan(_ context.Context, prefix string, visit func([]string) error) error {
	if prefix != "p:{" {
		return fmt.Errorf("scan of %q", prefix)
	}
	for _, keys := range p.list {
		if err := visit(keys); err != nil {
			return err
		}
	}
	return nil
}

func TestRecordsAreFoundOnceAndNothingElse(t *testing.T) {
	s := pages{list: [][]string{
		{"p:{a}", "p:{a b%7D}", "p:{a}:periodic"}, {}, {"p:{x}:other", "p:client:{a}", "p:{unclosed", "p:{a}", "q:{b}"},
	}}
	var got []Record
	all := func(string) bool { return true }
	err := Records(t.Context(), s, "p", all, func(r Record) error {
		got = append(got, r)
		return nil
	})
	want := []Record{{"a", false}, {"a b}", false}, {"a", true}}
	assert.True(t, err == nil && slices.Equal(got, want), "%v, want %v; %v", got, want, err)
}

func TestRecordsEndsWithItsCaller(t *testing.T) {
	s := pages{list: [][]string{{"p:{a}", "p:{b}"}, {"p:{c}"}}}
	enough, n := errors.New("enough"), 0
	err := Records(t.Context(), s, "p", func(name string) bool { return name != "a" }, func(Record) error {
		n++
		return enough
	})
	assert.True(t, errors.Is(err, enough) && n == 1, "%d records, %v", n, err)
}
