package contract_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// waiting starts an acquisition that has to wait, and returns when it is in the wait
// queue. The lease, or the error, comes over the channel.
func (w *world) waiting(m *holdfast.Mutex, ctx context.Context) <-chan outcome { //nolint:revive // as m.Lock(ctx)
	return acquiring(ctx, m.Lock)
}

// outcome is how an acquisition ended.
type outcome struct {
	*holdfast.Lease
	err error
	at  time.Time
}

func TestALostPushCostsAPollAndNeverTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		next := w.waiting(b.Mutex("a"), t.Context())
		time.Sleep(5 * time.Second)
		left := l.Remaining()
		w.DropPushes(1)
		release(t, l)
		start := time.Now()
		got := <-next
		assert.Must(t, got.err)
		assert.AtMost(t, got.at.Sub(start), left+time.Second, "found after, the holder had %v left", left)
		assert.Equal(t, got.Remaining(), trusted, "what is left of a lease that a poll confirmed just now")
		release(t, got.Lease)
	})
}

func TestABrokenSubscriptionIsFollowedByAPoll(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		events := &recorder{}
		a, b := w.client(), w.client(holdfast.Config{Observer: events})
		l := mustLock(t, a.Mutex("a"))
		next := w.waiting(b.Mutex("a"), t.Context())
		resume := w.BreakSubscriptions()
		release(t, l) // no push arrives
		time.Sleep(time.Second)
		start := time.Now()
		resume()
		got := <-next
		assert.MustTrue(t, got.err == nil && got.at.Equal(start),
			"%v, %v after the subscription was made again", got.err, got.at.Sub(start))
		wake := events.all(holdfast.EventWake)
		assert.True(t, len(wake) == 1 && wake[0].Wake == holdfast.WakeResume, "woken by %v", wake)
		release(t, got.Lease)
	})
}

func TestAWaiterWithoutASubscriptionIsSkippedAndKeepsItsPosition(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		l := mustLock(t, w.client().Mutex("a"))
		first := w.waiting(w.client().Mutex("a"), t.Context())
		second := w.waiting(w.client().Mutex("a"), t.Context())
		resume := w.BreakSubscriptions()
		release(t, l)
		resume()
		one := <-first
		select {
		case <-second:
			t.Error("the second one overtook the first")
		default:
		}
		release(t, one.Lease)
		release(t, (<-second).Lease)
	})
}

// The server says that the lock is free later, and falls silent. The waiter asks again as
// soon as it would without those words.
func TestAWordFromBeforeASilenceDoesNotLengthenIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		next := w.waiting(b.Mutex("a"), t.Context())
		waiter := w.state("a").Waiters[0].HolderID
		var silent time.Time
		fail := only("poll", 1, errLink)
		w.FailRequest(func(action string, args []string) error {
			err := fail(action, args)
			if err != nil {
				silent = time.Now()
				go w.Publish("holdfast:push:"+b.ID(), "kept "+waiter+" 20000")
			}
			return err
		})
		w.DropPushes(1)
		release(t, l)
		got := <-next
		if waited := got.at.Sub(silent); got.err != nil || silent.IsZero() || waited > time.Second {
			t.Errorf("%v, %v after the poll that failed", got.err, waited)
		}
		release(t, got.Lease)
	})
}

// Two pushes arrive before the waiter can take one. It polls because of one of them, and what
// the other one says is older than the answer.
func TestAnAnswerReplacesWhatArrivedBeforeIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for i := range 20 {
			name := fmt.Sprint(i)
			b := w.client()
			mustLock(t, w.client().Mutex(name, holdfast.NoRenewal(), holdfast.TTL(2*time.Second)))
			start := time.Now()
			w.net.slow(func(action string) (_, back time.Duration) {
				if action == "acquire" {
					back = 500 * time.Millisecond
				}
				return 0, back
			})
			next := w.waiting(b.Mutex(name), t.Context())
			time.Sleep(700 * time.Millisecond) // busy; in the queue, and the answer is under way
			waiter := w.state(name).Waiters[0].HolderID
			w.Publish("holdfast:push:"+b.ID(), "kept "+waiter+" 20000")
			w.Publish("holdfast:push:"+b.ID(), "granted "+waiter+" 1 0")
			got := <-next
			if waited := got.at.Sub(start); got.err != nil || waited > 3*time.Second {
				t.Fatalf("%v after %v, and the lease was over after two seconds", got.err, waited)
			}
			release(t, got.Lease)
			w.net.slow(nil)
		}
	})
}

// The server has removed the position by then: the waiter joins again.
func TestAWaiterOutlastsAServerThatIsSilentForLongerThanItsPositionLasts(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		mustLock(t, w.client().Mutex("a"))
		next := w.waiting(w.client().Mutex("a"), t.Context())
		w.FailRequest(func(string, []string) error { return errLink })
		time.Sleep(time.Hour)
		w.FailRequest(nil)
		got := <-next
		assert.Must(t, got.err)
		release(t, got.Lease)
	})
}

