package bench

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/crew"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// curveHeld is the cost of leases that one client holds and renews: of the client and of the
// server, for each renewal. More leases have a longer TTL, so that this machine can renew
// them all: a window sees every lease renewed about once.
func curveHeld(b *testing.B, n int) {
	ttl := 3 * time.Second
	for at := 10_000; at < n; at *= 10 {
		ttl *= 7
	}
	r := newRig(b, kitNamed("rueidis"))
	seen := &counter{}
	client := r.party.client(b, holdfast.Config{Observer: seen, TTL: ttl})
	giveBack(b, hold(b, client, many)) // to make the connections
	heap, routines := memory(b)
	leases := hold(b, client, n)
	moreHeap, moreRoutines := memory(b)
	for seen.renewed.Load() == 0 {
		crew.Wait(ttl / 100)
	}
	r.server.ResetStats(b)
	before, used, served := seen.renewed.Load(), clientCPU(b), cpuOf(b, r.server)
	crew.Wait(ttl / 3)
	used, served = clientCPU(b)-used, cpuOf(b, r.server)-served
	renewals := float64(seen.renewed.Load() - before)
	requests := float64(sent(r.server.CommandCalls(b)))
	giveBack(b, leases)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(used.Microseconds())/renewals, "client-µs")
	b.ReportMetric(float64(served.Microseconds())/renewals, "server-µs")
	b.ReportMetric(requests/renewals, "requests")
	b.ReportMetric(float64(moreHeap-heap)/float64(n), "B/lease")
	b.ReportMetric(float64(moreRoutines-routines), "goroutines")
	b.ReportMetric(float64(seen.lost.Load()), "lost")
	runtime.KeepAlive(leases)
}

// curveClients is the cost of a turn, and of a pair of another lock, over the number of
// clients. Each has connections of its own and waits for the same lock.
func curveClients(b *testing.B, n int) {
	m := newMeter(b)
	heap, routines := memory(b)
	members := make([]crew.Enter, n)
	var other pair
	for i := range members {
		rdb := redis.NewClient(&redis.Options{Addr: m.server.Addr()})
		client, err := holdfast.New(goredis.New(rdb), holdfast.Config{})
		check(b, err)
		b.Cleanup(func() {
			check(b, client.Close(context.Background()))
			check(b, rdb.Close())
		})
		members[i] = again(enterLock(client.Mutex("line")))
		other = lockPair(client.Mutex("other"))
		check(b, lockPair(client.Mutex(fmt.Sprintf("first/%d", i)))(context.Background()))
	}
	moreHeap, moreRoutines := memory(b)
	check(b, other(context.Background()))
	const shifts = 5
	for range shifts {
		m.control.Do(b, "CONFIG", "RESETSTAT")
		before := cpuOf(b, m.server)
		t, err := crew.Work(context.Background(), members, crew.Shift{For: short(time.Second)})
		check(b, err)
		turns := t.Sum() + t.Late
		c := m.read(turns)
		// The clients have the cores meanwhile: see several.
		c.usec = float64((cpuOf(b, m.server) - before).Microseconds()) / float64(turns)
		m.costs["turn"] = append(m.costs["turn"], c)
		m.measure("pair", perRound, func() {
			for range perRound {
				check(b, other(context.Background()))
			}
		})
	}
	m.report()
	b.ReportMetric(float64(moreHeap-heap)/float64(n), "B/client")
	b.ReportMetric(float64(moreRoutines-routines)/float64(n), "goroutines/client")
}

// several measures servers that have a meter each: for each server, of its share. They share
// the cores, so the time of a script would be also that of its rivals. It measures the
// processor time of the servers, which has the system calls in it.
func several(b *testing.B, meters []*meter, op string, n int, do func()) {
	b.Helper()
	var before, after time.Duration
	for _, m := range meters {
		m.control.Do(b, "CONFIG", "RESETSTAT")
		before += cpuOf(b, m.server)
	}
	do()
	var sum cost
	for _, m := range meters {
		c := m.read(n)
		sum.calls, sum.requests = sum.calls+c.calls, sum.requests+c.requests
		after += cpuOf(b, m.server)
	}
	sum.usec = float64((after - before).Microseconds()) / float64(n)
	k := float64(len(meters))
	meters[0].costs[op] = append(meters[0].costs[op], cost{sum.usec / k, sum.calls / k, sum.requests / k})
}

