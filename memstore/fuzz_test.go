package memstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Whatever a client sends, in whatever order: the result is an answer or a refusal, never
// a panic, and no key is without a TTL.
func FuzzArguments(f *testing.F) {
	for _, requests := range []string{
		"acquire c/1 1000 2000 x 0 base:\nrelease c/1 5 1000 base:",
		"acquire c/1 1000 2000 p:1:3 0 base:\nset_limit 2 1000 base:\nacquire c/2 1000 2000 p:3:3 9 base:",
		"acquire c/1 1000 2000 x 0 base: me\nacquire c/2 1000 2000 s 9 base: me\npoll c/2 1 1 1 base:",
		"acquire c/1 1000 2000 s 0 base:\nconvert c/1 5 x 1000 1000 base:\nrenew 1000 5 c/1",
		"acquire c/1 9223372036854775807 9223372036854775807 x 0 base:\ninspect",
		"begin_run c/1 1000 1000 60000 - now base:\ncancel_run c/1 1000 base:",
		"acquire_all c/1 1000 1000 base:\nproclaim c/1 5 1 =a watch 1000\nread_leader\ncheck 5",
		"acquire_free 1000 2000 c/1\nrelease_idle c/1\nevict me why 0 1000 base:\ncancel c/1 1000 base:",
		"register_client 1000 app host 1 v 2\nread_client", "acquire", "poll - - -", "renew",
	} {
		f.Add(requests)
	}
	actions := map[string]*script.Script{}
	for _, action := range script.All() {
		actions[action.Name] = action
	}
	f.Fuzz(func(t *testing.T, requests string) {
		st := memstore.New()
		stop, err := st.Listen(context.Background(), "base:c", store.Listener{})
		assert.Must(t, err)
		defer stop()
		for line := range strings.SplitSeq(requests, "\n") {
			words := strings.Split(line, " ")
			action := actions[words[0]]
			if action == nil {
				continue
			}
			key := "lock"
			if action == script.RegisterClient || action == script.ReadClient {
				key = "client"
			}
			var refused *store.ServerError
			_, err := st.Run(context.Background(), action, []string{key}, words[1:])
			assert.False(t, err != nil && !errors.As(err, &refused), "%q: %v", line, err)
			life := st.TTL(key)
			assert.True(t, life != -1, "the key lives for ever after %q", line)
			_ = st.Dump(key)
		}
	})
}
