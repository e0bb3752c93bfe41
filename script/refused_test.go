package script_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/transcript"
	"github.com/holdfast-go/holdfast/script"
)

// refusal is a state in which a server refuses writes.
type refusal struct {
	code         string
	enter, leave [][]any
}

var refusals = []refusal{
	{"NOREPLICAS", [][]any{{"CONFIG", "SET", "min-replicas-to-write", "1"}},
		[][]any{{"CONFIG", "SET", "min-replicas-to-write", "0"}}},
	{"READONLY", [][]any{{"REPLICAOF", "127.0.0.1", "1"}}, [][]any{{"REPLICAOF", "NO", "ONE"}}},
	{"OOM", [][]any{{"CONFIG", "SET", "maxmemory", "1"}}, [][]any{{"CONFIG", "SET", "maxmemory", "0"}}},
	{"MISCONF", [][]any{{"CONFIG", "SET", "stop-writes-on-bgsave-error", "yes"}},
		[][]any{{"CONFIG", "SET", "stop-writes-on-bgsave-error", "no"}}},
}

// unsaved starts a server whose last save has failed, because a directory has the name of
// the file.
func unsaved(t *testing.T) *redistest.Server {
	t.Helper()
	server := transcript.Start(t,
		redistest.Args("--save", "3600 1", "--stop-writes-on-bgsave-error", "no", "--dbfilename", "taken.rdb"))
	dir := server.Do(t, "CONFIG", "GET", "dir").([]any)[1].(string)
	assert.Must(t, os.MkdirAll(filepath.Join(dir, "taken.rdb", "by"), 0o755))
	server.Do(t, "BGSAVE")
	redistest.Await(t, "the save has failed", func() bool {
		return server.Info(t, "rdb_last_bgsave_status") == "err"
	})
	return server
}

// Nothing is pushed before it is written. If a server refuses writes in any state, it
// refuses the whole action: the record is unchanged, and nothing was pushed. If only
// memory is missing, present holders and waiters can go on.
func TestARefusedScriptHasDoneNothing(t *testing.T) {
	server := unsaved(t)
	refused := map[string]int{}
	eachStep(t, server, func(tr *trial) {
		whole := tr.run(tr.Conn, -1)
		tr.back()
		before := tr.records()
		for _, state := range refusals {
			tr.all(state.enter)
			r := tr.run(tr.Conn, -1)
			tr.all(state.leave)
			reads := strings.Contains(tr.action.Declaration(), "no-writes")
			able := state.code == "OOM" && strings.Contains(tr.action.Declaration(), "allow-oom")
			what := fmt.Sprintf("%s %v under %s says %q", tr.action.Name, tr.args, state.code, r.answer)
			switch {
			case reads || able:
				assert.True(tr.t, timeless(tr.action, r.answer) == timeless(tr.action, whole.answer),
					"%s, not %q", what, whole.answer)
			case !r.failed || !strings.HasPrefix(r.answer, state.code+" "):
				tr.t.Errorf("%s, which is no refusal", what)
			case len(r.heard) > 0:
				tr.t.Errorf("%s and has published %q", what, r.heard)
			case !same(tr.records(), before):
				tr.t.Errorf("%s and leaves %v of %v", what, tr.records(), before)
			default:
				refused[tr.action.Name]++
			}
			if able {
				tr.back()
			}
		}
	})
	for _, s := range script.All() {
		assert.False(t, refused[s.Name] == 0 && !strings.Contains(s.Declaration(), "no-writes"),
			"%s was never refused", s.Name)
	}
}

