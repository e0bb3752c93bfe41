package bench

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bench/crew"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// most bounds the sizes of BenchmarkCurves.
var most = flag.Int("most", 1_000_000, "the largest size that BenchmarkCurves measures")

// A curve is the cost of operations over the size of something.
type curve struct {
	name  string
	sizes []int
	run   func(b *testing.B, n int)
}

func decades(from, to int) (list []int) {
	for n := from; n <= to; n *= 10 {
		list = append(list, n)
	}
	return list
}

// BenchmarkCurves is the cost of operations over the size of something, one curve for each:
// µs of the server and, in OP-calls, the commands that its scripts call. An op of the
// benchmark is the whole measurement of a point. docs/scaling.md has the plots.
//
//	waiters  in the queue of one lock: join, turn (a release that grants the next), poll, renew, leave
//	readers  of one lock: enter, leave, renew; sweep is the step that looks for the expired ones
//	permits  of one semaphore, likewise
//	locks    records on the server: acquire and release of one of them, and of a new one
//	members  of a multi-lock, for each member
//	leases   renewed in requests of 128, for each lease
//	held     leases of one client that it renews by itself: client and server
//	clients  connected, with a subscription each, that wait for one lock: a turn, in
//	         processor time of the server; and a pair of another lock
//	servers  of a quorum, for each server: a pair, in processor time
//	shards   of a Cluster: a pair of one of its locks, likewise
func BenchmarkCurves(b *testing.B) {
	for _, c := range []curve{
		{"waiters", decades(1, 100_000), curveWaiters},
		{"readers", decades(1, 100_000), func(b *testing.B, n int) { curveShares(b, n, "s") }},
		{"permits", decades(1, 100_000), func(b *testing.B, n int) {
			limit := strconv.Itoa(n + 2*perRound)
			curveShares(b, n, "p:1:"+limit)
		}},
		{"locks", decades(100, 1_000_000), curveLocks},
		{"members", []int{1, 2, 4, 8, 16, 32, 64, 128}, curveMembers},
		{"leases", decades(100, 1_000_000), curveLeases},
		{"held", decades(1000, 1_000_000), curveHeld},
		{"clients", []int{2, 10, 100, 1000, 2000}, curveClients},
		{"servers", []int{1, 3, 5, 7, 9}, curveServers},
		{"shards", []int{1, 2, 4, 8}, curveShards},
	} {
		for _, n := range c.sizes {
			if n > *most {
				continue
			}
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				for b.Loop() {
					c.run(b, n)
				}
			})
		}
	}
}

// A round is some operations between two looks at the counters.
const perRound, rounds = 50, 20

// copies is how many locks of size n a measurement has. If they are small, it has several,
// so that a round changes the size of each by one and not by fifty.
func copies(n int) int { return min(max(10_000/n, 1), perRound) }

// The arguments of requests. Leases and positions outlive every measurement.
const (
	curveTTL       = "3600000"
	curveRetention = "600000"
	curveLife      = "4200000"
	curveChannels  = "push:"
)

// attemptOf is an attempt of one of several clients, with an ID as long as real ones.
func attemptOf(client, number int) string {
	return fmt.Sprintf("0123456789abcdef0123456789ab%04x/%d", client, number)
}

// listen subscribes a connection to the pushes of clients.
func listen(b *testing.B, s *redistest.Server, clients int) {
	ear := s.Dial(b)
	for c := range clients {
		client := wire.Client(attemptOf(c, 0))
		ear.Do(b, "SUBSCRIBE", curveChannels+client)
	}
}

// waitQueue is the wait queue of one lock, as the harness knows it. Its methods are requests.
type waitQueue struct {
	key     string
	waiting []string // attempts in order; empty where one has left
	holder  string
	next    int
}

const queueClients = 16

func (q *waitQueue) lock() (keys, args []string) {
	q.holder = attemptOf(0, 0)
	return []string{q.key}, []string{q.holder, curveTTL, curveLife, "x", "0", curveChannels}
}

func (q *waitQueue) join() (keys, args []string) {
	q.next++
	attempt := attemptOf(q.next%queueClients, q.next)
	q.waiting = append(q.waiting, attempt)
	return []string{q.key}, []string{attempt, curveTTL, curveLife, "x", curveTTL, curveChannels}
}

