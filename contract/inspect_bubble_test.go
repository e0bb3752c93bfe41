package contract_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/store"
)

func TestInspectShowsHoldersAndWaiters(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a := w.client(holdfast.Config{App: "billing job"})
		b := w.client(holdfast.Config{App: "report"})
		if s, err := a.Inspect(t.Context(), "a"); err != nil || s.Held() || s.Fence != 0 || s.Name != "a" {
			t.Errorf("an unknown lock: %+v, %v", s, err)
		}
		l := mustLock(t, a.Mutex("a"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waiter := w.waiting(b.Mutex("a"), ctx)
		time.Sleep(5 * time.Second)
		s, err := b.Inspect(t.Context(), "a")
		assert.MustTrue(t, err == nil && len(s.Holders) == 1 && len(s.Waiters) == 1, "%+v, %v", s, err)
		h, q := s.Holders[0], s.Waiters[0]
		if h.Mode != "exclusive" || h.HolderID != l.HolderID() || h.ClientID != a.ID() ||
			h.Permits != 1 || h.Entries != 1 ||
			h.Token != l.Token() || h.Age != 5*time.Second || h.Remaining != ttl-5*time.Second || s.Fence != l.Token() {
			t.Errorf("holder %+v", h)
		}
		assert.True(t, q.Position == 1 && q.Mode == "exclusive" && q.ClientID == b.ID() && q.Waited == 5*time.Second,
			"waiter %+v", q)
		host, _ := os.Hostname()
		if h.Client == nil || h.Client.App != "billing job" || h.Client.PID != os.Getpid() || h.Client.Host != host ||
			h.Client.Version != holdfast.Version || q.Client == nil || q.Client.App != "report" {
			t.Errorf("the holder is %v, the waiter %v", h.Client, q.Client)
		}
		assert.True(t, strings.HasPrefix(h.Client.String(), "billing job@"), "it is shown as %v", h.Client)
		cancel()
		<-waiter
		synctest.Wait()
		release(t, l)
		s = w.state("a")
		assert.True(t, !s.Held() && s.Fence == l.Token(), "a free lock: %+v", s)
	})
}

// A lock with very many holders is read in several requests, and shown whole.
func TestInspectShowsEveryHolder(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(holdfast.Config{})
		s := c.Semaphore("a", 1000)
		for range 600 {
			assert.Must(t, assert.Err(s.Acquire(t.Context(), 1)))
		}
		info := w.state("a")
		held := make(map[string]bool)
		for i, h := range info.Holders {
			held[h.HolderID] = true
			assert.True(t, i == 0 || info.Holders[i-1].Token < h.Token, "holder %d is out of order", i)
		}
		assert.Equal(t, len(held), 600, "different holders")
		assert.Equal(t, len(info.Holders), 600, "holders")
		free, err := s.Available(t.Context())
		assert.Must(t, err)
		assert.Equal(t, free, 400, "permits that nobody holds")
	})
}

func TestInspectShowsTheLeaderWithItsValue(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		l, err := c.Election("region").Campaign(t.Context(), "10.0.0.7:80")
		assert.Must(t, err)
		synctest.Wait() // the value is proclaimed, and the client registered
		s := w.state("region")
		if s.Leader == nil || s.Leader.Value != "10.0.0.7:80" || s.Leader.Token != l.Token() ||
			s.Leader.ClientID != c.ID() {
			t.Errorf("%+v", s.Leader)
		}
		assert.Must(t, l.Release(t.Context()))
		s = w.state("region")
		assert.True(t, s.Leader == nil, "nobody leads, and Inspect shows %+v", s.Leader)
	})
}