// The same for a user who may not run one of the commands, for example after a change of
// the permissions while locks are in use. An action goes on without a command that it
// does not need. Otherwise the record is unchanged, or as the whole action makes it.
func TestAScriptWithoutACommandHasDoneNothingOrAll(t *testing.T) {
	server := transcript.Start(t)
	commands := []string{"time", "hget", "hmget", "hgetall", "hset", "hdel", "pexpire", "pttl", "publish", "pubsub"}
	for _, command := range commands {
		server.Do(t, "ACL", "SETUSER", "no"+command, "reset", "on", ">pw", "~*", "&*", "+@all", "-"+command)
	}
	without := map[string]*redistest.Conn{}
	for _, command := range commands {
		without[command] = server.Dial(t)
		assert.MustEqual(t, without[command].Do(t, "AUTH", "no"+command, "pw"), "OK", "AUTH")
	}
	failed := map[string]int{}
	eachStep(t, server, func(tr *trial) {
		tr.run(tr.Conn, -1)
		after := tr.records()
		tr.back()
		before := tr.records()
		for _, command := range commands {
			r := tr.run(without[command], -1)
			r.keys = tr.records()
			what := fmt.Sprintf("%s %v without %s says %q", tr.action.Name, tr.args, command, r.answer)
			if r.failed {
				failed[command]++
				assert.Equal(tr.t, len(r.heard), 0, "%s and has published %q", what, r.heard)
				assert.True(tr.t, same(r.keys, before), "%s and leaves\n%v\nof\n%v", what, r.keys, before)
			}
			tr.told(tr.t, r)
			// Without the count of subscribers nothing is pushed, and so no waiter is
			// granted by a push.
			assert.False(tr.t, command == "hdel" && !same(r.keys, after),
				"%s and leaves\n%v\nnot\n%v", what, r.keys, after)
			for key := range r.keys {
				assert.False(tr.t, tr.Do(tr.t, "PTTL", key).(int64) < 0 && tr.ttl(key) != -1,
					"%s: I2: %s has no life", what, key)
			}
			tr.back()
		}
	})
	for _, command := range commands {
		optional := command == "hdel" || command == "publish" || command == "pubsub" || command == "time"
		assert.False(t, failed[command] == 0 && !optional, "nothing failed without %s", command)
	}
}

// timeless is an answer without the record's TTL, which changes between two tries.
func timeless(action *script.Script, answer string) string {
	words := strings.SplitN(answer, " ", 6)
	if action == script.Inspect && len(words) == 6 {
		words[4] = "~"
	}
	return strings.Join(words, " ")
}

func same(a, b map[string]map[string]string) bool { return maps.EqualFunc(a, b, maps.Equal) }

func (tr *trial) all(commands [][]any) {
	tr.t.Helper()
	for _, words := range commands {
		assert.MustEqual(tr.t, tr.Do(tr.t, words...), "OK", "%v", words)
	}
}

// Another program may have a hash at the name of a lock. No action changes it, gives it a TTL,
// or says that it holds the lock.
func TestAHashThatIsNoLockIsLeftAsItIs(t *testing.T) {
	server := transcript.Start(t)
	whole := map[string]map[string]string{}
	eachStep(t, server, func(tr *trial) {
		switch tr.action {
		case script.CheckACL, script.MarkServer, script.ReadClient, script.RegisterClient:
			return // their keys are no records
		case script.Evict:
			if slices.Contains(tr.args, "force") {
				return // it removes whatever there is
			}
		}
		tr.Do(tr.t, "FLUSHDB", "ASYNC")
		clear(whole)
		for _, key := range tr.keys {
			tr.Do(tr.t, "HSET", key, "a", "1")
			whole[key] = map[string]string{"a": "1"}
		}
		r := tr.run(tr.Conn, -1)
		what := fmt.Sprintf("%s %v says %q", tr.action.Name, tr.args, r.answer)
		assert.True(tr.t, same(tr.records(), whole), "%s and leaves %v", what, tr.records())
		for _, key := range tr.keys {
			assert.Equal(tr.t, tr.Do(tr.t, "PTTL", key), any(int64(-1)), "%s, and the TTL of %s", what, key)
		}
		if tr.action == script.Acquire {
			assert.True(tr.t, strings.HasPrefix(r.answer, "WRONGTYPE "), "%s", what)
		}
	})
}
