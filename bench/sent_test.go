package bench

import "testing"

func TestSentLeavesOutWhatScriptsCall(t *testing.T) {
	calls := map[string]int64{"evalsha": 10, "publish": 3, "ping": 1, "hset": 40, "time": 10, "config|resetstat": 1}
	if got := sent(calls); got != 14 {
		t.Errorf("sent = %d, want 14", got)
	}
}
