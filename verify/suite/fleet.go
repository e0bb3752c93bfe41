package suite

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/history"
	"github.com/holdfast-go/holdfast/verify/workload"
)

// fleet is the client processes of a run.
type fleet struct {
	argv   []string
	place  *place
	log    *history.Log
	config func(number int) workload.Config

	starts  chan func() // run by the one thread that starts processes
	readers sync.WaitGroup

	mu   sync.Mutex
	all  []*process // everyone who was ever started
	live []*process // by place in the fleet
}

// process is one client process.
type process struct {
	fleet   *fleet
	number  int
	cmd     *exec.Cmd
	orders  io.WriteCloser
	stderr  bytes.Buffer // what it said; complete once it has ended
	proxies []*redistest.Proxy
	ready   chan struct{} // closed when it is connected
	stands  chan struct{} // told when it stands before a write
	ended   chan struct{} // closed when it has ended and was heard out

	mu     sync.Mutex
	client string // the library's id
	fate   string // why its end is no surprise
}

var _ fault.Client = (*process)(nil)

// newFleet makes a fleet that runs argv. Linux ends the processes when the
// thread that started them ends, so one starts them all and stays.
func newFleet(argv []string, p *place, log *history.Log, config func(int) workload.Config) *fleet {
	f := &fleet{argv: argv, place: p, log: log, config: config, starts: make(chan func())}
	go func() {
		runtime.LockOSThread()
		for start := range f.starts {
			start()
		}
	}()
	return f
}

// start starts a process in the place of number, from 1.
func (f *fleet) start(number int, squeezed bool) (*process, error) {
	p := &process{
		fleet: f, number: number,
		ready: make(chan struct{}), stands: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	cfg := f.config(number)
	cfg.Squeezed = squeezed
	cfg.Servers = f.place.servers
	if f.place.proxied {
		cfg.Servers.Route = make(map[string]string)
		for _, addr := range f.place.addrs {
			proxy := redistest.NewProxy(f.place.bench, addr)
			p.proxies = append(p.proxies, proxy)
			cfg.Servers.Route[addr] = proxy.Addr()
		}
	}
	//nolint:noctx // the fleet ends it, and says how
	p.cmd = exec.Command(f.argv[0], f.argv[1:]...)
	p.cmd.Stderr = &p.stderr
	// Of little memory there is much garbage: collected less often, it costs half.
	p.cmd.Env = append(os.Environ(), "GOGC=400")
	if squeezed {
		p.cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOMEMLIMIT=24MiB", "GOGC=10")
	}
	apart(p.cmd)
	var err error
	if p.orders, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	f.starts <- func() { started <- p.cmd.Start() }
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting a client: %w", err)
	}
	f.mu.Lock()
	f.all = append(f.all, p)
	for len(f.live) < number {
		f.live = append(f.live, nil)
	}
	f.live[number-1] = p
	f.mu.Unlock()
	f.readers.Go(func() { p.listen(out, cfg.Passes) })
	first, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	p.tell(string(first))
	return p, nil
}

// listen puts what a process says into the history, until it ends.
func (p *process) listen(out io.Reader, passes int) {
	lines := bufio.NewScanner(out)
	lines.Buffer(make([]byte, 1<<16), 1<<20)
	var in history.Reader
	for lines.Scan() {
		e, err := in.Line(lines.Bytes())
		if err != nil {
			continue // a line that a kill has cut off
		}
		switch e.Kind {
		case history.Ready:
			p.mu.Lock()
			p.client = e.Client
			p.mu.Unlock()
			e.Local = passes >= 0
			close(p.ready)
		case history.Stand:
			select {
			case p.stands <- struct{}{}:
			default:
			}
		default: // only written down
		}
		p.mu.Lock()
		e.Client = p.client
		p.mu.Unlock()
		p.fleet.log.Add(e)
	}
	err := p.cmd.Wait()
	p.mu.Lock()
	e := history.Event{Kind: history.Gone, Proc: p.number, Client: p.client, How: p.fate}
	p.mu.Unlock()
	if e.How != history.Killed && (err != nil || e.How == "") {
		e.How = history.Broken
		e.Err = fmt.Sprintf("it ended: %v: %s", err, strings.TrimSpace(p.stderr.String()))
	}
	p.fleet.log.Add(e)
	close(p.ended)
}

// tell gives a process an order. One that has just ended does not take it, which
// its end will explain.
func (p *process) tell(order string) { _, _ = io.WriteString(p.orders, order+"\n") }

// await waits until a process is connected.
func (p *process) await(ctx context.Context) error {
	select {
	case <-p.ready:
		return nil
	case <-p.ended:
		return fmt.Errorf("client %d ended: %s", p.number, strings.TrimSpace(p.stderr.String()))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Number implements [fault.Client].
func (p *process) Number() int { return p.number }

// Stop implements [fault.Client].
func (p *process) Stop() error { return stop(p.cmd.Process) }

// Continue implements [fault.Client].
func (p *process) Continue() error { return resume(p.cmd.Process) }

// Proxies implements [fault.Client].
func (p *process) Proxies() []*redistest.Proxy { return p.proxies }

// Go implements [fault.Client].
func (p *process) Go() { p.tell(workload.OrderGo) }

// Stand implements [fault.Client].
func (p *process) Stand(ctx context.Context) error {
	select {
	case <-p.stands: // of an attempt that was given up
	default:
	}
	p.tell(workload.OrderStand)
	select {
	case <-p.stands:
		return nil
	case <-p.ended:
		return errors.New("the client has ended")
	case <-ctx.Done():
		p.Go()
		return ctx.Err()
	}
}

// Kill implements [fault.Client].
func (p *process) Kill() error { return p.replace(false) }

// Squeeze implements [fault.Client].
func (p *process) Squeeze() error { return p.replace(true) }

func (p *process) replace(squeezed bool) error {
	p.mu.Lock()
	p.fate = history.Killed
	p.mu.Unlock()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.ended
	for _, proxy := range p.proxies {
		proxy.Cut() // nothing of it gets through any more
	}
	next, err := p.fleet.start(p.number, squeezed)
	if err != nil {
		return err
	}
	next.tell(workload.OrderBegin)
	return nil
}

// clients are those that should be running.
func (f *fleet) clients() []*process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.live)
}

// finish tells everyone to end, and waits. Who does not end in time is killed,
// which the history shows as what it is.
func (f *fleet) finish(ctx context.Context) {
	for _, p := range f.clients() {
		p.mu.Lock()
		p.fate = history.Stopped
		p.mu.Unlock()
		p.tell(workload.OrderStop)
	}
	for _, p := range f.clients() {
		select {
		case <-p.ended:
		case <-ctx.Done():
			p.mu.Lock()
			p.fate = "it did not end when it was told to"
			p.mu.Unlock()
			_ = p.cmd.Process.Kill() // it may have ended just now
			<-p.ended
		}
	}
}

// destroy ends whatever still runs, and returns when nothing of it is left.
func (f *fleet) destroy() {
	f.mu.Lock()
	all := slices.Clone(f.all)
	f.mu.Unlock()
	for _, p := range all {
		_ = p.cmd.Process.Kill() // it may have ended
		_ = p.orders.Close()
	}
	f.readers.Wait()
	close(f.starts)
}
