// What operators see and do: a lock's holders and waiters with their tags, all locks of a prefix, what a client counts,
// and evictions, which end only what they name (G4).

package contract_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
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
		assert.True(t, j.Schedule.Period == 0 && j.Run == nil, "a job that never ran is known: %+v", j)
		job := c.Periodic("report", time.Hour, holdfast.StartAt(10*time.Minute))
		result, err := job.Do(t.Context(), func(context.Context) error {
			j := see()
			want := holdfast.Schedule{Period: time.Hour, Aligned: true, Offset: 10 * time.Minute}
			if j.Schedule != want || j.Run == nil || j.HolderID != j.Run.HolderID || j.Due != 10*time.Minute ||
				j.Fence != j.Run.Token {
				t.Errorf("during a run: %+v", j)
			}
			return nil
		})
		assert.Must(t, err)
		if j := see(); j.Schedule.Period != time.Hour || j.Run != nil || j.HolderID != result.HolderID ||
			j.Due != 10*time.Minute || j.Fence != result.Token || j.LastEviction != nil {
			t.Errorf("after a run: %+v", j)
		}
		assert.False(t, w.state("report").Held(), "a job and a lock of the same name are separate")
		time.Sleep(20 * time.Minute)
		j = see()
		assert.True(t, j.Due == 0, "due for 10 min: %+v", j)
		_, err = job.Do(t.Context(), func(ctx context.Context) error {
			e := holdfast.Eviction{By: "ann", Reason: "stuck", Job: true}
			n, err := c.Evict(ctx, "report", e)
			assert.True(t, n == 1 && err == nil, "%d, %v", n, err)
			return nil
		})
		assert.Is(t, err, holdfast.ErrLost)
		j = see()
		assert.MustTrue(t, j.LastEviction != nil, "after an eviction: %+v", j)
		assert.True(t, j.LastEviction.By == "ann" && j.LastEviction.Reason == "stuck", "%+v", j.LastEviction)
		for info, err := range c.List(t.Context(), "report") {
			assert.True(t, err == nil && info.Job != nil && info.Fence == j.Fence &&
				*info.LastEviction == *j.LastEviction, "listed: %+v, %v", info, err)
		}
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

func TestEvictAtOnceTakesTheLockAwayAndSaysWhoDidIt(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, next, ops := w.client(), w.client(), w.client()
		l := mustLock(t, c.Mutex("a"))
		waiter := w.waiting(next.Mutex("a"), t.Context())
		time.Sleep(time.Second)
		at := time.Now()
		why := holdfast.Eviction{By: "ann", Reason: "stuck for an hour", Token: l.Token(), AtOnce: true}
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
			c := w.over(&described{network: w.net, info: test.info}, holdfast.Config{})
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
		c := w.over(server, holdfast.Config{Logger: slog.New(slog.DiscardHandler)})
		_, err := c.Mutex("a").TryLock(t.Context())
		assert.Is(t, err, holdfast.ErrUnreachable, errLink)
		server.err = &holdfast.ServerError{Code: "NOPERM", Message: "NOPERM no HELLO for you"}
		release(t, mustLock(t, c.Mutex("a")))
		release(t, mustLock(t, c.Mutex("a")))
		assert.True(t, server.asked == 2 && w.net.count("acquire") == 2, "asked %d times", server.asked)
	})
}

// plantCrowd makes a record of a lock that a client holds and n others wait for, each with a name of its
// own.
func plantCrowd(t *testing.T, w *world, name string, n int) {
	t.Helper()
	now := time.Now().UnixMilli()
	fields := map[string]string{
		"lock":  fmt.Sprintf("%d000 600000 %s/1 +", now, id22(0)),
		"birth": fmt.Sprintf("%d000", now), "queue": fmt.Sprintf("%d 1 %d", n, n),
	}
	for i := 1; i <= n; i++ {
		attempt := id22(i) + "/1"
		fields[fmt.Sprintf("#%d", i)] = attempt
		fields["w:"+attempt] = fmt.Sprintf("%d x 1 30000 %d %d", i, now+600_000, now)
	}
	w.PlantRecord("holdfast:{"+name+"}", fields)
	for i := range n + 1 {
		_, err := w.Run(t.Context(), script.RegisterClient, []string{"holdfast:client:" + id22(i)},
			[]string{"900000", fmt.Sprintf("app%d", i), "host", "1", "v1", "5"})
		assert.Must(t, err)
	}
}

// id22 is a client's ID.
func id22(i int) string { return fmt.Sprintf("%022d", i) }

