package quorum_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

const ttl = 30 * time.Second

// errRefused is the error of a dead server's port.
var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}

// peer is one server and the network to it, in virtual time.
type peer struct {
	*memstore.Store
	name  string
	start time.Time

	mu          sync.Mutex
	dead        bool
	resume      func()
	delay       func(action string) (there, back time.Duration)
	machine     *machine // what it shares with others, see overload_bubble_test.go
	stuck       bool     // see Scan
	lacks       string   // commands that the user may not run
	shortPushes bool     // its pushes grant for a short time, see shortenGrant
	sent        map[string]int
	under       sync.WaitGroup
}

// Clock is the clock of the clients: a test may set a server's clock, never theirs.
func (p *peer) Clock() func() time.Duration {
	return func() time.Duration { return time.Since(p.start) }
}

func (p *peer) Server(ctx context.Context) (store.ServerInfo, error) {
	if p.isDead() {
		return store.ServerInfo{}, errRefused
	}
	info, err := p.Store.Server(ctx)
	info.Address = p.name
	return info, err
}

func (p *peer) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	p.mu.Lock()
	p.sent[action.Name]++
	dead, delay, machine, lacks := p.dead, p.delay, p.machine, p.lacks
	p.mu.Unlock()
	if dead {
		return "", errRefused
	}
	if lacks != "" && action == script.CheckACL {
		return "missing " + lacks, nil
	}
	if delay == nil && machine == nil {
		return p.Store.Run(ctx, action, keys, args)
	}
	var there, back time.Duration
	if delay != nil {
		there, back = delay(action.Name)
	}
	type reply struct {
		answer string
		err    error
	}
	replies := make(chan reply, 1)
	p.under.Go(func() {
		time.Sleep(there)
		machine.work()
		if p.isDead() {
			return
		}
		answer, err := p.Store.Run(context.WithoutCancel(ctx), action, keys, args)
		time.Sleep(back)
		machine.work()
		if !p.isDead() {
			replies <- reply{answer, err}
		}
	})
	select {
	case r := <-replies:
		return r.answer, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Scan stops answering after its first page if stuck is set.
func (p *peer) Scan(ctx context.Context, prefix string, visit func(keys []string) error) error {
	if p.isDead() {
		return errRefused
	}
	p.mu.Lock()
	stuck := p.stuck
	p.mu.Unlock()
	if !stuck {
		return p.Store.Scan(ctx, prefix, visit)
	}
	return p.Store.Scan(ctx, prefix, func(keys []string) error {
		if err := visit(keys); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
}

func (p *peer) Listen(ctx context.Context, channel string, l store.Listener) (func(), error) {
	if p.isDead() {
		return nil, errRefused
	}
	told := l.Message
	l.Message = func(payload string) { told(p.shortenGrant(payload)) }
	return p.Store.Listen(ctx, channel, l)
}

// shortenGrant makes a push grant for two seconds, as servers do until the grant is confirmed.
func (p *peer) shortenGrant(payload string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	words := strings.Fields(payload)
	if !p.shortPushes || words[0] != "granted" {
		return payload
	}
	now := p.start.Add(p.Store.Clock()()).UnixMilli()
	return strings.Join(append(words[:4], fmt.Sprint(now), "2000"), " ")
}

func (p *peer) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// kill ends the server; its subscribers receive nothing any more.
func (p *peer) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.dead {
		p.dead, p.resume = true, p.BreakSubscriptions()
	}
}

// revive starts the server again, with its memory or without.
func (p *peer) revive(empty bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if empty {
		p.Restart()
	}
	if p.dead {
		p.dead = false
		p.resume()
	}
}

// kill ends several servers.
func (w *world) kill(servers ...int) {
	for _, i := range servers {
		w.peers[i].kill()
	}
}

// revive starts several servers again, with their memory.
func (w *world) revive(servers ...int) {
	for _, i := range servers {
		w.peers[i].revive(false)
	}
}

// setDelay sets how long each request, by its action, takes there and back.
func (p *peer) setDelay(delay func(action string) (there, back time.Duration)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = delay
}

func (p *peer) slow(there, back time.Duration) {
	p.setDelay(func(string) (time.Duration, time.Duration) { return there, back })
}

// lateNext lets the next requests of an action arrive after these times. All others take way there
// and way back. pending is how many are still to come.
func (p *peer) lateNext(action string, way time.Duration, late ...time.Duration) (pending func() int) {
	var mu sync.Mutex
	p.setDelay(func(name string) (there, back time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if name != action || len(late) == 0 {
			return way, way
		}
		there, late = late[0], late[1:]
		return there, 0
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(late)
	}
}

func (p *peer) count(action string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent[action]
}

// failing makes a fault hook that fails every request of one action.
func failing(action string, err error) func(string, []string) error {
	return func(name string, _ []string) error {
		if name == action {
			return err
		}
		return nil
	}
}

// errReset is the error of a connection that broke.
var errReset = errors.New("connection reset by peer")

// world is five servers and their clients, in one bubble of virtual time.
type world struct {
	t     *testing.T
	peers []*peer
	keep  []*holdfast.Lease
}

// skew is how far the servers' clocks are apart: no two servers draw the same token.
var skew = []time.Duration{0, 3 * time.Millisecond, -7 * time.Millisecond, 20 * time.Second, -9 * time.Second}

func bubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t}
		for i := range 5 {
			p := &peer{
				Store: memstore.New(), name: fmt.Sprintf("server-%d", i), start: time.Now(), sent: map[string]int{},
			}
			p.Advance(skew[i])
			w.peers = append(w.peers, p)
			t.Cleanup(p.under.Wait)
		}
		time.Sleep(time.Minute) // no server's clock is at its start
		f(t, w)
	})
}

