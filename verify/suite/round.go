package suite

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/check"
	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/history"
	"github.com/holdfast-go/holdfast/verify/workload"
)

// round is one round under way.
type round struct {
	*world
	dir   string // for the registers
	file  *os.File
	began time.Time
	heals time.Time // when the last fault was over

	spare   time.Duration // for which a key may be left, since clocks were moved
	forever string        // a key without a life time
	left    string        // one that outlives its lease

	got    atomic.Int64
	faults atomic.Int64
	last   atomic.Value // string
}

// runRound runs one round, on servers of its own or on the user's.
func runRound(ctx context.Context, opts Options) (res *Round, err error) {
	logging.Disable() // what goes wrong with connections is what a run is for
	bench := &fault.Bench{}
	defer func() { err = errors.Join(err, fault.Try(bench.Close)) }()
	r := &round{began: time.Now()}
	r.last.Store("")
	r.world = &world{opts: opts, prefix: opts.Prefix, admin: make(map[string]*redis.Client),
		ahead: make(map[*redistest.Server]time.Duration)}
	defer r.world.close()
	r.tell("starting servers")
	if r.deployment, err = start(bench, opts); err != nil {
		return nil, err
	}
	if opts.URL != "" {
		// Beside what else is there, and beside an earlier run's.
		own := make([]byte, 4)
		_, _ = rand.Read(own) // never fails
		r.prefix += ":" + hex.EncodeToString(own)
	}
	if err := r.open(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.put(res)) }()
	r.dir = bench.TempDir()
	setup, err := r.setup(ctx)
	if err != nil {
		return nil, err
	}
	r.log.Add(history.Event{Kind: history.Began, Setup: &setup})
	if r.collector, err = collect(ctx, r.deployment, r.prefix, r.log); err != nil {
		return nil, err
	}
	defer r.collector.close()
	if err := r.act(ctx); err != nil {
		return nil, err
	}
	r.tell("judging")
	return r.judge(), nil
}

