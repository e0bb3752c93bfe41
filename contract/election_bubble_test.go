// One leader (G22), and observers that are not misled (G23).

package contract_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// campaigning starts a campaign and returns when it waits.
func campaigning(t *testing.T, e *holdfast.Election, value string) <-chan *holdfast.Leadership {
	t.Helper()
	done := make(chan *holdfast.Leadership, 1)
	go func() { done <- mustCampaign(t, e, value) }()
	synctest.Wait()
	return done
}

// wantLeader asserts the leader that another client sees.
func wantLeader(t *testing.T, e *holdfast.Election, value string, term uint64) {
	t.Helper()
	l, err := e.Leader(t.Context())
	assert.True(t, err == nil && l.Value == value && l.Token == term,
		"the leader is %+v, %v; want %q with term %d", l, err, value, term)
}

func wantNoLeader(t *testing.T, e *holdfast.Election) {
	t.Helper()
	l, err := e.Leader(t.Context())
	assert.True(t, errors.Is(err, holdfast.ErrNoLeader), "the leader is %+v, %v", l, err)
}

func TestALeaderIsSeenWithItsValueAndTerm(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, eye := w.client(holdfast.Config{App: "shop"}), w.client().Election("e")
		wantNoLeader(t, eye)
		lead := mustCampaign(t, c.Election("e"), "10.0.0.1:80")
		synctest.Wait() // the client has registered
		wantLeader(t, eye, "10.0.0.1:80", lead.Token())
		synctest.Wait() // the client registers with its first acquisition
		l, _ := eye.Leader(t.Context())
		if l.HolderID != lead.HolderID() || l.ClientID != c.ID() || l.Remaining != ttl || l.Since.IsZero() ||
			l.Client == nil || l.Client.App != "shop" {
			t.Errorf("%+v", l)
		}
		if err := lead.Proclaim(t.Context(), "a b\x00ü%"); err != nil || lead.Value() != "a b\x00ü%" {
			t.Errorf("%v, %q", err, lead.Value())
		}
		wantLeader(t, eye, "a b\x00ü%", lead.Token())
		assert.NoError(t, lead.Proclaim(t.Context(), ""))
		wantLeader(t, eye, "", lead.Token())
		time.Sleep(time.Hour)
		wantLeader(t, eye, "", lead.Token())
		resign(t, lead)
		wantNoLeader(t, eye)
		assert.Is(t, context.Cause(lead.Context()), holdfast.ErrReleased)
		assert.Is(t, lead.Proclaim(t.Context(), "x"), holdfast.ErrNotHeld)
		assert.Is(t, lead.Release(t.Context()), holdfast.ErrReleased)
		wantNoLeader(t, eye)
	})
}

func TestCandidatesFollowOneAnotherInOrderOfArrival(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		shared := w.client()
		lead := mustCampaign(t, w.client().Election("e"), "0")
		var next []<-chan *holdfast.Leadership
		for i, c := range []*holdfast.Client{w.client(), shared, w.client(), shared} {
			next = append(next, campaigning(t, c.Election("e"), fmt.Sprint(i+1)))
		}
		eye := w.client().Election("e")
		for i, n := range next {
			select {
			case <-n:
				t.Fatal("two leaders")
			default:
			}
			resign(t, lead)
			second := <-n
			assert.More(t, second.Token(), lead.Token(), "term")
			lead = second
			wantLeader(t, eye, fmt.Sprint(i+1), lead.Token())
		}
		resign(t, lead)
		w.wantFree("e")
	})
}

func TestALeaderThatIsCutOffIsToldBeforeAnotherLeads(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		cut := &network{Store: w.Store, sent: map[string]int{}}
		t.Cleanup(cut.under.Wait)
		c, err := holdfast.New(cut, holdfast.Config{})
		assert.Must(t, err)
		t.Cleanup(func() { c.Abandon() })
		lead := mustCampaign(t, c.Election("e"), "one")
		next := campaigning(t, w.client().Election("e"), "two")
		cut.slow(func(string) (there, back time.Duration) { return time.Hour, 0 })
		wantLost(t, ended(lead.Context()), holdfast.LossExpired)
		select {
		case <-next:
			t.Error("another leads before this one is told")
		default:
		}
		second := <-next
		assert.Is(t, lead.Proclaim(t.Context(), "still me"), holdfast.ErrNotHeld)
		resign(t, second)
	})
}

func TestAProclamationUnderAnOldTermChangesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lead := mustCampaign(t, w.client().Election("e"), "one")
		c := w.client()
		takeAway(t, c, "e", 0)
		wantNoLeader(t, c.Election("e"))
		second := mustCampaign(t, c.Election("e"), "two")
		assert.Is(t, lead.Proclaim(t.Context(), "one again"), holdfast.ErrNotHeld)
		assert.Is(t, lead.Err(), holdfast.ErrLost)
		wantLeader(t, c.Election("e"), "two", second.Token())
		assert.Is(t, lead.Release(t.Context()), holdfast.ErrNotHeld)
		wantLeader(t, c.Election("e"), "two", second.Token())
		resign(t, second)
	})
}

func TestAnElectionWaitsForTheEndOfTheLeadersFunction(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		errWork := errors.New("no luck")
		c := w.client()
		next := make(chan *holdfast.Leadership, 1)
		err := c.Election("e").Do(t.Context(), "one", func(ctx context.Context, lead *holdfast.Leadership) error {
			go func() { next <- mustCampaign(t, w.client().Election("e"), "two") }()
			time.Sleep(time.Minute)
			assert.NoError(t, assert.Err(c.Evict(ctx, "e", holdfast.Eviction{By: "ann", Reason: "test"})))
			wantLost(t, ended(ctx), holdfast.LossEvicted)
			assert.Is(t, lead.Err(), holdfast.ErrLost)
			time.Sleep(time.Minute) // the election waits for a function that stops slowly
			return errWork
		})
		assert.Is(t, err, errWork, holdfast.ErrNotHeld)
		resign(t, <-next)

		start := time.Now()
		err = c.Election("e").Do(t.Context(), "three", func(context.Context, *holdfast.Leadership) error {
			time.Sleep(time.Minute)
			wantLeader(t, w.client().Election("e"), "three", w.state("e").Fence)
			return nil
		})
		assert.True(t, err == nil && time.Since(start) == time.Minute, "%v after %v", err, time.Since(start))
		w.wantFree("e")
	})
}

func TestALoopCampaignsAgainAfterALoss(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		errWork := errors.New("no luck")
		terms := []uint64{0}
		err := c.Election("e").Loop(t.Context(), "v", func(ctx context.Context, lead *holdfast.Leadership) error {
			assert.More(t, lead.Token(), terms[len(terms)-1], "the term after %v", terms)
			terms = append(terms, lead.Token())
			switch len(terms) {
			case 2: // evicted
				assert.NoError(t, assert.Err(c.Evict(ctx, "e", holdfast.Eviction{By: "ann", Reason: "test"})))
				<-ctx.Done()
				return ctx.Err()
			case 3: // the server is unreachable for longer than the lease, and when it campaigns again
				w.FailRequest(func(string, []string) error { return errLink })
				time.AfterFunc(time.Minute, func() { w.FailRequest(nil) })
				<-ctx.Done()
				return nil
			}
			return errWork
		})
		assert.Is(t, err, errWork)
		assert.True(t, len(terms) == 4, "led %d times", len(terms)-1)
		w.wantFree("e")
		ctx, cancel := context.WithCancel(t.Context())
		err = c.Election("e").Loop(ctx, "v", func(ctx context.Context, _ *holdfast.Leadership) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		assert.Is(t, err, context.Canceled)
		w.wantFree("e")
	})
}

func TestAFailedCampaignLeadsNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		_, err := c.Election("e").Campaign(t.Context(), strings.Repeat("x", holdfast.MaxValue+1))
		assert.Is(t, err, holdfast.ErrInvalid)
		_, err = c.Election("").Campaign(t.Context(), "v")
		assert.Is(t, err, holdfast.ErrInvalid)
		_, err = c.Election("e").Leader(nil) //nolint:staticcheck // that is what is tested
		assert.Is(t, err, holdfast.ErrInvalid)
		assert.True(t, len(w.net.sent) == 0, "sent %v", w.net.sent)

		// A proclamation without an answer is sent again.
		w.LoseReply(only("proclaim", 2, errLink))
		lead := mustCampaign(t, c.Election("e"), strings.Repeat("x", holdfast.MaxValue))
		assert.Is(t, lead.Proclaim(lead.Context(), strings.Repeat("x", holdfast.MaxValue+1)), holdfast.ErrInvalid)
		_, err = c.Election("e").Campaign(lead.Context(), "v")
		assert.Is(t, err, holdfast.ErrDeadlock)
		_, err = w.client().Election("e", holdfast.MaxWait(time.Second)).Campaign(t.Context(), "v")
		assert.Is(t, err, holdfast.ErrHeld)
		resign(t, lead)

		w.FailRequest(only("proclaim", -1, errLink))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = c.Election("e").Campaign(ctx, "v")
		assert.Is(t, err, holdfast.ErrUnknownOutcome)
		synctest.Wait()
		w.wantFree("e")
	})
}

// sightings are the calls of an observer.
type sightings struct {
	mu   sync.Mutex
	list []string
	at   []time.Time

	cancel context.CancelFunc
	ended  chan struct{}
}

func (s *sightings) add(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list, s.at = append(s.list, what), append(s.at, time.Now())
}

func (s *sightings) want(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.True(t, fmt.Sprint(s.list) == fmt.Sprint(want), "saw %v, want %v", s.list, want)
}

// follow observes an election until the sightings are stopped.
func follow(t *testing.T, e *holdfast.Election) *sightings {
	ctx, cancel := context.WithCancel(t.Context())
	s := &sightings{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		var highest uint64
		for l, err := range e.Observe(ctx) {
			switch {
			case err != nil && errors.Is(err, holdfast.ErrUnknownOutcome):
				s.add("?")
			case err != nil:
				s.add("end")
			case l.Token == 0:
				s.add("-")
			case l.Token < highest:
				t.Errorf("term %d after %d", l.Token, highest)
			default:
				highest = l.Token
				s.add(l.Value)
			}
		}
	}()
	synctest.Wait()
	return s
}

func (s *sightings) stop() {
	s.cancel()
	<-s.ended
}

func TestAnObserverIsToldOfEveryChangeAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		eye := w.client()
		first := follow(t, eye.Election("e"))
		first.want(t, "-")
		lead := mustCampaign(t, w.client().Election("e"), "one")
		first.want(t, "-", "one")
		second := follow(t, eye.Election("e"))
		assert.Must(t, lead.Proclaim(t.Context(), "one more"))
		first.want(t, "-", "one", "one more")
		second.want(t, "one", "one more")
		next := campaigning(t, w.client().Election("e"), "two")
		start := time.Now()
		resign(t, lead)
		lead = <-next
		synctest.Wait()
		last := first.list[len(first.list)-1]
		assert.True(t, last == "two" && time.Since(start) <= time.Second, "saw %v", first.list)
		resign(t, lead)
		synctest.Wait()
		last = second.list[len(second.list)-1]
		assert.True(t, last == "-" && time.Since(start) <= time.Second, "saw %v", second.list)
		first.stop()
		second.stop()
	})
}

func TestAnObserverSeesACrashWhenTheLeaseExpires(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		_ = mustCampaign(t, c.Election("e"), "one")
		seen := follow(t, w.client().Election("e"))
		time.Sleep(time.Hour)
		asked := w.net.count("read_leader")
		assert.AtMost(t, asked, 200, "looks in an hour")
		seen.want(t, "one")
		start := time.Now()
		c.Abandon()
		time.Sleep(ttl + 100*time.Millisecond)
		seen.want(t, "one", "-")
		assert.AtMost(t, seen.at[1].Sub(start), ttl+100*time.Millisecond, "seen after")
		seen.stop()
	})
}

func TestALostPushDelaysAnObserverByAtMostALease(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		seen := follow(t, w.client().Election("e"))
		w.DropPushes(-1)
		lead := mustCampaign(t, w.client().Election("e"), "one")
		seen.want(t, "-")
		time.Sleep(ttl + 100*time.Millisecond)
		seen.want(t, "-", "one")
		resume := w.BreakSubscriptions()
		assert.Must(t, lead.Proclaim(t.Context(), "two"))
		seen.want(t, "-", "one")
		resume() // the subscription is restored: it polls
		seen.want(t, "-", "one", "two")
		seen.stop()
		resign(t, lead)
	})
}

