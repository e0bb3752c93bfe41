package quorum_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/store"
)

// lazyClient makes a client over lazy nodes, which can be opened while their servers are up.
// opens counts the tries of each.
func (w *world) lazyClient(opens *[5]atomic.Int32) *holdfast.Client {
	w.t.Helper()
	nodes := w.nodes() // the first one is not lazy: it provides the clock
	for i, p := range w.peers[1:] {
		i++
		nodes[i] = quorum.Lazy(func() (store.Store, error) {
			opens[i].Add(1)
			time.Sleep(time.Millisecond)
			if p.isDead() {
				return nil, errRefused
			}
			return p, nil
		})
	}
	return w.clientOf(w.storeOver(nodes, quorum.Config{}))
}

func TestAQuorumIsOpenedWhileServersAreDown(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		for _, i := range []int{1, 3} {
			w.peers[i].kill()
		}
		var opens [5]atomic.Int32
		c := w.lazyClient(&opens)
		l := w.lock(c, "x")
		w.wantOn("x", "10101")
		for _, err := range c.List(t.Context(), "") { // lazy nodes can be read, too
			assert.NoError(t, err)
		}
		time.Sleep(time.Minute)
		for i := 1; i < 5; i++ {
			dead := i == 1 || i == 3
			n := opens[i].Load()
			assert.False(t, !dead && n != 1 || dead && (n < 2 || n > 300), "node %d was opened %d times", i, n)
		}
		for _, i := range []int{1, 3} {
			w.peers[i].revive(true)
		}
		time.Sleep(ttl)
		w.wantOn("x", "11111")
		got := make(chan *holdfast.Lease)
		go func() { got <- w.lock(w.client(), "x") }()
		synctest.Wait()
		w.release(l)
		w.release(<-got)
	})
}

func TestALazyNodeMustBeAServer(t *testing.T) {
	badAddress := errors.New("a bad address")
	for what, node := range map[string]func() (store.Store, error){
		"a bad address": func() (store.Store, error) { return nil, badAddress },
		"returned nil":  func() (store.Store, error) { return nil, nil },
		"is a Cluster":  func() (store.Store, error) { return sharded{memstore.New()}, nil },
	} {
		nodes := stores(3)
		nodes[0], nodes[1] = quorum.Lazy(node), quorum.Lazy(node)
		_, c := open(t, nodes, quorum.Config{})
		_, err := c.Mutex("x").TryLock(t.Context())
		assert.True(t, err != nil && strings.Contains(err.Error(), what) && !errors.Is(err, holdfast.ErrHeld),
			"%s: %v", what, err)
	}
}

// A node that takes long to open delays nobody for longer than a silent server.
func TestALazyNodeThatHangsIsLikeASilentServer(t *testing.T) {
	identifiedBubble(t, func(t *testing.T, w *world) {
		hang := make(chan struct{})
		nodes := w.nodes()
		nodes[4] = quorum.Lazy(func() (store.Store, error) { <-hang; return w.peers[4], nil })
		c := w.clientOf(w.storeOver(nodes, quorum.Config{}))
		start := time.Now()
		l := w.lock(c, "x")
		assert.AtMost(t, time.Since(start), 3*time.Second, "it took")
		close(hang)
		time.Sleep(ttl)
		w.wantOn("x", "11111")
		w.release(l)
	})
}