// What an operator asks costs few requests, however many wait: the holder costs two, and a name each
// for a thousand waiters a few dozen.
func TestOperatorsCallsCostFewRequests(t *testing.T) {
	for _, c := range []struct{ waiters, all, list int }{{1000, 25, 9}, {5000, 105, 25}} {
		bubble(t, func(t *testing.T, w *world) {
			plantCrowd(t, w, "a", c.waiters)
			client := w.client()
			release(t, mustLock(t, client.Mutex("warm")))
			requests := func() int { return w.net.count("inspect") + w.net.count("read_client") }
			before := requests()
			held, err := client.Holders(t.Context(), "a")
			assert.Must(t, err)
			assert.True(t, held.Waiting == c.waiters && len(held.Waiters) == 0 && held.Holders[0].Client.App == "app0",
				"%d waiting, %d shown, %v", held.Waiting, len(held.Waiters), held.Holders)
			assert.AtMost(t, requests()-before, 2, "requests for the holder")
			before = requests()
			all, err := client.Inspect(t.Context(), "a")
			assert.Must(t, err)
			last := all.Waiters[len(all.Waiters)-1]
			assert.True(t, len(all.Waiters) == c.waiters && last.Client.App == fmt.Sprintf("app%d", c.waiters),
				"%d waiters, the last is %v", len(all.Waiters), last.Client)
			assert.AtMost(t, requests()-before, c.all, "requests of Inspect")
			before = requests()
			for state, err := range client.List(t.Context(), "a") {
				assert.Must(t, err)
				assert.True(t, state.Waiters[99].Client != nil && state.Waiters[100].Client == nil, "who is named")
			}
			assert.AtMost(t, requests()-before, c.list, "requests of List")
		})
	}
}

// A client says what it likes of itself. Others keep two hundred bytes of each name.
func TestALongNameOfAClientIsCut(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		plantCrowd(t, w, "a", 1)
		_, err := w.Run(t.Context(), script.RegisterClient, []string{"holdfast:client:" + id22(0)},
			[]string{"900000", strings.Repeat("é", 5000), "host", "1", "v1", "5"})
		assert.Must(t, err)
		held, err := w.client().Holders(t.Context(), "a")
		assert.Must(t, err)
		assert.Equal(t, held.Holders[0].Client.App, strings.Repeat("é", 100)+"…", "the name")
	})
}

// listed returns what List yields, as text.
func listed(t *testing.T, c *holdfast.Client, pattern string) (lines []string) {
	t.Helper()
	for s, err := range c.List(t.Context(), pattern) {
		assert.Must(t, err)
		lines = append(lines,
			fmt.Sprintf("%s held=%t waiters=%d job=%t", s.Name, s.Held(), len(s.Waiters), s.Job != nil))
	}
	slices.Sort(lines)
	return lines
}

func TestListYieldsEveryLockAndJob(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(holdfast.Config{App: "a"}), w.client(holdfast.Config{App: "b"})
		got := listed(t, a, "")
		assert.True(t, len(got) == 0, "an empty server: %q", got)
		held := mustLock(t, a.Mutex("order/7"))
		defer release(t, held)
		release(t, mustLock(t, a.Mutex("order/8")))
		other := mustLock(t, a.Mutex("a {name}: ü"))
		defer release(t, other)
		ctx, cancel := context.WithCancel(t.Context())
		waiter := w.waiting(b.Mutex("order/7"), ctx)
		defer func() { cancel(); <-waiter }()
		job := a.Periodic("nightly", time.Hour)
		assert.Must(t, assert.Err(job.Do(t.Context(), func(context.Context) error { return nil })))
		want := []string{
			"a {name}: ü held=true waiters=0 job=false", "nightly held=false waiters=0 job=true",
			"order/7 held=true waiters=1 job=false", "order/8 held=false waiters=0 job=false",
		}
		got = listed(t, b, "")
		assert.True(t, slices.Equal(got, want), "%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		for s, err := range b.List(t.Context(), "order/7") {
			same, _ := b.Inspect(t.Context(), "order/7")
			h, known := s.Holders[0], same.Holders[0]
			assert.True(t, err == nil && h.Client.String() == known.Client.String() && s.Fence == held.Token(),
				"%+v, %v", s, err)
		}
	})
}

