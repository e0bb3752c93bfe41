package neighbour

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

var errSilent = errors.New("no answer")

// fake is a wire and the store under it. It notes what is asked, and answers as it is told.
type fake struct {
	store.Store

	mu       sync.Mutex
	log      []string // guarded by mu: a subscription ends in a goroutine of a timer
	traits   Traits
	acquired []Outcome // the answers to Acquire, the last one again and again
	err      error     // of everything that is asked
	found    bool      // the answer to Release, Cancel and Keep
	renewals []Renewal
	state    State
	wakes    int
	mute     bool // no channel
	silent   bool // Listen fails
	heard    store.Listener
	late     bool // of the last Release or Cancel
}

func (f *fake) notef(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, fmt.Sprintf(format, args...))
}

// noted returns what was asked since the last call.
func (f *fake) noted() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	log := f.log
	f.log = nil
	return log
}

func (f *fake) Traits() Traits   { return f.traits }
func (f *fake) Wakes(string) int { return f.wakes }
func (f *fake) Channel(a Attempt) string {
	if f.mute {
		return ""
	}
	return "channel:" + a.Name
}
func (f *fake) Group(key string) string { return key[:1] }
func (f *fake) Key(name string) (string, error) {
	if name == "bad" {
		return "", errors.New("it is bad")
	}
	return name, nil
}

func (f *fake) Acquire(_ context.Context, a Attempt, wait bool) (got Outcome, err error) {
	f.notef("acquire %s %v %v", a.Name, a.Mode, wait)
	got = f.acquired[0]
	if len(f.acquired) > 1 {
		f.acquired = f.acquired[1:]
	}
	return got, f.err
}

func (f *fake) Release(_ context.Context, a Attempt) (bool, error) {
	f.notef("release %s", a.Name)
	f.late = a.Late
	return f.found, f.err
}

func (f *fake) Cancel(_ context.Context, a Attempt) (bool, error) {
	f.notef("cancel %s", a.Name)
	f.late = a.Late
	return f.found, f.err
}

func (f *fake) Keep(_ context.Context, a Attempt, left time.Duration) (bool, error) {
	f.notef("keep %s %v", a.Name, left)
	return f.found, f.err
}

func (f *fake) Renew(context.Context, []Attempt) ([]Renewal, error) { return f.renewals, f.err }
func (f *fake) Inspect(context.Context, string) (State, error)      { return f.state, f.err }
func (f *fake) Evict(context.Context, string, uint64) (int, error)  { return 1, f.err }
func (f *fake) Listen(_ context.Context, channel string, l store.Listener) (func(), error) {
	f.notef("listen %s", channel)
	if f.silent {
		return nil, errSilent
	}
	f.heard = l
	return func() { f.notef("stop %s", channel) }, nil
}

// bed is a store on a fake wire, in virtual time.
type bed struct {
	*Store
	*fake
	t *testing.T
}

func bubble(t *testing.T, test func(b bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{traits: Traits{Neighbour: "a lock", Modes: []Mode{Exclusive, Shared}}, wakes: 9}
		test(bed{New(f, f), f, t})
	})
}

const base = "holdfast:{order}:push:"

// ask runs an action on locks, by commas.
func (b bed) ask(action *script.Script, names string, args ...string) (string, error) {
	var keys []string
	for name := range strings.SplitSeq(names, ",") {
		keys = append(keys, wire.Key("holdfast", name))
	}
	defer synctest.Wait() // a new subscription says so to its waiters
	return b.Store.Run(b.t.Context(), action, keys, args)
}

func (b bed) acquire(id, mode, waiterTTL string) (string, error) {
	return b.ask(script.Acquire, "order", id, "30000", "60000", mode, waiterTTL, base)
}

func (b bed) poll(id string) (string, error) {
	return b.ask(script.Poll, "order", id, "30000", "30000", "90000", base)
}

func (b bed) cancel(id string) (string, error) {
	return b.ask(script.Cancel, "order", id, "30000", base)
}

