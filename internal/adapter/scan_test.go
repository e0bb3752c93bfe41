package adapter

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// keyspace answers SCAN with its pages, and keeps the patterns that it was asked for.
type keyspace struct {
	pages    [][]string
	patterns []string
}

func (k *keyspace) ask(cursor uint64, pattern string) ([]string, uint64, error) {
	k.patterns = append(k.patterns, pattern)
	return k.pages[cursor], (cursor + 1) % uint64(len(k.pages)), nil
}

func TestScanKeysReadsEveryPage(t *testing.T) {
	k, got := &keyspace{pages: [][]string{{"a"}, {}, {"b", "c"}}}, []string{}
	err := ScanKeys("a", k.ask, func(keys []string) error {
		got = append(got, keys...)
		return nil
	})
	want := []string{"a", "b", "c"}
	assert.True(t, err == nil && slices.Equal(got, want), "%q, want %q; %v", got, want, err)
}

func TestScanKeysTakesThePrefixAsItIs(t *testing.T) {
	k := &keyspace{pages: [][]string{nil, nil}}
	err := ScanKeys(`a*b?[c]\:{`, k.ask, func([]string) error { return nil })
	if want := `a\*b\?\[c\]\\:{*`; err != nil || !slices.Equal(k.patterns, []string{want, want}) {
		t.Errorf("%q, want %q twice; %v", k.patterns, want, err)
	}
}

func TestScanKeysEndsWithAnError(t *testing.T) {
	enough, refused := errors.New("enough"), errors.New("refused")
	k, pages := &keyspace{pages: [][]string{{"a"}, {"b"}}}, 0
	err := ScanKeys("a", k.ask, func([]string) error { pages++; return enough })
	assert.True(t, errors.Is(err, enough) && pages == 1, "visit has seen enough: %d pages, %v", pages, err)
	err = ScanKeys("a", func(uint64, string) ([]string, uint64, error) { return nil, 0, refused },
		func([]string) error { pages++; return nil })
	assert.True(t, errors.Is(err, refused) && pages == 1, "the server refuses: %d pages, %v", pages, err)
}

func TestScanNodesGoesOnAfterANodeThatFails(t *testing.T) {
	enough, down := errors.New("enough"), errors.New("down")
	ctx, cancel := context.WithCancel(t.Context())
	var visited, asked []string
	stop := error(nil)
	scan := func() error {
		visited, asked = nil, nil
		return ScanNodes(ctx, []string{"a", "b", "c", "d"}, func(n string) string { return "at " + n },
			func(keys []string) error {
				visited = append(visited, keys...)
				return stop
			}, func(n string, visit func([]string) error) error {
				asked = append(asked, n)
				if n == "a" || n == "c" {
					return down
				}
				return visit([]string{n})
			})
	}
	err := scan()
	assert.EqualSlices(t, visited, []string{"b", "d"}, "the keys")
	assert.Is(t, err, down)
	assert.Equal(t, err.Error(), "node at a, at c: down", "the error")

	stop = enough
	assert.Equal(t, scan(), enough, "the error of visit")
	assert.EqualSlices(t, asked, []string{"a", "b"}, "the nodes until visit has seen enough")

	cancel()
	assert.Is(t, scan(), down)
	assert.EqualSlices(t, asked, []string{"a"}, "the nodes until the context ends")
}