func TestAnObserverIsToldWhenTheLeaderIsUnknown(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lead := mustCampaign(t, w.client().Election("e"), "one")
		c := w.client()
		seen := follow(t, c.Election("e"))
		broken := only("read_leader", -1, errLink)
		w.FailRequest(broken)
		time.Sleep(10 * time.Minute)
		seen.want(t, "one", "?")
		w.FailRequest(nil)
		time.Sleep(2 * time.Second)
		seen.want(t, "one", "?", "one")
		seen.stop()

		w.FailRequest(broken)
		seen = follow(t, c.Election("e"))
		seen.want(t, "?")
		w.FailRequest(func(string, []string) error {
			return &holdfast.ServerError{Code: "NOPERM", Message: "NOPERM no"}
		})
		<-seen.ended
		seen.want(t, "?", "end")
		w.FailRequest(nil)
		seen = follow(t, c.Election("e"))
		assert.NoError(t, c.Close(t.Context()))
		<-seen.ended
		seen.want(t, "one", "end")
		resign(t, lead)
		for _, err := range c.Election("").Observe(t.Context()) {
			assert.Is(t, err, holdfast.ErrInvalid)
		}
	})
}

func TestWithoutASubscriptionAnObserverPolls(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, _ := w.pushlessClient(errNoPerm, holdfast.Config{})
		seen := follow(t, c.Election("e"))
		lead := mustCampaign(t, w.client().Election("e"), "one")
		time.Sleep(ttl/3 + 100*time.Millisecond)
		seen.want(t, "-", "one")
		resign(t, lead)
		time.Sleep(ttl/3 + 100*time.Millisecond)
		seen.want(t, "-", "one", "-")
		seen.stop()
	})
}

func TestAnObserverThatStopsLeavesNothingBehind(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lead := mustCampaign(t, w.client().Election("e"), "one")
		for l, err := range w.client().Election("e").Observe(t.Context()) {
			assert.True(t, err == nil && l.Value == "one",
				"want the leader with the value one, got %+v, %v", l, err)
			break
		}
		if n := w.Publish("holdfast:watch=e", "anybody?"); n != 0 {
			synctest.Wait()
			n = w.Publish("holdfast:watch=e", "anybody?")
			assert.True(t, n == 0, "%d still listen", n)
		}
		resign(t, lead)
	})
}

// After a failover a server may answer with an old record. An observer is not told of
// that leader again.
func TestAnObserverIsNotToldOfAnEarlierLeaderAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var old string
		lags := false
		c := w.hook(func(_ context.Context, action string, answer *string) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case action != "read_leader":
			case lags:
				*answer = old
			case old == "":
				old = *answer
			}
		})
		candidate := w.client()
		first := mustCampaign(t, candidate.Election("e"), "one")
		seen := follow(t, c.Election("e"))
		resign(t, first)
		synctest.Wait()
		second := mustCampaign(t, candidate.Election("e"), "two")
		seen.want(t, "one", "-", "two")
		mu.Lock()
		lags = true
		mu.Unlock()
		assert.Must(t, second.Proclaim(t.Context(), "three"))
		seen.want(t, "one", "-", "two")
		mu.Lock()
		lags = false
		mu.Unlock()
		time.Sleep(ttl)
		seen.want(t, "one", "-", "two", "three")
		seen.stop()
		resign(t, second)
	})
}

// What an observer was told of a leader is true until its lease expires, although the
// server is unreachable.
func TestAnObserverIsNotToldOfAShortAbsenceOfTheServer(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		lead := mustCampaign(t, w.client().Election("e"), "one")
		seen := follow(t, w.client().Election("e"))
		w.FailRequest(only("read_leader", 3, errLink))
		assert.Must(t, lead.Proclaim(t.Context(), "two"))
		time.Sleep(ttl / 3)
		seen.want(t, "one", "two")
		seen.stop()
		resign(t, lead)
	})
}
