package bench

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/crew"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// bill is the cost of some work at the server, by the server's own counters.
type bill struct {
	calls   int64 // requests of clients, and pushes
	usec    float64
	in, out int64 // bytes
}

// costly are the commands whose time counts. Commands that a script calls are part of the
// time of its EVALSHA.
var costly = []string{"evalsha", "set", "pexpire"}

// billed returns the cost of work at the server, without the cost of reading the
// counters.
func billed(b *testing.B, s *redistest.Server, work func()) bill {
	b.Helper()
	nothing := charge(b, s, func() {})
	all := charge(b, s, work)
	all.in, all.out = max(0, all.in-nothing.in), max(0, all.out-nothing.out)
	return all
}

func charge(b *testing.B, s *redistest.Server, work func()) bill {
	b.Helper()
	s.ResetStats(b)
	in, out := number(b, s, "total_net_input_bytes"), number(b, s, "total_net_output_bytes")
	work()
	got := bill{in: number(b, s, "total_net_input_bytes") - in, out: number(b, s, "total_net_output_bytes") - out}
	stats, _ := s.Do(b, "INFO", "commandstats").(string)
	got.calls = sent(s.CommandCalls(b))
	for line := range strings.Lines(stats) {
		for _, name := range costly {
			rest, ok := strings.CutPrefix(line, "cmdstat_"+name+":calls=")
			if !ok {
				continue
			}
			_, rest, _ = strings.Cut(rest, ",usec=")
			usec, _, _ := strings.Cut(rest, ",")
			n, err := strconv.ParseFloat(usec, 64)
			check(b, err)
			got.usec += n
		}
	}
	return got
}

func number(b *testing.B, s *redistest.Server, field string) int64 {
	b.Helper()
	n, err := strconv.ParseInt(s.Info(b, field), 10, 64)
	check(b, err)
	return n
}

// BenchmarkServerCost is the cost of each action at the server, by the server's own
// counters: the time of its commands without the network (INFO commandstats), requests
// and bytes. x-raw is the ratio to the time of the raw command, whose rounds alternate
// with it: SET NX PX for an acquisition, compare-and-delete for a release. An op is one
// action.
func BenchmarkServerCost(b *testing.B) {
	r := newRig(b, kitNamed("goredis"))
	client := r.party.client(b, holdfast.Config{})
	for _, a := range []struct {
		name string
		kind string
	}{
		{"mutex", ""}, {"write", kindWrite}, {"read", kindRead},
		{"sem-8", kindSem8}, {"all-3", kindAll3}, {"election", kindElection},
	} {
		b.Run(a.name, func(b *testing.B) { benchCost(b, r, client, a.kind) })
	}
}

const atOnce = 200 // actions before the other side has its round

// benchCost acquires and releases some free locks, and does the same with bare keys.
func benchCost(b *testing.B, r *rig, client *holdfast.Client, kind string) {
	ctx := context.Background()
	var enters, keys []crew.Enter
	for i := range atOnce {
		name := fmt.Sprintf("cost-%s/%d", kind, i)
		enter := enterLock(client.Mutex(name))
		if kind != "" {
			var err error
			enter, err = enterKind(client, kind, name)
			check(b, err)
		}
		enters, keys = append(enters, enter), append(keys, enterKey(r.party.raw, "raw"+name))
	}
	leaves := make([]func(context.Context) error, atOnce)
	take := func(of []crew.Enter) func() {
		return func() {
			for i, enter := range of {
				var err error
				_, leaves[i], err = enter(ctx)
				check(b, err)
			}
		}
	}
	give := func() {
		for _, leave := range leaves {
			check(b, leave(ctx))
		}
	}
	take(enters)()
	give()
	var takes, gives, sets, dels []bill
	b.ResetTimer()
	for left := b.N; left > 0; left -= 2 * atOnce {
		takes = append(takes, billed(b, r.server, take(enters)))
		gives = append(gives, billed(b, r.server, give))
		sets = append(sets, billed(b, r.server, take(keys)))
		dels = append(dels, billed(b, r.server, give))
	}
	b.ReportMetric(0, "ns/op")
	reportBill(b, "take", takes, sets)
	reportBill(b, "give", gives, dels)
}

// reportBill reports the lowest tenth of the rounds, because other load on the machine
// can only add to them.
func reportBill(b *testing.B, action string, bills, raw []bill) {
	b.Helper()
	low := func(of func(i int) float64) float64 {
		var all []float64
		for i := range bills {
			all = append(all, of(i))
		}
		return crew.Percentile(all, 10)
	}
	each := func(n float64) float64 { return n / atOnce }
	b.ReportMetric(low(func(i int) float64 { return each(bills[i].usec) }), action+"-µs")
	b.ReportMetric(low(func(i int) float64 { return each(float64(bills[i].calls)) }), action+"-requests")
	b.ReportMetric(low(func(i int) float64 { return each(float64(bills[i].in)) }), action+"-in-B")
	b.ReportMetric(low(func(i int) float64 { return each(float64(bills[i].out)) }), action+"-out-B")
	cost, bare := low(func(i int) float64 { return bills[i].usec }), low(func(i int) float64 { return raw[i].usec })
	b.ReportMetric(cost/bare, action+"-x-raw")
}

// BenchmarkServerCostOfHandOver is the cost of a turn with waiters at the server: the
// time of the requests that join, release, grant and push. Each goroutine is a client of its
// own: waiters of one client alone take turns inside it.
func BenchmarkServerCostOfHandOver(b *testing.B) {
	r := newRig(b, kitNamed("goredis"))
	members := make([]crew.Enter, fighters)
	for i := range members {
		members[i] = enterLock(r.party.client(b, holdfast.Config{}).Mutex("turns"))
	}
	var total bill
	turns := 0
	for b.Loop() {
		got := billed(b, r.server, func() {
			t, err := crew.Work(context.Background(), members, crew.Shift{For: 500 * time.Millisecond})
			check(b, err)
			turns += t.Sum() + t.Late
		})
		total.calls, total.usec = total.calls+got.calls, total.usec+got.usec
		total.in, total.out = total.in+got.in, total.out+got.out
	}
	n := float64(turns)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(total.usec/n, "turn-µs")
	b.ReportMetric(float64(total.calls)/n, "turn-requests")
	b.ReportMetric(float64(total.in)/n, "turn-in-B")
	b.ReportMetric(float64(total.out)/n, "turn-out-B")
}
