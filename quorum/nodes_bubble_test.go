package quorum_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/store"
)

func TestNodesKnowNothingBeforeTheFirstRequest(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		for i, n := range w.store().Nodes() {
			if n.Answers || !n.AnswersSince.IsZero() || n.Counts || n.RoundTrip != 0 || n.ClockOffset != 0 ||
				!strings.Contains(n.Why, "not been read") {
				t.Errorf("node %d: %+v", i, n)
			}
		}
	})
}

// All answer and count, with the offsets of their clocks and the time of a round trip.
func TestNodesTellOfClocksAndRoundTrips(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		for i, p := range w.peers {
			p.slow(time.Duration(i)*time.Millisecond, 2*time.Millisecond)
		}
		s := w.store()
		c := w.clientOf(s)
		asked := time.Now()
		w.release(w.lock(c, "x"))
		synctest.Wait()
		for i, n := range s.Nodes() {
			assert.True(t, n.Answers && n.Counts && n.Why == "" && n.OutSince.IsZero() && n.CountsFrom.IsZero(),
				"node %d does not count: %+v", i, n)
			assert.True(t, !n.AnswersSince.Before(asked) && !n.AnswersSince.After(time.Now()),
				"node %d answers since %v, first asked %v", i, n.AnswersSince, asked)
			assert.Equal(t, n.RoundTrip, time.Duration(i+2)*time.Millisecond, "node %d: a round trip of", i)
			if off := n.ClockOffset - skew[i]; off > n.ClockError || -off > n.ClockError {
				t.Errorf("node %d: its clock is %v ahead (error %v), want %v", i, n.ClockOffset, n.ClockError, skew[i])
			}
			assert.True(t, n.ClockError > 0 && n.ClockError <= 10*time.Millisecond,
				"node %d: an error of %v", i, n.ClockError)
		}
	})
}

// A server dies, and comes back without its memory. First it does not answer, then it does not
// count, for as long as a lease can last.
func TestNodesTellOfAServerThatDiedAndForgot(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		s := w.store()
		c := w.clientOf(s)
		w.lock(c, "held") // it is renewed, so the servers are asked now and then
		synctest.Wait()
		w.peers[2].kill()
		died := time.Now()
		time.Sleep(time.Minute)
		n := s.Nodes()[2]
		assert.True(t, !n.Answers && !n.AnswersSince.Before(died) && !n.AnswersSince.After(died.Add(ttl)),
			"a server that died at %v: %+v", died, n)
		for i, other := range s.Nodes() {
			if i != 2 {
				assert.True(t, other.Answers && other.Counts, "another server must answer and count: %+v", other)
			}
		}
		w.peers[2].revive(true)
		back := time.Now()
		w.release(w.lock(c, "x"))
		time.Sleep(ttl)
		w.release(w.lock(c, "x"))
		synctest.Wait()
		n = s.Nodes()[2]
		assert.True(t, n.Answers && !n.AnswersSince.Before(back),
			"a server that came back at %v must answer since then: %+v", back, n)
		if n.Counts || n.OutSince.Before(back) || !n.CountsFrom.After(time.Now()) ||
			n.CountsFrom.Sub(n.OutSince) > time.Minute+time.Second || !strings.Contains(n.Why, "lost its memory") {
			t.Errorf("a server that lost its memory at %v counts: %+v", back, n)
		}
		from := n.CountsFrom
		time.Sleep(time.Until(from) + time.Millisecond)
		n = s.Nodes()[2]
		assert.True(t, n.Counts && n.Why == "" && n.OutSince.IsZero(), "a server whose probation is over: %+v", n)
	})
}

// Two applications use one store, each with a prefix. One of them has not seen the server
// forget: the other's word counts.
func TestNodesTakeTheWorstOfSeveralPrefixes(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		s := w.store()
		w.release(w.lock(w.clientOf(s), "x"))
		w.peers[1].kill()
		w.peers[1].revive(true)
		other := w.clientWith(s, holdfast.Config{Prefix: "other"})
		w.release(w.lock(other, "x")) // a quorum begins for that prefix: all count
		if !s.Nodes()[1].Counts {
			t.Errorf("nobody has read the node since: %+v", s.Nodes()[1])
		}
		w.release(w.lock(w.client(), "x"))
		time.Sleep(10 * time.Second)
		w.release(w.lock(w.clientOf(s), "x"))
		synctest.Wait()
		n := s.Nodes()[1]
		assert.True(t, !n.Counts, "a node that forgot: %+v", n)
	})
}

// A tool that acquires no lock reads the nodes, and changes nothing there.
func TestReadNodesOfAStoreThatHasDoneNothing(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		w.kill(0, 1)
		w.peers[1].revive(true)
		marks := func() (all []string) {
			for _, p := range w.peers {
				all = append(all, p.Dump("holdfast:quorum")["mark"])
			}
			return all
		}
		before := marks()
		assert.MustTrue(t, before[1] == "" && before[2] != "",
			"the marks are %q: this test wants one server without", before)
		s := w.store()
		infos, err := s.ReadNodes(t.Context(), "holdfast")
		assert.Must(t, err)
		for i, n := range infos {
			assert.False(t, n.Answers != (i != 0) || n.Counts != (i > 1) || i > 0 && n.Name != w.peers[i].name,
				"node %d: %+v", i, n)
		}
		left := time.Until(infos[1].CountsFrom) - time.Minute // beyond the longest lease
		if n := infos[1]; !strings.Contains(n.Why, "lost its memory") || left > time.Second || left < -time.Second {
			t.Errorf("the node that forgot: %+v", n)
		}
		after := marks()
		assert.True(t, slices.Equal(before, after), "the marks were %q, and are %q", before, after)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.Is(t, assert.Err(s.ReadNodes(ctx, "holdfast")), context.Canceled)
		s.Close()
		assert.Is(t, assert.Err(s.ReadNodes(t.Context(), "holdfast")), quorum.ErrClosed)
	})
}

