package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/crew"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// hopsWorker is the value of envWorker for a process of BenchmarkHops.
const hopsWorker = "hops"

// The ways to hand something over whose hops are measured.
const (
	wayLock  = "holdfast" // Release, and Lock of another client
	wayLeast = "script"   // the least script that writes and publishes; ends in the goroutine that reads it
	wayToken = "token"    // RPUSH and BLPOP
)

// leastScript writes and publishes, and does nothing else.
const leastScript = `redis.call('HSET', KEYS[1], 'lock', ARGV[1]) redis.call('PUBLISH', ARGV[2], ARGV[1]) return 'told'`

// hopName is the lock, the key and the list of all ways.
const hopName = "hop"

// leastChannel is where the worker with this number listens.
func leastChannel(worker int) string { return fmt.Sprintf("hop-%d", worker) }

// order is one line of a worker's input.
type order struct {
	Kit, Way, Addr string
	Worker         int
	Do             string // "open", "wait" or "give"
}

// hopMarks are instants of a hand-over, by a clock that all processes share. A process
// knows those of its part, and the others are 0.
type hopMarks struct {
	Call, Write, Wrote, Done int64 // of the process that gives
	Read, Heard, Told, Got   int64 // of the process that waits
	Error                    string
}

// hopTrace notes when the request of a hand-over is written, and when its news is read.
type hopTrace struct {
	request, news []byte // what they contain

	mu    sync.Mutex
	marks hopMarks
}

// note changes the marks.
func (t *hopTrace) note(change func(m *hopMarks)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.marks)
}

// take returns the marks and forgets them.
func (t *hopTrace) take() hopMarks {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.marks
	t.marks = hopMarks{}
	return m
}

// wrap makes a connection note what goes over it. It stays a TCP connection: go-redis asks
// those whether they are still open.
func (t *hopTrace) wrap(c net.Conn) net.Conn { return tracedConn{c.(*net.TCPConn), t} }

type tracedConn struct {
	*net.TCPConn
	trace *hopTrace
}

func (c tracedConn) Write(p []byte) (int, error) {
	if !bytes.Contains(p, c.trace.request) {
		return c.TCPConn.Write(p)
	}
	from := int64(crew.Mono())
	n, err := c.TCPConn.Write(p)
	to := int64(crew.Mono())
	c.trace.note(func(m *hopMarks) { m.Write, m.Wrote = from, to })
	return n, err
}

func (c tracedConn) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	at := int64(crew.Mono())
	if bytes.Contains(p[:n], c.trace.news) {
		c.trace.note(func(m *hopMarks) { m.Read = at })
	}
	return n, err
}

// tracedStore notes when its client has read a push, and when the library has taken it.
type tracedStore struct {
	fullStore
	trace *hopTrace
}

// fullStore is what both stores are.
type fullStore interface {
	store.Acker
	store.Batcher
	store.IdleCloser
}

func (s tracedStore) Listen(ctx context.Context, channel string, l store.Listener) (func(), error) {
	message := l.Message
	l.Message = func(payload string) {
		heard := int64(crew.Mono())
		message(payload)
		told := int64(crew.Mono())
		if strings.HasPrefix(payload, "granted ") {
			s.trace.note(func(m *hopMarks) { m.Heard, m.Told = heard, told })
		}
	}
	return s.fullStore.Listen(ctx, channel, l)
}

// hopper is one worker's part in one way.
type hopper struct {
	trace *hopTrace
	wait  func() error // returns when it has what was handed over
	give  func() error // hands it over
	ends  func(got int64, m *hopMarks)
	close func()
}

// openHopper connects one.
func openHopper(o order) (*hopper, error) {
	t := &hopTrace{}
	k := kitNamed(o.Kit)
	p, err := k.connect(o.Addr, t.wrap)
	if err != nil {
		return nil, err
	}
	h := &hopper{trace: t, close: p.close, ends: func(got int64, m *hopMarks) { m.Got = got }}
	ctx := context.Background()
	switch o.Way {
	case wayLock:
		err = h.openLock(p)
	case wayLeast:
		var sha string
		if sha, err = p.raw.Load(ctx, leastScript); err != nil {
			break
		}
		heard := make(chan int64, 1)
		_, err = p.store.Listen(ctx, leastChannel(o.Worker), store.Listener{
			Message: func(string) { heard <- int64(crew.Mono()) },
		})
		var at int64
		t.request, t.news = []byte(sha), []byte("told-by-script")
		h.wait = func() error { at = <-heard; return nil }
		h.ends = func(_ int64, m *hopMarks) { m.Heard, m.Got = at, at }
		h.give = func() error {
			_, err := p.raw.Eval(ctx, sha, hopName, "told-by-script", leastChannel(1-o.Worker))
			return err
		}
	case wayToken:
		t.request, t.news = []byte("PUSH"), []byte("told-by-token")
		if o.Kit == "goredis" {
			t.request = []byte("push") // it writes commands in lower case
		}
		h.wait = func() error { _, err := p.raw.Pop(ctx, hopName); return err }
		h.give = func() error { return p.raw.Push(ctx, hopName, "told-by-token") }
	default:
		err = errors.New("bench: no such way: " + o.Way)
	}
	return h, err
}

func (h *hopper) openLock(p *party) error {
	h.trace.request, h.trace.news = []byte(script.Release.SHA1), []byte("granted ")
	c, err := holdfast.New(tracedStore{p.store.(fullStore), h.trace}, holdfast.Config{TTL: rawTTL})
	if err != nil {
		return err
	}
	mu := c.Mutex(hopName)
	var lease *holdfast.Lease
	h.wait = func() (err error) { lease, err = mu.Lock(context.Background()); return err }
	h.give = func() error { return lease.Release(context.Background()) }
	h.close = func() {
		_ = c.Close(context.Background())
		p.close()
	}
	return nil
}

// serveHops obeys orders until the input ends. It answers each with a line.
func serveHops(in io.Reader, out io.Writer) error {
	orders, answers := json.NewDecoder(in), json.NewEncoder(out)
	var h *hopper
	for {
		var o order
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			if h != nil {
				h.close()
			}
			return nil
		} else if err != nil {
			return err
		}
		if err := answers.Encode(obey(&h, o)); err != nil {
			return err
		}
	}
}

func obey(h **hopper, o order) (m hopMarks) {
	var err error
	switch o.Do {
	case "open":
		if *h != nil {
			(*h).close()
		}
		*h, err = openHopper(o)
	case "wait":
		(*h).trace.take()
		err = (*h).wait()
		got := int64(crew.Mono())
		m = (*h).trace.take()
		(*h).ends(got, &m)
	case "give":
		(*h).trace.take()
		call := int64(crew.Mono())
		err = (*h).give()
		done := int64(crew.Mono())
		m = (*h).trace.take()
		m.Call, m.Done = call, done
	}
	if err != nil {
		m.Error = err.Error()
	}
	return m
}

// await waits for what a server says of a waiter.
func await(ready func() bool) error {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); !ready(); <-tick.C {
		if time.Now().After(end) {
			return errors.New("bench: nobody waits")
		}
	}
	return nil
}
