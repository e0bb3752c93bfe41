package bench

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
)

// BenchmarkServers is the cost of the scripts on the server of HOLDFAST_TEST_SERVER, for the
// table of servers in docs/scaling.md. make bench WHAT=servers runs it on each.
//
//	SERVER/evalsha  server µs of acquire, release, join, turn, and of a renewal in a request of
//	                128; raw-set and raw-release are SET NX PX and compare-and-delete, which is
//	                DELIFEQ where the server has it
//	SERVER/fcall    the same scripts as functions
//	SERVER/io-N     pairs of 64 goroutines with N I/O threads: a second, and processor µs of the
//	                server for each; x-raw-rate is their rate divided by that of bare commands
func BenchmarkServers(b *testing.B) {
	product, version := redistest.Start(b).Product(b)
	name := product + "-" + version
	b.Run(name+"/evalsha", func(b *testing.B) { benchScripts(b, false) })
	b.Run(name+"/fcall", func(b *testing.B) { benchScripts(b, true) })
	for _, threads := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("%s/io-%d", name, threads), func(b *testing.B) { benchThreads(b, threads) })
	}
}

func benchScripts(b *testing.B, functions bool) {
	m := newMeter(b)
	if functions {
		m.function = make(map[*script.Script]string)
		for _, s := range script.All() {
			m.function[s] = "holdfast_" + s.Name
			if got := m.conn.Do(b, "FUNCTION", "LOAD", functionOf(s, m.function[s])); got != m.function[s] {
				b.Fatalf("FUNCTION LOAD of %s: %v", s.Name, got)
			}
		}
	}
	listen(b, m.server, queueClients)
	q := &waitQueue{key: "holdfast:{queue}"}
	m.each(1, script.Acquire, "granted", func(int) (keys, args []string) { return q.lock() })
	m.each(100, script.Acquire, "queued", func(int) (keys, args []string) { return q.join() })
	layRecords(b, m, 1000)
	for b.Loop() {
		for range rounds {
			scriptsOnce(m, q)
			if !functions {
				rawOnce(m)
			}
		}
	}
	m.report()
}

// scriptsOnce is a round of each script.
func scriptsOnce(m *meter, q *waitQueue) {
	m.measure("acquire", perRound, func() {
		m.each(perRound, script.Acquire, "granted", func(i int) (keys, args []string) {
			return []string{leaseKey(i)}, []string{leaseAttempt(i), curveTTL, curveLife, "x", "0", curveChannels}
		})
	})
	var keys []string
	args := []string{curveRetention, curveTTL}
	for i := range perRound {
		keys, args = append(keys, leaseKey(i)), append(args, leaseAttempt(i))
	}
	m.measure("renew", perRound, func() {
		m.each(1, script.Renew, "renewed", func(int) ([]string, []string) { return keys, args })
	})
	m.measure("release", perRound, func() {
		m.each(perRound, script.Release, "released", func(i int) (keys, args []string) {
			return []string{leaseKey(i)}, []string{leaseAttempt(i), "1", curveRetention, curveChannels}
		})
	})
	m.measure("join", perRound, func() {
		m.each(perRound, script.Acquire, "queued", func(int) (keys, args []string) { return q.join() })
	})
	m.measure("turn", perRound, func() {
		m.each(perRound, script.Release, "released", func(int) (keys, args []string) { return q.turn() })
	})
}

// rawOnce is a round of the bare commands of a lock.
func rawOnce(m *meter) {
	m.b.Helper()
	has, _ := m.conn.Do(m.b, "COMMAND", "INFO", "delifeq").([]any)
	native := len(has) == 1 && has[0] != nil
	m.conn.Do(m.b, "SCRIPT", "LOAD", compareAndDelete)
	all := func(command string, request func(i int) []any) {
		m.control.Do(m.b, "CONFIG", "RESETSTAT")
		for i := range perRound {
			m.conn.Send(m.b, request(i)...)
		}
		for range perRound {
			if got := m.conn.Receive(m.b); got == nil || got == int64(0) {
				m.b.Fatalf("%s answered %v", command, got)
			}
		}
		op := "raw-release"
		if command == "set" {
			op = "raw-set"
		}
		m.costs[op] = append(m.costs[op], cost{usec: perCall(m.b, m.control, command), requests: 1})
	}
	key := func(i int) string { return fmt.Sprintf("raw:%d", i) }
	all("set", func(i int) []any { return []any{"SET", key(i), leaseAttempt(i), "NX", "PX", curveTTL} })
	if native {
		all("delifeq", func(i int) []any { return []any{"DELIFEQ", key(i), leaseAttempt(i)} })
		return
	}
	all("evalsha", func(i int) []any { return []any{"EVALSHA", compareAndDeleteSHA, 1, key(i), leaseAttempt(i)} })
}

// functionOf is a library of one function that does what a script does.
func functionOf(s *script.Script, name string) string {
	flags := ""
	if _, words, ok := strings.Cut(strings.TrimSpace(s.Declaration()), "flags="); ok {
		for flag := range strings.SplitSeq(words, ",") {
			flags += "'" + flag + "',"
		}
	}
	return fmt.Sprintf("#!lua name=%s\nredis.register_function{function_name='%s', flags={%s}, "+
		"callback=function(KEYS, ARGV)\n%s\nend}\n", name, name, flags, s.Body())
}

func benchThreads(b *testing.B, threads int) {
	server := redistest.Start(b, redistest.Args("--io-threads", fmt.Sprint(threads)))
	p, err := kitNamed("rueidis").open(server.Addr())
	check(b, err)
	b.Cleanup(p.close)
	client := p.client(b, holdfast.Config{})
	var ours, bare []pair
	for i := range many {
		ours = append(ours, lockPair(client.Mutex(fmt.Sprintf("own/%d", i))))
		bare = append(bare, rawPair(p.raw, fmt.Sprintf("raw/%d", i)))
	}
	together(b, ours, 5)
	together(b, bare, 5)
	var ratios, rates, used []float64
	const each, rounds = 50, 6
	for b.Loop() {
		for range rounds {
			before := cpuOf(b, server)
			took := together(b, ours, each)
			used = append(used, float64((cpuOf(b, server)-before).Microseconds())/(many*each))
			rawTook := together(b, bare, each)
			rates = append(rates, many*each/took.Seconds())
			ratios = append(ratios, float64(rawTook)/float64(took))
		}
	}
	slices.Sort(ratios)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ratios[len(ratios)/2], "x-raw-rate")
	b.ReportMetric(slices.Max(rates), "pairs/s")
	b.ReportMetric(slices.Min(used), "processor-µs")
}