func (b bed) release(id string) (string, error) {
	return b.ask(script.Release, "order", id, "0", "30000", base)
}

// says fails the test unless an answer is that one.
func (b bed) says(want string) func(string, error) {
	b.t.Helper()
	return func(got string, err error) {
		b.t.Helper()
		assert.True(b.t, err == nil && got == want, "the answer is %q, %v, not %q", got, err, want)
	}
}

// asked fails the test unless that was asked since the last call.
func (b bed) asked(want ...string) {
	b.t.Helper()
	assert.EqualSlices(b.t, b.noted(), want, "asked")
}

// pushes collects what is pushed to a client.
func (b bed) pushes(client string) *[]string {
	var got []string
	stop, err := b.Store.Listen(b.t.Context(), base+client, store.Listener{
		Message: func(p string) { got = append(got, p) },
	})
	assert.Must(b.t, err)
	b.t.Cleanup(stop)
	return &got
}

var held = Outcome{Left: 5 * time.Second, Holder: "x/1"}

// Whoever subscribes after the answer "held" may miss the release in between.
func TestAWaiterSubscribesBeforeTheRequestThatCounts(t *testing.T) {
	bubble(t, func(b bed) {
		b.acquired = []Outcome{{Granted: true, Token: 7}}
		b.says("granted 7 0")(b.acquire("c/1", "x", "90000"))
		b.asked("acquire order exclusive true") // no subscription: the lock was free
		b.acquired = []Outcome{held}
		b.says("queued 0 5000 1")(b.acquire("c/2", "x", "90000"))
		b.asked("acquire order exclusive true", "listen channel:order", "acquire order exclusive true")
		b.says("queued 0 5000 1")(b.poll("c/2"))
		b.says("busy 5000 x/1")(b.acquire("c/3", "s", "0"))
		b.asked("acquire order exclusive true", "acquire order shared false")
	})
}

func TestAMessageMakesAWaiterLookAgain(t *testing.T) {
	bubble(t, func(b bed) {
		b.acquired = []Outcome{held}
		pushed := b.pushes("c")
		_, _ = b.acquire("c/1", "x", "90000")
		*pushed = nil // when the subscription stood
		b.heard.Message("0")
		assert.True(t, len(*pushed) == 1 && (*pushed)[0] == lookAgain("c/1"), "pushed %q", *pushed)
		b.heard.Look(true)
		assert.True(t, len(*pushed) == 2, "after an interruption, pushed %q", *pushed)
		b.found = false
		b.says("withdrawn")(b.cancel("c/1"))
		b.heard.Message("0")
		assert.True(t, len(*pushed) == 2, "after it has left, pushed %q", *pushed)
	})
}

// A message wakes as many waiters of this process as may succeed. Those that only watch are told always.
func TestAMessageWakesAsManyAsMaySucceed(t *testing.T) {
	bubble(t, func(b bed) {
		b.acquired, b.wakes = []Outcome{held}, 1
		pushed := b.pushes("c")
		for i := range 3 {
			_, _ = b.acquire(fmt.Sprintf("c/%d", i), "x", "90000")
		}
		var watched []string
		stop, err := b.Store.Listen(t.Context(), "holdfast:{order}:watch=order", store.Listener{
			Message: func(p string) { watched = append(watched, p) },
		})
		assert.Must(t, err)
		*pushed, watched = nil, nil
		b.heard.Message("0")
		if len(*pushed) != 1 || !slices.Equal(watched, []string{"sooner"}) {
			t.Errorf("pushed %q and %q", *pushed, watched)
		}
		stop()
		b.heard.Message("0")
		assert.True(t, len(watched) == 1, "after its end: %q", watched)
	})
}

func TestAWaiterThatHearsNothingPolls(t *testing.T) {
	bubble(t, func(b bed) {
		b.acquired, b.silent = []Outcome{held}, true
		b.says("queued 0 1000 1")(b.acquire("c/1", "x", "90000"))
		b.silent = false
		time.Sleep(subscribeAgain + time.Millisecond)
		b.says("queued 0 5000 1")(b.poll("c/1"))
		b.asked("acquire order exclusive true", "listen channel:order",
			"listen channel:order", "acquire order exclusive true")
	})
}