// turn hands the lock over.
func (q *waitQueue) turn() (keys, args []string) {
	args = []string{q.holder, "1", curveRetention, curveChannels}
	for q.waiting[0] == "" {
		q.waiting = q.waiting[1:]
	}
	q.holder, q.waiting = q.waiting[0], q.waiting[1:]
	return []string{q.key}, args
}

func (q *waitQueue) poll() (keys, args []string) {
	return []string{q.key}, []string{q.waiting[q.some()], curveTTL, curveRetention, curveTTL, curveChannels}
}

func (q *waitQueue) renew() (keys, args []string) {
	return []string{q.key}, []string{curveRetention, curveTTL, q.holder}
}

func (q *waitQueue) leave() (keys, args []string) {
	i := q.some()
	args = []string{q.waiting[i], curveRetention, curveChannels}
	q.waiting[i] = ""
	return []string{q.key}, args
}

func (q *waitQueue) some() int {
	for {
		if i := rand.IntN(len(q.waiting)); q.waiting[i] != "" {
			return i
		}
	}
}

func curveWaiters(b *testing.B, n int) {
	m := newMeter(b)
	listen(b, m.server, queueClients)
	queues := make([]*waitQueue, copies(n))
	for i := range queues {
		queues[i] = &waitQueue{key: fmt.Sprintf("holdfast:{queue/%d}", i)}
	}
	all := func(n int, s *script.Script, want string, request func(q *waitQueue) (keys, args []string)) {
		m.each(n, s, want, func(i int) (keys, args []string) { return request(queues[i%len(queues)]) })
	}
	all(len(queues), script.Acquire, "granted", (*waitQueue).lock)
	all(n*len(queues), script.Acquire, "queued", (*waitQueue).join)
	for range rounds {
		m.measure("join", perRound, func() { all(perRound, script.Acquire, "queued", (*waitQueue).join) })
		m.measure("turn", perRound, func() { all(perRound, script.Release, "released", (*waitQueue).turn) })
		m.measure("poll", perRound, func() { all(perRound, script.Poll, "queued", (*waitQueue).poll) })
		m.measure("renew", perRound, func() { all(perRound, script.Renew, "renewed", (*waitQueue).renew) })
		all(perRound, script.Acquire, "queued", (*waitQueue).join) // for those that leave
		m.measure("leave", perRound, func() { all(perRound, script.Cancel, "withdrawn", (*waitQueue).leave) })
	}
	m.report()
}

// curveShares is the cost of readers or permits over their number.
func curveShares(b *testing.B, n int, mode string) {
	m := newMeter(b)
	locks := copies(n)
	key := func(i int) []string { return []string{fmt.Sprintf("holdfast:{shares/%d}", i%locks)} }
	attempt := func(i int) string { return attemptOf(i/locks%queueClients, i/locks) }
	enter := func(first, some int, ttl string) {
		m.each(some, script.Acquire, "granted", func(i int) (keys, args []string) {
			return key(i), []string{attempt(first + i), ttl, curveLife, mode, "0", curveChannels}
		})
	}
	leave := func(first, some int) {
		m.each(some, script.Release, "released", func(i int) (keys, args []string) {
			return key(i), []string{attempt(first + i), "1", curveRetention, curveChannels}
		})
	}
	enter(0, n*locks, curveTTL)
	for range rounds {
		m.measure("enter", perRound, func() { enter(n*locks, perRound, curveTTL) })
		m.measure("leave", perRound, func() { leave(n*locks, perRound) })
		m.measure("renew", perRound, func() {
			m.each(perRound, script.Renew, "renewed", func(i int) (keys, args []string) {
				return key(i), []string{curveRetention, curveTTL, attempt(i)}
			})
		})
	}
	for range 5 { // one holder of each lock expires, and the next request finds it
		enter(n*locks, locks, "1")
		crew.Wait(3 * time.Millisecond)
		m.measure("sweep", locks, func() { enter((n+1)*locks, locks, curveTTL) })
		leave((n+1)*locks, locks)
	}
	m.report()
}

