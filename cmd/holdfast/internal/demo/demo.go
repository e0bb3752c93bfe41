// Package demo shows the main job of a distributed lock in a few seconds: many
// processes, one server, one holder at a time, even when a holder dies or stops.
//
// It starts a server of its own and worker processes: they compete for one lock around an
// unsafe read-modify-write of a counter. It kills one holder and pauses another past the end
// of its lease. Then it says what happened, from two accounts that do not trust the library:
//
//   - the server's: every change of the lock's record, noted in the same atomic step
//     (package audit), judged by the rules of a lease (judge.go). An overlap is a
//     hold that the server granted before an earlier one was over by its own record.
//     What a paused process believes meanwhile is not counted here: no server can
//     know it.
//   - the counter's: how far it went, against the writes that were answered "done". This
//     is where a holder that does not know yet that it has lost the lock does harm, or
//     is refused.
//
// Decisions are in director.go, timeline.go and judge.go, without I/O; demo.go, account.go
// and fleet.go carry them out, and worker.go is what a worker does.
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast/internal/childproc"
)

// Limits of the options.
const (
	MinWorkers  = 2 // someone has to take the lock over from a victim
	MaxWorkers  = 64
	MinDuration = time.Second
	MaxDuration = 10 * time.Minute
)

// Options say what to show.
type Options struct {
	Workers  int
	Duration time.Duration
	Server   string   // one of the Server constants
	Worker   []string // the command that runs [Work]

	Progress io.Writer // nil: nothing is shown meanwhile
	Live     bool      // Progress is a terminal: one line is kept up to date
}

// Check says what is wrong with the options, in words for a command line.
func (o Options) Check() error {
	switch {
	case o.Workers < MinWorkers || o.Workers > MaxWorkers:
		return fmt.Errorf("--workers %d: it must be from %d to %d", o.Workers, MinWorkers, MaxWorkers)
	case o.Duration < MinDuration || o.Duration > MaxDuration:
		return fmt.Errorf("--duration %v: it must be from 1s to 10m", o.Duration)
	}
	switch o.Server {
	case ServerAuto, ServerRedis, ServerValkey, ServerEmbedded:
		return nil
	}
	return fmt.Errorf("--server %q: write %s, %s, %s or %s", o.Server,
		ServerAuto, ServerRedis, ServerValkey, ServerEmbedded)
}

// lease is the TTL of the lock: so short that two leases can run out in the
// time of the run, so long that a busy machine can renew it.
func (o Options) lease() time.Duration {
	return min(max(o.Duration/8, 250*time.Millisecond), time.Second).Round(time.Millisecond)
}

// run is one demo under way. It belongs to one goroutine.
type run struct {
	opts     Options
	server   *server
	rdb      *redis.Client
	dir      string
	fleet    *fleet
	director *director
	show     *progress

	workers []*worker      // by number, from 1: who works now
	names   map[string]int // the library's id of a client: the worker's number
	began   time.Time
	zero    int64     // server clock, µs, at the beginning
	hit     time.Time // the last blow

	events   []event
	account  account
	complete bool  // no note of the server is missing
	holder   int   // the worker that holds the lock by the last note, or 0
	writes   int   // so many were reported
	missed   int   // holds that came to nothing
	counter  int64 // the highest value that was written with a token
	killed   []mark
	stopped  []mark // From and Till are set
	late     []mark // refused writes
}

// mark is something that happened to a worker, in server time.
type mark struct {
	worker int
	span
}

// Run shows it, and answers what was seen. An error means that it could not be
// shown to the end. Either way, nothing that it started runs any more, and
// nothing that it wrote is left.
func Run(ctx context.Context, opts Options) (*Result, error) {
	result, err := show(ctx, opts)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx) // whatever step noticed it, that is why
	}
	return result, err
}

func show(ctx context.Context, opts Options) (*Result, error) {
	if err := errors.Join(childproc.Supported(), opts.Check()); err != nil {
		return nil, err
	}
	logging.Disable() // the client's own messages: its errors arrive as errors
	dir, remove, err := tempDir()
	if err != nil {
		return nil, err
	}
	defer remove()
	r := &run{
		opts: opts, dir: dir, fleet: newFleet(opts.Worker),
		director: newDirector(opts.Workers, opts.Duration), names: make(map[string]int),
		workers: make([]*worker, opts.Workers+1),
		show:    &progress{w: opts.Progress, live: opts.Live},
	}
	r.show.say(intro(opts))
	if r.server, err = startServer(ctx, opts.Server, dir); err != nil {
		return nil, err
	}
	defer r.server.stop()
	r.rdb = redis.NewClient(serverOptions(r.server.Addr))
	defer r.rdb.Close() //nolint:errcheck // the server is ours, and ends next
	defer r.fleet.destroy()
	defer r.show.clear()

	r.show.say(setting(r.server, opts))
	unsubscribe, err := r.subscribe(ctx)
	if err != nil {
		return nil, err
	}
	defer unsubscribe()
	for _, step := range []func(context.Context) error{r.gather, r.fight, r.finish} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return r.judge(ctx)
}

// gather starts the workers and waits until all of them are ready, so that
// nobody has the lock to himself while others still start.
func (r *run) gather(ctx context.Context) error {
	for number := 1; number <= r.opts.Workers; number++ {
		if err := r.hire(ctx, number); err != nil {
			return err
		}
	}
	ready := func() bool { return len(r.names) == r.opts.Workers }
	if err := r.hearUntil(ctx, ready, 20*time.Second, "the workers were not ready"); err != nil {
		return err
	}
	var err error
	if r.zero, err = serverTime(ctx, r.rdb); err != nil {
		return err
	}
	r.began = time.Now()
	for _, w := range r.workers[1:] {
		w.Tell(childproc.OrderBegin)
	}
	return nil
}

