// Package workload is what the client processes of the fault suite do. Each is a real
// process with a client of the library: it acquires locks in every way there is, and
// reports what it saw. It trusts the library with the locks and with nothing else. It
// reads times from the machine's clock, in an order that makes every interval shorter
// than the true one.
package workload

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/audit"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/verify/history"
)

// Config is the first line that a client process is given.
type Config struct {
	Proc    int           `json:"proc"`
	Procs   int           `json:"procs"` // how many there are
	Seed    uint64        `json:"seed"`
	Library string        `json:"library"` // Goredis or Rueidis
	Servers Servers       `json:"servers"`
	Prefix  string        `json:"prefix"`
	TTL     time.Duration `json:"ttl"`
	Passes  int           `json:"passes"` // as holdfast.Config.MaxLocalHandOvers
	Dir     string        `json:"dir"`    // where the registers are
	Works   []string      `json:"works"`  // which workloads
	Rest    float64       `json:"rest"`   // part of the usual pauses between acquisitions
	Burst   int           `json:"burst"`  // how many locks it acquires at the same time

	Squeezed bool `json:"squeezed,omitempty"` // it makes garbage beside its work
}

// Retention is the retention that the clients use. It is short, so that a run can see
// that no record is left.
const Retention = 2 * time.Second

// closing bounds the end of a client process.
const closing = 20 * time.Second

// client is the process that does the work.
type client struct {
	cfg   Config
	locks *holdfast.Client
	store store.Store // that the locks are in

	registers Registers

	ids       atomic.Uint64
	confirmed sync.Map // attempt: the time of its last renewal that was confirmed
	orders    *childproc.Orders

	out *childproc.Outbox
}

// Client is the main function of a client process. It reads orders from in, reports
// events on out, and returns when it is told to stop. open opens the registers that the
// clients write to under a lock.
func Client(in io.Reader, out io.Writer, open Resource) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	c := &client{out: childproc.NewOutbox(out), orders: childproc.NewOrders()}
	if !lines.Scan() {
		return errors.New("a client process of the fault suite is started by the suite only")
	}
	if err := json.Unmarshal(lines.Bytes(), &c.cfg); err != nil {
		return fmt.Errorf("first line of a client process: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go c.orders.Obey(lines, stop)
	before, err := usual()
	if err != nil {
		return err
	}
	if c.registers, err = open(c.cfg.Dir); err != nil {
		return err
	}
	closed, err := c.open(ctx)
	if err != nil {
		return err
	}
	c.declare(history.Event{Kind: history.Ready, Client: c.locks.ID()})
	<-c.orders.Begun
	if c.cfg.Squeezed {
		waste(ctx)
	}
	c.work(ctx)
	limited, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	err = errors.Join(c.locks.Close(limited), c.registers.Close())
	closed()
	left := leftOver(limited, before)
	c.declare(history.Event{Kind: history.Stats, Counts: left, Text: running(left)})
	return err
}

// open connects, and tries for as long as it takes: a server may be away.
func (c *client) open(ctx context.Context) (func(), error) {
	for {
		s, closed, err := c.cfg.Servers.Open(c.cfg.Library, c.cfg.TTL)
		if err != nil {
			if history.Sleep(ctx, 50*time.Millisecond) {
				continue
			}
			return nil, err
		}
		// Of several servers none knows alone who holds a lock: there is no account.
		if len(c.cfg.Servers.Quorum) == 0 {
			s = audit.Store(s, audit.Channel(c.cfg.Prefix))
		}
		c.store = s
		c.locks, err = holdfast.New(s, holdfast.Config{
			Prefix: c.cfg.Prefix, TTL: c.cfg.TTL, Retention: Retention, MaxLocalHandOvers: c.cfg.Passes,
			App: fmt.Sprintf("verify-%d", c.cfg.Proc), Observer: c,
		})
		return closed, err
	}
}

// Observe implements [observe.Observer].
func (c *client) Observe(e observe.Event) {
	if e.Kind == observe.EventRenew && e.Err == nil {
		c.confirmed.Store(e.HolderID, history.Now())
	}
}

// say reports an event. A process that is killed leaves whole lines, and may not have
// reported the events of its last moments. If another process must know an event before
// the next step, declare reports it.
func (c *client) say(e history.Event) {
	if e.At == 0 {
		e.At = history.Now()
	}
	e.Proc = c.cfg.Proc
	c.out.Add(history.AppendLine(nil, &e))
}

// declare reports an event, and returns when it is out of the process.
func (c *client) declare(e history.Event) {
	c.say(e)
	c.out.Flush()
}

// work runs the workloads until ctx ends.
func (c *client) work(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { c.watch(ctx) })
	for _, name := range c.cfg.Works {
		w := works()[name]
		crew := w.crew
		if w.apart {
			crew = (crew + c.cfg.Procs - 1) / max(c.cfg.Procs, 1)
		}
		for i := range crew {
			seed := rand.NewPCG(c.cfg.Seed, uint64(c.cfg.Proc)<<32|uint64(i)<<8|uint64(w.number))
			one := &worker{client: c, work: name, number: i, rng: rand.New(seed)} //nolint:gosec // variety, no secret
			all.Go(func() { one.loop(ctx, w) })
		}
	}
	all.Wait()
}

const (
	beat = 50 * time.Millisecond
	// stalled is how late a beat must be to be reported.
	stalled = 5 * beat
)

// watch reports when the process got no processor: its work was late then.
func (c *client) watch(ctx context.Context) {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for last := history.Now(); ; {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		now := history.Now()
		if now-last > int64(stalled) {
			c.say(history.Event{Kind: history.Stall, At: now, Asked: last})
		}
		last = now
	}
}

// usual is what a process uses once it has used the network.
func usual() (map[string]int64, error) {
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if err := l.Close(); err != nil {
		return nil, err
	}
	return usage(), nil
}

// usage counts the goroutines and the open files of the process.
func usage() map[string]int64 {
	u := map[string]int64{"goroutines": int64(runtime.NumGoroutine())}
	if files, err := os.ReadDir("/proc/self/fd"); err == nil {
		u["files"] = int64(len(files))
	}
	return u
}

// leftOver is what the process uses beyond before. It waits until that is nothing, or
// until ctx ends: a goroutine may need a moment to end.
func leftOver(ctx context.Context, before map[string]int64) map[string]int64 {
	for {
		left := make(map[string]int64)
		var sum int64
		for name, n := range usage() {
			left[name] = max(n-before[name], 0)
			sum += left[name]
		}
		if sum == 0 || !history.Sleep(ctx, 20*time.Millisecond) {
			return left
		}
	}
}

// running lists the goroutines if some are left over.
func running(left map[string]int64) string {
	if left["goroutines"] == 0 {
		return ""
	}
	var text strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&text, 1) // a Builder takes everything
	return text.String()
}
