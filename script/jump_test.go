package script_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/transcript"
	"github.com/holdfast-go/holdfast/script"
)

// The server's clock may be set forward within PEXPIRE, which then deletes the record: see
// set_record_ttl in record.lua. A step of one lock then does and answers what it does without
// that record. Every record that a step leaves is whole, and has a TTL.
func TestAClockThatJumpsWithinAStepLeavesWholeRecords(t *testing.T) {
	server := transcript.Start(t)
	jumps := map[string]int{}
	eachStep(t, server, func(tr *trial) {
		lives := tr.run(tr.Conn, -1).lives
		for tr.jump = 1; int64(tr.jump) <= lives; tr.jump++ {
			tr.back()
			r := tr.run(tr.Conn, -1)
			r.keys = tr.records()
			if !r.failed && r.lives < int64(tr.jump) {
				continue // A millisecond has gone by, so PEXPIRE GT has set nothing this time.
			}
			jumps[tr.action.Name]++
			what := fmt.Sprintf("%s %v, jump in PEXPIRE %d, says %s: ", tr.action.Name, tr.args, tr.jump, r.answer)
			assert.False(t, r.failed, "%s%v", what, r.keys)
			tr.whole(r, what)
			tr.later(r, what)
		}
		tr.jump = 0
	})
	for _, s := range []*script.Script{script.Acquire, script.AcquireFree, script.AcquireAll, script.Renew,
		script.Release, script.Poll, script.Convert, script.BeginRun, script.RegisterClient, script.MarkServer} {
		assert.True(t, jumps[s.Name] > 0, "%s has met no jump", s.Name)
	}
}

// whole asserts that each record has the field by which it is known, and a TTL.
func (tr *trial) whole(r result, what string) {
	tr.t.Helper()
	for key, record := range r.keys {
		known := record["lock"] != "" && record["birth"] != "" || record["app"] != "" || record["run"] != ""
		ttl := tr.Do(tr.t, "PTTL", key).(int64)
		assert.True(tr.t, tr.ttl(key) == -1 || known && ttl >= 0, "%s%s is %v with TTL %d", what, key, record, ttl)
	}
}

// later asserts that the step did the same as one that comes after the jump and finds no
// record. If it made a record itself and the jump ended that, it told nobody of it. A step on
// several locks did a part before the jump, and mark_server read the mark.
func (tr *trial) later(r result, what string) {
	tr.t.Helper()
	switch tr.action {
	case script.AcquireAll, script.AcquireFree, script.Renew, script.MarkServer:
		return
	}
	if tr.action == script.Evict && slices.Contains(tr.args, "force") {
		return // it deletes what is no hash itself, by PEXPIRE
	}
	if r.keys[tr.keys[0]] == nil && len(r.heard) == 0 {
		return
	}
	seconds, err := strconv.Atoi(tr.clock[0].(string))
	assert.Must(tr.t, err)
	jump, clock := tr.jump, tr.clock
	tr.jump, tr.clock = 0, []any{strconv.Itoa(seconds + 10*365*24*3600), clock[1]}
	tr.back()
	tr.Do(tr.t, "DEL", tr.keys[0])
	want := tr.run(tr.Conn, -1)
	want.keys = tr.records()
	tr.jump, tr.clock = jump, clock
	assert.True(tr.t, r.answer == want.answer, "%swithout a record: %s", what, want.answer)
	assert.True(tr.t, same(r.keys, want.keys), "%s%v\nwithout a record: %v", what, r.keys, want.keys)
	assert.True(tr.t, fmt.Sprint(r.heard) == fmt.Sprint(want.heard), "%s%v, not %v", what, r.heard, want.heard)
}
