package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

var scanTests = []test{
	{"every key", testScan},
	{"a visit that fails", testScanStops},
	{"a context that has ended", testScanEnds},
}

// plantMany acquires locks under a prefix of their own, and returns the prefix and the keys.
func (s *suite) plantMany(n int) (prefix string, keys []string) {
	// A store that takes the prefix for a pattern finds the wrong keys.
	id := strings.Trim(s.tag, "{}")
	prefix = `storetest:[a-z]*?\` + id + ":"
	for i := range n {
		keys = append(keys, fmt.Sprintf("%s{%d}", prefix, i))
	}
	for i, key := range append(keys, "storetest:xyz"+id+":{0}") {
		s.begins(s.runOn([]string{key}, script.Acquire, s.attempt("a", i+1), ttl, life, "x", 0, s.base), "granted")
	}
	return prefix, keys
}

func testScan(s *suite) {
	scanner, able := s.Store.(store.Scanner)
	if !able {
		return
	}
	prefix, want := s.plantMany(300)
	var got []string
	err := scanner.Scan(s.Context(), prefix+"{", func(keys []string) error { // a store may have a key of its own
		got = append(got, keys...)
		return nil
	})
	slices.Sort(got)
	slices.Sort(want)
	if got = slices.Compact(got); err != nil || !slices.Equal(got, want) {
		s.Errorf("%d keys, want %d; %v", len(got), len(want), err)
	}
}

func testScanStops(s *suite) {
	scanner, able := s.Store.(store.Scanner)
	if !able {
		return
	}
	prefix, _ := s.plantMany(3)
	enough, visits := errors.New("enough"), 0
	err := scanner.Scan(s.Context(), prefix, func(keys []string) error {
		if len(keys) == 0 {
			return nil
		}
		visits++
		return enough
	})
	if !errors.Is(err, enough) || visits != 1 {
		s.Errorf("%d visits; %v", visits, err)
	}
}

func testScanEnds(s *suite) {
	scanner, able := s.Store.(store.Scanner)
	if !able {
		return
	}
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	err := scanner.Scan(ctx, "storetest:", func([]string) error { return nil })
	if !errors.Is(err, context.Canceled) {
		s.Errorf("the context has ended: %v", err)
	}
	if s.Silence == nil {
		return
	}
	ctx, cancel = context.WithTimeout(s.Context(), soon)
	defer cancel()
	resume := s.Silence()
	defer resume()
	s.within("Scan", func() { err = scanner.Scan(ctx, "storetest:", func([]string) error { return nil }) })
	if err == nil {
		s.Error("the server is silent, and there is no error")
	}
}
