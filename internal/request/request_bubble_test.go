package request_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/lifecycle"
	"github.com/holdfast-go/holdfast/internal/request"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

const (
	key     = "holdfast:{a}"
	base    = "holdfast:push:"
	ttl     = 30 * time.Second
	timeout = time.Second
)

// bench is a sender over a store, in virtual time.
type bench struct {
	*request.Sender
	mem  *memstore.Store
	life *lifecycle.Group
	sent atomic.Int64 // requests that reached the store
}

func bubble(t *testing.T, f func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{mem: memstore.New(), life: lifecycle.New()}
		b.Sender = b.over(b.mem)
		b.count(nil)
		f(t, b)
		b.life.Stop()
	})
}

func (b *bench) over(s store.Store) *request.Sender {
	return request.New(request.Config{
		Store: s, Prefix: "holdfast", Timeout: timeout, Retention: "60000",
		Now: b.mem.Clock(), Random: func() float64 { return 0.5 }, Life: b.life,
	})
}

// count counts requests. A request fails if the function fail returns an error.
func (b *bench) count(fail func(action string) error) {
	b.mem.FailRequest(func(action string, _ []string) error {
		b.sent.Add(1)
		if fail == nil {
			return nil
		}
		return fail(action)
	})
}

// acquire takes the lock for an attempt of client c.
func (b *bench) acquire(t *testing.T, id string) wire.Answer {
	t.Helper()
	a, err := b.Ask(t.Context(), script.Acquire, []string{key},
		[]string{id, wire.Millis(ttl), wire.Millis(ttl), wire.Exclusive, "0", base})
	assert.Must(t, err)
	return a
}

func attempt(id string) request.Attempt {
	return request.Attempt{ID: id, Keys: []string{key}, ChannelPrefix: base, TTL: ttl}
}

var errLink = errors.New("the link broke")

func TestAnAnswerIsRead(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		if a := b.acquire(t, "c/1"); a.Kind != wire.Granted || a.Token == 0 {
			t.Errorf("got %+v", a)
		}
		if a := b.acquire(t, "c/2"); a.Kind != wire.Busy || a.Left != ttl {
			t.Errorf("got %+v", a)
		}
	})
}

func TestSilenceIsNoEndOfAContext(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		resume := b.mem.Stall()
		defer resume()
		start := time.Now()
		_, err := b.Run(t.Context(), script.Inspect, []string{key}, nil)
		var silent *request.SilenceError
		if !errors.As(err, &silent) || !silent.Timeout() || !silent.Temporary() || request.IsContextEnd(err) {
			t.Errorf("got %v", err)
		}
		if time.Since(start) != timeout || request.Definite(err) || !request.Transient(err) {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), timeout/2)
		defer cancel()
		if _, err := b.Run(ctx, script.Inspect, []string{key}, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's own limit: %v", err)
		}
	})
}

func TestARequestWithoutAnAnswerIsSentOnceMore(t *testing.T) {
	refused := &store.ServerError{Code: "NOPERM", Message: "NOPERM no"}
	for name, c := range map[string]struct {
		errs []error // of the first and the second copy
		sent int64
		want error
	}{
		"answered":                  {[]error{nil}, 1, nil},
		"refused":                   {[]error{refused}, 1, refused},
		"not sent":                  {[]error{store.ErrNotSent}, 1, store.ErrNotSent},
		"the second is answered":    {[]error{errLink, nil}, 2, nil},
		"neither is answered":       {[]error{errLink, errLink}, 2, errLink},
		"the second is refused":     {[]error{errLink, refused}, 2, errLink},
		"the second was never sent": {[]error{errLink, store.ErrNotSent}, 2, errLink},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				b.count(func(string) error { return c.errs[b.sent.Load()-1] })
				args := []string{"c/1", "60000", base}
				_, err := b.AskResend(t.Context(), &request.Buffer{End: time.Hour}, script.Cancel, []string{key}, args)
				if b.sent.Load() != c.sent || !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Errorf("%v after %d requests", err, b.sent.Load())
				}
			})
		})
	}
}

