package redistest_test

import (
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestServerAnswersEveryKindOfValue(t *testing.T) {
	s := redistest.Start(t)
	c := s.Dial(t)
	for _, test := range []struct {
		command string
		want    any
	}{
		{"SET key value", "OK"},
		{"GET key", "value"},
		{"GET nothing", nil},
		{"INCR number", int64(1)},
		{"MGET key nothing", []any{"value", nil}},
		{"INCR key", redistest.Error("ERR value is not an integer or out of range")},
	} {
		var args []any
		for word := range strings.FieldsSeq(test.command) {
			args = append(args, word)
		}
		if got := c.Do(t, args...); fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", test.want) {
			t.Errorf("%s: got %#v, want %#v", test.command, got, test.want)
		}
	}
}

func TestPasswordAndReplica(t *testing.T) {
	primary := redistest.Start(t, redistest.Password("secret"))
	got := redistest.Dial(t, primary.Addr()).Do(t, "GET", "key")
	assert.True(t, got == redistest.Error("NOAUTH Authentication required."), "without a password: %v", got)
	primary.Do(t, "SET", "key", "value")
	replica := redistest.Start(t, redistest.ReplicaOf(primary))
	assert.Equal(t, replica.Do(t, "GET", "key"), "value", "the replica has")
	if scheme, got, _ := strings.Cut(primary.URL(), "://"); got != ":secret@"+primary.Addr() ||
		scheme == "rediss" != redistest.Secured() {
		t.Errorf("URL: %s://%s", scheme, got)
	}
}

// Another process that starts servers must not get the port of one that was killed and will
// be restarted.
func TestAKilledServerKeepsItsPort(t *testing.T) {
	s := redistest.Start(t)
	s.Kill()
	if c, err := net.ListenPacket("udp", s.Addr()); err == nil {
		c.Close()
		t.Error("the port is not reserved")
	}
	s.Restart()
	assert.Equal(t, s.Do(t, "PING"), "PONG", "after the restart")
}

func TestPauseHoldsAnswersBack(t *testing.T) {
	s := redistest.Start(t)
	c := s.Dial(t)
	s.Pause()
	c.Send(t, "PING")
	s.Continue()
	assert.Equal(t, c.Receive(t), "PONG", "the answer")
}

func TestRestartForgets(t *testing.T) {
	s := redistest.Start(t, redistest.Args("--maxmemory", "10mb"))
	s.Do(t, "SET", "key", "value")
	s.Kill()
	s.Kill()
	addr := s.Addr()
	s.Restart()
	assert.True(t, s.Addr() == addr, "the port changed from %s to %s", addr, s.Addr())
	got := s.Do(t, "GET", "key")
	assert.True(t, got == nil, "the server remembers %v", got)
	assert.Equal(t, s.Info(t, "maxmemory"), "10485760", "maxmemory")
}

func TestCommandCalls(t *testing.T) {
	s := redistest.Start(t)
	s.Do(t, "EVAL", "redis.call('SET', KEYS[1], 'x') redis.call('SET', KEYS[1], 'y')", 1, "key")
	calls := s.CommandCalls(t)
	assert.True(t, calls["eval"] == 1 && calls["set"] == 2, "got %v, want one eval and two sets", calls)
	s.ResetStats(t)
	calls = s.CommandCalls(t)
	assert.True(t, calls["eval"] == 0, "after the reset: %v", calls)
}

func TestNoServerIsAFailureThatHelps(t *testing.T) {
	t.Setenv(redistest.EnvServer, "no-such-server")
	fake := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		redistest.Start(fake)
	}()
	<-done
	assert.Contains(t, fake.said, "apt-get install redis-server")
}

// failing is a test that records why it failed.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}
func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func TestPrimariesAreIndependent(t *testing.T) {
	servers := redistest.Primaries(t, 5)
	ids := make(map[string]bool)
	for _, s := range servers {
		ids[s.Info(t, "run_id")] = true
		s.Do(t, "SET", "key", s.Addr())
	}
	servers[1].Kill()
	for i, s := range servers {
		if i == 1 {
			continue
		}
		got := s.Do(t, "GET", "key")
		assert.True(t, got == s.Addr() && s.Info(t, "role") == "master", "server %d has %v", i, got)
	}
	assert.Equal(t, len(ids), 5, "servers")
}

func TestTheClockOfOneServerIsMoved(t *testing.T) {
	s := redistest.Start(t, redistest.Clock())
	ahead := func() time.Duration {
		seconds, _ := strconv.ParseInt(s.Do(t, "TIME").([]any)[0].(string), 10, 64)
		return time.Until(time.Unix(seconds, 0)).Round(time.Hour)
	}
	for _, d := range []time.Duration{0, 5 * time.Hour, -3 * time.Hour} {
		s.MoveClock(d)
		assert.Equal(t, ahead(), d, "ahead by")
	}
	s.Restart()
	assert.Equal(t, ahead(), -3*time.Hour, "after a restart ahead by")
	s.Do(t, "SET", "key", "x", "PX", "1800000")
	s.MoveClock(0)
	assert.True(t, s.Do(t, "EXISTS", "key") == int64(0), "what the moved clock says has expired is still there")
}
