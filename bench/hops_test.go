package bench

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/bench/crew"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
)

var hopRounds = flag.Int("hops", 300, "hand-overs of each way and client in BenchmarkHops")

// BenchmarkHops follows hand-overs between two processes hop by hop, and prints the medians
// as a table: of Holdfast, of the least script that writes and publishes, and of a token. The
// holder works for 20 ms before each.
func BenchmarkHops(b *testing.B) {
	server := redistest.Start(b)
	conn := logAll(b, server)
	var table []hopColumn
	for _, k := range kits {
		pair := startHopWorkers(b)
		for _, way := range []string{wayLock, wayLeast, wayToken} {
			table = append(table, followHops(b, server, conn, pair, k.name, way, *hopRounds))
		}
	}
	b.ReportMetric(0, "ns/op")
	fmt.Print(hopTable(table))
}

// The benchmark sees the waiters by the record, whose form may change.
func TestAHandOverIsFollowedHopByHop(t *testing.T) {
	server := redistest.Start(t)
	c := followHops(t, server, logAll(t, server), startHopWorkers(t), "goredis", wayLock, 5)
	for _, r := range hopRows {
		assert.True(t, c.hops[r.name] > 0, "%s: %v µs", r.name, c.hops[r.name])
	}
}

// logAll makes the server keep the time of each request.
func logAll(t testing.TB, server *redistest.Server) *redistest.Conn {
	t.Helper()
	conn := server.Dial(t)
	conn.Do(t, "CONFIG", "SET", "slowlog-max-len", 100_000)
	conn.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", 0)
	return conn
}

// hopColumn has the medians of one way on one client, in µs.
type hopColumn struct {
	kit, way string
	hops     map[string]float64
}

// The hops, in order. A way that does not have one leaves it out.
var hopRows = []struct {
	name string
	took func(m hopMarks) (from, to int64)
}{
	{"call → bytes leave", func(m hopMarks) (from, to int64) { return m.Call, m.Write }},
	{"bytes leave → written", func(m hopMarks) (from, to int64) { return m.Write, m.Wrote }},
	{"written → push read", func(m hopMarks) (from, to int64) { return m.Wrote, m.Read }},
	{"push read → client library tells", func(m hopMarks) (from, to int64) { return m.Read, m.Heard }},
	{"told → goroutine made ready", func(m hopMarks) (from, to int64) { return m.Heard, m.Told }},
	{"ready → Lock returns", func(m hopMarks) (from, to int64) { return m.Told, m.Got }},
	{"push read → in the waiter's hands", func(m hopMarks) (from, to int64) { return m.Read, m.Got }},
	{"**call → in the waiter's hands**", func(m hopMarks) (from, to int64) { return m.Call, m.Got }},
	{"call → Release returns", func(m hopMarks) (from, to int64) { return m.Call, m.Done }},
}

const serverRow = "the server's own time of it"

// hopTable prints the columns side by side.
func hopTable(columns []hopColumn) string {
	var out strings.Builder
	out.WriteString("\n| µs, medians |")
	for _, c := range columns {
		fmt.Fprintf(&out, " %s, %s |", c.kit, c.way)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	names := []string{}
	for _, r := range hopRows {
		names = append(names, r.name)
	}
	for _, name := range append(names, serverRow) {
		fmt.Fprintf(&out, "| %s |", name)
		for _, c := range columns {
			if us, ok := c.hops[name]; ok {
				fmt.Fprintf(&out, " %.0f |", us)
			} else {
				out.WriteString(" – |")
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}

// hopProcess is one of the two processes.
type hopProcess struct {
	*json.Encoder
	*json.Decoder
	in io.Closer
}

func startHopWorkers(t testing.TB) (pair [2]hopProcess) {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	for i := range pair {
		cmd := exec.Command(self)
		cmd.Env, cmd.Stderr = append(os.Environ(), envWorker+"="+hopsWorker), os.Stderr
		in, err := cmd.StdinPipe()
		check(t, err)
		out, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		pair[i] = hopProcess{json.NewEncoder(in), json.NewDecoder(out), in}
		t.Cleanup(func() {
			if t.Failed() { // it may wait for the other one, and reads nothing meanwhile
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
				return
			}
			assert.NoError(t, errors.Join(in.Close(), cmd.Wait()))
		})
	}
	return pair
}

// result reads a worker's answer.
func (p hopProcess) result(t testing.TB) hopMarks {
	t.Helper()
	var m hopMarks
	check(t, p.Decode(&m))
	if m.Error != "" {
		t.Fatal(m.Error)
	}
	return m
}

// followHops makes the two workers hand over to each other, and returns the medians.
func followHops(
	t testing.TB, server *redistest.Server, conn *redistest.Conn, pair [2]hopProcess, kit, way string, rounds int,
) hopColumn {
	t.Helper()
	conn.Do(t, "FLUSHALL")
	for i, p := range pair {
		check(t, p.Encode(order{Kit: kit, Way: way, Addr: server.Addr(), Worker: i, Do: "open"}))
		p.result(t)
	}
	do := func(p hopProcess, what string) { check(t, p.Encode(order{Do: what})) }
	if way == wayLock {
		do(pair[0], "wait")
		pair[0].result(t)
	}
	var all []hopMarks
	const warm = 40 // after that, every connection is made
	for n := range rounds + warm {
		if n == warm {
			conn.Do(t, "SLOWLOG", "RESET")
		}
		giver, taker := pair[n%2], pair[1-n%2]
		do(taker, "wait")
		check(t, await(func() bool { return hopWaits(t, server, conn, way) }))
		crew.Wait(labour)
		do(giver, "give")
		m, got := giver.result(t), taker.result(t)
		m.Read, m.Heard, m.Told, m.Got = got.Read, got.Heard, got.Told, got.Got
		if n >= warm {
			all = append(all, m)
		}
	}
	c := hopColumn{kit, way, map[string]float64{}}
	for _, r := range hopRows {
		var took []float64
		for _, m := range all {
			if from, to := r.took(m); from != 0 && to != 0 {
				took = append(took, float64(to-from)/1000)
			}
		}
		if len(took) > len(all)/2 {
			c.hops[r.name] = crew.Percentile(took, 50)
		}
	}
	c.hops[serverRow] = serverTime(t, conn, way)
	return c
}

// hopWaits reports whether the taker waits at the server.
func hopWaits(t testing.TB, server *redistest.Server, conn *redistest.Conn, way string) bool {
	t.Helper()
	switch way {
	case wayLock:
		lock, _ := conn.Do(t, "HGET", "holdfast:{"+hopName+"}", "lock").(string)
		return strings.Contains(lock, " +") // the only waiter is part of that field
	case wayToken:
		return server.Info(t, "blocked_clients") == "1"
	}
	return true // it is subscribed all the time
}

// serverTime is the median of what the server says it spent on the request of a hand-over.
func serverTime(t testing.TB, conn *redistest.Conn, way string) float64 {
	t.Helper()
	logged, _ := conn.Do(t, "SLOWLOG", "GET", -1).([]any)
	var took []float64
	for _, one := range logged {
		entry := one.([]any)
		words := entry[3].([]any)
		if len(words) < 3 {
			continue
		}
		first, second := strings.ToLower(words[0].(string)), words[1].(string)
		if way == wayToken && first == "rpush" ||
			way == wayLock && first == "evalsha" && second == script.Release.SHA1 ||
			way == wayLeast && first == "evalsha" {
			took = append(took, float64(entry[2].(int64)))
		}
	}
	assert.MustTrue(t, len(took) != 0, "the server logged none of the requests")
	return crew.Percentile(took, 50)
}