func TestARequestAndOneMoreHaveTheTimeOfBoth(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		start := b.Now()
		time.Sleep(timeout / 2)
		at, ok := b.WithinResend(t.Context(), start).Deadline()
		if left := time.Until(at); !ok || left != 2*timeout-timeout/2 {
			t.Errorf("%v are left", left)
		}
	})
}

func TestALackOfPermissionNamesThePrefix(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.count(func(string) error { return &store.ServerError{Code: "NOPERM", Message: "NOPERM no keys"} })
		_, err := b.Run(t.Context(), script.Inspect, []string{key}, nil)
		var lacks *request.PermissionError
		if !errors.As(err, &lacks) || lacks.Prefix != "holdfast" || !request.Definite(err) {
			t.Errorf("got %v", err)
		}
	})
}

func TestRenewalsAreOneRequest(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.acquire(t, "c/1")
		before := b.sent.Load()
		got, _, err := b.Renew(t.Context(), time.Minute, request.Acks{}, []request.Renewal{
			{Key: key, Attempt: "c/1", TTL: 2 * ttl}, {Key: "holdfast:{b}", Attempt: "c/2", TTL: ttl},
		})
		if err != nil || b.sent.Load() != before+1 || len(got) != 2 || !got[0].Held || got[1].Held {
			t.Errorf("%+v, %v after %d requests", got, err, b.sent.Load()-before)
		}
		if left := b.acquire(t, "c/3").Left; left != 2*ttl {
			t.Errorf("%v are left", left)
		}
		b.count(func(string) error { return errLink })
		_, _, err = b.Renew(t.Context(), time.Minute, request.Acks{}, []request.Renewal{{Key: key}})
		if !errors.Is(err, errLink) {
			t.Errorf("got %v", err)
		}
	})
}

func TestAcknowledgementsAreCounted(t *testing.T) {
	need := request.Acks{Need: store.Acks{Replicas: 2}, Limit: 100 * time.Millisecond}
	both := request.Acks{Need: store.Acks{Replicas: 1, LocalAOF: 1}, Limit: 100 * time.Millisecond}
	if !need.Wanted() || need.Total() != need.Limit || both.Total() != 2*both.Limit || (request.Acks{}).Wanted() {
		t.Errorf("%+v: %v", need, need.Total())
	}
	bubble(t, func(t *testing.T, b *bench) {
		b.mem.SetAcks(store.Acks{Replicas: 1})
		b.acquire(t, "c/1")
		_, got, err := b.RunAcked(
			t.Context(), time.Minute, need, script.Renew, []string{key},
			[]string{"60000", wire.Millis(ttl), "c/1"})
		assert.True(t, err == nil && got.Replicas == 1,
			"want one replica and no error, got %+v, %v", got, err)
	})
}

func TestABatchTakesWhatIsFree(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.acquire(t, "other/1")
		free := b.Acquires(wire.Millis(ttl), wire.Millis(ttl))
		if free == nil || free != b.Acquires(wire.Millis(ttl), wire.Millis(ttl)) {
			t.Fatal("acquisitions of one TTL are not sent together")
		}
		var alone int
		for free.Offer(request.One{Limit: time.Second}) == nil { // until one has to queue
			alone++
		}
		taken := free.Offer(request.One{Key: "holdfast:{b}", Attempt: "c/1", Limit: time.Second})
		busy := free.Offer(request.One{Key: key, Attempt: "c/2", Limit: time.Second})
		before := b.sent.Load()
		for range alone {
			free.DoneAlone()
		}
		if o := <-taken.Answer; !o.Done || o.Token == 0 || o.Err != nil {
			t.Errorf("a free lock: %+v", o)
		}
		if o := <-busy.Answer; o.Done || o.Err != nil {
			t.Errorf("a lock that is held: %+v", o)
		}
		assert.Equal(t, b.sent.Load()-before, 1, "requests")
		released := b.Releases()
		for range alone {
			released.Offer(request.One{Limit: time.Second})
		}
		gone := released.Offer(request.One{Key: "holdfast:{b}", Attempt: "c/1", Limit: time.Second})
		b.count(func(string) error { return errLink })
		for range alone {
			released.DoneAlone()
		}
		if o := <-gone.Answer; o.Done || !errors.Is(o.Err, errLink) {
			t.Errorf("without an answer: %+v", o)
		}
		for i := range 100 {
			b.Acquires(wire.Number(uint64(i)), "")
		}
		assert.True(t, b.Acquires("new", "") == nil, "the batches are not bounded")
	})
}

