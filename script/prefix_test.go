package script_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/transcript"
	"github.com/holdfast-go/holdfast/script"
)

// The rules below hold for every step of every transcript. The clock stands still during
// a try, so two tries of one step have the same result.

// trial tries one step of a transcript several times, on the same records.
type trial struct {
	*redistest.Conn // of a user who may do everything
	t               *testing.T
	ear             *redistest.Conn
	action          *script.Script
	keys, args      []string
	clock           []any
	before          []snapshot
	jump, marks     int
	names           map[*script.Script]any // of the scripts that are loaded
}

// snapshot is a record as DUMP writes it.
type snapshot struct {
	key  string
	dump any
	ttl  int64
}

// result is the result of a try.
type result struct {
	answer string // or the error
	failed bool
	writes int64 // how many calls wrote or published, if it did not fail
	lives  int64 // how many calls set a TTL, if it did not fail
	heard  []string
	keys   map[string]map[string]string // fields that are not empty
}

// wrapped is code in front of a script. It stops the clock and redirects the pushes. If
// left is not negative, it lets left writes pass and refuses all later ones. Within the PEXPIRE
// that is number jump of those that set a TTL, the clock jumps by ten years: PEXPIRE then answers 1 and
// has deleted the key. The clock, jump and left are arguments, after those of the script: with them
// in its text, the server would compile each try.
const wrapped = `local writes, expiries = 0, 0
local left, jump = tonumber(table.remove(ARGV)), tonumber(table.remove(ARGV))
local micros, seconds = table.remove(ARGV), table.remove(ARGV)
local redis = (function(real)
	local kinds = {HSET = true, HDEL = true, PEXPIRE = true, PUBLISH = true, SPUBLISH = true}
	local cut = {err = 'CUT the rest is refused'}
	local function way(f, refuse)
		return function(name, ...)
			if name == 'TIME' then return {seconds, micros} end
			if not kinds[name] then return f(name, ...) end
			if left == writes then return refuse() end
			writes = writes + 1
			if name == 'PEXPIRE' then
				local set = f(name, ...)
				if set == 1 then expiries = expiries + 1 end
				if set == 1 and expiries == jump then
					seconds = string.format('%d', seconds + 10 * 365 * 24 * 3600)
					f(name, (...), '-1')
				end
				return set
			end
			if name == 'PUBLISH' or name == 'SPUBLISH' then
				local channel, payload = ...
				return f('PUBLISH', 'trial:' .. channel, payload)
			end
			return f(name, ...)
		end
	end
	return {
		call = way(real.call, function() error(cut) end),
		pcall = way(real.pcall, function() return cut end),
		error_reply = real.error_reply,
		acl_check_cmd = real.acl_check_cmd,
	}
end)(redis)
local answer = (function()
BODY
end)()
if type(answer) == 'table' then return answer end
return {answer, writes, expiries}
`

func newTrial(t *testing.T, server *redistest.Server) *trial {
	tr := &trial{Conn: server.Dial(t), t: t, ear: server.Dial(t), names: make(map[*script.Script]any)}
	tr.ear.Do(t, "PSUBSCRIBE", "trial:*")
	return tr
}

// What a trial does with the whole database takes one request: there are thousands of tries.
const (
	saveAll = `local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
	all[#all + 1] = {key, redis.call('DUMP', key), redis.call('PTTL', key)}
end
return all`
	// FLUSHDB would cost most of a try: it gives the memory back to the system.
	restoreAll = `for _, key in ipairs(redis.call('KEYS', '*')) do redis.call('DEL', key) end
for i, key in ipairs(KEYS) do redis.call('RESTORE', key, ARGV[2 * i - 1], ARGV[2 * i]) end`
	readAll = `local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
	if redis.call('TYPE', key).ok == 'hash' then all[#all + 1] = {key, redis.call('HGETALL', key)} end
end
return all`
)

// begin saves the records before the step.
func (tr *trial) begin(action *script.Script, keys, args []string) {
	tr.action, tr.keys, tr.args = action, keys, args
	tr.clock = tr.Do(tr.t, "TIME").([]any)
	tr.before = nil
	for _, saved := range tr.Do(tr.t, "EVAL", saveAll, 0).([]any) {
		saved := saved.([]any)
		tr.before = append(tr.before, snapshot{saved[0].(string), saved[1], saved[2].(int64)})
	}
}

// back restores the records.
func (tr *trial) back() {
	words := []any{"EVAL", restoreAll, len(tr.before)}
	for _, s := range tr.before {
		words = append(words, s.key)
	}
	for _, s := range tr.before {
		words = append(words, max(s.ttl, 0), s.dump)
	}
	assert.MustEqual(tr.t, tr.Do(tr.t, words...), nil, "the answer of the script that restores")
}

// records are all records, without empty fields.
func (tr *trial) records() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, record := range tr.Do(tr.t, "EVAL", readAll, 0).([]any) {
		record := record.([]any)
		r := pairs(record[1])
		maps.DeleteFunc(r, func(_, value string) bool { return value == "" })
		all[record[0].(string)] = r
	}
	return all
}

// run takes the step over conn. left is how many of its writes pass; if it is negative,
// all pass.
func (tr *trial) run(conn *redistest.Conn, left int) (r result) {
	tr.t.Helper()
	words := []any{"EVALSHA", tr.loaded(), len(tr.keys)}
	for _, word := range slices.Concat(tr.keys, tr.args) {
		words = append(words, word)
	}
	words = append(words, tr.clock[0], tr.clock[1], tr.jump, left)
	switch reply := conn.Do(tr.t, words...).(type) {
	case redistest.Error:
		r.answer, r.failed = string(reply), true
	case []any:
		r.answer, r.writes, r.lives = reply[0].(string), reply[1].(int64), reply[2].(int64)
	default:
		tr.t.Fatalf("%s answers %v", tr.action.Name, reply)
	}
	r.heard = tr.pushes()
	return r
}

