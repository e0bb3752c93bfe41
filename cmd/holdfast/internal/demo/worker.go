package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// lockName is the lock that everybody wants.
const lockName = "demo"

// thinkLeast and thinkMost bound how long a worker carries the counter's value
// with it before it writes: long against a request, short against a lease.
const (
	thinkLeast = 2 * time.Millisecond
	thinkMost  = 12 * time.Millisecond
)

// workerConfig is the first line that a worker is given.
type workerConfig struct {
	Worker int           `json:"worker"` // its number, from 1
	Addr   string        `json:"addr"`   // of the server
	Dir    string        `json:"dir"`    // where the registers are
	Lease  time.Duration `json:"lease"`  // TTL of the lock
}

// What a worker is told after that, a line each. The end of its input means
// that the demo is gone.
const (
	orderBegin = "begin" // start to work
	orderStand = "stand" // at the next hold, say so just before the write, and wait
	orderGo    = "go"    // write now
	orderStop  = "stop"  // finish the turn and end
)

// Registers' names: the same work is done on both.
const (
	fencedName = "fenced"
	plainName  = "plain"
)

// What a worker reports, a JSON object a line.
const (
	reportReady  = "ready"  // it is connected; Client is set
	reportStands = "stands" // it holds the lock and waits before the write; Token and Value are set
	reportTurn   = "turn"   // it wrote and gave the lock back
	reportMissed = "missed" // no turn, for the reason in Text: it tries again
)

type report struct {
	Kind   string `json:"kind"`
	Client string `json:"client,omitempty"` // the library's id of the worker
	Turn   turn   `json:"turn"`
	Value  int64  `json:"value,omitempty"` // what it wrote, or would have written
	Done   bool   `json:"done,omitempty"`  // the fenced register took the write
	Stale  int64  `json:"stale,omitempty"` // not done: what the fenced register stood at
	Plain  int64  `json:"plain,omitempty"` // what it wrote to the plain register
	Text   string `json:"text,omitempty"`

	worker *worker // set by the receiver
}

// workerProcess is the process that does the work.
type workerProcess struct {
	cfg    workerConfig
	mutex  *holdfast.Mutex
	fenced register
	plain  register
	out    *json.Encoder

	stand  atomic.Bool
	resume chan struct{}
	pushed atomic.Bool // the last grant came by push
}

// Work is the main function of a worker process: it is given orders on in,
// reports on out, and returns when it is told to stop.
func Work(in io.Reader, out io.Writer) error {
	logging.Disable()
	lines := bufio.NewScanner(in)
	p := &workerProcess{out: json.NewEncoder(out), resume: make(chan struct{}, 1)}
	if !lines.Scan() {
		return errors.New("only the demo starts its workers")
	}
	if err := json.Unmarshal(lines.Bytes(), &p.cfg); err != nil {
		return fmt.Errorf("first line of a worker: %w", err)
	}
	p.fenced = newRegister(p.cfg.Dir, fencedName, true)
	p.plain = newRegister(p.cfg.Dir, plainName, false)

	rdb := redis.NewClient(serverOptions(p.cfg.Addr))
	defer rdb.Close() //nolint:errcheck // the process ends
	client, err := holdfast.New(newAuditStore(goredis.New(rdb)), holdfast.Config{
		TTL:      p.cfg.Lease,
		App:      fmt.Sprintf("demo-worker-%d", p.cfg.Worker),
		Observer: p,
	})
	if err != nil {
		return err
	}
	p.mutex = client.Mutex(lockName)
	if err := p.say(report{Kind: reportReady, Client: client.ID()}); err != nil {
		return err
	}

	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	begin := make(chan struct{})
	go p.obey(lines, begin, stop)
	<-begin
	if err := p.loop(ctx); err != nil {
		return err
	}
	closing, cancel := context.WithTimeout(context.Background(), p.cfg.Lease)
	defer cancel()
	return client.Close(closing)
}

// obey carries out the orders. When the input ends, the demo is gone, and with
// it everything that this process was for.
func (p *workerProcess) obey(lines *bufio.Scanner, begin chan struct{}, stop func()) {
	begun := sync.OnceFunc(func() { close(begin) })
	for lines.Scan() {
		switch lines.Text() {
		case orderBegin:
			begun()
		case orderStand:
			p.stand.Store(true)
		case orderGo:
			p.resume <- struct{}{}
		case orderStop:
			stop()
			begun()
		}
	}
	os.Exit(1)
}

// Observe implements [holdfast.Observer].
func (p *workerProcess) Observe(e holdfast.Event) {
	if e.Kind == holdfast.EventGrant {
		p.pushed.Store(e.Wake == holdfast.WakePush)
	}
}

func (p *workerProcess) say(r report) error {
	r.Turn.Worker = p.cfg.Worker
	return p.out.Encode(r)
}

// loop takes turns until ctx ends. On a machine that is short of breath a turn
// may fail; a worker that gets none at all is an error.
func (p *workerProcess) loop(ctx context.Context) error {
	const patience = 10
	for failed := 0; ctx.Err() == nil; {
		err := p.turn(ctx)
		switch {
		case ctx.Err() != nil || err == nil:
			failed = 0
		case failed == patience:
			return err
		default:
			failed++
			if err := p.say(report{Kind: reportMissed, Text: err.Error()}); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn is one unsafe read-modify-write under the lock.
func (p *workerProcess) turn(ctx context.Context) error {
	r := report{Kind: reportTurn}
	r.Turn.Asked = machineClock()
	lease, err := p.mutex.Lock(ctx)
	if err != nil {
		return err
	}
	r.Turn.Got = machineClock()
	r.Turn.Token = lease.Token()
	r.Turn.Pushed = p.pushed.Load()
	// On the way out with an error; released before, it has nothing to do.
	defer lease.Release(context.Background()) //nolint:errcheck // the lease ends by itself

	value, err := p.fenced.read()
	if err != nil {
		return err
	}
	plain, err := p.plain.read()
	if err != nil {
		return err
	}
	<-time.After(thinkLeast + rand.N(thinkMost-thinkLeast)) //nolint:gosec // variety, not a secret
	r.Value, r.Plain = value+1, plain+1

	// A careful program looks whether it still holds the lock before it writes.
	// It cannot look and write at once: here, between the two, is where the
	// demo kills one worker and pauses another.
	if err := lease.Err(); err != nil {
		return err
	}
	if p.stand.CompareAndSwap(true, false) {
		if err := p.say(report{Kind: reportStands, Turn: r.Turn, Value: r.Value}); err != nil {
			return err
		}
		<-p.resume
	}
	if err := p.plain.write(r.Turn.Token, r.Plain); err != nil {
		return err
	}
	err = p.fenced.write(r.Turn.Token, r.Value)
	var stale *staleError
	switch {
	case err == nil:
		r.Done = true
	case errors.As(err, &stale):
		r.Stale = stale.Value
	default:
		return err
	}
	r.Turn.Freed = machineClock()
	r.Turn.Lost = lease.Release(context.Background()) != nil
	return p.say(r)
}

// serverOptions is how the demo and its workers reach the server. The news that
// only a managed service sends is not asked for.
func serverOptions(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr, ContextTimeoutEnabled: true, DialerRetries: 1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}