func TestASubscriptionEndsAfterItsLastWaiter(t *testing.T) {
	bubble(t, func(b bed) {
		b.acquired = []Outcome{held}
		_, _ = b.acquire("c/1", "x", "90000")
		_, _ = b.cancel("c/1")
		b.noted()
		time.Sleep(linger - time.Millisecond)
		synctest.Wait()
		b.asked()
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		b.asked("stop channel:order")
	})
}

// A request without an answer may still take the lock, so a cancel that finds nothing is no end.
func TestACancelGoesOnWhileALateRequestMayArrive(t *testing.T) {
	bubble(t, func(b bed) {
		b.acquired, b.err = []Outcome{held}, errSilent
		_, err := b.acquire("c/1", "x", "90000")
		assert.MustTrue(t, errors.Is(err, errSilent), "%v", err)
		b.err = nil
		for range 3 {
			b.says("none")(b.cancel("c/1"))
		}
		assert.True(t, b.late, "the wire is not told of the late request")
		b.found = true
		b.says("released")(b.cancel("c/1"))
		b.found = false
		b.says("none")(b.cancel("c/1"))
		assert.False(t, b.late, "the request is late for ever")

		// What a cancel finds after a grant is that of the request which was granted: the other one may still arrive.
		b.acquired, b.err = []Outcome{held}, errSilent
		_, err = b.acquire("c/2", "x", "90000")
		assert.MustTrue(t, errors.Is(err, errSilent), "%v", err)
		b.acquired, b.err, b.found = []Outcome{{Granted: true}}, nil, true
		b.says("granted 0 0")(b.poll("c/2"))
		b.says("none")(b.cancel("c/2"))
	})
}

func TestAReleaseTellsTheWireOfALatePoll(t *testing.T) {
	bubble(t, func(b bed) {
		b.acquired = []Outcome{held}
		_, _ = b.acquire("c/1", "x", "90000")
		b.err = errSilent
		_, err := b.poll("c/1")
		assert.MustTrue(t, errors.Is(err, errSilent), "%v", err)
		b.err, b.acquired, b.found = nil, []Outcome{{Granted: true}}, true
		b.says("granted 0 0")(b.poll("c/1"))
		b.says("released")(b.release("c/1"))
		assert.True(t, b.late, "the wire is not told")
		b.says("gone")(b.poll("c/1"))
	})
}

func TestAnAttemptThatHasLeftGetsNothing(t *testing.T) {
	bubble(t, func(b bed) {
		b.acquired = []Outcome{held, {Gone: true}}
		_, _ = b.acquire("c/1", "x", "0")
		b.noted()
		b.says("gone")(b.acquire("c/1", "x", "90000"))
		b.asked("acquire order exclusive true")
		b.says("gone")(b.poll("c/1"))
		b.asked()
	})
}

// The second request finds nothing, because the first one has done it.
func TestAReleaseWithoutAnAnswerIsRepeated(t *testing.T) {
	bubble(t, func(b bed) {
		b.acquired = []Outcome{{Granted: true}}
		_, _ = b.acquire("c/1", "x", "0")
		b.err = errSilent
		_, err := b.release("c/1")
		assert.MustTrue(t, errors.Is(err, errSilent), "%v", err)
		b.err = nil
		b.says("released")(b.release("c/1"))
		b.says("gone")(b.release("c/1"))
		_, _ = b.acquire("c/2", "x", "0")
		b.says("gone")(b.release("c/2")) // lost, and not released
		_, _ = b.acquire("c/3", "x", "0")
		b.err = errSilent
		_, _ = b.release("c/3")
		b.err = nil
		time.Sleep(time.Minute)
		b.says("gone")(b.release("c/3")) // its lease was over meanwhile: perhaps it was lost
	})
}

