package redistest

import (
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// Stage is a point on a request's way through a [Proxy].
type Stage int

// The stages, in the order of a request's way.
const (
	Arrived   Stage = iota // the proxy has read the request
	Forwarded              // it was written to the server
	Executed               // the server answered it
	Answered               // its answer was written to the client
	Dropped                // its answer was swallowed
)

// Event is a request that reached a stage.
type Event struct {
	Stage   Stage
	Request []string // the command's words as the client sent them
}

// Proxy is a TCP proxy between a client and a server. It tells requests, answers and pushed
// messages apart. So a test can let a request take effect and drop only its answer. A test
// switches faults on and off at run time. All methods are safe for concurrent use.
//
// In front of a secured server, the proxy ends the clients' TLS and begins its own.
type Proxy struct {
	listener net.Listener
	identity *identity // of a secured server, nil for an open one

	mu       sync.Mutex    // guards what follows; no I/O while it is held
	target   string        // of new connections
	switched chan struct{} // closed when a fault is switched on or off
	counted  chan struct{} // closed when a request has reached a stage; nil while nobody waits for that
	counts   map[stageOf]int64
	hook     func(Event)
	links    map[*link]struct{}
	fault    fault
	imposed  []*Imposition // faults beside that one
	closed   bool
	made     int // connections so far
	overtook int // requests that went past an earlier one
	held     map[*link]int64
	arrivals int64
}

type stageOf struct {
	stage   Stage
	command string
}

// fault is everything that Pass resets.
type fault struct {
	blackHole bool
	refuse    bool
	delay     time.Duration
	stagger   time.Duration
	drops     int      // answers yet to be swallowed
	dropCut   bool     // close the connection with each of them
	dropOnly  []string // of these commands; of all if empty

	rest, age time.Duration // after which a connection is forgotten; 0: never
	late      func() (time.Duration, bool)
	lateOnly  []string // the commands of which late makes copies
}

// NewProxy starts a proxy to target. It passes everything, and ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.MustTrue(t, err == nil, "redistest: %v", err)
	p := &Proxy{
		target:   target,
		listener: l,
		switched: make(chan struct{}),
		counts:   make(map[stageOf]int64),
		links:    make(map[*link]struct{}),
		held:     make(map[*link]int64),
	}
	if Secured() {
		p.identity, err = newIdentity()
		assert.MustTrue(t, err == nil, "redistest: %v", err)
	}
	var serving sync.WaitGroup
	serving.Go(func() { p.accept(&serving) })
	t.Cleanup(func() {
		l.Close() //nolint:errcheck // it ends the accepting, whatever it says
		var imposed []*Imposition
		p.update(func() { p.closed, imposed = true, slices.Clone(p.imposed) })
		for _, i := range imposed {
			i.Lift()
		}
		p.Cut()
		serving.Wait()
	})
	return p
}

// Addr returns the address that clients connect to.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Pass ends every fault. It forwards what a black hole held back.
func (p *Proxy) Pass() { p.update(func() { p.fault = fault{} }) }

// Lead makes new connections lead to another server, as an address does that moves. Those that
// exist stay where they are.
func (p *Proxy) Lead(target string) { p.update(func() { p.target = target }) }

// BlackHole lets nothing through in either direction, as a lost route does. Connections remain
// open and new ones are accepted, but nothing arrives.
func (p *Proxy) BlackHole() { p.update(func() { p.fault.blackHole = true }) }

// Forget lets nothing through any more on the connections that exist, as a router does that has
// forgotten them: what is sent over them is swallowed, without a reset. New connections work. The result
// is how many there were.
func (p *Proxy) Forget() (forgotten int) {
	p.update(func() {
		for l := range p.links {
			l.forgotten = true
			forgotten++
		}
	})
	return forgotten
}

// Delay holds every answer and pushed message back for d.
func (p *Proxy) Delay(d time.Duration) { p.update(func() { p.fault.delay = d }) }

// Stagger delays the requests of every other connection by d. So the requests of a client with
// several connections arrive in another order than it sent them. Overtaken counts them.
func (p *Proxy) Stagger(d time.Duration) { p.update(func() { p.fault.stagger = d }) }

// Overtaken returns how many requests have overtaken an earlier one of another connection that
// [Proxy.Stagger] delayed.
func (p *Proxy) Overtaken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.overtook
}