func TestAWaiterThatTheServerForgotJoinsAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b, c := w.client(), w.client(), w.client()
		mustLock(t, a.Mutex("a"))
		next := w.waiting(b.Mutex("a"), t.Context())
		w.Flush()
		l := must(t, c.Mutex("a").TryLock)
		time.Sleep(2 * time.Minute) // the waiter polls, and joins the queue of the new record
		s := w.state("a")
		assert.MustTrue(t, len(s.Waiters) == 1 && s.Waiters[0].ClientID == b.ID(), "waiters: %+v", s.Waiters)
		release(t, l)
		got := <-next
		assert.Must(t, got.err)
		release(t, got.Lease)
	})
}

// A push can be delayed for longer than its lease. By then the server may have forgotten
// the waiter, which has joined again.
func TestAPushFromBeforeAWaiterJoinedAgainIsNotTrusted(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		next := w.waiting(b.Mutex("a"), t.Context())
		waiter := w.state("a").Waiters[0].HolderID
		w.Flush()
		<-l.Context().Done()
		other := mustLock(t, w.client().Mutex("a"))
		time.Sleep(2 * time.Minute)
		assert.MustEqual(t, len(w.state("a").Waiters), 1, "the waiter has not joined again")
		w.Publish("holdfast:push:"+b.ID(), fmt.Sprintf("granted %s %d 0", waiter, other.Token()>>10-1))
		synctest.Wait()
		select {
		case got := <-next:
			t.Errorf("granted %v, %v while %s holds the lock", got.Lease, got.err, other.HolderID())
		default:
			release(t, other)
			release(t, (<-next).Lease)
		}
	})
}

// The push of a replaced primary arrives late, after the new primary has answered that
// the attempt waits.
func TestAPushFromBeforeTheQueuedAnswerIsNotTrusted(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		next := w.waiting(b.Mutex("a"), t.Context())
		waiter := w.state("a").Waiters[0].HolderID
		time.Sleep(time.Second)
		then := time.Now().UnixMicro()
		polled := w.net.count("poll")
		time.Sleep(time.Minute)
		assert.MustTrue(t, w.net.count("poll") != polled, "the waiter has not looked")
		w.Publish("holdfast:push:"+b.ID(), fmt.Sprintf("granted %s %d 0", waiter, then))
		synctest.Wait()
		select {
		case got := <-next:
			t.Errorf("granted %v, %v while %s holds the lock", got.Lease, got.err, l.HolderID())
		default:
			release(t, l)
			release(t, (<-next).Lease)
		}
	})
}

func TestPushesOfStrangersChangeNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		next := w.waiting(b.Mutex("a"), t.Context())
		now := fmt.Sprint(time.Now().UnixMicro())
		for _, payload := range []string{
			"", "granted", "hello", "granted x/1 " + now + " 0", "granted " + a.ID() + "/1 " + now + " 0",
			"granted " + b.ID() + "/99 " + now + " 0", "granted " + b.ID() + "/x " + now + " 0",
			"granted " + b.ID() + "/1 x 0",
		} {
			w.Publish("holdfast:push:"+b.ID(), payload)
		}
		synctest.Wait()
		assert.Equal(t, len(next), 0, "a stranger's push granted the lock")
		release(t, l)
		release(t, (<-next).Lease)
	})
}

func TestASubscriptionThatFailsIsTriedAgainAndLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		l := mustLock(t, a.Mutex("a"))
		release(t, mustLock(t, b.Mutex("other")))
		var resume func()
		w.LoseReply(func(action string, _ []string) error {
			if action == "acquire" {
				resume = w.Stall() // between the first answer and the subscription
			}
			return nil
		})
		held := wantOver(t, 20*time.Second, b.Mutex("a", holdfast.MaxWait(20*time.Second)).Lock)
		assert.True(t, held.Err != nil && strings.Contains(held.Err.Error(), "no answer in time"), "it says %q", held)
		w.LoseReply(nil)
		resume()
		release(t, l)
		w.wantFree("a")
		release(t, mustLock(t, b.Mutex("a")))
	})
}

func TestWaitingCostsTheServerNextToNothing(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		const n = 20
		l := mustLock(t, w.client().Mutex("a"))
		var waiters []<-chan outcome
		ctx, cancel := context.WithCancel(t.Context())
		for range n {
			waiters = append(waiters, w.waiting(w.client().Mutex("a"), ctx))
		}
		before := w.net.count("poll")
		time.Sleep(time.Hour)
		assert.AtMost(t, w.net.count("poll")-before, n*60*4,
			"polls of %d waiters in an hour: more than one in 15s each", n)
		cancel()
		for _, ch := range waiters {
			assert.Is(t, (<-ch).err, context.Canceled)
		}
		release(t, l)
		synctest.Wait()
		w.wantFree("a")
	})
}
