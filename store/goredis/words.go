package goredis

import (
	"context"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/internal/mark"
	"github.com/holdfast-go/holdfast/script"
)

// words remembers the words of an earlier request of each length. go-redis takes words as
// interfaces, each of which costs an allocation. Most words of a request, such as a TTL, were
// in an earlier one, and are taken from there.
type words struct{ last [16]atomic.Pointer[[]any] }

// usuallyNew is how many words of a request differ from those of the request before, if both
// are about the same kind of lock: the key, the attempt and the token.
const usuallyNew = 3

// evalWords are the commands for a script. With the mark of package mark, they are in upper case: conn writes
// PING in front of those.
func evalWords(ctx context.Context) (evalsha, eval string) {
	if mark.IsPushFirst(ctx) {
		return "EVALSHA", "EVAL"
	}
	return "evalsha", "eval"
}

// of returns the words of a request. Nobody may change them.
func (w *words) of(evalsha string, action *script.Script, keys, args []string) []any {
	n := 3 + len(keys) + len(args)
	all := make([]any, 0, n)
	var before []any
	fresh := 0
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
		fresh++
	}
	add(evalsha)
	add(action.SHA1)
	all = append(all, len(keys))
	for _, key := range keys {
		add(key)
	}
	for _, arg := range args {
		add(arg)
	}
	if n < len(w.last) && fresh > usuallyNew {
		keep := all
		w.last[n].Store(&keep)
	}
	return all
}
