package bench

import (
	"flag"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// latency is how far away the servers of BenchmarkVersus and BenchmarkQuorum are.
var latency = flag.Duration("latency", 0, "the round trip to the servers of BenchmarkVersus and BenchmarkQuorum")

// far is an address of a server that is a round trip of the flag -latency away.
func far(t testing.TB, s *redistest.Server) string {
	t.Helper()
	return relayed(t, s, *latency)
}

func relayed(t testing.TB, s *redistest.Server, trip time.Duration) string {
	t.Helper()
	if trip == 0 {
		return s.Addr()
	}
	r, err := startRelay(t.Context(), s.Addr(), trip)
	check(t, err)
	t.Cleanup(r.stop)
	return r.addr()
}

// A relay adds its round trip to each answer, and lets requests follow each other.
func TestARelayIsLatencyAndNotBandwidth(t *testing.T) {
	const trip, requests = 100 * time.Millisecond, 100
	server := redistest.Start(t)
	conn := redistest.Dial(t, relayed(t, server, trip))
	conn.Do(t, "PING")
	start := time.Now()
	for range requests {
		conn.Send(t, "PING")
	}
	for range requests {
		assert.MustEqual(t, conn.Receive(t), "PONG", "answered")
	}
	took := time.Since(start)
	assert.True(t, took >= trip && took < requests*trip, "%d requests at once took %v", requests, took)
}