// A server that refuses its clients answers, and does not count. The reason is the server's.
func TestNodesTellOfAServerThatRefuses(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		s := w.store()
		w.release(w.lock(w.clientOf(s), "x"))
		read := func() quorum.NodeInfo {
			nodes, err := s.ReadNodes(t.Context(), "holdfast")
			assert.Must(t, err)
			return nodes[1]
		}
		began := time.Now()
		w.peers[1].FailRequest(func(string, []string) error {
			return &store.ServerError{Code: "NOAUTH", Message: "NOAUTH Authentication required."}
		})
		read()
		time.Sleep(time.Second)
		if n := read(); !n.Answers || n.Counts || n.Why != "refuses our requests: NOAUTH Authentication required." ||
			n.OutSince.Sub(began).Abs() > 100*time.Millisecond {
			t.Errorf("it refuses, and is %+v", n)
		}
		w.kill(1)
		if n := read(); n.Answers || n.Why != "" {
			t.Errorf("it says nothing any more, and is %+v", n)
		}
		w.revive(1)
		w.peers[1].FailRequest(nil)
		if n := read(); !n.Answers || !n.Counts || n.Why != "" || !n.OutSince.IsZero() {
			t.Errorf("it refuses no more, and is %+v", n)
		}
	})
}

// If one server lacks a permission, the quorum does. The refusal has the commands that any of them
// lacks, and their names.
func TestARefusalForLackOfAPermissionNamesTheServers(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		w.peers[0].lacks, w.peers[2].lacks = "publish", "hset publish"
		_, err := w.client().Mutex("x").TryLock(t.Context())
		assert.MustTrue(t, err != nil, "acquired")
		assert.Contains(t, err.Error(), "the user at server-0, server-2 may not run hset, which")
		assert.Contains(t, holdfast.Hint(err), "+hset")

		w.peers[0].lacks, w.peers[2].lacks = "", ""
		for _, p := range w.peers[:3] {
			p.FailRequest(func(action string, _ []string) error {
				if action != "acquire" {
					return nil
				}
				return &store.ServerError{Code: "NOPERM", Message: "NOPERM No permissions to access a key"}
			})
		}
		_, err = w.client().Mutex("x").TryLock(t.Context())
		assert.Contains(t, err.Error(),
			"3 of 5 nodes (server-0, server-1, server-2): server: NOPERM No permissions")
		assert.Contains(t, holdfast.Hint(err), "the keys ~holdfast:*")
	})
}

// The end of a call's context comes before the last answer. The error names the servers that had refused or failed
// by then, and those that had not answered, in every call.
func TestACallThatEndsBeforeTheLastAnswerNamesTheServers(t *testing.T) {
	refused := &store.ServerError{Code: "WRONGPASS", Message: "WRONGPASS invalid username-password pair"}
	calls := map[string]func(ctx context.Context, c *holdfast.Client, l *holdfast.Lease) error{
		"TryLock": func(ctx context.Context, c *holdfast.Client, _ *holdfast.Lease) error {
			return assert.Err(c.Mutex("x").TryLock(ctx))
		},
		"Lock": func(ctx context.Context, c *holdfast.Client, _ *holdfast.Lease) error {
			return assert.Err(c.Mutex("x").Lock(ctx))
		},
		"Release": func(ctx context.Context, _ *holdfast.Client, l *holdfast.Lease) error { return l.Release(ctx) },
		"Inspect": func(ctx context.Context, c *holdfast.Client, _ *holdfast.Lease) error {
			return assert.Err(c.Inspect(ctx, "x"))
		},
		"Evict": func(ctx context.Context, c *holdfast.Client, _ *holdfast.Lease) error {
			return assert.Err(c.Evict(ctx, "x", holdfast.Eviction{Reason: "r", By: "b"}))
		},
	}
	for name, call := range calls {
		for _, first := range []bool{true, false} {
			if first && name == "Release" {
				continue // there is nothing to release
			}
			bubble(t, func(t *testing.T, w *world) {
				c := w.client()
				var l *holdfast.Lease
				if !first {
					l = w.lock(c, "y")
					synctest.Wait()
				}
				for _, p := range w.peers[:2] {
					p.FailRequest(func(string, []string) error { return refused })
				}
				w.peers[2].slow(time.Minute, 0)
				w.peers[3].slow(time.Minute, 0)
				ctx, cancel := context.WithCancel(t.Context()) // a deadline would bound the requests, too
				time.AfterFunc(100*time.Millisecond, cancel)
				err := call(ctx, c, l)
				assert.MustTrue(t, err != nil, "%s", name)
				for _, part := range []string{"server-0: server: WRONG", "server-1: server: WRONG", "server-3"} {
					assert.True(t, strings.Contains(err.Error(), part), "%s, first %v: %v", name, first, err)
				}
				assert.True(t, !strings.Contains(err.Error(), "server-4"), "%s: %v", name, err)
				for _, p := range w.peers {
					p.FailRequest(nil)
					p.slow(0, 0)
				}
			})
		}
	}
}
