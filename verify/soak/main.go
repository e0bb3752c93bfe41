package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/history"
)

// soak is one run.
type soak struct {
	load, every, pause time.Duration
	rate, clients      int
	seed               int

	*world
	crew   *crew
	record *recorder
	began  time.Time
	faults atomic.Int64
	mu     sync.Mutex // guards out
	out    io.Writer
}

func main() {
	s := &soak{out: os.Stdout}
	flag.DurationVar(&s.load, "duration", time.Hour, "how long the load and the faults last")
	flag.DurationVar(&s.every, "every", 5*time.Second, "the time between two samples")
	flag.DurationVar(&s.pause, "pause", 10*time.Second, "the shortest time between two faults")
	flag.IntVar(&s.rate, "rate", 300, "operations a second, at most")
	flag.IntVar(&s.clients, "clients", 4, "clients, each with connections of its own")
	flag.IntVar(&s.seed, "seed", 1, "what the draws begin with")
	file := flag.String("into", "soak.csv", "the file of the samples")
	flag.Parse()
	logging.Disable()
	if err := s.into(*file); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func (s *soak) into(file string) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if s.record, err = newRecorder(f); err != nil {
		return err
	}
	return s.run(context.Background())
}

// settling is how long an idle phase lasts: longer than every lease, retention and period, and
// than what the client libraries need to close what is idle.
const settling = 40 * time.Second

func (s *soak) run(ctx context.Context) (err error) {
	s.began = time.Now()
	bench := &fault.Bench{}
	defer func() { err = errors.Join(err, fault.Try(bench.Close)) }()
	s.world = &world{Still: fault.Still{Bench: bench, Lease: 2 * time.Second}}
	s.crew = &crew{prefix: "soak", ttl: s.Lease}
	if err := fault.Try(s.deploy); err != nil {
		return err
	}
	defer s.admin.Close() //nolint:errcheck // nothing is left to say
	if err := s.watch(ctx, phaseStart, 2*s.every, nil); err != nil {
		return err
	}
	if err := s.crew.openAll(); err != nil {
		return err
	}
	work := func(ctx context.Context) { s.crew.work(ctx, s.rate, s.seed) }
	for _, p := range []struct {
		phase  string
		length time.Duration
		do     func(ctx context.Context)
	}{
		{phaseWarm, min(s.load, time.Minute), work},
		{phaseBefore, settling, nil},
		{phaseLoad, s.load, func(ctx context.Context) { s.disturb(ctx, work) }},
		{phaseAfter, settling, nil},
	} {
		if err := s.watch(ctx, p.phase, p.length, p.do); err != nil {
			return err
		}
	}
	limited, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	if err := s.crew.closeAll(limited); err != nil {
		return err
	}
	if err := s.watch(ctx, phaseClosed, settling, nil); err != nil {
		return err
	}
	return s.verdict()
}

// deploy starts the server, and a proxy for each client.
func (s *soak) deploy() {
	s.server = redistest.Start(s.Bench)
	s.admin = redis.NewClient(&redis.Options{Addr: s.server.Addr(), PoolSize: 2})
	for i := range s.clients {
		p := &peer{i + 1, redistest.NewProxy(s.Bench, s.server.Addr())}
		s.world.clients = append(s.world.clients, p)
		s.crew.addrs = append(s.crew.addrs, p.proxy.Addr())
	}
}

// disturb does the work, injects faults and replaces clients meanwhile, and returns when all of
// that has ended.
func (s *soak) disturb(ctx context.Context, work func(ctx context.Context)) {
	rng := rand.New(rand.NewPCG(uint64(s.seed), 1<<40)) //nolint:gosec // it is to be repeated
	var group sync.WaitGroup
	group.Go(func() { work(ctx) })
	group.Go(func() {
		s.nemesis(ctx, rng, s.pause, func(name string, err error) {
			if s.faults.Add(1); err != nil {
				s.sayf("the fault %s: %v", name, err)
			}
		})
	})
	group.Go(func() {
		for i := 0; history.Sleep(ctx, time.Minute); i++ {
			if err := s.crew.replace(i % s.clients); err != nil {
				s.sayf("client %d was not replaced: %v", i%s.clients+1, err)
			}
		}
	})
	group.Wait()
}

// watch does something for a time, if there is something to do, and takes samples meanwhile.
func (s *soak) watch(ctx context.Context, phase string, length time.Duration, do func(ctx context.Context)) error {
	s.sayf("%s for %v", phase, length)
	limited, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var group sync.WaitGroup
	if do != nil {
		group.Go(func() { do(limited) })
	}
	for history.Sleep(limited, s.every) {
		if err := s.record.add(s.sample(ctx, phase)); err != nil {
			return err
		}
		if n := len(s.record.kept); n%12 == 0 {
			last := s.record.kept[n-1]
			s.sayf("%d operations, %d failed, %d leases lost, %d faults; "+
				"%d goroutines, heap %d KiB, server %d KiB, %d keys", last.done, last.failed, last.lost, last.faults,
				last.goroutines, last.heap>>10, last.server>>10, last.keys)
		}
	}
	group.Wait()
	return nil
}

func (s *soak) sample(ctx context.Context, phase string) sample {
	got := sample{
		seconds: time.Since(s.began).Seconds(), phase: phase, server: -1, keys: -1, connections: -1,
		done: s.crew.done.Load(), failed: s.crew.failed.Load(), lost: s.crew.lost.Load(), faults: s.faults.Load(),
	}
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if info, err := s.admin.InfoMap(limited).Result(); err == nil {
		got.server = number(info["Memory"]["used_memory"])
		got.connections = number(info["Clients"]["connected_clients"])
	}
	if keys, err := s.admin.DBSize(limited).Result(); err == nil {
		got.keys = keys
	}
	runtime.GC()
	runtime.GC() // what the finalizers of the first have freed
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	got.heap, got.goroutines = int64(m.HeapAlloc), int64(runtime.NumGoroutine())
	return got
}

func number(text string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// verdict says what has returned, and fails if something has not.
func (s *soak) verdict() error {
	var failed error
	for _, phases := range [][2]string{{phaseBefore, phaseAfter}, {phaseStart, phaseClosed}} {
		list, err := compare(s.record.kept, phases[0], phases[1])
		if err != nil {
			return err
		}
		for _, g := range list {
			word := "returned"
			if !g.returned {
				word = "DID NOT RETURN"
				failed = errors.Join(failed,
					fmt.Errorf("%s: %d %s, %d %s", g.name, g.before, phases[0], g.after, phases[1]))
			}
			s.sayf("%-20s %s %10d, %s %10d: %s", g.name, phases[0], g.before, phases[1], g.after, word)
		}
	}
	return failed
}

func (s *soak) sayf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.out, "%7.0f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}
