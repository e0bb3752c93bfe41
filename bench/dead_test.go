package bench

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
)

// BenchmarkDeadWaiters is the cost of one release at the server, with a number of dead
// waiters or holes in front of one live waiter. An op is the first release after their
// death, which skips the most; us/step is the script's own time.
func BenchmarkDeadWaiters(b *testing.B) {
	for _, kind := range []string{"dead", "holes"} {
		for _, n := range []int{0, 10, 100, 1000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("%s-%d", kind, n), func(b *testing.B) {
				server := redistest.Start(b)
				conn, ear := server.Dial(b), server.Dial(b)
				ear.Do(b, "SUBSCRIBE", "push:l")
				layLine(b, conn, n, kind == "holes")
				conn.Do(b, "EVAL", script.Release.Text, 1, "{none}", "h/1", "7", "600000", "push:") // compiles
				conn.Do(b, "CONFIG", "RESETSTAT")
				for b.Loop() {
					conn.Do(b, "COPY", "{k}", "{k}2", "REPLACE")
					got := conn.Do(b, "EVAL", script.Release.Text, 1, "{k}2", "h/1", "7", "600000", "push:")
					if got != "released" {
						b.Fatal(got)
					}
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(perCall(b, conn, "eval"), "us/step")
			})
		}
	}
}

// layLine writes a record that h/1 holds, with n dead waiters and a last one that
// subscribes.
func layLine(b *testing.B, conn *redistest.Conn, n int, holes bool) {
	now := time.Now().UnixMilli()
	waiting := n + 1
	if holes {
		waiting = 1
	}
	conn.Do(b, "HSET", "{k}", "lock", fmt.Sprintf("%d000 300000 h/1 +", now), "birth", "1",
		"queue", fmt.Sprintf("%d 1 %d", waiting, n+1))
	sent := 0
	for place := n + 1; place > n+1-waiting; place-- {
		id := fmt.Sprintf("d%d/1", place)
		if place == n+1 {
			id = "l/1"
		}
		conn.Send(b, "HSET", "{k}", fmt.Sprintf("#%d", place), id,
			"w:"+id, fmt.Sprintf("%d x 1 30000 %d %d", place, now+1_000_000, now))
		if sent++; sent%500 == 0 || place == n+2-waiting {
			for ; sent > 0; sent-- {
				conn.Receive(b)
			}
		}
	}
	conn.Do(b, "PEXPIRE", "{k}", 6_000_000)
}

// perCall is the server's own time for a call of a command, in µs.
func perCall(b *testing.B, conn *redistest.Conn, command string) float64 {
	stats := conn.Do(b, "INFO", "commandstats").(string)
	_, rest, found := strings.Cut(stats, "cmdstat_"+command+":")
	_, rest, ok := strings.Cut(rest, "usec_per_call=")
	word, _, _ := strings.Cut(rest, ",")
	us, err := strconv.ParseFloat(word, 64)
	if !found || !ok || err != nil {
		b.Fatalf("no time of %s in %s", command, stats)
	}
	return us
}