func TestInspectJobShowsTheScheduleAndTheRun(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		see := func() holdfast.JobInfo {
			t.Helper()
			j, err := c.InspectJob(t.Context(), "report")
			assert.Must(t, err)
			return j
		}
		j := see()
		assert.True(t, !j.Known() && j.Run == nil, "a job that never ran is known: %+v", j)
		job := c.Periodic("report", time.Hour, holdfast.StartAt(10*time.Minute))
		result, err := job.Do(t.Context(), func(context.Context) error {
			j := see()
			want := holdfast.Schedule{Period: time.Hour, Aligned: true, Offset: 10 * time.Minute}
			if j.Schedule != want || j.Run == nil || j.HolderID != j.Run.HolderID || j.Due != 10*time.Minute {
				t.Errorf("during a run: %+v", j)
			}
			return nil
		})
		assert.Must(t, err)
		if j := see(); !j.Known() || j.Run != nil || j.HolderID != result.HolderID || j.Due != 10*time.Minute {
			t.Errorf("after a run: %+v", j)
		}
		assert.False(t, w.state("report").Held(), "a job and a lock of the same name are separate")
		time.Sleep(20 * time.Minute)
		j = see()
		assert.True(t, j.Due == 0, "due for 10 min: %+v", j)
		_, err = c.InspectJob(t.Context(), "")
		assert.Is(t, err, holdfast.ErrInvalid)
	})
}

func TestAClientIsKnownWhileItWorksAndForgottenAfterItsClose(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		key := "holdfast:client:" + c.ID()
		assert.True(t, w.Dump(key) == nil, "known before its first acquisition")
		release(t, mustLock(t, c.Mutex("a")))
		synctest.Wait()
		first := w.net.count("register_client")
		for range 12 {
			time.Sleep(10 * time.Minute)
			assert.AtLeast(t, w.TTL(key), 9*time.Minute, "known for")
		}
		synctest.Wait()
		n := w.net.count("register_client")
		assert.True(t, first == 1 && n == 25, "announced %d times, then %d", first, n)
		assert.NoError(t, c.Close(t.Context()))
		time.Sleep(10 * time.Millisecond)
		assert.True(t, w.Dump(key) == nil, "known after its close")
		time.Sleep(time.Hour)
		n = w.net.count("register_client")
		assert.True(t, n == 26, "announced %d times after its close", n-26)
	})
}

func TestAnAnnouncementThatFailsHarmsNobody(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		w.FailRequest(func(action string, _ []string) error {
			if action == "register_client" || action == "read_client" {
				return errLink
			}
			return nil
		})
		l := mustLock(t, c.Mutex("a"))
		s, err := c.Inspect(t.Context(), "a")
		assert.True(t, err == nil && len(s.Holders) == 1 && s.Holders[0].Client == nil, "%+v, %v", s, err)
		time.Sleep(time.Minute)
		w.FailRequest(nil)
		time.Sleep(5 * time.Minute)
		s = w.state("a")
		assert.True(t, s.Holders[0].Client != nil, "the client is not known after the next announcement")
		release(t, l)
	})
}

func TestEvictTakesTheLockAwayAndSaysWhoDidIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, next, ops := w.client(), w.client(), w.client()
		l := mustLock(t, c.Mutex("a"))
		waiter := w.waiting(next.Mutex("a"), t.Context())
		time.Sleep(time.Second)
		at := time.Now()
		why := holdfast.Eviction{By: "ann", Reason: "stuck for an hour", Token: l.Token()}
		n, err := ops.Evict(t.Context(), "a", why)
		assert.MustTrue(t, n == 1 && err == nil, "%v %v", n, err)
		got := <-waiter
		assert.True(t, got.err == nil && got.at.Equal(at) && got.Token() > l.Token()+1<<10,
			"the next one: token %d after %d, %v", got.Token(), l.Token(), got.err)
		s := w.state("a")
		if e := s.LastEviction; e == nil || e.By != "ann" || e.Reason != "stuck for an hour" || !e.At.Equal(at) {
			t.Errorf("the eviction is remembered as %+v", e)
		}
		wantLost(t, ended(l.Context()), holdfast.LossEvicted)
		assert.AtMost(t, time.Since(at), ttl/3, "the holder learned of it after")
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
		assert.True(t, got.Err() == nil, "the evicted holder's release ended the next one's lease")
		release(t, got.Lease)
	})
}

func TestEvictSparesWhoTookTheLockMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, ops := w.client(), w.client()
		l := mustLock(t, c.Mutex("a"))
		seen := l.Token()
		release(t, l)
		l = mustLock(t, c.Mutex("a"))
		// 5 is no token of any hold: its part of the server is 0, which stands for any hold.
		for _, token := range []uint64{seen, 5} {
			stale := holdfast.Eviction{By: "ann", Reason: "stuck", Token: token}
			n, err := ops.Evict(t.Context(), "a", stale)
			assert.True(t, n == 0 && err == nil, "eviction of token %d: %d holds, %v", token, n, err)
		}
		time.Sleep(ttl)
		assert.NoError(t, l.Err())
		release(t, l)
		for _, name := range []string{"a", "never seen"} {
			n, err := ops.Evict(t.Context(), name, holdfast.Eviction{By: "ann", Reason: "stuck"})
			assert.True(t, n == 0 && err == nil,
				"evicting free lock %q: %d, %v; want 0 and no error", name, n, err)
		}
	})
}

func TestInspectAndEvictRefuseWhatCannotWork(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		var none context.Context
		_, err := c.Inspect(none, "a")
		assert.Is(t, err, holdfast.ErrInvalid)
		_, err = c.Inspect(t.Context(), "")
		assert.Is(t, err, holdfast.ErrInvalid)
		for _, e := range []holdfast.Eviction{
			{}, {By: "ann"}, {Reason: "stuck"},
			{By: strings.Repeat("a", 129), Reason: "stuck"},
			{By: "ann", Reason: strings.Repeat("a", 513)},
		} {
			_, err = c.Evict(t.Context(), "a", e)
			assert.Is(t, err, holdfast.ErrInvalid)
		}
		assert.True(t, len(w.net.sent) == 0, "sent %v", w.net.sent)
	})
}

func TestAServerThatCannotWorkIsRefused(t *testing.T) {
	for _, test := range []struct {
		info store.ServerInfo
		code string
	}{
		{store.ServerInfo{Product: "redis", Version: "6.2.14", Role: "master"}, "VERSION"},
		{store.ServerInfo{Product: "redis", Version: "7.0.15", Role: "master"}, ""},
		{store.ServerInfo{Product: "valkey", Version: "7.0.1", Role: "master"}, "VERSION"},
		{store.ServerInfo{Product: "valkey", Version: "7.2.5", Role: "master"}, ""},
		{store.ServerInfo{Product: "redis", Version: "8.0", Role: "replica"}, "REPLICA"},
		{store.ServerInfo{Product: "redis", Version: "8.0", Role: "slave"}, "REPLICA"},
		{store.ServerInfo{Product: "other", Version: "unstable"}, ""},
	} {
		bubble(t, func(t *testing.T, w *world) {
			c, err := holdfast.New(&described{network: w.net, info: test.info}, holdfast.Config{})
			assert.Must(t, err)
			defer func() { _ = c.Close(context.Background()) }()
			l, err := c.Mutex("a").Lock(t.Context())
			var refused *holdfast.ServerError
			switch {
			case test.code == "" && err == nil:
				release(t, l)
			case !errors.As(err, &refused) || refused.Code != test.code || holdfast.Hint(err) == "":
				t.Errorf("%+v: %v", test.info, err)
			}
		})
	}
}

func TestTheServerIsAskedOnceWhatItIs(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		server := &described{network: w.net, err: errLink}
		c, err := holdfast.New(server, holdfast.Config{Logger: slog.New(slog.DiscardHandler)})
		assert.Must(t, err)
		defer func() { _ = c.Close(context.Background()) }()
		_, err = c.Mutex("a").TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrUnreachable, errLink)
		server.err = &holdfast.ServerError{Code: "NOPERM", Message: "NOPERM no HELLO for you"}
		release(t, mustLock(t, c.Mutex("a")))
		release(t, mustLock(t, c.Mutex("a")))
		assert.True(t, server.asked == 2 && w.net.count("acquire") == 2, "asked %d times", server.asked)
	})
}
