package goredis

import (
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/script"
)

// Words that one request leaves for the next are right for the next, whatever it sends.
func TestWordsAreThoseOfTheirOwnRequest(t *testing.T) {
	var w words
	var all sync.WaitGroup
	for who := range 4 {
		all.Go(func() {
			for i := range 200 {
				action := []*script.Script{script.Acquire, script.Release, script.Poll}[i%3]
				keys, args := []string{"same"}, []string{fmt.Sprint(who), "30000", fmt.Sprint(i % 2)}
				for range i % 15 { // some longer than what is remembered
					args = append(args, "more")
				}
				want := []any{"evalsha", action.SHA1, 1, "same", args[0], args[1], args[2]}
				for _, arg := range args[3:] {
					want = append(want, arg)
				}
				assert.EqualSlices(t, w.of("evalsha", action, keys, args), want, "w.of")
			}
		})
	}
	all.Wait()
}

func TestWordsOfARequestAreTakenFromAnEarlierOne(t *testing.T) {
	var w words
	keys, args := []string{"key"}, []string{"1", "30000", "90000", "x", "10000", "base"}
	w.of("evalsha", script.Acquire, keys, args)
	assert.AtMost(t, testing.AllocsPerRun(100, func() { w.of("evalsha", script.Acquire, keys, args) }), 1,
		"allocations for the list")
	// The words of another kind of lock take their place.
	args = []string{"2", "60000", "120000", "s", "20000", "base"}
	w.of("evalsha", script.Acquire, keys, args)
	assert.AtMost(t, testing.AllocsPerRun(100, func() { w.of("evalsha", script.Acquire, keys, args) }), 1,
		"allocations after other words")
}