func TestTheMinimumTimeIsKept(t *testing.T) {
	bubble(t, func(b bed) {
		after := func(minHold string) (string, error) {
			return b.ask(script.ReleaseAfter, "order", "c/1", "0", minHold, "0", "30000", base)
		}
		b.acquired, b.found = []Outcome{{Granted: true}}, true
		_, _ = b.acquire("c/1", "x", "0")
		time.Sleep(4 * time.Second)
		b.noted()
		b.says("kept 6000")(after("10000"))
		b.asked("keep order 6s")
		_, _ = b.acquire("c/1", "x", "0")
		time.Sleep(4 * time.Second)
		b.noted()
		b.says("released")(after("4000"))
		b.asked("release order")
	})
}

func TestSeveralLocksAreAllOrNone(t *testing.T) {
	bubble(t, func(b bed) {
		all := func() (string, error) {
			return b.ask(script.AcquireAll, "a,b,c", "c/1", "30000", "30000", base, base, base)
		}
		free, taken := Outcome{Granted: true, Token: 3}, held
		b.acquired = []Outcome{free}
		b.says("granted 3 0 3 0 3 0")(all())
		b.noted()
		b.acquired = []Outcome{free, free, taken}
		b.says("busy 3 5000 x/1")(all())
		b.asked("acquire a exclusive false", "acquire b exclusive false", "acquire c exclusive false",
			"cancel a", "cancel b")
	})
}

func TestARenewalIsAnsweredForEachHold(t *testing.T) {
	bubble(t, func(b bed) {
		renew := func() (string, error) {
			return b.ask(script.Renew, "a,b,c", "30000", "30000", "c/1", "c/2", "c/3")
		}
		b.renewals = []Renewal{Renewed, Gone, Unsure}
		b.says("renewed 0 - ?")(renew())
		b.renewals = b.renewals[:2]
		answer, err := renew()
		assert.True(t, err != nil, "two answers for three holds: %q", answer)
	})
}

func TestAnEvictionIsToldToTheHoldersHere(t *testing.T) {
	bubble(t, func(b bed) {
		b.acquired = []Outcome{{Granted: true}}
		pushed := b.pushes("c")
		_, _ = b.acquire("c/1", "x", "0")
		b.says("evicted 1")(b.ask(script.Evict, "order", "ann", "test", "0", "30000", base))
		assert.True(t, slices.Equal(*pushed, []string{"evicted c/1"}), "pushed %q", *pushed)
	})
}

// What cannot be carried is refused before anything is asked.
func TestWhatCannotBeCarriedIsRefused(t *testing.T) {
	bubble(t, func(b bed) {
		for what, call := range map[string]func() (string, error){
			"permits": func() (string, error) { return b.acquire("c/1", "p:1:3", "0") },
			"Owner": func() (string, error) {
				return b.ask(script.Acquire, "order", "c/1", "30000", "60000", "x", "0", base, "ann")
			},
			"Upgrade":  func() (string, error) { return b.ask(script.Convert, "order") },
			"Election": func() (string, error) { return b.ask(script.Proclaim, "order") },
			"by force": func() (string, error) {
				return b.ask(script.Evict, "order", "ann", "test", wire.Force, "30000", base, "c/2", "0")
			},
			"another store": func() (string, error) {
				return b.Store.Run(t.Context(), script.Cancel, []string{"order"}, []string{"c/1", "1", base})
			},
			"it is bad": func() (string, error) {
				return b.ask(script.Cancel, "bad", "c/1", "30000", base)
			},
			"Periodic": func() (string, error) {
				key := wire.PeriodicKey("holdfast", "job")
				return b.Store.Run(t.Context(), script.Cancel, []string{key}, []string{"c/1", "1", base})
			},
		} {
			answer, err := call()
			assert.True(t, errors.Is(err, ErrUnsupported) && definite(err) && strings.Contains(err.Error(), what),
				"%s: %q, %v", what, answer, err)
		}
		b.asked()
	})
}

