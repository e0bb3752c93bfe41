package goredis

import (
	"sync/atomic"

	"github.com/holdfast-go/holdfast/script"
)

// words remembers the words of the last request of each length. go-redis takes words as
// interfaces, each of which costs an allocation. Most words of a request, such as a TTL, were
// in the request before, and are taken from there.
type words struct{ last [16]atomic.Pointer[[]any] }

// of returns the words of a request. Nobody may change them.
func (w *words) of(action *script.Script, keys, args []string) []any {
	n := 3 + len(keys) + len(args)
	all := make([]any, 0, n)
	var before []any
	if n < len(w.last) {
		if last := w.last[n].Load(); last != nil {
			before = *last
		}
	}
	add := func(word string) {
		if i := len(all); i < len(before) {
			if same, _ := before[i].(string); same == word {
				all = append(all, before[i])
				return
			}
		}
		all = append(all, word)
	}
	add("evalsha")
	add(action.SHA1)
	all = append(all, len(keys))
	for _, key := range keys {
		add(key)
	}
	for _, arg := range args {
		add(arg)
	}
	if n < len(w.last) {
		w.last[n].Store(&all)
	}
	return all
}
