package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/history"
	"github.com/holdfast-go/holdfast/verify/workload"
)

// fleet is the client processes of a run.
type fleet struct {
	argv       []string
	deployment *deployment
	log        *history.Log
	config     func(number int) workload.Config

	mu   sync.Mutex
	all  []*process // all that were ever started
	live []*process // by number
}

// process is one client process.
type process struct {
	*childproc.Process

	fleet   *fleet
	number  int
	passes  int // see workload.Config
	proxies []*redistest.Proxy
	ready   chan struct{} // closed when it is connected
	stands  chan struct{} // told when it stands before a write

	mu     sync.Mutex
	client string // the library's id
	fate   string // why its end is no surprise
}

var _ fault.Client = (*process)(nil)

// start starts the process that has a number, from 1.
func (f *fleet) start(number int, squeezed bool) (*process, error) {
	cfg := f.config(number)
	p := &process{
		fleet: f, number: number, passes: cfg.Passes,
		ready: make(chan struct{}), stands: make(chan struct{}, 1),
	}
	cfg.Squeezed = squeezed
	cfg.Servers = f.deployment.servers
	if f.deployment.proxied {
		cfg.Servers.Route = make(map[string]string)
		for _, addr := range f.deployment.addrs {
			proxy := redistest.NewProxy(f.deployment.bench, addr)
			p.proxies = append(p.proxies, proxy)
			cfg.Servers.Route[addr] = proxy.Addr()
		}
	}
	//nolint:noctx // the fleet ends it, and says how
	cmd := exec.Command(f.argv[0], f.argv[1:]...)
	// Of little memory there is much garbage: collected less often, it costs half.
	cmd.Env = append(os.Environ(), "GOGC=400")
	if squeezed {
		cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "GOMEMLIMIT=24MiB", "GOGC=10")
	}
	var err error
	if p.Process, err = childproc.Start(cmd, cfg, p.lines(), p.gone); err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.all = append(f.all, p)
	for len(f.live) < number {
		f.live = append(f.live, nil)
	}
	f.live[number-1] = p
	f.mu.Unlock()
	return p, nil
}

// lines returns what takes the lines of a process. A kill may have cut one off: it is no event.
func (p *process) lines() func(line []byte) {
	var reader history.Reader
	return func(line []byte) {
		if e, err := reader.Line(line); err == nil {
			p.hear(e)
		}
	}
}

// hear puts what a process says into the history.
func (p *process) hear(e history.Event) {
	switch e.Kind {
	case history.Ready:
		p.mu.Lock()
		p.client = e.Client
		p.mu.Unlock()
		e.Local = p.passes >= 0
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

// gone puts the end of a process into the history.
func (p *process) gone(err error, stderr string) {
	p.mu.Lock()
	e := history.Event{Kind: history.Gone, Proc: p.number, Client: p.client, How: p.fate}
	p.mu.Unlock()
	if e.How != history.Killed && (err != nil || e.How == "") {
		e.How = history.Broken
		e.Err = fmt.Sprintf("it ended: %v: %s", err, stderr)
	}
	p.fleet.log.Add(e)
}

// await waits until a process is connected.
func (p *process) await(ctx context.Context) error {
	select {
	case <-p.ready:
		return nil
	case <-p.Ended():
		return fmt.Errorf("client %d ended: %s", p.number, p.Stderr())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Number implements [fault.Client].
func (p *process) Number() int { return p.number }

// Proxies implements [fault.Client].
func (p *process) Proxies() []*redistest.Proxy { return p.proxies }

// Go implements [fault.Client].
func (p *process) Go() { p.Tell(childproc.OrderGo) }

// Stand implements [fault.Client].
func (p *process) Stand(ctx context.Context) error {
	select {
	case <-p.stands: // of an earlier call that timed out
	default:
	}
	p.Tell(childproc.OrderStand)
	select {
	case <-p.stands:
		return nil
	case <-p.Ended():
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
	if err := p.Process.Kill(); err != nil {
		return err
	}
	<-p.Ended()
	for _, proxy := range p.proxies {
		proxy.Cut() // from now on none of its requests arrives, but for late copies
	}
	next, err := p.fleet.start(p.number, squeezed)
	if err != nil {
		return err
	}
	next.Tell(childproc.OrderBegin)
	return nil
}

// clients are those that should be running.
func (f *fleet) clients() []*process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.live)
}

// finish tells all processes to end, and waits. It kills a process that does not end in
// time, which the history shows as an error.
func (f *fleet) finish(ctx context.Context) {
	for _, p := range f.clients() {
		p.mu.Lock()
		p.fate = history.Stopped
		p.mu.Unlock()
		p.Tell(childproc.OrderStop)
	}
	for _, p := range f.clients() {
		select {
		case <-p.Ended():
		case <-ctx.Done():
			p.mu.Lock()
			p.fate = "it did not end when it was told to"
			p.mu.Unlock()
			_ = p.Process.Kill() // what is left of it shows at its end
			<-p.Ended()
		}
	}
}

// destroy ends whatever still runs, and returns when nothing of it is left.
func (f *fleet) destroy() {
	f.mu.Lock()
	all := slices.Clone(f.all)
	f.mu.Unlock()
	for _, p := range all {
		p.Destroy()
	}
}