// loaded is the name of the wrapped script at the server.
func (tr *trial) loaded() any {
	name := tr.names[tr.action]
	if name == nil {
		text := tr.action.Declaration() + strings.Replace(wrapped, "BODY\n", tr.action.Body(), 1)
		name = tr.Do(tr.t, "SCRIPT", "LOAD", text)
		tr.names[tr.action] = name
	}
	return name
}

// pushes are the messages since the last call.
func (tr *trial) pushes() (heard []string) {
	tr.marks++
	mark := fmt.Sprint(tr.marks)
	tr.Do(tr.t, "PUBLISH", "trial:mark", mark)
	for {
		m := tr.ear.Receive(tr.t).([]any)
		switch {
		case m[2] == "trial:mark" && m[3] == mark:
			return heard
		case m[2] != "trial:mark":
			heard = append(heard, m[3].(string))
		}
	}
}

// told asserts that the pushes are true: a pushed grant is in the record.
func (tr *trial) told(t *testing.T, r result) {
	t.Helper()
	for _, push := range r.heard {
		words := strings.Fields(push)
		if words[0] != "granted" {
			continue
		}
		stands := false
		for _, record := range r.keys {
			entered := slices.Contains(strings.Fields(record["entries"]+" "+record["lock"]), words[1])
			share := strings.Fields(record["h:"+words[1]])
			stands = stands || entered && strings.HasPrefix(record["lock"], words[2]) ||
				len(share) > 3 && share[3] == words[2]
		}
		assert.True(t, stands, "I9: %q was told, and is not written: %v", push, r.keys)
	}
}

// trying is a driver of transcripts. It calls look for each step before it takes the
// step.
type trying struct {
	transcript.Driver
	*trial
	look func(tr *trial)
}

func (d *trying) Run(action *script.Script, keys, args []string) (string, error) {
	d.begin(action, keys, args)
	d.look(d.trial)
	d.back()
	return d.Driver.Run(action, keys, args)
}

// eachStep calls look for every step of every transcript.
func eachStep(t *testing.T, server *redistest.Server, look func(tr *trial)) {
	open := transcript.Server(server)
	transcript.Walk(t, ".", func(t *testing.T) transcript.Driver {
		return &trying{Driver: open(t), trial: newTrial(t, server), look: look}
	})
}

// Every prefix of a script is safe. If a script ends after any of its writes, each record
// is unchanged or as the whole step makes it, and has a TTL. Every push is true. The same
// step again, or another one, then works as usual.
func TestEveryPrefixOfAScriptIsSafe(t *testing.T) {
	server := transcript.Start(t)
	cuts := map[string]int{}
	eachStep(t, server, func(tr *trial) {
		whole := tr.run(tr.Conn, -1)
		after := tr.records()
		tr.back()
		before := tr.records()
		for left := range int(whole.writes) {
			cut := tr.run(tr.Conn, left)
			cut.keys = tr.records()
			cuts[tr.action.Name]++
			tr.prefix(cut, before, after, left)
			tr.mends(whole, after, left)
			tr.back()
		}
	})
	for _, s := range script.All() {
		reads := strings.Contains(s.Declaration(), "no-writes") || s == script.Check
		assert.False(t, cuts[s.Name] == 0 && !reads, "%s was never cut", s.Name)
	}
}

// prefix asserts what holds right after a cut.
func (tr *trial) prefix(cut result, before, after map[string]map[string]string, left int) {
	t := tr.t
	t.Helper()
	what := fmt.Sprintf("%s %v, cut after %d writes (%s)", tr.action.Name, tr.args, left, cut.answer)
	assert.False(t, cut.failed && len(cut.heard) > 0, "%s: I9: it failed, and published %q", what, cut.heard)
	tr.told(t, cut)
	for key, record := range cut.keys {
		assert.False(t, !maps.Equal(record, before[key]) && !maps.Equal(record, after[key]),
			"%s leaves of %s\n%v\nIt was\n%v\nand becomes\n%v", what, key, record, before[key], after[key])
		// The TTL may be missing only if this step made the record: the server then
		// refuses the second PEXPIRE as well.
		assert.False(t, tr.Do(t, "PTTL", key).(int64) < 0 && before[key] != nil && tr.ttl(key) > 0,
			"%s: I2: %s has no life", what, key)
	}
}

// ttl is the TTL of a record before the step.
func (tr *trial) ttl(key string) int64 {
	for _, s := range tr.before {
		if s.key == key {
			return s.ttl
		}
	}
	return -2
}

// mends asserts that the same step again, as a whole, ends as if it had never been cut.
// Then, or at the next acquisition, every record has a TTL.
func (tr *trial) mends(whole result, after map[string]map[string]string, left int) {
	t := tr.t
	t.Helper()
	again := tr.run(tr.Conn, -1)
	assert.False(t, again.failed && !whole.failed,
		"%s, cut after %d writes, says then %s", tr.action.Name, left, again.answer)
	for key, record := range tr.records() {
		if tr.Do(t, "PTTL", key).(int64) < 0 && tr.ttl(key) != -1 && record["lock"] != "" {
			tr.Do(t, "EVAL", script.Acquire.Text, 1, key, "other/1", "30000", "630000", "x", "0", "trial:")
			assert.True(t, tr.Do(t, "PTTL", key).(int64) >= 0,
				"%s, cut after %d writes: I2: %s remains without a TTL: %v", tr.action.Name, left, key, record)
		}
	}
}
