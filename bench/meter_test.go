package bench

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/bench/crew"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
)

// meter measures what requests cost a server, by the server's own counters. Wall time says
// little on a machine that has other work: the counters say how long the server was at
// each command, and how many commands a script called. The second number is exact.
type meter struct {
	b       *testing.B
	server  *redistest.Server
	conn    *redistest.Conn // of the requests
	control *redistest.Conn // of the counters
	costs   map[string][]cost

	// function has the names of the functions that take the place of scripts; nil: EVALSHA.
	function map[*script.Script]string
}

// cost is what one operation cost the server.
type cost struct {
	usec     float64 // time of the script, with the commands that it calls
	calls    float64 // commands that the script calls
	requests float64
}

func newMeter(b *testing.B, opts ...redistest.Option) *meter {
	b.Helper()
	m := &meter{b: b, server: redistest.Start(b, opts...), costs: make(map[string][]cost)}
	m.conn, m.control = m.server.Dial(b), m.server.Dial(b)
	for _, s := range script.All() {
		m.conn.Do(b, "SCRIPT", "LOAD", s.Text)
	}
	return m
}

// harnessed are the commands of the harness, and those that clients send by themselves.
var harnessed = []string{
	"evalsha", "config|resetstat", "info", "ping", "hello", "client|setinfo", "subscribe", "auth",
}

// measure runs do, which are n operations.
func (m *meter) measure(op string, n int, do func()) {
	m.b.Helper()
	m.control.Do(m.b, "CONFIG", "RESETSTAT")
	do()
	m.costs[op] = append(m.costs[op], m.read(n))
}

// read returns what n operations have cost since the counters were reset.
func (m *meter) read(n int) cost {
	m.b.Helper()
	stats, _ := m.control.Do(m.b, "INFO", "commandstats").(string)
	var c cost
	for line := range strings.Lines(stats) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		count, rest, _ := strings.Cut(rest, ",usec=")
		usec, _, _ := strings.Cut(rest, ",")
		calls, err := strconv.ParseFloat(count, 64)
		check(m.b, err)
		us, err := strconv.ParseFloat(usec, 64)
		check(m.b, err)
		switch {
		case name == "evalsha" || name == "fcall":
			c.usec, c.requests = c.usec+us, c.requests+calls
		case !slices.Contains(harnessed, name):
			c.calls += calls
		}
	}
	return cost{c.usec / float64(n), c.calls / float64(n), c.requests / float64(n)}
}

// report reports for each operation the lowest tenth of its rounds, because other load on
// the machine can only add to them. The calls are the median.
func (m *meter) report() {
	m.b.ReportMetric(0, "ns/op")
	for _, op := range slices.Sorted(maps.Keys(m.costs)) {
		column := func(of func(c cost) float64) (list []float64) {
			for _, c := range m.costs[op] {
				list = append(list, of(c))
			}
			return list
		}
		m.b.ReportMetric(crew.Percentile(column(func(c cost) float64 { return c.usec }), 10), op+"-µs")
		m.b.ReportMetric(crew.Percentile(column(func(c cost) float64 { return c.calls }), 50), op+"-calls")
		m.b.ReportMetric(crew.Percentile(column(func(c cost) float64 { return c.requests }), 50), op+"-requests")
	}
}

// atATime is how many requests are sent before their answers are read.
const atATime = 500

// each sends n requests and reads their answers, each of which must begin with one of the
// words in want.
func (m *meter) each(n int, s *script.Script, want string, request func(i int) (keys, args []string)) {
	m.b.Helper()
	for first := 0; first < n; first += atATime {
		last := min(first+atATime, n)
		for i := first; i < last; i++ {
			keys, args := request(i)
			words := make([]any, 0, 3+len(keys)+len(args))
			if m.function != nil {
				words = append(words, "FCALL", m.function[s], len(keys))
			} else {
				words = append(words, "EVALSHA", s.SHA1, len(keys))
			}
			for _, word := range slices.Concat(keys, args) {
				words = append(words, word)
			}
			m.conn.Send(m.b, words...)
		}
		for range last - first {
			got, _ := m.conn.Receive(m.b).(string)
			if word, _, _ := strings.Cut(got, " "); !strings.Contains(want, word) || word == "" {
				m.b.Fatalf("%s answered %q, not %s", s.Name, got, want)
			}
		}
	}
}
