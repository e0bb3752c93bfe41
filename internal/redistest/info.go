package redistest

import (
	"strconv"
	"strings"
	"testing"
)

// Info returns one field of the server's INFO, such as "connected_clients",
// empty if it has no such field.
func (s *Server) Info(t testing.TB, field string) string {
	t.Helper()
	text, _ := s.Do(t, "INFO", "everything").(string)
	return infoField(text, field)
}

// CommandCalls returns how often each command was called since the start or
// since ResetStats, by its lower-case name ("evalsha", "client|setname"),
// calls from scripts included.
func (s *Server) CommandCalls(t testing.TB) map[string]int64 {
	t.Helper()
	text, _ := s.Do(t, "INFO", "commandstats").(string)
	calls := make(map[string]int64)
	for line := range strings.Lines(text) {
		// cmdstat_get:calls=2,usec=5,…
		name, stats, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		count, _, _ := strings.Cut(stats, ",")
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil {
			t.Fatalf("redistest: commandstats: %q", line)
		}
		calls[name] = n
	}
	return calls
}

// ResetStats sets the counters of CommandCalls to zero.
func (s *Server) ResetStats(t testing.TB) {
	t.Helper()
	s.Do(t, "CONFIG", "RESETSTAT")
}

func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
