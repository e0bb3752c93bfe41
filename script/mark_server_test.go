package script_test

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
)

// A server that restarts with its data has the mark of another run: its last writes may
// be lost.
func TestAMarkIsOfOneRunOfItsServer(t *testing.T) {
	const key, lock = "mark:quorum", "mark:{x}"
	f := &full{Server: redistest.Start(t, redistest.Args("--appendonly", "yes", "--appendfsync", "always"))}
	got := f.run(t, script.MarkServer, key, "60000", "-", "one")
	assert.True(t, strings.HasSuffix(got, " one"), "a mark is written: %s", got)
	f.run(t, script.Acquire, lock, "c/1", "60000", "660000", "x", "0", "push:")
	raise := []any{"EVAL", script.RaiseFence.Text, "2", lock, key, "c/1", "7", "600000"}
	got = f.Do(t, raise...).(string)
	assert.True(t, strings.HasSuffix(got, " one"), "the mark is read with a token: %s", got)
	f.Restart()
	redistest.Await(t, "the server has read its data", func() bool { return f.Do(t, "EXISTS", key) == int64(1) })
	got = f.run(t, script.MarkServer, key, "60000")
	assert.True(t, strings.HasSuffix(got, " -"), "after a restart: %s", got)
	if got := f.Do(t, raise...).(string); !strings.HasPrefix(got, "raised ") || !strings.HasSuffix(got, " -") {
		t.Errorf("with a token, after a restart: %s", got)
	}
	got = f.run(t, script.MarkServer, key, "60000", "-", "two")
	assert.True(t, strings.HasSuffix(got, " two"), "a mark of the new run: %s", got)
}

// Some clients of a quorum may ask for the run, and others may not. Neither loses the marks of the
// others: servers that all seem to be without a mark begin a new quorum, and count at once.
func TestAMarkIsReadByWhoeverMayNotAskForTheRun(t *testing.T) {
	const key, lock = "mark:quorum", "mark:{x}"
	f := &full{Server: redistest.Start(t)}
	f.run(t, script.Acquire, lock, "c/1", "60000", "660000", "x", "0", "push:")
	mark := "-"
	for _, may := range []string{"-info", "+info", "-info", "+info"} {
		f.Do(t, "ACL", "SETUSER", "default", may)
		got := f.run(t, script.MarkServer, key, "60000")
		assert.True(t, strings.HasSuffix(got, " "+mark), "with %s it is read: %s", may, got)
		got = f.Do(t, "EVAL", script.RaiseFence.Text, "2", lock, key, "c/1", "7", "600000").(string)
		assert.True(t, strings.HasSuffix(got, " "+mark), "with %s it is read with a token: %s", may, got)
		got = f.run(t, script.MarkServer, key, "60000", mark, mark+may)
		mark += may
		assert.True(t, strings.HasSuffix(got, " "+mark), "with %s it is written: %s", may, got)
	}
}

// A short TTL may have passed when the server sets it, and the server then deletes the
// key. What a script writes afterwards must not remain for ever.
func TestATTLThatHasPassedLeavesNoKey(t *testing.T) {
	server := redistest.Start(t)
	for range 2 {
		for _, ttl := range []string{"60000", "0"} {
			server.Do(t, "EVAL", script.RegisterClient.Text, "1", "c", ttl, "app", "host", "1", "v1", "7")
			life := server.Do(t, "PTTL", "c")
			assert.True(t, life != int64(-1), "announced for %s ms: the key has no life", ttl)
		}
	}
}
