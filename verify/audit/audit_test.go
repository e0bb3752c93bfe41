package audit_test

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/audit"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/verify/check"
	"github.com/holdfast-go/holdfast/verify/history"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// fixture is a server whose account is subscribed to, and a client that keeps it.
type fixture struct {
	*redistest.Server
	client *holdfast.Client
	store  store.Store
	sub    *redistest.Conn
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	channel := audit.Channel(redistest.Prefix())
	s := redistest.Start(t, redistest.Allow("&"+channel))
	st := harness.GoRedis.Server(t, s.Addr(), harness.Login{}, 0)
	c, _ := harness.Client(t, audit.Store(st, channel), holdfast.Config{TTL: time.Minute})
	f := &fixture{s, c, st, s.Dial(t)}
	f.sub.Do(t, "SUBSCRIBE", channel)
	return f
}

// account is what the server has noted so far.
func (f *fixture) account(t *testing.T) *check.Run {
	t.Helper()
	f.Do(t, "PUBLISH", audit.Channel(redistest.Prefix()), "end")
	events := []history.Event{{
		Kind: history.Began, Setup: &history.Setup{TTL: time.Minute, Prefix: redistest.Prefix()},
	}}
	for {
		text := fmt.Sprint(f.sub.Receive(t).([]any)[2])
		if text == "end" {
			return check.Index(events, nil)
		}
		events = append(events, history.Event{At: history.Now(), Kind: history.Note, Text: text})
	}
}

func TestEveryHoldIsNoted(t *testing.T) {
	f := newFixture(t)
	var tokens []uint64
	for range 3 {
		l := harness.Lock(t, f.client.Mutex("x"))
		tokens = append(tokens, l.Token()/1024)
		harness.Release(t, l)
	}
	r := f.account(t)
	grants := r.Grants("x")
	assert.MustTrue(t, len(grants) == len(tokens) && r.ServerExclusion().Passed() && r.Continuity().Passed(),
		"%d holds were noted as %+v", len(tokens), grants)
	for i, g := range grants {
		if g.Token != tokens[i] || !g.Released {
			t.Errorf("the hold with token %d was noted as %+v", tokens[i], g)
		}
	}
}

// A lock that is broken on purpose grants whoever asks. The account must show it, or
// no verdict would mean anything.
func TestABrokenLockIsExposed(t *testing.T) {
	f := newFixture(t)
	held := harness.Lock(t, f.client.Mutex("x"))
	defer runtime.KeepAlive(held) // a lease that nobody has any more is reported
	broken := audit.Noted(&script.Script{Name: "acquire", Text: `#!lua
local fence = string.match(redis.call('HGET', KEYS[1], 'lock'), '^%d+')
redis.call('HSET', KEYS[1], 'lock', string.format('%d', fence + 1) .. ' 60000 ' .. ARGV[1])
return 'granted 1 0'
`}, audit.Channel(redistest.Prefix()))
	assert.Must(t, assert.Err(f.store.Run(t.Context(), broken, []string{harness.Key("x")}, []string{"b/1"})))
	if r := f.account(t); len(r.Grants("x")) != 2 || r.ServerExclusion().Passed() {
		t.Errorf("two holders at once were noted as %+v", r.Grants("x"))
	}
}

// What happens past the scripts is not noted when it happens, but the next script
// finds another record than the last one left.
func TestAForeignChangeIsNoticed(t *testing.T) {
	f := newFixture(t)
	l := harness.Lock(t, f.client.Mutex("x"))
	lock, _ := f.Do(t, "HGET", harness.Key("x"), "lock").(string)
	fence, holder, _ := strings.Cut(lock, " ")
	n, err := strconv.ParseInt(fence, 10, 64)
	assert.Must(t, err)
	f.Do(t, "HSET", harness.Key("x"), "lock", fmt.Sprint(n+1, " ", holder))
	harness.Release(t, l)
	if r := f.account(t); r.Continuity().Passed() {
		t.Errorf("a change by hand was not noticed in %+v", r.Grants("x"))
	}
}

func TestWhatIsNoNoteIsRefused(t *testing.T) {
	good := "1700000000000001\npoll\nk\nc/2\n-\n42 60000 c/2\n- 1"
	n, err := audit.Parse(good)
	assert.True(t, err == nil && n.At == 1700000000000001 && n.For("c/2") && n.After.Holder == "c/2" && n.Told == 1,
		"%+v, %v", n, err)
	for _, text := range []string{
		"", "1\npoll\nk", strings.Replace(good, "1700", "x", 1), strings.Replace(good, "42 ", "4.2 ", 1),
		good + "x", good + "\nmore",
	} {
		n, err := audit.Parse(text)
		assert.True(t, err != nil, "%q was read as %+v", text, n)
	}
}