// curveLocks is the cost of a lock over the number of records on the server. The records of
// a round lie far apart in the server's memory.
func curveLocks(b *testing.B, n int) {
	m := newMeter(b)
	layRecords(b, m, renewAtOnce) // for the buffers of the connection
	m.conn.Do(b, "FLUSHALL", "SYNC")
	before := number(b, m.server, "used_memory")
	layRecords(b, m, n)
	perRecord := float64(number(b, m.server, "used_memory")-before) / float64(n)
	order, next := rand.Perm(n), n
	acquire := func(lock, i int) (keys, args []string) {
		return []string{leaseKey(lock)}, []string{leaseAttempt(i), curveTTL, curveLife, "x", "0", curveChannels}
	}
	for r := range rounds {
		picked := func(i int) int { return order[(r*perRound+i)%n] }
		m.measure("acquire", perRound, func() {
			m.each(perRound, script.Acquire, "granted", func(i int) (keys, args []string) {
				return acquire(picked(i), i)
			})
		})
		m.measure("release", perRound, func() {
			m.each(perRound, script.Release, "released", func(i int) (keys, args []string) {
				return []string{leaseKey(picked(i))}, []string{leaseAttempt(i), "1", curveRetention, curveChannels}
			})
		})
		m.measure("new", perRound, func() {
			m.each(perRound, script.Acquire, "granted", func(i int) (keys, args []string) { return acquire(next+i, i) })
		})
		for i := range perRound { // the number of records stays
			m.conn.Do(b, "UNLINK", leaseKey(next+i))
		}
		next += perRound
	}
	m.report()
	b.ReportMetric(perRecord, "B/record")
}

// layRecords makes records of n free locks, in requests of 128.
func layRecords(b *testing.B, m *meter, n int) {
	const batch = renewAtOnce
	names := func(r int) (keys, attempts []string) {
		for i := r * batch; i < min((r+1)*batch, n); i++ {
			keys, attempts = append(keys, leaseKey(i)), append(attempts, leaseAttempt(i))
		}
		return keys, attempts
	}
	m.each((n+batch-1)/batch, script.AcquireFree, "granted", func(r int) (keys, args []string) {
		keys, attempts := names(r)
		return keys, append([]string{curveTTL, curveLife}, attempts...)
	})
	m.each((n+batch-1)/batch, script.ReleaseIdle, "released", func(r int) (keys, args []string) { return names(r) })
}

// curveMembers is the cost of all locks of a multi-lock, for each of them.
func curveMembers(b *testing.B, n int) {
	m := newMeter(b)
	var keys, attempts []string
	for i := range n {
		keys, attempts = append(keys, leaseKey(i)), append(attempts, leaseAttempt(1))
	}
	args := []string{attempts[0], curveTTL, curveRetention}
	for range n {
		args = append(args, curveChannels)
	}
	for range 5 * rounds {
		m.measure("acquire", n, func() {
			m.each(1, script.AcquireAll, "granted", func(int) ([]string, []string) { return keys, args })
		})
		m.measure("renew", n, func() {
			m.each(1, script.Renew, "renewed", func(int) ([]string, []string) {
				return keys, append([]string{curveRetention, curveTTL}, attempts...)
			})
		})
		m.measure("release", n, func() {
			m.each(1, script.ReleaseIdle, "released", func(int) ([]string, []string) { return keys, attempts })
		})
	}
	m.report()
}

// curveLeases is the cost of a renewal at the server over the number of leases.
func curveLeases(b *testing.B, n int) {
	m := newMeter(b)
	const batch = renewAtOnce
	m.each((n+batch-1)/batch, script.AcquireFree, "granted", func(r int) (keys, args []string) {
		args = []string{curveTTL, curveLife}
		for i := r * batch; i < min((r+1)*batch, n); i++ {
			keys, args = append(keys, leaseKey(i)), append(args, leaseAttempt(i))
		}
		return keys, args
	})
	// Leases of one request lie far apart in the server's memory.
	order := rand.Perm(n)
	for range rounds {
		first := 0
		if n > batch {
			first = rand.IntN(n - batch)
		}
		some := order[first:min(first+batch, n)]
		m.measure("renew", len(some), func() {
			m.each(1, script.Renew, "renewed", func(int) (keys, args []string) {
				args = []string{curveRetention, "3700000"}
				for _, i := range some {
					keys, args = append(keys, leaseKey(i)), append(args, leaseAttempt(i))
				}
				return keys, args
			})
		})
	}
	m.report()
}
