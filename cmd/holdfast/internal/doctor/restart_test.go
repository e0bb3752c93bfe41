package doctor

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// Guarantee: doctor says of a default user whether a restart loads the locks with it.
func TestARestartLosesWhatDoctorSays(t *testing.T) {
	t.Setenv(redistest.EnvServers, "") // a secured server gives the default user rights of its own
	for _, c := range []struct {
		rules, want string // want: as named writes it
		after       string // what a restart leaves of the lock: "", "key" without a TTL, or "lock"
	}{
		{"on nopass ~* &* +@all", "", "lock"},
		{"off ~* &* +@all", "", "lock"},
		{"on >pw ~holdfast:* -@all +hset +hdel +pexpireat", "", "lock"},
		{"off ~* -@all +@write", "", "lock"},
		{"off %W~* +@all", "", "lock"},
		{"off -@all (~x +hset) (~holdfast:* +@hash) (~* +@keyspace)", "", "lock"},
		{"off", "persistence problem", ""},
		{"off ~* -@all", "persistence problem", ""},
		{"off ~* +@all -hset", "persistence problem", ""},
		{"off ~* +@all -@write", "persistence problem", ""},
		{"off +@all", "persistence problem", ""},
		{"off ~other:* +@all", "persistence problem", ""},
		{"off %R~* +@all", "persistence problem", ""},
		{"on >pw ~other:* +@all", "persistence problem", ""},
		{"on nopass -@all +ping", "persistence problem", ""},
		{"off -@all (%R~* +@all) (~other:* +@all)", "persistence problem", ""},
		{"off ~* +@all -hdel", "persistence warning", "lock"},
		{"off ~* +@all -pexpireat", "persistence warning", "key"},
		{"on >pw ~holdfast:* -@all +hset +hdel +pexpire", "persistence warning", "key"},
	} {
		t.Run(c.rules, func(t *testing.T) {
			s := start(t, slices.Concat([]string{"--user", "default"}, rulesOf(c.rules))...)
			n := node(t, s, account{})
			f := read(t, n)
			if product, version := f.Product(); !olderThan(version, loads[product]) {
				c.want, c.after = "", "lock"
			}
			found := Examine(Fleet{Nodes: []Facts{f}}).Findings
			found = slices.DeleteFunc(found, func(f Finding) bool {
				return f.Check == "latency" || f.Check == "patches"
			})
			assert.Equal(t, named(found), c.want, "%+v", found)
			takeLock(t, n)
			assert.Equal(t, left(t, s), "lock", "before the restart")
			s.Restart()
			assert.Equal(t, left(t, s), c.after, "%+v", found)

			// A restart would bring the first rules back, so doctor judges its fix. The rules of the fix
			// are also in the table.
			paste(t, s, found)
			assert.Equal(t, named(examine(t, node(t, s, account{})).Findings), "", "after %+v", found)
		})
	}
}

// rulesOf splits rules; those in parentheses are one.
func rulesOf(text string) (rules []string) {
	for word := range strings.FieldsSeq(text) {
		last := len(rules) - 1
		if last >= 0 && strings.HasPrefix(rules[last], "(") && !strings.HasSuffix(rules[last], ")") {
			rules[last] += " " + word
			continue
		}
		rules = append(rules, word)
	}
	return rules
}

// takeLock acquires a lock with a client that then ends without a release.
func takeLock(t *testing.T, n Node) {
	t.Helper()
	client, err := holdfast.New(goredis.New(n.Client.(*redis.Client)), holdfast.Config{})
	assert.Must(t, err)
	_, err = client.Mutex("nightly").TryLock(t.Context())
	assert.Must(t, err)
	client.Abandon()
}

// left is what the server has of the lock.
func left(t *testing.T, s *redistest.Server) string {
	t.Helper()
	switch s.Do(t, "PTTL", keyOf(redistest.Prefix(), "nightly")) {
	case int64(-2):
		return ""
	case int64(-1):
		return "key"
	}
	return "lock"
}

// command is what is pasted of a fix: its first command.
var command = regexp.MustCompile(`\b(ACL SETUSER|BGREWRITEAOF|BGSAVE|CONFIG SET|SCRIPT KILL)\b[^,;]*`)

// placeholder is what only its reader knows.
var placeholder = regexp.MustCompile(`\b(BYTES|N|SECRET)\b`)

// paste runs the commands of the fixes, once each, as they are written there.
func paste(t *testing.T, s *redistest.Server, found []Finding) {
	t.Helper()
	done := map[string]bool{}
	for _, one := range found {
		line := command.FindString(one.Fix)
		if line == "" || placeholder.MatchString(line) || done[line] {
			continue
		}
		done[line] = true
		var words []any
		for word := range strings.FieldsSeq(line) {
			words = append(words, word)
		}
		reply := s.Do(t, words...)
		_, refused := reply.(redistest.Error)
		assert.False(t, refused, "%s: %v", line, reply)
		// A script that was killed ends soon after the answer.
		redistest.Await(t, "no script hangs after "+line, func() bool {
			e, refused := s.Do(t, "PING").(redistest.Error)
			return !refused || !strings.HasPrefix(e.Error(), "BUSY")
		})
	}
	awaitSaved(t, s)
}
