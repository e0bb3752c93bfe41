package bench

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestSentLeavesOutWhatScriptsCall(t *testing.T) {
	calls := map[string]int64{"evalsha": 10, "publish": 3, "ping": 1, "hset": 40, "time": 10, "config|resetstat": 1}
	assert.Equal(t, sent(calls), 14, "sent")
}
