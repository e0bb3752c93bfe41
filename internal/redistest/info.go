package redistest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// Info returns one field of the server's INFO, such as "connected_clients". It is empty if
// there is no such field.
func (s *Server) Info(t testing.TB, field string) string {
	t.Helper()
	text, _ := s.Do(t, "INFO", "everything").(string)
	return infoField(text, field)
}

// Product returns the server's product, redis or valkey, and its version. Valkey also names
// the version of Redis with which it is compatible.
func (s *Server) Product(t testing.TB) (name, version string) {
	t.Helper()
	text, _ := s.Do(t, "INFO", "server").(string)
	if version = infoField(text, "valkey_version"); version != "" {
		return "valkey", version
	}
	return "redis", infoField(text, "redis_version")
}

// WaitsForDisks reports whether the server has WAITAOF: Redis from 7.2 on, and
// every Valkey.
func (s *Server) WaitsForDisks(t testing.TB) bool {
	t.Helper()
	known, _ := s.Do(t, "COMMAND", "INFO", "waitaof").([]any)
	return len(known) == 1 && known[0] != nil
}

// CommandCalls returns how often each command was called since the start or since ResetStats,
// including calls from scripts. The keys are names in lower case: "evalsha", "client|setname".
func (s *Server) CommandCalls(t testing.TB) map[string]int64 { return s.commandStats(t, "calls=") }

// CommandTimes returns how long the server has run each command, with the same keys. The time of a
// script includes that of its commands.
func (s *Server) CommandTimes(t testing.TB) map[string]time.Duration {
	times := make(map[string]time.Duration)
	for name, micros := range s.commandStats(t, "usec=") {
		times[name] = time.Duration(micros) * time.Microsecond
	}
	return times
}

// commandStats returns a field of INFO commandstats for each command.
func (s *Server) commandStats(t testing.TB, field string) map[string]int64 {
	t.Helper()
	text, _ := s.Do(t, "INFO", "commandstats").(string)
	all := make(map[string]int64)
	for line := range strings.Lines(text) {
		// cmdstat_get:calls=2,usec=5,…
		name, stats, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		_, value, _ := strings.Cut("calls="+stats, field)
		value, _, _ = strings.Cut(value, ",")
		n, err := strconv.ParseInt(value, 10, 64)
		assert.MustTrue(t, err == nil, "redistest: commandstats: %q", line)
		all[name] = n
	}
	return all
}

// ResetStats sets the counters of CommandCalls to zero.
func (s *Server) ResetStats(t testing.TB) {
	t.Helper()
	s.Do(t, "CONFIG", "RESETSTAT")
}

// ask is Do for a server that may have ended. An error answer is an error, and a list is one
// text.
func (s *Server) ask(args ...any) (string, error) {
	c, err := s.dial()
	if err != nil {
		return "", err
	}
	defer c.Close()
	reply, err := c.try(args...)
	if e, refused := reply.(Error); refused {
		err = e
	}
	if list, ok := reply.([]any); ok {
		reply = fmt.Sprintln(list...)
	}
	text, _ := reply.(string)
	return text, err
}

func (s *Server) awaitRole(t testing.TB, role string) {
	t.Helper()
	until(t, s.Addr()+" is a "+role, func() error {
		info, err := s.ask("INFO", "replication")
		if got := infoField(info, "role"); err == nil && got != role {
			err = errors.New("it is a " + got)
		}
		return err
	})
}

// awaitReplicas waits until n replicas are connected.
func (s *Server) awaitReplicas(t testing.TB, n string) {
	t.Helper()
	until(t, s.Addr()+" has "+n+" replicas", func() error {
		info, err := s.ask("INFO", "replication")
		if got := infoField(info, "connected_slaves"); err == nil && got != n {
			err = errors.New("it has " + got)
		}
		return err
	})
}

// until calls ask until it returns no error. After [Patience] the test fails.
func until(t testing.TB, what string, ask func() error) {
	t.Helper()
	late := time.NewTimer(Patience)
	defer late.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ask()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("redistest: %s: not within %v: %v", what, Patience, err)
		}
	}
}

func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Await calls yes until it returns true, for states of servers that no event reports. After
// [Patience] the test fails.
func Await(t testing.TB, what string, yes func() bool) {
	t.Helper()
	until(t, what, func() error {
		if !yes() {
			return errors.New("not yet")
		}
		return nil
	})
}

// Next waits for a value from a channel.
func Next[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	late := time.NewTimer(Patience)
	defer late.Stop()
	select {
	case v := <-c:
		return v
	case <-late.C:
		t.Fatalf("redistest: %s: not within %v", what, Patience)
		panic("unreachable")
	}
}

// KillEndless ends each script that computes for longer than the server's busy-reply-threshold, so
// that its test fails and does not hang. It goes on until the test ends.
func (s *Server) KillEndless(t testing.TB) {
	t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	conn, tick := s.Dial(t), time.NewTicker(time.Second)
	t.Cleanup(func() {
		tick.Stop()
		close(stop)
		<-done
	})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				conn.try("SCRIPT", "KILL") //nolint:errcheck // without a script that runs it is an error
			}
		}
	}()
}
