package quorum_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/storetest"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// Two servers die, come back empty, a third is stopped, and the clock of
// another is wrong all the time.
func TestLocksOverFiveServersSurviveTheLossOfTwo(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		a := w.client(t)
		b := w.client(t)
		c := w.client(t)
		h := harness.NewHistory(t)
		contend(t, h, 10, a, b, c)

		held := take(t, c.Mutex("held"))
		w.vouched(t, held)
		w.servers[4].MoveClock(ahead + 10*ttl) // there the lease is over at once
		w.vouched(t, held)
		w.servers[0].Kill()
		w.servers[1].Kill()
		contend(t, h, 10, a, b, c)
		w.extend(t, held)
		assert.NoError(t, held.Err())
		assert.Is(t, assert.Err(a.Mutex("held").TryLock(harness.Within(t))), holdfast.ErrHeld)

		w.servers[0].Restart()
		w.servers[1].Restart()
		contend(t, h, 5, a, b, c)                           // they do not count yet
		w.known(t, ttl+timeout, w.servers[0], w.servers[1]) // and from here on they do
		w.vouched(t, held)
		w.servers[2].Pause()
		defer w.servers[2].Continue()
		contend(t, h, 10, a, b, c)
		w.servers[3].Kill() // one stopped, one dead, two that were brought back
		contend(t, h, 10, a, b, c)
		w.extend(t, held)
		assert.NoError(t, held.Err())
		assert.NoError(t, held.Release(harness.Within(t)))
		assert.Equal(t, h.Grants(), 3*45, "grants")
	})
}

func TestAServerThatForgotDoesNotGrantASecondTime(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		addrs, ways := w.ways(t, 3, 4)
		a := w.clientOf(t, w.storeAt(t, ttl, timeout, addrs))
		b := w.client(t)
		h := harness.NewHistory(t)
		contend(t, h, 1, a, b)
		w.known(t, ttl/5, w.servers[0]) // longer than a new quorum's
		for _, way := range ways {      // it has the lock on three servers only
			way.RefuseNew(true)
			way.Cut()
		}
		l := take(t, a.Mutex("x"))
		w.servers[2].Restart()
		w.servers[0].Pause()
		w.servers[1].Pause()
		// What is left is three servers that know of no holder.
		// A busy machine may leave one of them without an answer at first.
		redistest.Await(t, "who comes next is told why there is no lock", func() bool {
			m, err := b.Mutex("x").TryLock(harness.Within(t))
			if err != nil {
				return strings.Contains(err.Error(), "lost its memory")
			}
			assert.True(t, l.Err() != nil, "two holders, %d and %d", l.Token(), m.Token())
			return m.Release(harness.Within(t)) == nil
		})
		w.servers[0].Continue()
		w.servers[1].Continue()
		redistest.Await(t, "the lock is granted again", func() bool {
			m, err := b.Mutex("x").TryLock(harness.Within(t))
			if err != nil {
				return false
			}
			assert.True(t, l.Err() != nil, "two holders")
			return m.Release(harness.Within(t)) == nil
		})
		_ = l.Release(harness.Within(t))
	})
}

func TestTheSameServerUnderTwoNamesIsRefused(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		_, port, _ := strings.Cut(w.servers[1].Addr(), ":")
		other := "localhost:" + port
		s, err := quorum.New([]store.Store{
			w.open(t, w.servers[0].Addr(), redistest.Patience/4), w.open(t, w.servers[1].Addr(), redistest.Patience/4),
			w.open(t, other, redistest.Patience/4),
		}, quorum.Config{Timeout: redistest.Patience / 4})
		assert.Must(t, err)
		t.Cleanup(s.Close)
		c, err := holdfast.New(s, holdfast.Config{Prefix: redistest.Prefix()})
		assert.Must(t, err)
		defer c.Close(harness.Within(t))
		_, err = c.Mutex("x").Lock(harness.Within(t))
		if !errors.Is(err, quorum.ErrSameServer) || !strings.Contains(err.Error(), w.servers[1].Addr()) ||
			!strings.Contains(err.Error(), other) {
			t.Errorf("error %v", err)
		}
		for _, s := range w.servers {
			got := s.Do(t, "EXISTS", harness.Key("x"))
			assert.True(t, got == int64(0), "taken all the same")
		}
	})
}

func TestConformance(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		all := func(f func(s *redistest.Server)) {
			for _, s := range w.servers {
				f(s)
			}
		}
		storetest.Run(t, func(t *testing.T) storetest.Env {
			return storetest.Env{
				// The suite's leases are long. So is what one server is given: a
				// busy machine must not pass for a silent server.
				Store:     w.store(t, 10*time.Minute, redistest.Patience),
				NoPermits: true, NoConversions: true, NoOwners: true,
				Publish: func(channel, payload string) { w.servers[0].Do(t, "PUBLISH", channel, payload) },
				Plant: func(key string) {
					all(func(s *redistest.Server) { s.Do(t, "SET", key, "foreign") })
				},
				FlushScripts: func() { all(func(s *redistest.Server) { s.Do(t, "SCRIPT", "FLUSH") }) },
				// The one that the suite publishes on: each of them tells of
				// its return, and the suite waits for one.
				KillSubscribers: func() { w.servers[0].Do(t, "CLIENT", "KILL", "TYPE", "pubsub") },
				Silence: func() (resume func()) {
					all((*redistest.Server).Pause)
					return func() { all((*redistest.Server).Continue) }
				},
			}
		})
	})
}