// slow delays a request if its connection is one of the slow ones. It returns false if the
// connection was closed meanwhile.
func (p *Proxy) slow(l *link) bool {
	p.mu.Lock()
	p.arrivals++
	d, mine := p.worst().stagger, p.arrivals
	if d == 0 || l.number%2 == 0 {
		for _, earlier := range p.held {
			if earlier < mine {
				p.overtook++
				break
			}
		}
		p.mu.Unlock()
		return true
	}
	p.held[l] = mine
	p.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	there := true
	select {
	case <-timer.C:
	case <-l.done:
		there = false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.held, l)
	return there
}

// RefuseNew makes the proxy reset each new connection at once.
func (p *Proxy) RefuseNew(refuse bool) { p.update(func() { p.fault.refuse = refuse }) }

// DropReplies drops the next n answers to the given commands, or to any command if none is
// given. The requests run at the server. A client that pipelines takes the answers of later
// requests for the lost ones: for such a client use [Proxy.DropRepliesAndCut].
func (p *Proxy) DropReplies(n int, commands ...string) { p.drop(n, false, commands) }

// DropRepliesAndCut is DropReplies, and each time closes the connection.
func (p *Proxy) DropRepliesAndCut(n int, commands ...string) { p.drop(n, true, commands) }

func (p *Proxy) drop(n int, cut bool, commands []string) {
	p.update(func() { p.fault.drops, p.fault.dropCut, p.fault.dropOnly = n, cut, commands })
}

// Cut closes all connections now, those in a black hole too.
func (p *Proxy) Cut() {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		l.close()
	}
}

// Hook calls f for every event, from the goroutine that forwards the request. If f takes time,
// the request is delayed. Faults that f switches are in force from then on.
func (p *Proxy) Hook(f func(Event)) { p.update(func() { p.hook = f }) }

// Count returns how many requests of command have reached stage so far.
func (p *Proxy) Count(stage Stage, command string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts[stageOf{stage, strings.ToUpper(command)}]
}

// Await waits until n requests of command have reached stage since the proxy was started.
func (p *Proxy) Await(t testing.TB, stage Stage, command string, n int64) {
	t.Helper()
	late := time.NewTimer(Patience)
	defer late.Stop()
	key := stageOf{stage, strings.ToUpper(command)}
	for {
		p.mu.Lock()
		if p.counted == nil {
			p.counted = make(chan struct{})
		}
		got, changed := p.counts[key], p.counted
		p.mu.Unlock()
		if got >= n {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			t.Fatalf("redistest: only %d of %d %s reached stage %d", got, n, command, stage)
		}
	}
}

// update changes the faults and wakes the goroutines that wait for that.
func (p *Proxy) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.switched)
	p.switched = make(chan struct{})
}

func (p *Proxy) note(stage Stage, request []string) {
	if len(request) == 0 {
		return // it answers no request that we know: a push of version 2
	}
	p.mu.Lock()
	hook := p.hook
	p.mu.Unlock()
	if hook != nil {
		hook(Event{stage, request})
	}
	// Counted last: when Await returns, the hook has run.
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[stageOf{stage, strings.ToUpper(request[0])}]++
	if p.counted != nil {
		close(p.counted)
		p.counted = nil
	}
}

// swallow reports whether to drop the answer to request, and whether to close the connection
// as well.
func (p *Proxy) swallow(request []string) (drop, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, f := range p.faults() {
		if f.drops == 0 || len(request) == 0 {
			continue
		}
		if len(f.dropOnly) > 0 && !slices.ContainsFunc(f.dropOnly, func(c string) bool {
			return strings.EqualFold(c, request[0])
		}) {
			continue
		}
		f.drops--
		return true, f.dropCut
	}
	return false, false
}

// gate waits while the proxy is a black hole. It returns whether it was one, and whether the
// connection is still open.
func (p *Proxy) gate(l *link) (was, there bool) {
	p.use(l)
	for {
		p.mu.Lock()
		shut, switched := p.worst().blackHole || l.forgotten, p.switched
		p.mu.Unlock()
		if !shut {
			return was, true
		}
		was = true
		select {
		case <-switched:
		case <-l.done:
			return was, false
		}
	}
}
