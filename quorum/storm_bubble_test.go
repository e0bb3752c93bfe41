package quorum_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// process is a client program with a network of its own.
type process struct {
	mu    sync.Mutex
	gone  bool          // killed: none of its requests reaches a server any more
	cut   chan struct{} // nothing gets through until it is closed; nil: everything does
	stops map[int]func()
	next  int
}

// awaitNetwork returns when the network lets the process through.
func (p *process) awaitNetwork(ctx context.Context) error {
	for {
		p.mu.Lock()
		gone, cut := p.gone, p.cut
		p.mu.Unlock()
		switch {
		case gone:
			return errRefused
		case cut == nil:
			return nil
		}
		select {
		case <-cut:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// kill ends the process: the servers see that its subscriptions are gone.
func (p *process) kill() {
	p.mu.Lock()
	p.gone = true
	stops := p.stops
	p.stops = nil
	p.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}

// link is the connection of a process to a server.
type link struct {
	*peer
	p *process
}

func (l link) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	if err := l.p.awaitNetwork(ctx); err != nil {
		return "", err
	}
	answer, err := l.peer.Run(ctx, action, keys, args)
	if err := l.p.awaitNetwork(ctx); err != nil {
		return "", err
	}
	return answer, err
}

func (l link) Server(ctx context.Context) (store.ServerInfo, error) {
	if err := l.p.awaitNetwork(ctx); err != nil {
		return store.ServerInfo{}, err
	}
	return l.peer.Server(ctx)
}

func (l link) Listen(ctx context.Context, channel string, to store.Listener) (func(), error) {
	if err := l.p.awaitNetwork(ctx); err != nil {
		return nil, err
	}
	told := to.Message
	to.Message = func(payload string) {
		l.p.mu.Lock()
		hears := !l.p.gone && l.p.cut == nil
		l.p.mu.Unlock()
		if hears {
			told(payload)
		}
	}
	stop, err := l.peer.Listen(ctx, channel, to)
	if err != nil {
		return nil, err
	}
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	if l.p.gone {
		go stop()
		return func() {}, nil
	}
	n := l.p.next
	l.p.next++
	l.p.stops[n] = stop
	return func() {
		l.p.mu.Lock()
		delete(l.p.stops, n)
		l.p.mu.Unlock()
		stop()
	}, nil
}

// storm is a run of processes that want the same locks while several faults are active.
type storm struct {
	*world
	random *rand.Rand
	ttl    time.Duration
	procs  [3]*process
	ends   [3]func()
	all    sync.WaitGroup
	begun  time.Time

	change sync.Mutex // guards procs and ends while faults are active

	mu   sync.Mutex
	last map[string]time.Time // when each lock was last granted
	log  []string
}

// logf logs what happens, for whoever reads why a run failed.
func (s *storm) logf(format string, a ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf("%8.3f %s", time.Since(s.begun).Seconds(), fmt.Sprintf(format, a...)))
}

// start starts process i.
func (s *storm) start(i int) {
	p := &process{stops: map[int]func(){}}
	nodes := make([]store.Store, len(s.peers))
	for n, peer := range s.peers {
		nodes[n] = link{peer, p}
	}
	q, err := quorum.New(nodes, quorum.Config{MaxTTL: s.ttl})
	assert.Must(s.t, err)
	c, err := holdfast.New(q, holdfast.Config{})
	assert.Must(s.t, err)
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	for _, name := range []string{"crowd", "crowd", "crowd", "crowd", "pair"} {
		work.Go(func() { s.work(ctx, c, name) })
	}
	s.procs[i] = p
	s.ends[i] = func() {
		stop()
		s.all.Go(func() {
			work.Wait()
			_ = c.Close(context.Background()) // nobody notices if the process was killed
			q.Close()
		})
	}
}

// work acquires and releases a lock again and again.
func (s *storm) work(ctx context.Context, c *holdfast.Client, name string) {
	m := c.Mutex(name, holdfast.TTL(s.ttl))
	for ctx.Err() == nil {
		l, err := m.Lock(ctx)
		if err != nil {
			continue
		}
		s.mu.Lock()
		s.last[name] = time.Now()
		s.mu.Unlock()
		time.Sleep(time.Duration(s.random.Int64N(int64(20 * time.Millisecond))))
		_ = l.Release(ctx) // done, or under way
	}
}

// somePeers returns one or two of the servers.
func (s *storm) somePeers() (list []*peer) {
	for _, i := range s.random.Perm(len(s.peers))[:1+s.random.IntN(2)] {
		list = append(list, s.peers[i])
	}
	return list
}

// fault starts a fault that lasts for a while.
func (s *storm) fault() {
	long := time.Duration(500+s.random.IntN(3500)) * time.Millisecond
	if s.random.IntN(4) == 0 {
		s.harmProcess(long)
		return
	}
	servers := s.somePeers()
	kind := s.random.IntN(len(faults))
	what := faults[kind]
	if what.all {
		servers = s.peers[:3]
	}
	var names []string
	for _, p := range servers {
		names = append(names, p.name)
	}
	s.logf("%s for %v: %s", what.name, long, strings.Join(names, " "))
	var ends []func()
	for _, p := range servers {
		ends = append(ends, what.begin(s, p))
	}
	time.Sleep(long)
	for _, end := range ends {
		end()
	}
}

// faults are what can happen to servers. begin returns the function that ends the fault.
var faults = []struct {
	name  string
	all   bool // it affects a majority
	begin func(s *storm, p *peer) (end func())
}{
	{"dead", false, func(_ *storm, p *peer) func() { p.kill(); return func() { p.revive(false) } }},
	{"dead, and then empty", false, func(_ *storm, p *peer) func() { p.kill(); return func() { p.revive(true) } }},
	{"silent", false, func(_ *storm, p *peer) func() { return p.Stall() }},
	{"its subscriptions end", false, func(_ *storm, p *peer) func() { return p.BreakSubscriptions() }},
	{"ahead by a lease", false, func(s *storm, p *peer) func() { return moved(p, s.ttl*6/5) }},
	{"ahead by an hour", false, func(_ *storm, p *peer) func() { return moved(p, time.Hour) }},
	{"behind by an hour", false, func(_ *storm, p *peer) func() { return moved(p, -time.Hour) }},
	{"ahead by a lease, most of them", true, func(s *storm, p *peer) func() { return moved(p, s.ttl*6/5) }},
	{"takes no writes", false, func(_ *storm, p *peer) func() {
		p.FailRequest(func(string, []string) error {
			return &store.ServerError{Code: "READONLY", Message: "READONLY it is a replica"}
		})
		return func() { p.FailRequest(nil) }
	}},
	{"answers are lost", false, func(s *storm, p *peer) func() {
		p.LoseReply(func(string, []string) error {
			if s.random.IntN(3) == 0 {
				return errReset
			}
			return nil
		})
		return func() { p.LoseReply(nil) }
	}},
	{"late", true, func(s *storm, _ *peer) func() {
		s.late(s.random)
		return func() {
			for _, p := range s.peers {
				p.slow(time.Millisecond, time.Millisecond)
			}
		}
	}},
}

func moved(p *peer, by time.Duration) (back func()) {
	p.Advance(by)
	return func() { p.Advance(-by) }
}

// harmProcess kills a process and starts another one in its place, or cuts it off.
func (s *storm) harmProcess(long time.Duration) {
	i := s.random.IntN(len(s.procs))
	s.change.Lock()
	p := s.procs[i]
	if s.random.IntN(3) == 0 {
		s.logf("process %d is killed", i)
		p.kill()
		s.ends[i]()
		s.start(i)
		s.change.Unlock()
		return
	}
	s.change.Unlock()
	cut := make(chan struct{})
	p.mu.Lock()
	if p.cut != nil {
		p.mu.Unlock()
		return
	}
	p.cut = cut
	p.mu.Unlock()
	s.logf("process %d is cut off for %v", i, long)
	time.Sleep(long)
	p.mu.Lock()
	p.cut = nil
	p.mu.Unlock()
	close(cut)
}

// checkProgress reports the locks that nobody has held recently, with everything that is
// known.
func (s *storm) checkProgress(over time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, at := range s.last {
		if !at.Before(over) {
			continue
		}
		s.t.Errorf("%v after the last fault nobody has had %q again", time.Since(over), name)
		for _, p := range s.peers {
			s.t.Logf("%s: %v", p.name, p.Dump("holdfast:{"+name+"}"))
		}
		s.t.Log(strings.Join(s.log, "\n"))
	}
}

var runs = flag.Int("storms", max(2/few, 1), "how many runs in which faults meet")

// Whatever faults were active together, every lock is granted again soon after the last of
// them.
func TestLocksAreGrantedAgainAfterManyFaults(t *testing.T) {
	for seed := range uint64(*runs) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, w *world) {
				s := &storm{
					world: w, random: rand.New(&lockedSource{src: rand.NewPCG(seed, 0)}), ttl: 3 * time.Second,
					begun: time.Now(), last: map[string]time.Time{},
				}
				for _, p := range w.peers {
					p.slow(time.Millisecond, time.Millisecond)
				}
				for i := range s.procs {
					s.start(i)
				}
				for time.Since(s.begun) < time.Minute/min(few, 4) {
					var about sync.WaitGroup
					for range 1 + s.random.IntN(3) {
						about.Go(func() {
							time.Sleep(time.Duration(s.random.Int64N(int64(time.Second))))
							s.fault()
						})
					}
					about.Wait()
					time.Sleep(time.Duration(s.random.Int64N(int64(time.Second))))
				}
				over := time.Now()
				s.logf("over")
				time.Sleep(5 * s.ttl)
				synctest.Wait()
				s.checkProgress(over)
				for _, end := range s.ends {
					end()
				}
				s.all.Wait()
			})
		})
	}
}
