package adaptertest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/mark"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// PushFirst tests the PING in front of a request whose pushes are to leave the server before its answer.
func (l Library) PushFirst(t *testing.T) {
	t.Run("InFrontOfTheScript", func(t *testing.T) { l.eachProtocol(t, l.pingInFront) })
	t.Run("AnAnswerThatIsLostAfterThatOfThePING", l.lostAfterThePong)
	t.Run("APINGThatIsRefused", l.refusedPing)
	t.Run("OnlyWhereSomebodyMayWait", l.pingsWhereSomebodyMayWait)
	t.Run("InACluster", l.pingInACluster)
	t.Run("BehindSentinel", l.pingBehindSentinel)
}

// fromLibrary is how often PING may be in front of a request by chance: a client library sends some by itself.
const fromLibrary = 2

// fronts remembers which requests had PING in front of them.
type fronts struct {
	mu   sync.Mutex // guards the fields below
	last string     // the command that arrived before, on any connection
	with map[string]int
	all  map[string]int // by the digest or the text of a script
}

func watchFronts(p *redistest.Proxy) *fronts {
	f := &fronts{with: make(map[string]int), all: make(map[string]int)}
	p.Hook(func(e redistest.Event) {
		if e.Stage != redistest.Arrived {
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if len(e.Request) > 1 {
			f.all[e.Request[1]]++
			if f.last == "PING" {
				f.with[e.Request[1]]++
			}
		}
		f.last = strings.ToUpper(e.Request[0])
	})
	return f
}

func (f *fronts) of(script string) (with, all int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.with[script], f.all[script]
}

// pingInFront: the server has PING in front of the request, and the answer is that of the script, whether the
// server knows the script or not.
func (l Library) pingInFront(t *testing.T, c Client) {
	proxy := redistest.NewProxy(t, l.start(t).Addr())
	f := watchFronts(proxy)
	s := l.store(t, proxy.Addr(), c)
	first := mark.PushFirst(t.Context())
	for _, want := range []string{"1", "2", "3"} {
		got, err := s.Run(first, Incr, []string{"n"}, nil)
		assert.MustTrue(t, got == want && err == nil, "got %q, %v", got, err)
	}
	with, all := f.of(Incr.SHA1)
	assert.True(t, with == 3 && all == 3, "%d of %d EVALSHA had PING in front", with, all)
	with, all = f.of(Incr.Text)
	assert.True(t, with == 1 && all == 1, "%d of %d EVAL had PING in front", with, all)
	const more = 20
	for range more {
		assert.Must(t, assert.Err(s.Run(t.Context(), Incr, []string{"n"}, nil)))
	}
	with, all = f.of(Incr.SHA1)
	assert.True(t, all == 3+more && with-3 <= fromLibrary, "%d of %d EVALSHA had PING in front", with, all)
	// The text of a script is longer than a client library's buffer.
	long := action("return ARGV[1] --" + strings.Repeat("x", 1<<17))
	for _, want := range []string{"a", "b"} {
		got, err := s.Run(first, long, nil, []string{want})
		assert.MustTrue(t, got == want && err == nil, "a long script: got %q, %v", got, err)
	}
	_, err := s.Run(first, custom, nil, nil)
	var refused *store.ServerError
	assert.True(t, errors.As(err, &refused) && refused.Code == "BADARG", "a refusal is %v", err)
}

// lostAfterThePong: the answer to PING says nothing about the script.
func (l Library) lostAfterThePong(t *testing.T) {
	proxy := redistest.NewProxy(t, l.start(t).Addr())
	s := l.store(t, proxy.Addr(), Client{})
	first := mark.PushFirst(t.Context())
	assert.Must(t, assert.Err(s.Run(first, Incr, []string{"n"}, nil)))
	proxy.DropRepliesAndCut(1, "EVALSHA")
	got, err := s.Run(first, Incr, []string{"n"}, nil)
	assert.True(t, got == "3" && err == nil, "a script that may be repeated: %q, %v", got, err)

	once := *Incr
	once.Repeats = false
	proxy.DropRepliesAndCut(1, "EVALSHA")
	_, err = s.Run(first, &once, []string{"n"}, nil)
	var refused *store.ServerError
	assert.True(t, err != nil && !errors.As(err, &refused) && !errors.Is(err, store.ErrNotSent),
		"another one: the outcome is known: %v", err)
	got, err = s.Run(t.Context(), Read, []string{"n"}, nil)
	assert.True(t, got == "4" && err == nil, "it has run %q times, %v", got, err)
}

// refusedPing: a user without the permission is served as well. The server notes each refusal in a log, so it does
// not get another one.
func (l Library) refusedPing(t *testing.T) {
	server := l.start(t, redistest.Harness())
	server.Do(t, "ACL", "SETUSER", "some", "on", ">secret", "~*", "&*", "+@all", "-ping")
	proxy := redistest.NewProxy(t, server.Addr())
	f := watchFronts(proxy)
	s := l.store(t, proxy.Addr(), Client{User: "some", Password: "secret"})
	const times = 20
	for range times {
		got, err := s.Run(mark.PushFirst(t.Context()), Echo, nil, []string{"x"})
		assert.MustTrue(t, got == "x" && err == nil, "got %q, %v", got, err)
	}
	with, all := f.of(Echo.SHA1)
	assert.True(t, all == times && with >= 1 && with <= 1+fromLibrary, "%d of %d had PING in front", with, all)
}

// pingsWhereSomebodyMayWait: a pair without waiters costs what it has cost. When clients take turns, each release has
// a PING in front.
func (l Library) pingsWhereSomebodyMayWait(t *testing.T) {
	proxy := redistest.NewProxy(t, l.start(t).Addr())
	f := watchFronts(proxy)
	waits := make(chan struct{}, 1)
	client := func() *holdfast.Mutex {
		c, err := holdfast.New(l.store(t, proxy.Addr(), Client{}), holdfast.Config{
			Prefix: redistest.Prefix(), Observer: onWait(waits),
		})
		assert.Must(t, err)
		t.Cleanup(func() { assert.NoError(t, c.Close(context.Background())) })
		return c.Mutex("a")
	}
	one, other := client(), client()
	const pairs = 20
	for range pairs {
		assert.Must(t, one.Do(t.Context(), func(context.Context) error { return nil }))
	}
	with, all := f.of(script.Release.SHA1)
	assert.True(t, all == pairs && with <= fromLibrary, "%d of %d releases had PING in front", with, all)

	before := proxy.Count(redistest.Arrived, "PING")
	held, err := one.Lock(t.Context())
	assert.Must(t, err)
	for range pairs {
		next := make(chan *holdfast.Lease, 1)
		go func() {
			l, err := other.Lock(t.Context())
			assert.NoError(t, err)
			next <- l
		}()
		redistest.Next(t, "a waiter", waits)
		assert.Must(t, held.Release(t.Context()))
		held = redistest.Next(t, "the next lease", next)
		one, other = other, one
	}
	assert.Must(t, held.Release(t.Context()))
	// The first holder has not waited, and has not heard of the waiter. All others have waited.
	assert.True(t, proxy.Count(redistest.Arrived, "PING")-before >= pairs, "fewer PING than hand-overs")
}

// onWait tells when a waiter is in the queue.
type onWait chan struct{}

func (w onWait) Observe(e observe.Event) {
	if e.Kind == observe.EventWait {
		w <- struct{}{}
	}
}

// pingInACluster: the PING goes to the node of the lock.
func (l Library) pingInACluster(t *testing.T) {
	cluster := redistest.StartCluster(t, append([]redistest.Option{Free}, l.Needs...)...)
	s := l.OpenCluster(t, cluster)
	assert.Must(t, assert.Err(s.Run(t.Context(), Incr, []string{"n"}, nil)))
	home := cluster.Home("n")
	before := home.CommandCalls(t)["ping"]
	for range 5 {
		assert.Must(t, assert.Err(s.Run(mark.PushFirst(t.Context()), Incr, []string{"n"}, nil)))
	}
	got := home.CommandCalls(t)["ping"] - before
	assert.True(t, got >= 5, "%d PING at the node of the key", got)
}

// pingBehindSentinel: the PING goes to the primary.
func (l Library) pingBehindSentinel(t *testing.T) {
	group := redistest.StartSentinel(t, append([]redistest.Option{Free}, l.Needs...)...)
	s := l.OpenSentinel(t, group)
	for _, want := range []string{"1", "2", "3"} {
		got, err := s.Run(mark.PushFirst(t.Context()), Incr, []string{"n"}, nil)
		assert.MustTrue(t, got == want && err == nil, "got %q, %v", got, err)
	}
	got := group.Primary().CommandCalls(t)["ping"]
	assert.True(t, got >= 3, "%d PING at the primary", got)
}