func TestAnActionWithWrongArgumentsAsksNothing(t *testing.T) {
	bubble(t, func(b bed) {
		for _, args := range [][]string{
			nil,
			{"c/1", "30000"},
			{"c/1", "30000", "60000", "x", "0", base, "", "more"},
			{"c/1", "soon", "60000", "x", "0", base},
			{"c/1", "-1", "60000", "x", "0", base},
			{"c/1", "99999999999999999", "60000", "x", "0", base},
			{"c/1", "30000", "60000", "q", "0", base},
			{"c/1", "30000", "60000", "p:0:3", "0", base},
			{"c/1", "30000", "60000", "p:1", "0", base},
		} {
			answer, err := b.ask(script.Acquire, "order", args...)
			assert.True(t, errors.Is(err, errInvalidCall) && definite(err),
				"%q: %q, %v; want a refusal before anything was sent", args, answer, err)
		}
		b.asked()
	})
}

// If nobody asks about an attempt any more, it is forgotten: at the latest when there are twice as many.
func TestAttemptsThatNobodyAsksAboutAreForgotten(t *testing.T) {
	bubble(t, func(b bed) {
		b.acquired = []Outcome{{Granted: true}}
		for i := range minSweep {
			_, _ = b.acquire(fmt.Sprintf("c/%d", i), "x", "0")
		}
		time.Sleep(time.Minute + time.Second)
		_, _ = b.acquire("d/1", "x", "0")
		assert.Equal(t, len(b.entries), 1, "attempts are remembered")
	})
}

func TestWhenAWaiterLooksAgain(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		left, every time.Duration
		hears       bool
		want        time.Duration
	}{
		{5 * s, 0, true, 5 * s},
		{5 * s, 0, false, s},                       // nothing will be heard
		{s / 2, 0, false, s / 2},                   // the holder's lease ends sooner
		{Unknown, 0, true, unbounded},              // the client's heartbeat comes first
		{0, 0, true, soonest},                      // never without a pause
		{5 * s, s / 10, true, s / 10},              // a wire without messages
		{5 * s, s / 10, false, s / 10},             // the same
		{time.Millisecond, s / 10, false, soonest}, // the same
	} {
		assert.Equal(t, lookAfter(c.left, 30*s, c.every, c.hears), c.want, "%+v", c)
	}
}

func TestWhenACancelIsOver(t *testing.T) {
	for _, c := range []struct {
		found, waiting bool
		unsure         int
		answer         string
		over           bool
	}{
		{true, false, 0, "released", true},
		{true, true, 0, "released", true},
		{false, true, 0, "withdrawn", true},
		{false, false, 0, "none", true},
		{false, true, 1, "none", false},
		{true, false, 1, "none", false},
	} {
		answer, over := cancelled(c.found, c.waiting, c.unsure)
		assert.True(t, answer == c.answer && over == c.over, "%+v: %q, %v", c, answer, over)
	}
}

// A lock that counts its holders is free for a reader while only readers are in, and for permits while
// enough are left.
func TestAwaitFreeKnowsTheModes(t *testing.T) {
	bubble(t, func(b bed) {
		b.Store.traits.Modes = []Mode{Exclusive, Shared, Permits}
		for mode, want := range map[string]string{
			"x": "busy 5000", "s": "free", "p:2:3": "free", "p:3:3": "busy 5000",
		} {
			b.state = State{Limit: 3, Holders: []Holder{{Mode: Shared, Permits: 1, Left: 5 * time.Second}}}
			b.says(want)(b.ask(script.AwaitFree, "order", mode, "c", "90000", base))
		}
		b.mute = true // no message tells a watcher, so it asks
		b.says("busy 1000")(b.ask(script.AwaitFree, "order", "x", "c", "90000", base))
		b.state = State{Absent: true} // the first acquisition sets the limit
		b.says("free")(b.ask(script.AwaitFree, "order", "p:3:3", "c", "90000", base))
	})
}
