package quorum_test

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/store"
)

// failures are ways in which a server does not answer an acquisition.
var failures = map[string]func(p *peer) (mend func()){
	"it is silent": func(p *peer) func() { return p.Stall() },
	"its connections break": func(p *peer) func() {
		p.FailRequest(func(string, []string) error { return io.EOF })
		return func() { p.FailRequest(nil) }
	},
	"its answers are lost": func(p *peer) func() {
		p.LoseReply(func(string, []string) error { return errReset })
		return func() { p.LoseReply(nil) }
	},
	"it is down":             func(p *peer) func() { p.kill(); return func() { p.revive(false) } },
	"it was down, and empty": func(p *peer) func() { p.kill(); return func() { p.revive(true) } },
	"its requests come late": func(p *peer) func() {
		p.slow(12*time.Second, 0)
		return func() { p.slow(0, 0) }
	},
}

// A server that did not answer the acquisition holds the lease from the next renewals on, and
// vouches for it like the others.
func TestAServerThatDidNotAnswerJoinsTheLease(t *testing.T) {
	for what, way := range failures {
		for _, first := range []int{0, 1} { // with the coordinator among them, and without
			t.Run(what, func(t *testing.T) {
				identifiedBubble(t, func(t *testing.T, w *world) {
					order := coordinators("x")
					two := []*peer{w.peers[order[first]], w.peers[order[3]]}
					var mend []func()
					for _, p := range two {
						mend = append(mend, way(p))
					}
					l := w.lock(w.client(), "x")
					for _, f := range mend {
						f()
					}
					time.Sleep(ttl + ttl/2) // until late requests are done
					w.wantOn("x", "11111")
					time.Sleep(2 * ttl)
					w.wantOn("x", "11111")
					for i, p := range w.peers { // two others forget
						if i != order[first] && i != order[3] && i != order[4] {
							p.Restart()
						}
					}
					time.Sleep(2 * ttl)
					assert.NoError(t, l.Err())
					w.release(l)
					time.Sleep(2 * ttl)
					synctest.Wait()
					w.wantOn("x", "00000")
				})
			})
		}
	}
}

// A request that comes to a server after the server has joined the lease, and after the
// release, leaves nothing there.
func TestALateRequestOfAServerThatJoinedLeavesNothing(t *testing.T) {
	for _, first := range []int{0, 1} { // with the coordinator among them, and without
		identifiedBubble(t, func(t *testing.T, w *world) {
			order := coordinators("x")
			two := []*peer{w.peers[order[first]], w.peers[order[3]]}
			for _, p := range two {
				p.slow(ttl*2/3, 0)
			}
			l := w.lock(w.client(), "x")
			for _, p := range two {
				p.slow(0, 0)
			}
			time.Sleep(ttl / 2) // the first renewal
			w.wantOn("x", "11111")
			w.release(l)
			w.wantOn("x", "00000")
			time.Sleep(ttl / 2) // the late requests come
			w.wantOn("x", "00000")
		})
	}
}

// A server that refuses cancels for a while still owes them afterwards.
func TestACancelThatIsRefusedForAWhileIsSentAgain(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		c := w.client()
		w.release(w.lock(c, "y")) // so that the client has asked every server what it may do
		order := coordinators("x")
		two := []*peer{w.peers[order[1]], w.peers[order[3]]}
		for _, p := range two {
			p.slow(ttl*2/3, 0)
		}
		l := w.lock(c, "x")
		for _, p := range two {
			p.slow(0, 0)
		}
		time.Sleep(ttl / 2) // the first renewal
		w.release(l)
		for _, p := range two {
			p.FailRequest(failing("cancel", &store.ServerError{Code: "NOREPLICAS", Message: "NOREPLICAS not enough"}))
		}
		time.Sleep(ttl / 4) // the late requests come
		for _, p := range two {
			p.FailRequest(nil)
		}
		time.Sleep(ttl / 4)
		w.wantOn("x", "00000")
	})
}

// A lease that is held for long keeps the marks of the servers, though nobody acquires
// anything meanwhile.
func TestRenewalsKeepTheMarks(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		l := w.lock(w.client(), "x")
		time.Sleep(time.Hour)
		for i, p := range w.peers {
			assert.AtLeast(t, p.TTL("holdfast:quorum"), 7*24*time.Hour-time.Minute,
				"the mark of server %d lives for", i)
		}
		w.release(l)
	})
}
