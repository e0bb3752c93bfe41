package hold

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/commandline"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/script"
)

// seen is one look at a server, and what comes of it.
type seen struct {
	at      time.Duration
	answers bool
	tell    bool
	next    time.Duration
}

func TestAnOutageIsToldNowAndThen(t *testing.T) {
	noon := time.Unix(1000, 0)
	for name, looks := range map[string][]seen{
		"a server that is away for good": {
			{0, false, false, firstTold},
			{firstTold, false, true, time.Minute},
			{firstTold + time.Minute, false, true, time.Minute},
		},
		"a server that comes and goes": {
			{0, false, false, firstTold},
			{firstTold, false, true, time.Minute},
			{10 * time.Second, true, false, time.Minute},
			{20 * time.Second, false, false, 43 * time.Second},
			{63 * time.Second, false, true, time.Minute},
		},
		"a server that answers": {{0, true, false, time.Minute}, {time.Minute, true, false, time.Minute}},
	} {
		o := outage{again: time.Minute}
		for _, l := range looks {
			tell, next := o.look(noon.Add(l.at), l.answers)
			assert.True(t, tell == l.tell && next == l.next,
				"%s, at %v: told %v, next look in %v", name, l.at, tell, next)
		}
	}
}

// awayStore is a server that does not answer while away is set.
type awayStore struct {
	*memstore.Store
	away atomic.Bool
}

func (s *awayStore) Run(ctx context.Context, what *script.Script, keys, args []string) (string, error) {
	if s.away.Load() {
		return "", &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return s.Store.Run(ctx, what, keys, args)
}

// timed notes when each line was written.
type timed struct {
	began time.Time
	mu    sync.Mutex
	lines []string
}

func (w *timed) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, fmt.Sprintf("%v %s", time.Since(w.began).Round(time.Second), b))
	return len(b), nil
}

// A run waits in the queue, its server goes away and comes back, and goes away again: what is printed, and when.
func TestAWaitSaysThatItsServerDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at, err := target.Parse("redis://h:1")
		assert.Must(t, err)
		store := &awayStore{Store: memstore.New()}
		c, err := holdfast.New(store, holdfast.Config{})
		assert.Must(t, err)
		defer c.Close(context.Background())
		said := &timed{began: time.Now()}
		r := &session{
			runOptions: &runOptions{names: []string{"x"}, limited: true, wait: commandline.Span(10 * time.Minute)},
			say:        &say.Printer{W: said}, away: make(chan error, 1),
			server: &target.Server{Client: c, Store: store,
				Targets: []*target.Target{at}, Address: at.Address(), ByHand: true},
		}
		end := r.watchServer(true)
		time.Sleep(30 * time.Second)
		store.away.Store(true)
		time.Sleep(2 * time.Minute) // until 2m30s
		store.away.Store(false)
		time.Sleep(2 * time.Minute) // until 4m30s
		store.away.Store(true)
		r.isAway(syscall.ECONNREFUSED)
		time.Sleep(30 * time.Second)
		end()
		synctest.Wait()
		text := strings.Join(said.lines, "")
		const away = "holdfast: warning: no server answers at redis://h:1: connection refused; waiting for the server for "
		for _, want := range []string{
			"1m6s " + away + "3s; holdfast gives up in 8m54s\n",
			"2m6s " + away + "1m3s; holdfast gives up in 7m54s\n",
			"4m33s " + away + "3s; holdfast gives up in 5m27s\n",
		} {
			assert.Contains(t, text, want)
		}
		assert.Equal(t, strings.Count(text, "warning"), 3, "%s", text)
		assert.Equal(t, strings.Count(text, "hint: "), 1, "%s", text)
	})
}

// Without a terminal, a wait says once who holds the lock, however often it has to queue again.
func TestALongWaitSaysOnceWhoHoldsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := holdfast.New(memstore.New(), holdfast.Config{App: "report"})
		assert.Must(t, err)
		defer c.Close(context.Background())
		lease, err := c.Mutex("x").Lock(t.Context())
		assert.Must(t, err)
		defer lease.Release(context.Background())
		said := &timed{began: time.Now()}
		r := &session{
			runOptions: &runOptions{names: []string{"x"}}, events: &events{names: []string{"x"}},
			say: &say.Printer{W: said, Level: say.Normal}, waiting: make(chan observe.Event),
			server: &target.Server{Client: c},
		}
		done := make(chan struct{})
		go r.waitOn(t.Context(), done)
		for range 4 {
			r.waiting <- observe.Event{Kind: observe.EventWait, Name: "x", Position: 1}
			time.Sleep(4 * time.Second)
		}
		close(done)
		synctest.Wait()
		assert.Equal(t, len(said.lines), 1, "%q", said.lines)
		assert.Contains(t, said.lines[0], `5s holdfast: waiting for "x", held by report@`)
	})
}