// curveServers is the cost of a pair for each server of a quorum.
func curveServers(b *testing.B, n int) {
	meters := make([]*meter, n)
	nodes := make([]store.Store, n)
	for i := range nodes {
		meters[i] = newMeter(b)
		p, err := kitNamed("rueidis").open(meters[i].server.Addr())
		check(b, err)
		b.Cleanup(p.close)
		nodes[i] = p.store
	}
	over := nodes[0]
	if n > 1 {
		q, err := quorum.New(nodes, quorum.Config{MaxTTL: time.Hour})
		check(b, err)
		b.Cleanup(q.Close)
		over = q
	}
	client, err := holdfast.New(over, holdfast.Config{})
	check(b, err)
	b.Cleanup(func() { check(b, client.Close(context.Background())) })
	one := lockPair(client.Mutex("pair"))
	check(b, one(context.Background()))
	var used time.Duration
	const pairs = 4 * perRound
	for range rounds {
		before := clientCPU(b)
		several(b, meters, "pair", pairs, func() {
			for range pairs {
				check(b, one(context.Background()))
			}
		})
		used += clientCPU(b) - before
	}
	meters[0].report()
	b.ReportMetric(float64(used.Microseconds())/(rounds*pairs)/float64(n), "client-µs")
}

// curveShards is the cost of a pair on a Cluster of n primaries. Each primary has its share of
// the locks; the cost is that of all of them for a pair.
func curveShards(b *testing.B, n int) {
	meters := make([]*meter, n)
	addrs := make([]string, n)
	for i := range meters {
		meters[i] = newMeter(b, redistest.BusPort(), redistest.Args("--cluster-enabled", "yes"))
		addrs[i] = meters[i].server.Addr()
	}
	join(b, meters)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs})
	b.Cleanup(func() { check(b, rdb.Close()) })
	client, err := holdfast.New(goredis.New(rdb), holdfast.Config{})
	check(b, err)
	b.Cleanup(func() { check(b, client.Close(context.Background())) })
	const locks = 1024
	pairs := make([]pair, locks)
	for i := range pairs {
		pairs[i] = lockPair(client.Mutex(fmt.Sprintf("shard/%d", i)))
		check(b, pairs[i](context.Background()))
	}
	each := float64(n) // several divides by the servers; a pair is at one of them
	for r := range rounds {
		several(b, meters, "pair", locks/4, func() {
			for i := range locks / 4 {
				check(b, pairs[(r*locks/4+i)%locks](context.Background()))
			}
		})
	}
	for op, list := range meters[0].costs {
		for i, c := range list {
			meters[0].costs[op][i] = cost{c.usec * each, c.calls * each, c.requests * each}
		}
	}
	meters[0].report()
}

// join makes servers the primaries of one Cluster, with equal shares of the slots.
func join(b *testing.B, meters []*meter) {
	const slots = 16384
	for i, m := range meters {
		m.conn.Do(b, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		m.conn.Do(b, "CLUSTER", "ADDSLOTSRANGE", i*slots/len(meters), (i+1)*slots/len(meters)-1)
	}
	nodes := func(m *meter) string { text, _ := m.conn.Do(b, "CLUSTER", "NODES").(string); return text }
	// The first line is the node itself: ID HOST:PORT@BUS …
	_, address, _ := strings.Cut(nodes(meters[0]), " ")
	address, _, _ = strings.Cut(address, " ")
	address, bus, _ := strings.Cut(address, "@")
	bus, _, _ = strings.Cut(bus, ",")
	_, port, _ := strings.Cut(address, ":")
	for _, m := range meters[1:] {
		m.conn.Do(b, "CLUSTER", "MEET", "127.0.0.1", port, bus)
	}
	for _, m := range meters {
		redistest.Await(b, "the Cluster is whole", func() bool {
			info, _ := m.conn.Do(b, "CLUSTER", "INFO").(string)
			return strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", len(meters)))
		})
	}
}