// single is a store that takes one lock at a time.
type single struct{ store.Store }

func TestAStoreWithoutBatchesSendsEachAlone(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		s := b.over(single{b.mem})
		assert.True(t, !s.CanBatch() && s.Releases() == nil && s.Acquires("1", "1") == nil,
			"it has batches")
	})
}

func TestACancelThatFoundNothingIsSentAgain(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		c := request.NewCanceller(b.Sender)
		start := b.Now()
		c.Cancel(attempt("c/1"), start+ttl)
		time.Sleep(ttl / 2)
		synctest.Wait()
		if n := b.sent.Load(); n < 10 || n > 40 {
			t.Errorf("%d cancels in half a lease", n)
		}
		b.acquire(t, "c/1") // it was late
		time.Sleep(2 * time.Second)
		if a := b.acquire(t, "c/2"); a.Kind != wire.Granted {
			t.Errorf("what came late is kept: %+v", a)
		}
		before := b.sent.Load()
		time.Sleep(time.Hour)
		assert.Equal(t, b.sent.Load()-before, 0, "more cancels after it was found")
	})
}

func TestACancelEndsWhenNothingCanComeAnyMore(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		c := request.NewCanceller(b.Sender)
		c.Cancel(attempt("c/1"), b.Now()+ttl)
		time.Sleep(ttl)
		synctest.Wait()
		before := b.sent.Load()
		time.Sleep(time.Hour)
		assert.Equal(t, b.sent.Load()-before, 0, "cancels after the last instant")
		b.count(func(string) error { return &store.ServerError{Code: "NOPERM", Message: "NOPERM no"} })
		before = b.sent.Load()
		c.Cancel(attempt("c/2"), b.Now()+ttl)
		time.Sleep(time.Hour)
		assert.Equal(t, b.sent.Load()-before, 1, "cancels after a refusal")
	})
}

func TestAnAbandonedAttemptIsCancelledForAsLongAsItsPositionMayLive(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		c := request.NewCanceller(b.Sender)
		b.count(func(string) error { return errLink })
		c.CancelWaiter(attempt("c/1"), 1)
		time.Sleep(2 * ttl)
		synctest.Wait()
		before := b.sent.Load()
		b.count(nil) // the server is back
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := b.sent.Load() - before; n == 0 {
			t.Error("it gave up before the position was gone")
		}
	})
}

func TestAPushForAnAbandonedAttemptIsAnsweredWithACancel(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		c := request.NewCanceller(b.Sender)
		b.acquire(t, "c/1")
		c.CancelWaiter(attempt("c/1"), 1)
		synctest.Wait() // it is found, and cancelled
		b.acquire(t, "c/1")
		before := b.sent.Load()
		c.Stray(1)
		c.Stray(1) // one cancel is for both, unless it is under way already
		c.Stray(2) // of another client
		synctest.Wait()
		if n := b.sent.Load() - before; n < 1 || n > 2 {
			t.Errorf("%d cancels", n)
		}
		if a := b.acquire(t, "c/2"); a.Kind != wire.Granted {
			t.Errorf("what was granted is kept: %+v", a)
		}
	})
}