func TestListMatchesNames(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(holdfast.Config{})
		for _, name := range []string{"a", "ab", "a/b", "a*"} {
			release(t, mustLock(t, c.Mutex(name)))
		}
		for pattern, want := range map[string]string{
			"": "a,a*,a/b,ab", "a": "a", "a*": "a,a*,a/b,ab", "a?": "a*,ab", `a\*`: "a*", "a[b-c]": "ab",
			"*b": "a/b,ab", "[^x]": "a",
		} {
			var names []string
			for s, err := range c.List(t.Context(), pattern) {
				assert.Must(t, err)
				names = append(names, s.Name)
			}
			slices.Sort(names)
			assert.Equal(t, strings.Join(names, ","), want, "%q lists", pattern)
		}
		for _, pattern := range []string{"[", "[b-a]", "a[b"} {
			for _, err := range c.List(t.Context(), pattern) {
				assert.True(t, errors.Is(err, holdfast.ErrInvalid), "%q: %v", pattern, err)
			}
		}
	})
}

// A caller that has seen enough leaves nothing behind: the bubble fails if a goroutine is
// left over.
func TestListEndsWithItsCaller(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(holdfast.Config{})
		for i := range 1000 {
			release(t, mustLock(t, c.Mutex(fmt.Sprint(i))))
		}
		n := 0
		for _, err := range c.List(t.Context(), "") {
			assert.Must(t, err)
			if n++; n == 3 {
				break
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		n = 0
		for s, err := range c.List(ctx, "") {
			if n++; n == 3 {
				cancel()
			}
			last = err
			assert.False(t, err != nil && s.Name != "", "an error comes with the state %+v", s)
		}
		assert.True(t, errors.Is(last, context.Canceled) && n <= 100,
			"after %d states: %v; want an end by the context, within 100 states", n, last)
	})
}

func TestListTellsWhyItEnds(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client(holdfast.Config{})
		for i := range 10 {
			release(t, mustLock(t, c.Mutex(fmt.Sprint(i))))
		}
		w.Store.FailRequest(func(action string, keys []string) error {
			if action == "inspect" && strings.Contains(keys[0], "{7}") {
				return &store.ServerError{Code: "NOAUTH", Message: "NOAUTH Authentication required."}
			}
			return nil
		})
		var last error
		for s, err := range c.List(t.Context(), "") {
			last = err
			assert.True(t, err == nil || s.Name == "", "the error that ends the listing has the state %+v", s)
		}
		var refusal *store.ServerError
		assert.True(t, errors.As(last, &refusal) && refusal.Code == "NOAUTH" && strings.Contains(last.Error(), `"7"`),
			"%v", last)
		w.Store.FailRequest(nil)
		assert.Must(t, c.Close(t.Context()))
		for _, err := range c.List(t.Context(), "") {
			assert.Is(t, err, holdfast.ErrClosed)
		}
	})
}

// halfScan is a store of which one node cannot be scanned.
type halfScan struct {
	*memstore.Store
	err error
}

func (s halfScan) Scan(ctx context.Context, prefix string, visit func(keys []string) error) error {
	return cmp.Or(s.Store.Scan(ctx, prefix, visit), s.err)
}

func TestListYieldsWhatItReadsBeforeTheError(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.over(halfScan{w.Store, store.ErrNotSent}, holdfast.Config{})
		release(t, mustLock(t, c.Mutex("a")))
		release(t, mustLock(t, c.Mutex("b")))
		refused := false // one record cannot be read, and perhaps none
		w.Store.FailRequest(func(action string, keys []string) error {
			if action == "inspect" && refused && strings.Contains(keys[0], "{") && !strings.Contains(keys[0], "{}") {
				return &store.ServerError{Code: "ERR", Message: "ERR damaged"}
			}
			return nil
		})
		for _, refused = range []bool{false, true} {
			var names []string
			var last error
			for s, err := range c.List(t.Context(), "") {
				names, last = append(names, s.Name), err
				assert.Equal(t, err != nil, refused || s.Name == "", "%q: an error", s.Name)
			}
			assert.Is(t, last, holdfast.ErrUnreachable)
			assert.Contains(t, last.Error(), `listing "*": `)
			slices.Sort(names)
			assert.EqualSlices(t, names, []string{"", "a", "b"}, "the names")
			for range c.List(t.Context(), "") {
				break // the error does not come after that
			}
		}
	})
}

func TestAStoreThatCannotScanIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.over(plain{w.Store}, holdfast.Config{})
		n := 0
		for _, err := range c.List(t.Context(), "") {
			n++
			assert.True(t, errors.Is(err, holdfast.ErrInvalid), "%v", err)
		}
		assert.Equal(t, n, 1, "answers, of which one is an error")
	})
}

// tagged returns the option for one tag.
func tagged(value string) holdfast.Option { return holdfast.Tags(map[string]string{"order": value}) }