// open opens the file of the history, and begins it.
func (r *round) open() error {
	dir := r.opts.Dir
	if dir == "" {
		dir = os.TempDir()
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	name := fmt.Sprintf("holdfast-verify-%s-%d-*.jsonl", r.opts.Topology, r.opts.Seed)
	var err error
	if r.file, err = os.CreateTemp(dir, name); err != nil {
		return err
	}
	r.log = history.NewLog(r.file, func(e history.Event) {
		switch e.Kind {
		case history.Got, history.Run:
			r.got.Add(1)
		case history.Write:
			r.written.Add(1)
		case history.Fault:
			r.faults.Add(1)
		default: // of no interest meanwhile
		}
	})
	return nil
}

// put keeps the history, or removes it.
func (r *round) put(res *Round) error {
	err := errors.Join(r.log.Flush(), r.file.Close())
	if res != nil && res.OK && !r.opts.Keep {
		return errors.Join(err, os.Remove(r.file.Name()))
	}
	if res == nil {
		return errors.Join(err, fmt.Errorf("what there is of its history: %s", r.file.Name()))
	}
	res.History = r.file.Name()
	return err
}

// setup describes the round, for the history.
func (r *round) setup(ctx context.Context) (history.Setup, error) {
	o := r.opts
	s := history.Setup{
		Topology: o.Topology, Works: o.Works, Faults: o.Faults, Seed: o.Seed, Duration: o.Round, TTL: o.TTL,
		Clients: o.Clients, Prefix: r.prefix, Command: o.again(), Asked: o.Asked,
	}
	for _, addr := range r.deployment.addrs {
		rdb, err := r.adminAt(addr)
		if err != nil {
			return s, err
		}
		if s.Skew, s.SkewError, err = skew(ctx, rdb); err != nil {
			return s, err
		}
		if s.Server == "" {
			s.Server = r.deployment.shown() + ", " + version(ctx, rdb)
		}
	}
	return s, nil
}

// version is what a server calls itself.
func version(ctx context.Context, rdb *redis.Client) string {
	text, err := rdb.Info(ctx, "server").Result()
	if err != nil {
		return "a server that does not say what it is"
	}
	for _, name := range []string{"valkey", "redis"} {
		for line := range strings.Lines(text) {
			if v, ok := strings.CutPrefix(line, name+"_version:"); ok {
				return name + " " + strings.TrimSpace(v)
			}
		}
	}
	return "a server of unknown version"
}

// connecting and ending bound the beginning and the end of a round.
const (
	connecting = 60 * time.Second
	ending     = 60 * time.Second
)

// act is the round itself: clients begin, faults are injected and healed, and then act
// counts what is left.
func (r *round) act(ctx context.Context) error {
	r.fleet = &fleet{argv: r.opts.Argv, deployment: r.deployment, log: r.log, config: r.config}
	defer r.fleet.destroy()
	r.tell("starting clients")
	limited, cancel := context.WithTimeout(ctx, connecting)
	defer cancel()
	for number := 1; number <= r.opts.Clients; number++ {
		if _, err := r.fleet.start(number, false); err != nil {
			return err
		}
	}
	for _, p := range r.fleet.clients() {
		if err := p.await(limited); err != nil {
			return fmt.Errorf("client %d does not get ready: %w", p.number, err)
		}
	}
	for _, p := range r.fleet.clients() {
		p.Tell(childproc.OrderBegin)
	}
	if err := r.trouble(ctx); err != nil {
		return err
	}
	r.tell("ending clients")
	limited, cancel = context.WithTimeout(ctx, ending)
	defer cancel()
	r.fleet.finish(limited)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.tell("looking at what is left")
	return r.remains(ctx)
}

// trouble injects faults for as long as asked. The clients go on until locks are granted
// again.
func (r *round) trouble(ctx context.Context) error {
	faulty, cancel := context.WithDeadline(ctx, r.enough())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.nemesis(faulty, func(name string) { r.last.Store(name) })
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-tick.C:
			r.tell("injecting faults")
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	r.heals = time.Now()
	r.tell("recovering")
	r.recover(ctx)
	return ctx.Err()
}

// enough is when the faults must be over for the round to end in time. The steps after
// them take time, but a round without faults would show nothing.
func (r *round) enough() time.Time {
	ttl := r.opts.TTL
	tail := cmp.Or(r.opts.tail, ttl+workload.Retention+2*time.Second)
	least := time.Now().Add(min(r.opts.Duration, 5*ttl))
	if till := r.opts.until.Add(-tail); till.After(least) {
		return till
	}
	return least
}

// recover waits until each lock that several clients want was granted after the last
// fault. It gives up when it has waited for so long that a check will report that.
func (r *round) recover(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, r.opts.TTL+20*time.Second)
	defer cancel()
	healed := history.Now()
	seen := len(r.log.Events())
	locks := make(map[string]bool)
	for _, e := range r.log.Events() {
		if e.Kind == history.Got {
			locks[e.Lock] = true
		}
	}
	for {
		events := r.log.Events()
		for _, e := range events[seen:] {
			if e.Kind == history.Got && e.At > healed {
				delete(locks, e.Lock)
			}
		}
		seen = len(events)
		waiting := 0
		for lock := range locks {
			if !strings.Contains(lock, "/") {
				waiting++
			}
		}
		if waiting == 0 || !history.Sleep(limited, 20*time.Millisecond) {
			return
		}
	}
}

// config is the first line for a client.
func (r *round) config(number int) workload.Config {
	c := workload.Config{
		Proc: number, Procs: r.opts.Clients, Seed: r.opts.Seed, Library: workload.Goredis, Prefix: r.prefix,
		TTL: r.opts.TTL, Dir: r.dir, Works: r.opts.Works, Passes: -1, Rest: r.opts.Rest,
		Burst: burst(r.opts.Topology),
	}
	if number%2 == 0 {
		c.Library = workload.Rueidis
	}
	if number%3 == 0 {
		c.Passes = 0 // the default: many
	}
	return c
}

// burst is how many locks a client acquires at the same time, twice. If there are more
// than a topology can answer in time on a busy machine, nearly every request times out,
// the client connects again, and it cancels each grant before it learns of it.
func burst(topology string) int {
	switch topology {
	case fault.Quorum: // each is a request to five servers, of which a client has twenty connections to each
		return 8
	case fault.Durable: // each waits until the disk has it
		return 16
	}
	return 48
}