// A position outlives a lease. So a push may come when a TTL is over, and others have given up
// meanwhile.
func TestAPushLongAfterAnAttemptWasAbandonedIsAnsweredWithACancel(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		c := request.NewCanceller(b.Sender)
		c.CancelWaiter(attempt("c/1"), 1)
		time.Sleep(ttl + time.Second)
		c.CancelWaiter(attempt("c/2"), 2)
		time.Sleep(2 * ttl) // nobody sends either cancel any more
		b.acquire(t, "c/1")
		c.Stray(1)
		synctest.Wait()
		assert.Equal(t, b.acquire(t, "c/3").Kind, wire.Granted, "what became of the late grant: the next attempt is")
	})
}

func TestAPushWakesTheCancelThatIsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		c := request.NewCanceller(b.Sender)
		c.CancelWaiter(attempt("c/1"), 1) // nothing is found: it is sent again and again
		time.Sleep(10 * time.Second)
		synctest.Wait()
		b.acquire(t, "c/1")
		before := b.sent.Load()
		c.Stray(1)
		synctest.Wait()
		assert.Equal(t, b.sent.Load()-before, 1, "cancels at once")
	})
}

// A push may come while the client closes. The goroutine that reads the pushes does not wait.
func TestAPushAfterTheEndIsNotAnswered(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		c := request.NewCanceller(b.Sender)
		c.CancelWaiter(attempt("c/1"), 1)
		b.life.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		b.life.Wait(ctx)
		before := b.sent.Load()
		c.Stray(1)
		assert.Equal(t, b.sent.Load()-before, 0, "requests from the goroutine that reads pushes")
	})
}

func TestManyMessagesShareTheServersTime(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		c := request.NewCanceller(b.Sender)
		b.count(func(string) error { return errLink })
		for range 1000 {
			c.Cancel(attempt("c/1"), b.Now()+time.Hour)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		before := b.sent.Load()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		assert.AtMost(t, b.sent.Load()-before, 10*600*2, "requests in 10 minutes, about 10 a second are right")
	})
}

func TestAClosedClientCancelsOnce(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		b.life.Stop()
		b.acquire(t, "c/1")
		before := b.sent.Load()
		request.NewCanceller(b.Sender).Cancel(attempt("c/1"), b.Now()+ttl)
		assert.Equal(t, b.sent.Load()-before, 1, "cancels")
	})
}

// server gives the answers of the test.
type server struct {
	store.Store
	info   store.ServerInfo
	err    error
	permit string // the answer to the question for permissions
	asked  int
}

func (s *server) Server(context.Context) (store.ServerInfo, error) {
	s.asked++
	return s.info, s.err
}

func (s *server) Run(ctx context.Context, a *script.Script, keys, args []string) (string, error) {
	if a == script.CheckACL && s.permit != "" {
		s.asked++
		return s.permit, nil
	}
	return s.Store.Run(ctx, a, keys, args)
}

func TestAServerThatCannotServeIsRefused(t *testing.T) {
	redis := store.ServerInfo{Product: "redis", Version: "7.0.15", Role: "master", Address: "h:1"}
	replica := store.ServerInfo{Role: "slave", Address: "h:1"}
	old := store.ServerInfo{Product: "redis", Version: "6.2.1"}
	valkey := store.ServerInfo{Product: "valkey", Version: "7.1.0", Role: "master"}
	for name, c := range map[string]struct {
		server server
		need   store.Acks
		want   string // in the error; empty: none
	}{
		"good":            {server: server{info: redis}},
		"replica":         {server: server{info: replica}, want: "h:1 is a replica"},
		"old redis":       {server: server{info: old}, want: "too old"},
		"old valkey":      {server: server{info: valkey}, want: "too old"},
		"unknown version": {server: server{info: store.ServerInfo{Product: "redis", Version: "unstable"}}},
		"no WAITAOF":      {server: server{info: redis}, need: store.Acks{LocalAOF: 1}, want: "WAITAOF the server"},
		"not to be asked": {server: server{err: &store.ServerError{Code: "NOPERM"}}},
		"away":            {server: server{err: errLink}, want: "the link broke"},
		"no permission":   {server: server{info: redis, permit: "missing hset publish"}, want: "+hset"},
		"of a quorum":     {server: server{info: redis, permit: "missing hset @h:1, h:2"}, want: "at h:1, h:2 may not"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *bench) {
				c.server.Store = b.mem
				p := request.NewPreflight(b.over(&c.server))
				_, err := p.Check(t.Context(), request.Acks{Need: c.need}, []string{key}, base+"c")
				if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
					t.Fatalf("got %v", err)
				}
				if err != nil {
					assert.True(t, request.Definite(err), "%v may have changed something", err)
				} else {
					asked := c.server.asked
					_, err := p.Check(t.Context(), request.Acks{}, []string{key}, base+"c")
					assert.True(t, err == nil && c.server.asked == asked,
						"asked again after a success, or failed: %v", err)
				}
			})
		})
	}
}