// identifiedBubble is a bubble in which all servers are identified before the test begins.
func identifiedBubble(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		w.release(w.lock(c, "founding"))
		synctest.Wait()
		f(t, w)
	})
}

// store is the store of one process: a quorum of all servers.
func (w *world) store() *quorum.Store {
	w.t.Helper()
	return w.storeWith(quorum.Config{})
}

func (w *world) storeWith(cfg quorum.Config) *quorum.Store {
	w.t.Helper()
	return w.storeOver(w.nodes(), cfg)
}

// nodes are all servers.
func (w *world) nodes() []store.Store {
	nodes := make([]store.Store, len(w.peers))
	for i, p := range w.peers {
		nodes[i] = p
	}
	return nodes
}

func (w *world) storeOver(nodes []store.Store, cfg quorum.Config) *quorum.Store {
	w.t.Helper()
	s, err := quorum.New(nodes, cfg)
	assert.Must(w.t, err)
	w.t.Cleanup(s.Close)
	return s
}

// client is a client of a process of its own.
func (w *world) client() *holdfast.Client {
	w.t.Helper()
	return w.clientOf(w.store())
}

// clientOf is a client of a quorum, or of one server alone.
func (w *world) clientOf(s store.Store) *holdfast.Client {
	w.t.Helper()
	return w.clientWith(s, holdfast.Config{})
}

func (w *world) clientWith(s store.Store, cfg holdfast.Config) *holdfast.Client {
	w.t.Helper()
	c, err := holdfast.New(s, cfg)
	assert.Must(w.t, err)
	w.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// lock acquires the lock or fails the test.
func (w *world) lock(c *holdfast.Client, name string) *holdfast.Lease {
	w.t.Helper()
	ctx, cancel := w.boundedContext()
	defer cancel()
	l, err := c.Mutex(name).Lock(ctx)
	assert.Must(w.t, err)
	w.keep = append(w.keep, l)
	return l
}

// boundedContext is bounded by far more than any correct step takes, so a hang fails the test.
func (w *world) boundedContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(w.t.Context(), time.Hour)
}

func (w *world) release(l *holdfast.Lease) {
	w.t.Helper()
	assert.NoError(w.t, l.Release(w.t.Context()))
}

// on says which servers have a live holder of the lock, as 1 and 0.
func (w *world) on(name string) (held string) {
	w.t.Helper()
	for _, p := range w.peers {
		c, err := holdfast.New(p.Store, holdfast.Config{})
		assert.Must(w.t, err)
		s, err := c.Inspect(context.Background(), name)
		assert.Must(w.t, err)
		held += fmt.Sprint(len(s.Holders))
	}
	return held
}

func (w *world) wantOn(name, want string) {
	w.t.Helper()
	synctest.Wait()
	assert.Equal(w.t, w.on(name), want, "held on")
}

// coordinatorOf returns the server that keeps the lock's queue: the one with a waiter.
func (w *world) coordinatorOf(name string) int {
	w.t.Helper()
	for i, p := range w.peers {
		c, err := holdfast.New(p.Store, holdfast.Config{})
		assert.Must(w.t, err)
		if s, _ := c.Inspect(context.Background(), name); len(s.Waiters) > 0 {
			return i
		}
	}
	w.t.Fatal("nobody waits")
	return 0
}
