package neighbours

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/verify/history"
)

// Config is the first line that a process of a fleet is given. Times are in ms.
type Config struct {
	Mode      string   `json:"mode"`      // "fleet"
	Library   string   `json:"library"`   // the name of its Locker, if it is this program
	Proc      int      `json:"proc"`      // its number, from 1
	Seed      int64    `json:"seed"`      // of what it draws
	Address   string   `json:"address"`   // of the server, or of the first
	Addresses []string `json:"addresses"` // of all servers, which are independent of each other
	Locks     []string `json:"locks"`     // the names of the locks
	Threads   int      `json:"threads"`   // how many take locks at the same time
	TTLMs     int64    `json:"ttlMs"`     // of every lease
	Long      bool     `json:"long"`      // some holds last as long as 1.5 leases: they need renewals

	WatchdogMs   int64 `json:"watchdogMs"`   // the TTL again, as Redisson calls it
	TimeoutMs    int64 `json:"timeoutMs"`    // of a request
	RetryDelayMs int64 `json:"retryDelayMs"` // before a request is sent again
}

// TTL is the TTL of every lease.
func (c Config) TTL() time.Duration { return time.Duration(c.TTLMs) * time.Millisecond }

// Locker is a library, as a process of a fleet uses it. Many goroutines use it at the same time.
type Locker interface {
	// Lock waits for the lock. Its lease has the TTL of the Config, and is renewed if the library
	// can do that. If Lock fails, nothing is held as far as the library knows.
	Lock(ctx context.Context, name string) (Hold, error)
}

// Hold is a lock that was got.
type Hold interface {
	// Holds reports whether a careful user of the library would still believe that the lock is
	// held. A library that tells nothing of a loss is believed.
	Holds() bool
	// Holder is what the wire wrote into the lock's key; empty if the library does not say.
	Holder() string
	// Unlock gives the lock back, and says how that went: one of the words below.
	Unlock(ctx context.Context) string
}

// How a hold ended.
const (
	Released = "released" // the server said so
	NotHeld  = "not held" // the lease was over before
	Unknown  = "unknown"  // the server did not answer
	Lost     = "lost"     // the library told of the loss, and nothing was given back
)

// report is a line of a process.
type report struct {
	Event  string `json:"event"`
	Lock   string `json:"lock,omitempty"`
	Hold   int64  `json:"hold,omitempty"`
	Holder string `json:"holder,omitempty"`
	At     int64  `json:"at,omitempty"`
	How    string `json:"how,omitempty"`
	Text   string `json:"text,omitempty"`
}

// worker is a process of a fleet that is written in Go.
type worker struct {
	cfg    Config
	locker Locker
	holds  atomic.Int64

	mu  sync.Mutex // guards out
	out io.Writer
}

// Work is the main function of such a process. open makes the library that the Config names.
func Work(in io.Reader, out io.Writer, open func(Config) (Locker, error)) error {
	orders := bufio.NewScanner(in)
	orders.Buffer(nil, 1<<20)
	var cfg Config
	if !orders.Scan() {
		return errors.New("no Config came")
	}
	if err := json.Unmarshal(orders.Bytes(), &cfg); err != nil {
		return fmt.Errorf("the Config: %w", err)
	}
	locker, err := open(cfg)
	if err != nil {
		return err
	}
	w := &worker{cfg: cfg, locker: locker, out: out}
	w.say(report{Event: "ready"})
	if !orders.Scan() {
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var all sync.WaitGroup
	for i := range cfg.Threads {
		rng := rand.New(rand.NewPCG(uint64(cfg.Seed), uint64(i))) //nolint:gosec // it is to be repeated
		all.Go(func() { w.work(ctx, rng) })
	}
	if !orders.Scan() {
		return nil // the run is gone: so is this process
	}
	stop()
	all.Wait()
	w.say(report{Event: "done"})
	return nil
}

func (w *worker) say(r report) {
	line, err := json.Marshal(r)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, _ = w.out.Write(append(line, '\n')) // nobody is left to tell
}

func (w *worker) work(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		name := w.cfg.Locks[rng.IntN(len(w.cfg.Locks))]
		hold := time.Duration(1+rng.IntN(5)) * time.Millisecond
		if w.cfg.Long && rng.IntN(12) == 0 {
			hold = w.cfg.TTL() * time.Duration(30+rng.IntN(120)) / 100
		}
		pause := time.Duration(rng.IntN(8)) * time.Millisecond
		if err := w.once(ctx, name, hold); err != nil && ctx.Err() == nil {
			w.say(report{Event: "failed", Lock: name, Text: err.Error()})
			pause = 20 * time.Millisecond
		}
		history.Sleep(ctx, pause)
	}
}

// errLate says that a lock was got, and that its lease was over by then.
var errLate = errors.New("the grant came too late")

// once holds the lock for a time, and says so every few milliseconds.
func (w *worker) once(ctx context.Context, name string, d time.Duration) error {
	h, err := w.locker.Lock(ctx, name)
	if err != nil {
		return err
	}
	believed := history.Now()
	if !h.Holds() {
		// The grant came too late to be believed. It is given back all the same.
		w.unlock(ctx, h)
		return errLate
	}
	from := believed
	id := w.holds.Add(1)
	w.say(report{Event: "enter", Lock: name, Hold: id, Holder: h.Holder(), At: believed})
	// The loop goes on although the run ends: a hold is as long as it was drawn.
	for till := time.Duration(from) + d; time.Duration(history.Now()) < till; {
		history.Sleep(context.WithoutCancel(ctx), min(5*time.Millisecond, till-time.Duration(history.Now())))
		now := history.Now()
		if !h.Holds() {
			break
		}
		believed = now
		w.say(report{Event: "in", Hold: id, At: believed})
	}
	if now := history.Now(); h.Holds() {
		believed = now
	}
	w.say(report{Event: "exit", Hold: id, At: believed, How: w.unlock(ctx, h)})
	return nil
}

// unlock gives a lock back, whether or not the run has ended.
func (w *worker) unlock(ctx context.Context, h Hold) string {
	limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.cfg.TTL())
	defer cancel()
	return h.Unlock(limit)
}
