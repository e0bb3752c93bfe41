package doctor

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// endless is a server whose keys no search gets to the end of.
type endless struct{ Client }

func (endless) Do(ctx context.Context, args ...any) *redis.Cmd {
	time.Sleep(scanTime / 4)
	if args[0] == "scan" {
		return redis.NewCmdResult([]any{"7", []any{"holdfast:client:abc"}}, nil)
	}
	return redis.NewCmdResult([]any{"1200", "report", "db", "7"}, nil)
}

// A search that is cut says so: the longest pause may be among what it has not seen.
func TestASearchForPausesThatIsCutSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &reader{node: Node{Client: endless{}}}
		r.pauses(t.Context(), "holdfast")
		assert.Equal(t, r.facts.Pause, Pause{1200 * time.Millisecond, "report@db:7"}, "pause")
		assert.MustTrue(t, len(r.facts.Unread) == 1 && r.facts.Unread[0].Source == sourceScan, "%+v", r.facts.Unread)
	})
}