func TestAServerThatMayNotPushServes(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		s := &server{Store: b.mem, permit: "missing publish"}
		p := request.NewPreflight(b.over(s))
		noPushes, err := p.Check(t.Context(), request.Acks{}, []string{key}, base+"c")
		if err != nil || noPushes == nil || !strings.Contains(noPushes.Error(), "+publish &holdfast:*") {
			t.Errorf("%v, %v", noPushes, err)
		}
		noPushes, err = p.Check(t.Context(), request.Acks{}, []string{key}, base+"c")
		assert.True(t, err == nil && noPushes == nil,
			"again: %v, %v; want no complaint the second time", noPushes, err)
	})
}

func TestPermissionsThatCannotBeAskedForAreLeftToTheScripts(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		p := request.NewPreflight(b.Sender)
		b.count(func(string) error { return &store.ServerError{Code: "ERR", Message: "ERR unknown command"} })
		if _, err := p.Check(t.Context(), request.Acks{}, []string{key}, base+"c"); err != nil {
			t.Errorf("a refusal: %v", err)
		}
		b.count(func(string) error { return errLink })
		if _, err := p.Check(t.Context(), request.Acks{}, []string{key}, base+"c"); !errors.Is(err, store.ErrNotSent) {
			t.Errorf("no answer: %v", err)
		}
	})
}

// A pause is told with the next refresh, and costs no request.
func TestAClientTellsItsLongestPause(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r := request.NewRegistration(b.Sender, "c", "billing", "1.0", func(error) {})
		var pause atomic.Int64
		pause.Store(int64(99 * time.Millisecond)) // too short
		r.Pause = func() time.Duration { return time.Duration(pause.Load()) }
		r.Start()
		synctest.Wait()
		assert.Equal(t, b.mem.Dump("holdfast:client:c")["pause"], "", "the pause")
		pause.Store(int64(1200 * time.Millisecond))
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		assert.Equal(t, b.mem.Dump("holdfast:client:c")["pause"], "1200", "the pause")
		assert.Equal(t, b.sent.Load(), 2, "requests")
		r.Stop()
	})
}

func TestAClientIsKnownWhileItWorks(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		var failed int
		r := request.NewRegistration(b.Sender, "c", "billing", "1.0", func(error) { failed++ })
		r.End(t.Context()) // the client has not registered
		r.Start()
		r.Start()
		synctest.Wait()
		if n := b.sent.Load(); n != 1 || !strings.Contains(b.mem.Dump("holdfast:client:c")["app"], "billing") {
			t.Errorf("%d requests: %v", n, b.mem.Dump("holdfast:client:c"))
		}
		b.count(func(string) error { return errLink })
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		assert.True(t, failed == 1, "told of %d failures", failed)
		b.count(nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		assert.True(t, b.mem.Dump("holdfast:client:c") != nil, "it is not known any more")
		r.Stop()
		r.End(t.Context())
		time.Sleep(time.Second)
		if known := b.mem.Dump("holdfast:client:c"); known != nil {
			t.Errorf("after its end: %v", known)
		}
	})
}

func TestPauseEndsWithTheClient(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		assert.True(t, b.Pause(t.Context(), 0), "it did not wait")
		b.life.Close()
		assert.False(t, b.Pause(t.Context(), 0), "it waited for a client that closes")
	})
}
