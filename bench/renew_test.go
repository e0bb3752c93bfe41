package bench

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
)

// renewForm is one way to renew leases that the server could have.
type renewForm struct {
	name, text string // text is the script; empty: commands without a script
	args       func(attempt string) []any
	common     []any
}

var renewForms = []renewForm{
	{name: "pexpire"},
	{name: "script-pexpire", text: `for i = 1, #KEYS do redis.call('PEXPIRE', KEYS[i], ARGV[1]) end return 'renewed'`,
		common: []any{"630000"}},
	{name: "renew", text: script.Renew.Text, common: []any{"600000", "3700000"},
		args: func(attempt string) []any { return []any{attempt} }},
	{name: "three-calls", text: `for i, key in ipairs(KEYS) do
	local lock = redis.call('HGET', key, 'lock')
	redis.call('PEXPIRE', key, ARGV[1], 'GT')
	redis.call('HSET', key, 'lock', lock)
end
return 'renewed'`, common: []any{"4200000"}},
}

// BenchmarkRenewals is what one renewal costs the server, by its own counters, in requests of
// 128 leases: usec is the time of the commands, and server-µs all processor time. pexpire is a
// pipeline that checks nothing, and script-pexpire one script that does the same. three-calls is
// the least that a renewal of a record calls: it reads the hold, extends the record, and writes
// the hold. An op is a renewal of every lease. The leases were granted by the script acquire.
func BenchmarkRenewals(b *testing.B) {
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		if testing.Short() && n > 1000 {
			continue
		}
		server := redistest.Start(b)
		conn := server.Dial(b)
		layLeases(b, conn, n)
		for _, f := range renewForms {
			b.Run(fmt.Sprintf("%d/%s", n, f.name), func(b *testing.B) {
				conn.Do(b, "CONFIG", "RESETSTAT")
				before, rounds := cpuOf(b, server), 0
				for b.Loop() {
					renewAll(b, conn, f, n)
					rounds++
				}
				used := cpuOf(b, server) - before
				total := float64(rounds) * float64(n)
				command := "eval"
				if f.text == "" {
					command = "pexpire"
				}
				calls := float64(server.CommandCalls(b)[command])
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(perCall(b, conn, command)*calls/total, "usec/lease")
				b.ReportMetric(float64(used.Nanoseconds())/1e3/total, "server-µs/lease")
			})
		}
	}
}

func leaseKey(i int) string     { return "holdfast:{held/" + strconv.Itoa(i) + "}" }
func leaseAttempt(i int) string { return "0123456789abcdef0123456789abcdef/" + strconv.Itoa(i) }

// layLeases grants n leases of an hour.
func layLeases(b *testing.B, conn *redistest.Conn, n int) {
	const batch = 1000
	for first := 0; first < n; first += batch {
		for i := first; i < first+batch; i++ {
			conn.Send(b, "EVAL", script.Acquire.Text, 1, leaseKey(i),
				leaseAttempt(i), "3600000", "4200000", "x", "0", "p:")
		}
		for range batch {
			conn.Receive(b)
		}
	}
}

// renewAll renews every lease once.
func renewAll(b *testing.B, conn *redistest.Conn, f renewForm, n int) {
	for first := 0; first < n; first += renewAtOnce {
		last := min(first+renewAtOnce, n)
		if f.text == "" {
			for i := first; i < last; i++ {
				conn.Send(b, "PEXPIRE", leaseKey(i), "4200000")
			}
			for i := first; i < last; i++ {
				conn.Receive(b)
			}
			continue
		}
		words := []any{"EVAL", f.text, last - first}
		for i := first; i < last; i++ {
			words = append(words, leaseKey(i))
		}
		words = append(words, f.common...)
		for i := first; i < last && f.args != nil; i++ {
			words = append(words, f.args(leaseAttempt(i))...)
		}
		if got := conn.Do(b, words...).(string); !strings.HasPrefix(got, "renewed") || strings.Contains(got, "-") {
			b.Fatal("not renewed")
		}
	}
}
