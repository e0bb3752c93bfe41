package script_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
)

// onSeveral has, for each script on any number of keys, its arguments for three of them, and what it
// answers if the second one is no record, or one that no version wrote. Empty: it takes all or none, so
// it refuses.
var onSeveral = map[*script.Script]struct{ args, want string }{
	script.AcquireFree: {"30000 630000 n/1 n/2 n/3", "1-1"},
	script.ReleaseIdle: {"h/1 h/1 h/1", "released 1-1"},
	script.Renew:       {"600000 30000 h/1 h/1 h/1", "renewed 0 - 0"},
	script.AcquireAll:  {"n/1 30000 600000 p: p: p:", ""},
	script.Check:       {"1 1 1", "free\n-\nfree"},
	script.ReadClient:  {"tags:1 tags:1 tags:1", "unknown\nunknown\nunknown"},
}

// If one key of several holds something else, a script answers - for that key, and serves the others.
// Guarantee: I14.
func TestOneKeyOfSeveralIsRefusedAlone(t *testing.T) {
	conn := redistest.Start(t).Dial(t)
	fence := time.Now().UnixMicro()
	spoil := map[string][]any{
		"of another type":   {"SET", "s:{b}", "x"},
		"of a later format": {"HSET", "s:{b}", "lock", "v2 h/1"},
		"without a lock":    {"HSET", "s:{b}", "queue", "1 1 1"},
		"damaged":           {"HSET", "s:{b}", "lock", "1x 30000 h/1"},
		"endless": {"HSET", "s:{b}", "lock", fmt.Sprint(fence, " 30000 h/1 +"),
			"queue", "1 1 9007199254740992"},
	}
	for _, s := range script.All() {
		h, _ := split(t, s)
		several := h.items["KEYS"][0][0] == "n"
		on, known := onSeveral[s]
		assert.MustTrue(t, several == known, "%s: on several keys: %v, in onSeveral: %v", s.Name, several, known)
		if !several {
			continue
		}
		for what, command := range spoil {
			conn.Do(t, "FLUSHALL")
			for _, key := range []string{"s:{a}", "s:{c}"} {
				lock := fmt.Sprint(fence)
				if strings.Contains(on.args, "h/1") {
					lock += " 30000 h/1"
				}
				conn.Do(t, "HSET", key, "lock", lock, "birth", fence)
			}
			conn.Do(t, command...)
			before := conn.Do(t, "DUMP", "s:{b}")
			words := []any{"EVAL", s.Text, 3, "s:{a}", "s:{b}", "s:{c}"}
			for word := range strings.FieldsSeq(on.args) {
				words = append(words, word)
			}
			answer := fmt.Sprint(conn.Do(t, words...))
			if on.want == "" {
				named := strings.HasPrefix(answer, "FORMAT the record s:{b}") || strings.HasPrefix(answer, "WRONGTYPE ")
				assert.True(t, named, "%s, with a key %s: %s", s.Name, what, answer)
				held := fmt.Sprint(conn.Do(t, "HGET", "s:{a}", "lock"))
				assert.True(t, !strings.Contains(held, "n/1"), "%s, with a key %s: it holds %q", s.Name, what, held)
			} else {
				assert.True(t, strings.HasSuffix(answer, on.want), "%s, with a key %s: %s", s.Name, what, answer)
			}
			assert.True(t, conn.Do(t, "DUMP", "s:{b}") == before, "%s has changed a key %s", s.Name, what)
		}
	}
}
