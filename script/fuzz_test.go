package script_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
)

// later has requests of every action that works on the record of a lock.
var later = []struct {
	action *script.Script
	args   string
}{
	{script.Acquire, "c/1 30000 630000 x 0 f:push:"},
	{script.Acquire, "c/1 30000 630000 s 60000 f:push:"},
	{script.Acquire, "c/1 30000 630000 p:1:3 60000 f:push:"},
	{script.AcquireFree, "30000 630000 c/1"},
	{script.AcquireAll, "c/1 30000 600000 f:push:"},
	{script.Poll, "c/1 30000 600000 60000 f:push:"},
	{script.Renew, "600000 30000 c/1"},
	{script.Convert, "c/1 5 s 30000 600000 f:push:"},
	{script.SetLimit, "3 600000 f:push:"},
	{script.Lessen, "c/1 1000 1 600000 f:push:"},
	{script.AwaitFree, "x 1 600000 f:push:"},
	{script.BeginRun, "c/1 30000 600000 60000 - now f:push:"},
	{script.CancelRun, "c/1 600000 f:push:"},
	{script.Proclaim, "c/1 5 1 =a f:watch 600000"},
	{script.ReadLeader, ""},
	{script.Resume, "c/2 c/1 5 30000 600000 f:watch f:push:"},
	{script.Inspect, ""},
	{script.Check, "5"},
	{script.Evict, "ann test 0 600000 f:push:"},
	{script.Release, "c/1 5 600000 f:push:"},
	{script.ReleaseIdle, "c/1"},
	{script.Cancel, "c/1 600000 f:push:"},
}

// fields reads a record.
func fields(t *testing.T, conn *redistest.Conn, key string) map[string]string {
	t.Helper()
	return pairs(conn.Do(t, "HGETALL", key))
}

// pairs are the fields in an answer to HGETALL.
func pairs(answer any) map[string]string {
	record := map[string]string{}
	list := answer.([]any)
	for i := 0; i < len(list); i += 2 {
		record[list[i].(string)] = list[i+1].(string)
	}
	return record
}

// In a later format the field lock does not begin with a number. Whatever it contains: no
// script grants, releases or changes such a record, and the answer of every script says so.
func FuzzRecordsOfLaterFormats(f *testing.F) {
	for _, lock := range []string{
		"", "v2", "{\"format\":2}", " 5", "+5", "x 1795252066322120 30000 c/1", "\x00", "ü", "-1 0 - +",
		"#2 is of 16 byte", "v2 is of 16 byte", "#2 5             c/1",
	} {
		f.Add(lock, "queue", "1 1 1")
	}
	f.Add("-000000000000001 99999999999999 c/1", "queue", "1 1 1")
	f.Add(" 795252066322120 99999999999 c/1", "queue", "1 1 1")
	f.Add("v2 c/1", "h:c/1", "s 9999999999999 1 5 5")
	f.Add("v2 c/1 +", "w:c/1", "1 x 1 30000 9999999999999 5")
	server := redistest.Start(f)
	f.Fuzz(func(t *testing.T, lock, field, value string) {
		if lock != "" && lock[0] >= '0' && lock[0] <= '9' {
			lock = "v" + lock
		}
		conn := server.Dial(t)
		defer conn.Close()
		for _, request := range later {
			conn.Do(t, "DEL", "f:{lock}")
			conn.Do(t, "HSET", "f:{lock}", field, value, "lock", lock)
			before := fields(t, conn, "f:{lock}")
			words := []any{"EVAL", request.action.Text, 1, "f:{lock}"}
			if request.args != "" {
				for word := range strings.SplitSeq(request.args, " ") {
					words = append(words, word)
				}
			}
			switch reply := conn.Do(t, words...).(type) {
			case redistest.Error:
				assert.True(t, strings.HasPrefix(string(reply), "FORMAT "),
					"%s on %q says %s", request.action.Name, lock, reply)
			case string:
				assert.True(t, !strings.HasSuffix(reply, " 1") && reply != "released" && reply != "renewed 0",
					"%s on %q answers %q", request.action.Name, lock, reply)
			default:
				t.Errorf("%s on %q answers %v", request.action.Name, lock, reply)
			}
			after := fields(t, conn, "f:{lock}")
			assert.True(t, maps.Equal(before, after), "%s on %q leaves %v", request.action.Name, lock, after)
		}
	})
}
