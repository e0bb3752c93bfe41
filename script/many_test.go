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

// crowded replaces the record of a lock by one with n fields of a kind. Each of them
// expired a second ago.
func crowded(t *testing.T, conn *redistest.Conn, key, lock, sum string, n int, fields func(i int, over int64) []any) {
	t.Helper()
	over := time.Now().Add(-time.Second).UnixMilli()
	conn.Do(t, "DEL", key)
	conn.Do(t, "HSET", key, "lock", lock, "birth", "1", "limit", fmt.Sprint(2*n))
	for first := 0; first < n; first += 500 {
		words := []any{"HSET", key}
		for i := first; i < min(first+500, n); i++ {
			words = append(words, fields(i+1, over)...)
		}
		conn.Do(t, words...)
	}
	name, value, _ := strings.Cut(sum, " ")
	conn.Do(t, "HSET", key, name, strings.ReplaceAll(value, "OVER", fmt.Sprint(over)))
	conn.Do(t, "PEXPIRE", key, 600_000)
}

// However many waiters and shares have expired, the next actions remove them: a record
// may have more fields than one call of Lua has values. No script reads the whole queue.
func TestThousandsOfExpiredHoldsAreRemoved(t *testing.T) {
	const n = 9000
	conn := redistest.Start(t).Dial(t)
	acquire := func(key, want string) string {
		t.Helper()
		answer := conn.Do(t, "EVAL", script.Acquire.Text, 1, key, "c/1", "30000", "630000", want, "0", "push:")
		text, ok := answer.(string)
		assert.MustTrue(t, ok, "acquire: %v", answer)
		return text
	}
	left := func(key string) int64 { return conn.Do(t, "HLEN", key).(int64) }

	crowded(t, conn, "{queue}", "1795252066322120 0 - +", fmt.Sprintf("queue %d 1 %d", n, n), n,
		func(i int, over int64) []any {
			id := fmt.Sprintf("d%d/1", i)
			return []any{fmt.Sprintf("#%d", i), id, "w:" + id, fmt.Sprintf("%d x 1 30000 %d %d", i, over, over)}
		})
	got := acquire("{queue}", "x")
	for tries := 1; got == "busy 0 -" && tries < n/64+1; tries++ {
		got = acquire("{queue}", "x")
	}
	if !strings.HasPrefix(got, "granted ") || left("{queue}") != 3 {
		t.Errorf("behind %d waiters that have gone: %s, and %d fields are left", n, got, left("{queue}"))
	}
	crowded(t, conn, "{shares}", "1795252066322120 0 - +", fmt.Sprintf("shares %d p OVER", n), n,
		func(i int, over int64) []any {
			return []any{fmt.Sprintf("h:d%d/1", i), fmt.Sprintf("p %d 1 1795252066322120 %d", over, over)}
		})
	got = acquire("{shares}", "x")
	for tries := 1; got == "busy 0 -" && tries < n/256+1; tries++ {
		got = acquire("{shares}", "x")
	}
	if !strings.HasPrefix(got, "granted ") || left("{shares}") != 4 {
		t.Errorf("behind %d permits that are over: %s, and %d fields are left", n, got, left("{shares}"))
	}
}
