package neighbours

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/history"
)

// Options say what a run does. Two runs with the same options inject the same faults, in the same
// order and with the same times, if the machine keeps up.
type Options struct {
	Servers  int           // one, or the independent servers of a quorum
	TTL      time.Duration // of every lease
	Duration time.Duration
	Seed     uint64
	Clients  int      // processes
	Threads  int      // that take locks in each of them
	Locks    []string // their names
	Long     bool     // see Config.Long
	Faults   []string // see Faults
	Tell     func(format string, args ...any)
}

// Result is what a run found.
type Result struct {
	Holds      map[string]int // by library
	Lost       map[string]int // holds that were over before their end, by library
	Faults     map[string]int // how often each was injected
	Violations []Violation
	Doubles    []string       // holders that the server's log has beside another
	Notes      map[string]int // calls that failed, by what they said
	Ended      []string       // processes that ended by themselves
}

// Of counts the violations of a reason in which the lease of a library's hold was over.
func (r Result) Of(library string, reason Reason) (n int) {
	for _, v := range r.Violations {
		if v.By.Library == library && v.Reason == reason {
			n++
		}
	}
	return n
}

// Run lets a fleet work under faults. The process with the number n, from 1, is one of which(n).
func Run(ctx context.Context, opts Options, which func(number int) Library) (result Result, err error) {
	bench := new(fault.Bench)
	defer bench.Close()
	w, err := newWorld(bench, opts.Servers, opts.TTL, opts.Locks)
	if err != nil {
		return result, err
	}
	defer w.close()
	w.fleet = &fleet{
		bench: bench, addrs: redistest.Addrs(w.servers), config: opts.config, which: which, notes: make(map[string]int),
	}
	ended := false
	defer func() {
		if !ended {
			w.fleet.destroy()
		}
	}()
	starting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := w.fleet.begin(starting, opts.Clients); err != nil {
		return result, err
	}
	running, stop := context.WithTimeout(ctx, opts.Duration)
	defer stop()
	spans, err := w.nemesis(running, opts)
	if err != nil {
		return result, err
	}
	finishing, cancelFinish := context.WithTimeout(context.WithoutCancel(ctx), 20*opts.TTL)
	defer cancelFinish()
	w.fleet.finish(finishing)
	w.fleet.destroy()
	ended = true
	return w.result(opts, spans)
}

// config is the Config of the process with a number.
func (o Options) config(number int) Config {
	ms := o.TTL.Milliseconds()
	return Config{
		Seed:  int64(o.Seed)*1000 + int64(number),
		Locks: o.Locks, Threads: o.Threads, TTLMs: ms, Long: o.Long, WatchdogMs: ms,
		// As Redisson's defaults are to its watchdog's 30 s: 3 s and 1 s.
		TimeoutMs: ms / 10, RetryDelayMs: max(ms/30, 1),
	}
}

// nemesis injects faults until ctx ends: one or two at about one time, then a rest.
func (w *world) nemesis(ctx context.Context, opts Options) (all []history.FaultSpan, err error) {
	faults, err := fault.Named(opts.Faults)
	if err != nil {
		return nil, err
	}
	if len(faults) == 0 {
		<-ctx.Done()
		return nil, nil
	}
	for n := uint64(0); ; n++ {
		rng := rand.New(rand.NewPCG(opts.Seed, n)) //nolint:gosec // it is to be repeated
		if !history.Sleep(ctx, opts.TTL/4+time.Duration(rng.Int64N(int64(opts.TTL)))) {
			return all, nil
		}
		bout := []fault.Fault{faults[rng.IntN(len(faults))]}
		if second := faults[rng.IntN(len(faults))]; rng.IntN(2) == 0 && fault.Apart(bout[0], second) == "" {
			bout = append(bout, second)
		}
		spans := make([]history.FaultSpan, len(bout))
		var together sync.WaitGroup
		for i, f := range bout {
			own := rand.New(rand.NewPCG(opts.Seed, 1<<50|n<<8|uint64(i))) //nolint:gosec // as above
			together.Go(func() {
				opts.Tell("%s", f.Name)
				var failed error
				if spans[i], failed = f.Inject(ctx, w, own); failed != nil && ctx.Err() == nil {
					w.fleet.note("fault " + f.Name + ": " + failed.Error())
				}
			})
		}
		together.Wait()
		all = append(all, spans...)
	}
}

// result judges a run.
func (w *world) result(opts Options, spans []history.FaultSpan) (Result, error) {
	r := Result{
		Holds: make(map[string]int), Lost: make(map[string]int), Faults: make(map[string]int),
		Notes: w.fleet.notes, Ended: w.fleet.ended,
	}
	for _, h := range w.fleet.holds {
		r.Holds[h.Library]++
		if h.How == NotHeld || h.How == Lost {
			r.Lost[h.Library]++
		}
	}
	for _, s := range spans {
		if s.Err == "" {
			r.Faults[s.Name]++
		}
	}
	var log *account
	if len(w.servers) == 1 {
		var err error
		if log, err = w.account(); err != nil {
			return r, err
		}
		r.Doubles = log.doubles
	}
	ahead := wallAhead()
	wall := func(ns int64) int64 { return (ns + ahead) / int64(time.Millisecond) }
	r.Violations = judge(w.fleet.holds, log, opts.TTL.Milliseconds(), wall)
	for i, v := range r.Violations {
		for _, s := range spans {
			if s.From < v.Second.From && s.Till > v.First.From {
				r.Violations[i].Faults = append(r.Violations[i].Faults, s.Name)
			}
		}
		slices.Sort(r.Violations[i].Faults)
		r.Violations[i].Faults = slices.Compact(r.Violations[i].Faults)
	}
	return r, nil
}

// wallAhead is how far the wall clock is ahead of the machine's monotonic one. On a busy machine, a pause between the
// readings would make an expired lease look as if it were not: the reading with the shortest pause counts.
func wallAhead() (ahead int64) {
	least := time.Duration(math.MaxInt64)
	for range 20 {
		began := time.Now()
		wall, now := began.UnixNano(), history.Now()
		if took := time.Since(began); took < least {
			least, ahead = took, wall-now
		}
	}
	return ahead
}

func (w *world) account() (a *account, err error) {
	file, err := os.Open(w.servers[0].LogFile())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if a, err = readAccount(file); err != nil {
		return nil, fmt.Errorf("the server's log: %w", err)
	}
	return a, nil
}

// most returns the n most frequent, the most frequent first.
func most(counts map[string]int, n int) []string {
	var names []string
	for name := range counts {
		names = append(names, name)
	}
	slices.SortFunc(names, func(x, y string) int {
		return cmp.Or(cmp.Compare(counts[y], counts[x]), cmp.Compare(x, y))
	})
	return names[:min(n, len(names))]
}
