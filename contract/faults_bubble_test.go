// What may happen to a world: networks, stores and processes that fail in ways that several tests need.

package contract_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// errLink is the error of a broken connection.
var errLink = errors.New("connection reset by peer")

// only makes a fault hook that fails the first n requests of one action; all if n is negative.
func only(action string, n int, err error) func(string, []string) error {
	var mu sync.Mutex
	return func(name string, _ []string) error {
		mu.Lock()
		defer mu.Unlock()
		if name != action || n == 0 {
			return nil
		}
		n--
		return err
	}
}

// slowly delays one action by the given times there and back.
func slowly(action string, there, back time.Duration) func(string) (time.Duration, time.Duration) {
	return func(name string) (time.Duration, time.Duration) {
		if name == action {
			return there, back
		}
		return 0, 0
	}
}

// grantedLater lets a server stop for a time. It has received the request that call sends, and
// carries it out when it goes on. It receives nothing else while it is stopped.
func grantedLater(w *world, stopped time.Duration, call func()) {
	resume := w.Stall()
	w.net.slow(slowly("", 0, 0))
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	synctest.Wait()
	w.net.slow(nil)
	<-done
	time.Sleep(stopped)
	resume()
	time.Sleep(2 * time.Second) // the longest pause between two cancels, and a little more
	synctest.Wait()
}

// outages are the ways in which a server may be unreachable for a while.
var outages = map[string]func(w *world) (back func()){
	"nothing is sent": func(w *world) func() {
		w.FailRequest(func(string, []string) error {
			return fmt.Errorf("%w: connection refused", holdfast.ErrUnreachable)
		})
		return func() { w.FailRequest(nil) }
	},
	"the connection breaks": func(w *world) func() {
		w.FailRequest(func(string, []string) error { return errLink })
		return func() { w.FailRequest(nil) }
	},
	"answers are lost": func(w *world) func() {
		w.LoseReply(func(string, []string) error { return errLink })
		return func() { w.LoseReply(nil) }
	},
	"silent":      func(w *world) func() { return w.Stall() },
	"loading":     refusing("LOADING"),
	"read only":   refusing("READONLY"),
	"no replicas": refusing("NOREPLICAS"),
	"disk full":   refusing("MISCONF"),
	"busy":        refusing("BUSY"),
	"no primary":  refusing("MASTERDOWN"),
	"no slots":    refusing("CLUSTERDOWN"),
	"moving":      refusing("TRYAGAIN"),
	"crowded":     refusing("MAXCLIENTS"),
}

func refusing(code string) func(w *world) func() {
	return func(w *world) func() {
		w.FailRequest(func(string, []string) error {
			return &holdfast.ServerError{Code: code, Message: code + " come back later"}
		})
		return func() { w.FailRequest(nil) }
	}
}

// plain is a store with nothing but what each must have: no clock of its own, no scan and no wait for replicas.
type plain struct{ store.Store }

// babbler is a network that gives its own answer to every request.
type babbler struct {
	*network
	answer string
}

func (b *babbler) say(answer string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer = answer
}

func (b *babbler) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	b.mu.Lock()
	answer := b.answer
	b.mu.Unlock()
	if answer != "" {
		return answer, nil
	}
	return b.network.Run(ctx, action, keys, args)
}

// described is a network to a server with the given description.
type described struct {
	*network
	info  store.ServerInfo
	err   error
	asked int
}

func (d *described) Server(context.Context) (store.ServerInfo, error) {
	d.asked++
	return d.info, d.err
}

// hooked is a store that calls a function after each action, with the context that the
// library gave it and the answer, which the function may change.
type hooked struct {
	*memstore.Store
	after func(ctx context.Context, action string, answer *string)
}

func (h *hooked) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	answer, err := h.Store.Run(ctx, action, keys, args)
	if h.after != nil {
		h.after(ctx, action.Name, &answer)
	}
	return answer, err
}

// hook makes a client of a world over such a store.
func (w *world) hook(after func(ctx context.Context, action string, answer *string)) *holdfast.Client {
	w.t.Helper()
	return w.over(&hooked{w.Store, after}, holdfast.Config{RequestTimeout: time.Second})
}

// pushlessNet is a network that refuses subscriptions while refuse is set.
type pushlessNet struct {
	*network
	refuse atomic.Pointer[error]
	asked  atomic.Int64
	slow   time.Duration // what a subscription takes
	permit string        // what the server says of its user's rights; empty: all is permitted
}

func (net *pushlessNet) Listen(ctx context.Context, channel string, l store.Listener) (func(), error) {
	net.asked.Add(1)
	if err := net.refuse.Load(); err != nil {
		if errors.Is(*err, errLink) { // a proxy that drops unknown commands
			<-ctx.Done()
		}
		return nil, *err
	}
	select {
	case <-time.After(net.slow):
		return net.network.Listen(ctx, channel, l)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (net *pushlessNet) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	if action == script.CheckACL && net.permit != "" {
		return net.permit, nil
	}
	return net.network.Run(ctx, action, keys, args)
}

// pushlessClient makes a client that cannot subscribe: the reason is err.
func (w *world) pushlessClient(err error, cfg holdfast.Config) (*holdfast.Client, *pushlessNet) {
	w.t.Helper()
	net := &pushlessNet{network: w.net}
	net.refuse.Store(&err)
	return w.over(net, cfg), net
}

var errNoPerm = &holdfast.ServerError{Code: "NOPERM", Message: "NOPERM no permission for the 'subscribe' command"}

// mortal is the connection of a process that may die, or be cut off for a while: then the server
// hears nothing of it, and it hears nothing of the server.
type mortal struct {
	*network
	cut   atomic.Bool
	stuck atomic.Bool // it cannot withdraw anything: no cancel and no note arrives
}

func (m *mortal) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	if m.cut.Load() || m.stuck.Load() && (action == script.Cancel || action == script.RegisterClient) {
		return "", errLink
	}
	return m.network.Run(ctx, action, keys, args)
}

func (m *mortal) Listen(ctx context.Context, channel string, l store.Listener) (func(), error) {
	message := l.Message
	l.Message = func(payload string) {
		if !m.cut.Load() {
			message(payload)
		}
	}
	return m.network.Listen(ctx, channel, l)
}

// mortal makes a client whose process may die.
func (w *world) mortal(cfg holdfast.Config) (*holdfast.Client, *mortal) {
	w.t.Helper()
	m := &mortal{network: w.net}
	c, err := holdfast.New(m, cfg)
	assert.Must(w.t, err)
	w.t.Cleanup(c.Abandon)
	return c, m
}