// hire starts a process as the worker of that number.
func (r *run) hire(ctx context.Context, number int) error {
	w, err := r.fleet.start(ctx, assignment{
		Proc: number, Addr: r.server.Addr, TTL: r.opts.lease(), Dir: r.dir, Miniredis: r.server.Embedded,
	})
	r.workers[number] = w
	return err
}

// fight goes on for as long as asked, and then until both blows have landed.
func (r *run) fight(ctx context.Context) error {
	const grace = time.Minute // a busy machine takes its time
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case rep := <-r.fleet.reports:
			if err := r.hear(ctx, rep); err != nil {
				return err
			}
		case <-tick.C:
			elapsed := time.Since(r.began)
			if err := r.do(ctx, r.director.clock, elapsed); err != nil {
				return err
			}
			r.show.status(elapsed, r.opts.Duration, r.writes, r.holder)
			if elapsed >= r.opts.Duration && r.director.scene == over {
				return nil
			}
			if elapsed >= r.opts.Duration+grace {
				return fmt.Errorf("the demo did not end after %v, still waiting for %s: the machine may be too busy; "+
					"try a longer --duration", elapsed.Round(time.Second), r.director.awaited())
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// hearUntil takes in reports until done, for no longer than limit.
func (r *run) hearUntil(ctx context.Context, done func() bool, limit time.Duration, late string) error {
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	for !done() {
		select {
		case rep := <-r.fleet.reports:
			if err := r.hear(ctx, rep); err != nil {
				return err
			}
		case <-deadline.C:
			return fmt.Errorf("%s after %v", late, limit)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (r *run) workerOf(attempt string) int {
	client, _, _ := strings.Cut(attempt, "/")
	return r.names[client]
}

// hear takes in a report and has done what the director makes of it.
func (r *run) hear(ctx context.Context, rep report) error {
	w := rep.worker
	if w == nil {
		return r.heardNote(rep.event)
	}
	rep.Client = cmp.Or(rep.Client, w.client)
	r.events = append(r.events, rep.event)
	switch rep.Kind {
	case ready:
		w.client = rep.Client
		r.names[rep.Client] = w.number
		if !r.began.IsZero() {
			w.Tell(childproc.OrderBegin) // a successor
		}
	case fail:
		r.missed++
	case stand:
		r.show.event(time.Since(r.began), standsText(r.director.scene, w.number, rep.Value))
		a, number := r.director.stands(w.number, rep.Token)
		return r.carryOut(ctx, a, number)
	case wrote:
		return r.heardWrite(ctx, w, rep.event)
	case gone:
		w.ended = true
		if err := w.failure(rep.Err); err != nil {
			return err
		}
		if w.fate == fateKilled {
			return r.hire(ctx, w.number)
		}
	default: // it is judged at the end
	}
	return nil
}

func (r *run) heardWrite(ctx context.Context, w *worker, e event) error {
	r.writes++
	if e.Stale {
		now, err := serverTime(ctx, r.rdb)
		if err != nil {
			return err
		}
		r.late = append(r.late, mark{w.number, span{From: now}})
		r.show.event(time.Since(r.began), refusedText(w.number, e.Value, r.counter))
	} else {
		r.counter = max(r.counter, e.Value)
	}
	before := r.director.scene
	a, number := r.director.turn(w.number, e.Token)
	if before == afterKill && r.director.scene != before {
		r.show.event(time.Since(r.began), takenOverText(w.number))
	}
	return r.carryOut(ctx, a, number)
}

// do asks the director and has it done.
func (r *run) do(ctx context.Context, ask func(time.Duration) (act, int), elapsed time.Duration) error {
	a, number := ask(elapsed)
	return r.carryOut(ctx, a, number)
}

// carryOut does to a worker what the director wants.
func (r *run) carryOut(ctx context.Context, a act, number int) error {
	if a == actNone {
		return nil
	}
	w := r.workers[number]
	now, err := serverTime(ctx, r.rdb)
	if err != nil {
		return err
	}
	switch a {
	case actNone:
	case actStand:
		w.Tell(childproc.OrderStand)
	case actKill:
		w.fate = fateKilled
		r.killed = append(r.killed, mark{number, span{From: now}})
		return w.Kill()
	case actPause:
		r.hit = time.Now()
		r.stopped = append(r.stopped, mark{number, span{From: now}})
		return w.Stop()
	case actWake:
		r.stopped[len(r.stopped)-1].Till = now
		r.show.event(time.Since(r.began), wokenText(number, time.Since(r.hit)))
		w.Tell(childproc.OrderGo)
		return w.Continue()
	}
	return nil
}

// finish lets the workers end their holds, and hears them and the server out.
func (r *run) finish(ctx context.Context) error {
	r.fleet.stop()
	ended := func() bool { return r.fleet.living() == 0 }
	if err := r.hearUntil(ctx, ended, endTimeout, "the workers had not ended"); err != nil {
		return err
	}
	if err := endAccount(ctx, r.rdb); err != nil {
		return err
	}
	complete := func() bool { return r.complete }
	return r.hearUntil(ctx, complete, endTimeout, "the server's account had not ended")
}

// endTimeout is how long the workers, and then the server, get to end.
const endTimeout = 5 * time.Second
