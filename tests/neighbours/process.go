package neighbours

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/fault"
)

// Library is a library in a fleet.
type Library struct {
	Name string
	// Command makes the command of a process. The process reads a [Config], and then works.
	Command func() (*exec.Cmd, error)
}

// fleet is the processes of a run.
type fleet struct {
	bench  *fault.Bench
	addrs  []string         // of the servers
	config func(int) Config // of the process with a number, from 1
	which  func(int) Library

	mu    sync.Mutex
	live  []*process // by number
	all   []*process
	holds []Held
	notes map[string]int // how often something went wrong, by what it was
	ended []string       // processes that ended by themselves
}

// process is one process.
type process struct {
	*childproc.Process

	fleet   *fleet
	number  int
	library string
	proxies []*redistest.Proxy
	ready   chan struct{}
	done    chan struct{}

	mu     sync.Mutex
	open   map[int64]Held // by the number of the hold
	doomed bool           // its end is no surprise
}

var _ fault.Client = (*process)(nil)

// start starts the process that has a number, from 1.
func (f *fleet) start(number int) (*process, error) {
	library := f.which(number)
	cmd, err := library.Command()
	if err != nil {
		return nil, err
	}
	p := &process{
		fleet: f, number: number, library: library.Name,
		ready: make(chan struct{}), done: make(chan struct{}), open: make(map[int64]Held),
	}
	cfg := f.config(number)
	cfg.Mode, cfg.Library, cfg.Proc = "fleet", library.Name, number
	for _, addr := range f.addrs {
		proxy := redistest.NewProxy(f.bench, addr)
		p.proxies = append(p.proxies, proxy)
		cfg.Addresses = append(cfg.Addresses, proxy.Addr())
	}
	cfg.Address = cfg.Addresses[0]
	if p.Process, err = childproc.Start(cmd, cfg, p.hear, p.gone); err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all = append(f.all, p)
	for len(f.live) < number {
		f.live = append(f.live, nil)
	}
	f.live[number-1] = p
	return p, nil
}

// hear takes a report. A kill may have cut one off: then it says nothing.
func (p *process) hear(line []byte) {
	var r report
	if json.Unmarshal(line, &r) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r.Event {
	case "ready":
		close(p.ready)
	case "done":
		close(p.done)
	case "enter":
		p.open[r.Hold] = Held{
			Lock: r.Lock, Library: p.library, Proc: p.number, Holder: r.Holder,
			From: r.At, Till: r.At,
		}
	case "in", "exit":
		h := p.open[r.Hold]
		h.Till, h.How = r.At, r.How
		p.open[r.Hold] = h
		if r.Event == "exit" {
			delete(p.open, r.Hold)
			p.fleet.add(h)
		}
	case "failed":
		p.fleet.note(p.library + ": " + r.Text)
	default:
	}
}

// gone ends the holds of a process with what it reported last.
func (p *process) gone(err error, stderr string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.open {
		p.fleet.add(h)
	}
	select {
	case <-p.done:
		return
	default:
	}
	if !p.doomed {
		p.fleet.mu.Lock()
		defer p.fleet.mu.Unlock()
		first, _, _ := strings.Cut(stderr, "\n") // Java goes on for pages
		p.fleet.ended = append(p.fleet.ended, fmt.Sprintf("process %d, %s: %v %s", p.number, p.library, err, first))
	}
}

func (f *fleet) add(h Held) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.holds = append(f.holds, h)
}

func (f *fleet) note(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.notes[text]++
}

// Number implements [fault.Client].
func (p *process) Number() int { return p.number }

// Proxies implements [fault.Client].
func (p *process) Proxies() []*redistest.Proxy { return p.proxies }

// Kill implements [fault.Client].
func (p *process) Kill() error {
	p.mu.Lock()
	p.doomed = true
	p.mu.Unlock()
	if err := p.Process.Kill(); err != nil {
		return err
	}
	<-p.Ended()
	for _, proxy := range p.proxies {
		proxy.Cut() // none of its requests arrives from now on
	}
	next, err := p.fleet.start(p.number)
	if err != nil {
		return err
	}
	next.Tell("begin")
	return nil
}

// errNotHere says that these processes do not know a fault.
var errNotHere = errors.New("the processes of neighbours cannot do that")

// Squeeze implements [fault.Client].
func (p *process) Squeeze() error { return errNotHere }

// Stand implements [fault.Client].
func (p *process) Stand(context.Context) error { return errNotHere }

// Go implements [fault.Client].
func (p *process) Go() {}

// clients are those that should be running.
func (f *fleet) clients() []*process {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.live)
}

// begin starts n processes, and lets them work once all are connected.
func (f *fleet) begin(ctx context.Context, n int) error {
	for i := range n {
		if _, err := f.start(i + 1); err != nil {
			return err
		}
	}
	for _, p := range f.clients() {
		select {
		case <-p.ready:
		case <-p.Ended():
			return fmt.Errorf("process %d, %s: %s", p.number, p.library, p.Stderr())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for _, p := range f.clients() {
		p.Tell("begin")
	}
	return nil
}

// finish lets all processes end what they do. One that does not end in time is a failure.
func (f *fleet) finish(ctx context.Context) {
	for _, p := range f.clients() {
		p.Tell("stop")
	}
	for _, p := range f.clients() {
		select {
		case <-p.done:
		case <-p.Ended():
		case <-ctx.Done():
			f.note(p.library + ": a process did not end")
		}
	}
}

// destroy ends whatever still runs.
func (f *fleet) destroy() {
	f.mu.Lock()
	all := slices.Clone(f.all)
	f.mu.Unlock()
	for _, p := range all {
		p.mu.Lock()
		p.doomed = true
		p.mu.Unlock()
		p.Destroy()
	}
}