// remains reads the registers and counts keys: after a lease and the retention only the
// records of the clients may be left. If clocks were moved, the record of a lock may
// remain for longer by as much, so that tokens go on rising.
func (r *round) remains(ctx context.Context) error {
	r.spare = r.spread()
	left, eternal, err := r.keys(ctx)
	// A waiter that was killed keeps its position until its waiter TTL is over.
	longest := max(r.opts.TTL, leasetime.WaiterTTL(r.opts.TTL))
	for till := time.Now().Add(longest + workload.Retention + 10*time.Second); ; {
		if err == nil && left == 0 || time.Now().After(till) || !history.Sleep(ctx, 100*time.Millisecond) {
			break
		}
		var more int64
		left, more, err = r.keys(ctx)
		eternal = max(eternal, more)
	}
	if err != nil {
		return fmt.Errorf("looking for keys: %w", err)
	}
	counts := map[string]int64{"keys that outlive their leases": left, "keys without a life time": eternal}
	if counts["fenced"], counts["plain"], err = r.opts.Resource.Final(r.dir); err != nil {
		return err
	}
	r.log.Add(history.Event{Kind: history.Stats, Counts: counts, Text: cmp.Or(r.forever, r.left)})
	return nil
}

// keys counts the keys of the round, and those of them that never expire. On the user's
// server it removes the records of the clients.
func (r *round) keys(ctx context.Context) (left, eternal int64, err error) {
	for _, addr := range r.deployment.addrs {
		rdb, err := r.adminAt(addr)
		if err != nil {
			return 0, 0, err
		}
		if role := rdb.Do(ctx, "ROLE").String(); strings.Contains(role, "slave") {
			continue
		}
		scan := rdb.Scan(ctx, 0, r.prefix+":*", 1000).Iterator()
		for scan.Next(ctx) {
			key := scan.Val()
			life, err := rdb.PTTL(ctx, key).Result()
			switch {
			case err != nil:
				return 0, 0, err
			case life == -1:
				eternal++
				r.forever = key
			}
			// The marks by which clients and a quorum's servers are known live on.
			known := strings.HasPrefix(key, r.prefix+":client:") || key == r.prefix+":quorum"
			if !known && !r.excused(life) {
				left++
				r.left = fmt.Sprintf("%s, for another %v", key, life)
			}
			if !known || r.opts.URL == "" {
				continue
			}
			if err := rdb.Unlink(ctx, key).Err(); err != nil {
				return 0, 0, err
			}
		}
		if err := scan.Err(); err != nil {
			return 0, 0, unblocked(ctx, rdb, err)
		}
	}
	return left, eternal, nil
}

// unblocked ends a script that still blocks a server, because the fault could not end it.
func unblocked(ctx context.Context, rdb redis.UniversalClient, err error) error {
	if strings.HasPrefix(err.Error(), "BUSY") {
		rdb.ScriptKill(ctx)
	}
	return err
}

// excused reports whether a key may be left for so long since clocks were moved.
func (r *round) excused(life time.Duration) bool {
	return r.spare > 0 && life <= r.spare+r.opts.TTL+workload.Retention
}

// judge runs the checks.
func (r *round) judge() *Round {
	events := r.log.Events()
	res := Judge(events)
	res.Elapsed = time.Since(r.began).Round(time.Millisecond)
	res.Left, res.tail = r.opts.Left, time.Since(r.heals)
	return res
}

// Judge runs the checks on a history.
func Judge(events []history.Event) *Round {
	run := check.Index(events, map[string]int{workload.Semaphore: workload.Permits})
	res := &Round{Setup: run.Setup, OK: true, Checks: check.All(run), Tally: count(events), Run: run}
	for _, c := range res.Checks {
		res.OK = res.OK && c.Passed()
	}
	res.Gaps = run.Gaps()
	for _, g := range res.Gaps {
		res.Recoveries = append(res.Recoveries, g.After)
	}
	if len(res.Gaps) > 10 {
		res.Gaps = res.Gaps[:10]
	}
	return res
}

// tell reports progress.
func (r *round) tell(step string) {
	if r.opts.Progress == nil {
		return
	}
	r.opts.Progress(Progress{
		Step: step, Elapsed: time.Since(r.began).Round(time.Second),
		Acquisitions: int(r.got.Load()), Faults: int(r.faults.Load()), Last: r.last.Load().(string),
	})
}
