package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/audit"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/filecounter"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// assignment is the first line that a worker process is given.
type assignment struct {
	Proc      int           `json:"proc"`
	Addr      string        `json:"addr"` // of the server
	TTL       time.Duration `json:"ttl"`
	Dir       string        `json:"dir"` // where the files are
	Miniredis bool          `json:"miniredis,omitempty"`
}

// lockName is the lock that the workers compete for.
const lockName = "update"

// retention is the retention of the lock's record: longer than a pause, and short.
const retention = 2 * time.Second

// closing bounds the end of a worker.
const closing = 10 * time.Second

// files are the two counters that the workers write to. The fenced one refuses a token that
// is lower than one that it was shown; the plain one takes everything.
type files struct{ fenced, plain filecounter.File }

func filesIn(dir string) files {
	return files{
		filecounter.File{Path: filepath.Join(dir, "fenced")}, filecounter.File{Path: filepath.Join(dir, "plain")},
	}
}

// errStale refuses a token that is lower than one that the file was shown.
var errStale = errors.New("the token is older than one that was seen")

// show shows the fenced file a token, and replaces its value by what next returns.
func (f files) show(token uint64, next func(stands int64) int64) error {
	return f.fenced.Guarded(func() error {
		stands, highest, err := f.fenced.Load()
		if err != nil {
			return err
		}
		if token < highest {
			return errStale
		}
		return f.fenced.Store(next(stands), token)
	})
}

// read reads both files. A reader shows its token, too: otherwise a late write could come
// after the next holder has read and before it writes.
func (f files) read(token uint64) (fenced, plain int64, err error) {
	err = f.show(token, func(stands int64) int64 { fenced = stands; return stands })
	plain, _, other := f.plain.Load()
	return fenced, plain, errors.Join(err, other)
}

// laborer is a worker process from the inside.
type laborer struct {
	assignment
	files
	locks  *holdfast.Client
	ids    uint64
	orders *childproc.Orders
	out    *childproc.Outbox
}

// Work is the main function of a worker process. It reads orders from in, reports events on
// out, and returns when it is told to stop. It trusts the library with the lock and with
// nothing else.
func Work(in io.Reader, out io.Writer) error {
	logging.Disable()
	lines := bufio.NewScanner(in)
	w := &laborer{out: childproc.NewOutbox(out), orders: childproc.NewOrders()}
	if !lines.Scan() {
		return errors.New("only the demo itself starts its workers")
	}
	if err := json.Unmarshal(lines.Bytes(), &w.assignment); err != nil {
		return fmt.Errorf("first line of a worker: %w", err)
	}
	w.files = filesIn(w.Dir)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go w.orders.Obey(lines, stop)
	rdb := redis.NewClient(serverOptions(w.Addr))
	defer rdb.Close() //nolint:errcheck // the process ends
	account := audit.Store
	if w.Miniredis {
		account = audit.Undeclared
	}
	var err error
	w.locks, err = holdfast.New(account(goredis.New(rdb), audit.Channel(prefix)), holdfast.Config{
		Prefix: prefix, TTL: w.TTL, Retention: retention, App: fmt.Sprintf("demo-%d", w.Proc),
	})
	if err != nil {
		return err
	}
	w.say(event{Kind: ready, Client: w.locks.ID()})
	w.out.Flush()
	<-w.orders.Begun
	for ctx.Err() == nil {
		w.turn(ctx)
	}
	limited, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	err = w.locks.Close(limited)
	w.out.Flush()
	return err
}

func (w *laborer) say(e event) {
	if e.At == 0 {
		e.At = now()
	}
	e.Proc = w.Proc
	line, err := json.Marshal(e)
	if err != nil {
		panic("BUG: an event that is no JSON: " + err.Error())
	}
	w.out.Add(append(line, '\n'))
}

// turn acquires the lock, updates the files and releases the lock. A worker that was refused
// does not try again at once.
func (w *laborer) turn(ctx context.Context) {
	w.ids++
	e := event{ID: w.ids, Asked: now()}
	l, err := w.locks.Mutex(lockName).Lock(ctx)
	e.At = now()
	if err != nil {
		if ctx.Err() == nil {
			e.Kind, e.Err = fail, err.Error()
			w.say(e)
			pause(ctx, rand.N(w.TTL/4)) //nolint:gosec // it spreads load
		}
		return
	}
	e.Kind, e.Token = got, l.Token()
	w.say(e)
	if err := w.update(l); err != nil {
		w.say(event{Kind: fail, ID: e.ID, Token: e.Token, Err: err.Error()})
	}
	over := event{Kind: end, ID: e.ID, Token: e.Token, Asked: now()}
	limited, cancel := context.WithTimeout(context.Background(), w.TTL)
	defer cancel()
	err = l.Release(limited)
	over.At, over.Released = now(), err == nil
	if err != nil {
		over.Err = err.Error()
	}
	w.say(over)
}

// How long a worker carries the values with it before it writes: long for a request, short
// for a lease.
const (
	thinkLeast = time.Millisecond
	thinkMost  = 9 * time.Millisecond
)

// update reads both files, thinks, and writes what it has read plus one.
func (w *laborer) update(l *holdfast.Lease) error {
	fenced, plain, err := w.read(l.Token())
	switch {
	case errors.Is(err, errStale):
		return nil // the lease is lost, and another worker was here
	case err != nil:
		return err
	}
	if !pause(l.Context(), thinkLeast+rand.N(thinkMost-thinkLeast)) { //nolint:gosec // variety
		return nil // the lease is lost
	}
	e := event{Kind: wrote, Token: l.Token(), Value: fenced + 1, Plain: plain + 1}
	// A careful program checks before it writes that it still holds the lock. It cannot check
	// and write in one step: the demo stops it here, between the two.
	if w.orders.Stand.CompareAndSwap(true, false) {
		stands := e
		stands.Kind = stand
		w.say(stands)
		w.out.Flush()
		<-w.orders.Resume
	}
	if err := w.plain.Store(e.Plain, 0); err != nil {
		return err
	}
	err = w.show(e.Token, func(int64) int64 { return e.Value })
	if e.Stale = errors.Is(err, errStale); err != nil && !e.Stale {
		return err
	}
	w.say(e)
	return nil
}

// pause waits for d. It reports false if ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