// wantTags asserts which tag the holders and the waiters of a lock show.
func wantTags(t *testing.T, s holdfast.LockInfo, holders, waiters string) {
	t.Helper()
	var held, waits []string
	for _, h := range s.Holders {
		held = append(held, h.Tags["order"])
	}
	for _, q := range s.Waiters {
		waits = append(waits, q.Tags["order"])
	}
	assert.True(t, strings.Join(held, " ") == holders && strings.Join(waits, " ") == waiters,
		"%s: the holders show %q and the waiters %q, want %q and %q", s.Name, held, waits, holders, waiters)
}

func TestTheTagsOfHoldersAndWaitersAreShown(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		tags := map[string]string{"order": "42 %+&=", "by": "anne\nå"}
		l := mustLock(t, w.client().Mutex("a", holdfast.Tags(tags)))
		waiter := w.waiting(w.client().Mutex("a", tagged("43")), t.Context())
		last := w.waiting(w.client().Mutex("a"), t.Context())
		time.Sleep(time.Second)
		s := w.state("a")
		wantTags(t, s, "42 %+&=", "43 ")
		if !maps.Equal(s.Holders[0].Tags, tags) || s.Waiters[1].Tags != nil {
			t.Errorf("%q and %q", s.Holders[0].Tags, s.Waiters[1].Tags)
		}
		release(t, l)
		l = (<-waiter).Lease
		wantTags(t, w.state("a"), "43", "")
		release(t, l)
		l = (<-last).Lease
		time.Sleep(time.Second)
		wantTags(t, w.state("a"), "", "")
		release(t, l)
	})
}

// A hold passes from one goroutine to the next, and the tags change with the lease.
func TestTagsChangeWithALocalHandOver(t *testing.T) {
	for _, values := range [][]string{{"1", "2"}, {"1", ""}, {"", "1"}, {"1", "2", "1"}, {"", "1", ""}} {
		bubble(t, func(t *testing.T, w *world) {
			c := w.client()
			var waiters []<-chan outcome
			for _, value := range values {
				var options []holdfast.MutexOption
				if value != "" {
					options = append(options, tagged(value))
				}
				waiters = append(waiters, w.waiting(c.Mutex("a", options...), t.Context()))
			}
			l := (<-waiters[0]).Lease
			holder := l.HolderID()
			for _, next := range waiters[1:] {
				release(t, l)
				l = (<-next).Lease
				assert.MustTrue(t, l.HolderID() == holder, "not handed over")
			}
			time.Sleep(time.Second)
			wantTags(t, w.state("a"), values[len(values)-1], "")
			release(t, l)
		})
	}
}

// Readers of one process share a hold only if that hold has their tags.
func TestReadersWithOtherTagsHaveTheirOwnHold(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		for _, value := range []string{"1", "1", "2"} {
			assert.Must(t, assert.Err(c.RWMutex("a", tagged(value)).RLock(t.Context())))
		}
		time.Sleep(time.Second)
		wantTags(t, w.state("a"), "1 2", "")
	})
}

// Tags cost nothing on the way of a lock, and nothing at all if it is held for a moment. The
// tags of many locks go together.
func TestWhatTagsCost(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		release(t, mustLock(t, c.Mutex("a"))) // registers the client
		time.Sleep(time.Second)
		before := w.net.count("register_client")
		for range 10 {
			release(t, mustLock(t, c.Mutex("a", tagged("1"))))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		n := w.net.count("register_client")
		assert.True(t, n == before, "%d requests for locks that were held for a moment", n-before)
		for i := range 200 {
			mustLock(t, c.Mutex(fmt.Sprint("b", i), tagged(fmt.Sprint(i))))
		}
		time.Sleep(time.Second)
		assert.AtMost(t, w.net.count("register_client")-before, 200/16, "requests for 200 locks")
		wantTags(t, w.state("b7"), "7", "")
		wantTags(t, w.state("b199"), "199", "")
	})
}

// Tags that were not written, or that the server has lost, are there after the next refresh.
func TestTagsAreWrittenAgain(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		w.FailRequest(only("register_client", -1, errLink))
		mustLock(t, c.Mutex("a", tagged("1")))
		time.Sleep(time.Minute)
		wantTags(t, w.state("a"), "", "")
		w.FailRequest(nil)
		time.Sleep(5 * time.Minute)
		wantTags(t, w.state("a"), "1", "")
	})
}

