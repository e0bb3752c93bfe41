package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/proto"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// server is what a world's requests arrive at.
type server interface {
	Run(ctx context.Context, action *script.Script, keys, args []string) (string, error)
	Listen(ctx context.Context, channel string, l store.Listener) (func(), error)
	Dump(key string) map[string]string
	TTL(key string) time.Duration
	Keys() []string
	Flush()
	SetClock(clock func() time.Time)
}

// memory is the actions as memstore does them.
func memory(*testing.T) server {
	naming.Lock() // it draws from the source that naming guards
	defer naming.Unlock()
	return memstore.New()
}

// scripts is the actions as their scripts do them, run by miniredis, which is in
// this process and lives in virtual time as well.
func scripts(t *testing.T) server {
	t.Helper()
	m := miniredis.NewMiniRedis()
	conn, err := m.Dial()
	assert.Must(t, err)
	t.Cleanup(m.Close)
	return &scripted{m: m, conn: proto.NewClient(conn)}
}

// scripted belongs to the scheduler, but for the ends of subscriptions.
type scripted struct {
	m     *miniredis.Miniredis
	conn  *proto.Client
	clock func() time.Time
	was   time.Time // the last time that the server was told
}

func (s *scripted) SetClock(clock func() time.Time) { s.clock, s.was = clock, clock() }

// tick tells the server the time. Keys live until a millisecond of its clock: when
// that is set back they live longer.
func (s *scripted) tick() {
	now := s.clock()
	s.m.SetTime(now)
	s.m.FastForward(time.Duration(now.UnixMilli()-s.was.UnixMilli()) * time.Millisecond)
	s.was = now
}

func (s *scripted) Run(_ context.Context, action *script.Script, keys, args []string) (string, error) {
	if action == script.CheckACL {
		return "permitted", nil // miniredis knows no rights
	}
	s.tick()
	// miniredis knows no declarations, and refuses no writes.
	words := slices.Concat([]string{"EVAL", action.Body(), fmt.Sprint(len(keys))}, keys, args)
	raw, err := s.conn.Do(words...)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(raw, "-") {
		return "", &holdfast.ServerError{Code: "ERR", Message: strings.TrimSpace(raw[1:])}
	}
	return proto.ReadString(raw)
}

// Listen subscribes. What is published is passed on by a goroutine, as on a
// connection.
func (s *scripted) Listen(_ context.Context, channel string, l store.Listener) (func(), error) {
	sub := s.m.NewSubscriber()
	sub.Subscribe(channel)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case m := <-sub.Messages():
				l.Message(m.Message)
			case <-done:
				return
			}
		}
	}()
	return sync.OnceFunc(func() {
		sub.Unsubscribe(channel)
		close(done)
		<-ended
	}), nil
}

func (s *scripted) Dump(key string) map[string]string {
	s.tick()
	fields, _ := s.m.HKeys(key) // the error is that there is no such key
	if len(fields) == 0 {
		return nil
	}
	all := make(map[string]string, len(fields))
	for _, f := range fields {
		all[f] = s.m.HGet(key, f)
	}
	return all
}

func (s *scripted) TTL(key string) time.Duration {
	s.tick()
	switch life := s.m.TTL(key); {
	case life > 0:
		return life
	case s.m.Exists(key):
		return -1
	}
	return -2
}

func (s *scripted) Keys() []string {
	s.tick()
	return s.m.Keys()
}

func (s *scripted) Flush() { s.m.FlushAll() }

// twins is both at once: every request goes to both, and both must answer and push the same,
// and keep the same records. A world hears the first one only.
type twins struct {
	one, two server

	mu       sync.Mutex
	pushed   map[string]*[2][]string // by channel: what each has pushed, and the other has not yet
	parted   error                   // the first difference
	requests int
}

func newTwins(t *testing.T) *twins {
	t.Helper()
	return &twins{one: memory(t), two: scripts(t), pushed: map[string]*[2][]string{}}
}

// part notes a difference, if it is one.
func (w *twins) part(what string, one, two any) {
	if a, b := fmt.Sprint(one), fmt.Sprint(two); a != b && w.parted == nil {
		w.parted = fmt.Errorf("%s: memstore says %q, the scripts say %q", what, a, b)
	}
}

func (w *twins) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	w.comparePushes()
	w.requests++
	one, errOne := w.one.Run(ctx, action, keys, args)
	two, errTwo := w.two.Run(ctx, action, keys, args)
	w.part(action.Name, fmt.Sprint(one, errOne), fmt.Sprint(two, errTwo))
	if w.parted != nil {
		return "", w.parted
	}
	return one, errOne
}

// comparePushes compares what was pushed before. Everything that was has arrived: the scheduler
// waits until every other goroutine sleeps.
func (w *twins) comparePushes() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for channel, both := range w.pushed {
		w.part("pushes to "+channel, both[0], both[1])
		*both = [2][]string{}
	}
}

func (w *twins) Listen(ctx context.Context, channel string, l store.Listener) (func(), error) {
	keep := func(i int, payload string) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.pushed[channel] == nil {
			w.pushed[channel] = &[2][]string{}
		}
		w.pushed[channel][i] = append(w.pushed[channel][i], payload)
	}
	first := l.Message
	l.Message = func(payload string) { keep(0, payload); first(payload) }
	stopOne, err := w.one.Listen(ctx, channel, l)
	if err != nil {
		return nil, err
	}
	stopTwo, err := w.two.Listen(ctx, channel, store.Listener{Message: func(payload string) { keep(1, payload) }})
	if err != nil {
		stopOne()
		return nil, err
	}
	return func() { stopOne(); stopTwo() }, nil
}

func (w *twins) Dump(key string) map[string]string {
	one, two := w.one.Dump(key), w.two.Dump(key)
	w.part(key, one, two)
	return one
}

func (w *twins) TTL(key string) time.Duration {
	one, two := w.one.TTL(key), w.two.TTL(key)
	w.part("life of "+key, one, two)
	return one
}

func (w *twins) Keys() []string {
	one, two := w.one.Keys(), w.two.Keys()
	slices.Sort(one)
	slices.Sort(two)
	w.part("keys", one, two)
	return one
}

func (w *twins) Flush() {
	w.one.Flush()
	w.two.Flush()
}

func (w *twins) SetClock(clock func() time.Time) {
	w.one.SetClock(clock)
	w.two.SetClock(clock)
}
