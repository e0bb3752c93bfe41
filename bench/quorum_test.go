package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// flock is a quorum of real servers, each with a connected party of its own.
type flock struct {
	servers []*redistest.Server
	client  *holdfast.Client
}

func openQuorum(t testing.TB, k kit, n int) *flock {
	t.Helper()
	q := &flock{}
	nodes := make([]store.Store, n)
	for i := range nodes {
		s := redistest.Start(t)
		p, err := k.open(far(t, s))
		check(t, err)
		t.Cleanup(p.close)
		q.servers, nodes[i] = append(q.servers, s), p.store
	}
	// Clocks are compared every three minutes, which is longer than a measurement. On a busy machine a late answer
	// is no silence.
	s, err := quorum.New(nodes, quorum.Config{MaxTTL: time.Hour, Timeout: patience})
	check(t, err)
	t.Cleanup(s.Close)
	q.client, err = holdfast.New(s, holdfast.Config{})
	check(t, err)
	t.Cleanup(func() { _ = q.client.Close(context.Background()) })
	check(t, lockPair(q.client.Mutex("pair"))(context.Background()))
	return q
}

// A pair over a quorum is at most three requests to each server: acquire, raise_fence and
// release. Nothing else is sent while no clock has to be compared. A server that answers late is
// sometimes spared one. TestAPairIsThreeRequestsToEachServer has the exact number.
func TestRoundTripsOfAPairOverAQuorum(t *testing.T) {
	for _, k := range kits {
		t.Run(k.name, func(t *testing.T) {
			q := openQuorum(t, k, 5)
			mu := q.client.Mutex("pair")
			for i, s := range q.servers {
				r := &rig{server: s}
				r.awaitAnnounced(t, 1)
				for _, action := range script.All() { // the first pair may have spared this server one
					s.Do(t, "SCRIPT", "LOAD", action.Text)
				}
				q.servers[i].ResetStats(t)
			}
			const pairs = 100
			for range pairs {
				check(t, lockPair(mu)(context.Background()))
			}
			check(t, q.client.Close(context.Background())) // the slowest servers have answered, too
			for _, s := range q.servers {
				calls := s.CommandCalls(t)
				if n := calls["evalsha"]; n < 2*pairs || n > 3*pairs+1 { // one takes back the announcement
					t.Errorf("%d pairs took %d EVALSHA on a server, want at most three each", pairs, n)
				}
				assert.Equal(t, sent(calls)-calls["evalsha"]-calls["ping"]-connecting(calls), 0,
					"commands besides: %v", calls)
			}
		})
	}
}

// BenchmarkQuorum is a pair over a number of servers, beside one on one server: x-one-p50 is
// the ratio. servers-µs is the processor time of all servers for a pair, client-µs that of the
// clients, and requests what all servers received. With -latency, all servers are so far away.
func BenchmarkQuorum(b *testing.B) {
	for _, n := range []int{3, 5, 7, 9} {
		for _, k := range kits {
			b.Run(fmt.Sprintf("%d/%s", n, k.name), func(b *testing.B) { benchQuorum(b, k, n) })
		}
	}
}

func benchQuorum(b *testing.B, k kit, n int) {
	q := openQuorum(b, k, n)
	single := redistest.Start(b)
	p, err := k.open(far(b, single))
	check(b, err)
	b.Cleanup(p.close)
	one := p.client(b, holdfast.Config{})

	const counted = 200
	many := lockPair(q.client.Mutex("pair"))
	var before time.Duration
	for _, s := range q.servers {
		s.ResetStats(b)
		before += cpuOf(b, s)
	}
	client := clientCPU(b)
	for range counted {
		check(b, many(context.Background()))
	}
	client = clientCPU(b) - client
	var after time.Duration
	requests := int64(0)
	for _, s := range q.servers {
		requests += sent(s.CommandCalls(b))
		after += cpuOf(b, s)
	}
	benchPairs(b, many, beside{"x-one-p50", lockPair(one.Mutex("pair"))})
	b.ReportMetric(float64((after-before).Microseconds())/counted, "servers-µs/pair")
	b.ReportMetric(float64(client.Microseconds())/counted, "client-µs/pair")
	b.ReportMetric(float64(requests)/counted, "requests/pair")
}