// The record of a client forgets the notes on attempts that are over.
func TestOldTagsAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c := w.client()
		for i := range 1000 {
			l := mustLock(t, c.Mutex("a", tagged(fmt.Sprint(i))))
			time.Sleep(50 * time.Millisecond)
			release(t, l)
		}
		assert.AtMost(t, len(w.Dump("holdfast:client:"+c.ID())), 200, "fields after 1000 holds")
		time.Sleep(11 * time.Minute)
		assert.AtMost(t, len(w.Dump("holdfast:client:"+c.ID())), 6, "fields while nothing is held")
	})
}

func TestTagsThatCannotBeStored(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		many := map[string]string{}
		for i := range 17 {
			many[fmt.Sprint(i)] = ""
		}
		for _, c := range []struct {
			tags map[string]string
			want string
		}{
			{many, "17 tags: at most 16"},
			{map[string]string{"": "x"}, "empty key"},
			{map[string]string{strings.Repeat("k", 65): "x"}, "65 bytes, the limit is 64"},
			{map[string]string{"k": strings.Repeat("v", 257)}, "257 bytes, the limit is 256"},
			{map[string]string{"k": "\xff"}, "not valid UTF-8"},
		} {
			_, err := w.client().Mutex("a", holdfast.Tags(c.tags)).Lock(t.Context())
			assert.Is(t, err, holdfast.ErrInvalid)
			assert.False(t, err != nil && !strings.Contains(err.Error(), c.want), "%v, want %q", err, c.want)
		}
		delete(many, "0")
		many[strings.Repeat("k", 64)] = strings.Repeat("é", 128)
		delete(many, "1")
		release(t, mustLock(t, w.client().Mutex("a", holdfast.Tags(many))))
		release(t, mustLock(t, w.client().Mutex("a", holdfast.Tags(nil))))
	})
}

func wantStats(t *testing.T, c *holdfast.Client, want holdfast.Stats) {
	t.Helper()
	synctest.Wait()
	assert.Equal(t, c.Stats(), want, "the client does")
}

func TestStatsSayWhatAClientDoes(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		a, b := w.client(), w.client()
		wantStats(t, a, holdfast.Stats{})
		x := mustLock(t, a.Mutex("x"))
		mustLock(t, a.Mutex("y"))
		wantStats(t, a, holdfast.Stats{Holds: 2, Attempts: 2})
		granted := make(chan *holdfast.Lease)
		go func() { granted <- mustLock(t, b.Mutex("x")) }()
		wantStats(t, b, holdfast.Stats{Calls: 1, Waiters: 1, Subscriptions: 1, Attempts: 1})
		release(t, x)
		second := <-granted
		wantStats(t, b, holdfast.Stats{Holds: 1, Subscriptions: 1, Attempts: 1})
		wantStats(t, a, holdfast.Stats{Holds: 1, Attempts: 2})

		// An acquisition without an answer is cancelled until its lease would have ended.
		w.FailRequest(func(string, []string) error { return errors.New("the connection is broken") })
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := b.Mutex("z").TryLock(brief)
		cancel()
		assert.Is(t, err, holdfast.ErrUnknownOutcome)
		synctest.Wait()
		s := b.Stats()
		assert.True(t, s.Cancels == 1, "the client does %+v, want one cancel", s)
		w.FailRequest(nil)
		time.Sleep(2 * ttl)
		wantStats(t, b, holdfast.Stats{Holds: 1, Subscriptions: 1, Attempts: b.Stats().Attempts})
		release(t, second)
		assert.Must(t, b.Close(t.Context()))
		wantStats(t, b, holdfast.Stats{Attempts: b.Stats().Attempts})
	})
}

func TestStatsTellOfAClientThatPolls(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		c, _ := w.pushlessClient(errNoPerm, holdfast.Config{})
		held := mustLock(t, w.client().Mutex("x"))
		_, err := c.Mutex("x", holdfast.MaxWait(time.Second)).Lock(t.Context())
		assert.Is(t, err, holdfast.ErrHeld)
		got := c.Stats()
		assert.True(t, got.PushUnavailable && got.Subscriptions == 0 && got.Waiters == 0, "the client does %+v", got)
		release(t, held)
	})
}

// On Redisson's keys, a field is Java's if its UUID is of version 4; one client in 64 would be taken for Java.
func TestTheIDOfAClientIsNoRandomUUID(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for range 300 {
			id, err := base64.RawURLEncoding.DecodeString(w.client().ID())
			assert.Must(t, err)
			assert.MustTrue(t, len(id) == 16 && id[6]>>4 == 8 && id[8]>>6 == 2, "the client has the ID % x", id)
		}
	})
}
