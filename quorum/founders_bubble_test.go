package quorum_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Several clients begin a quorum at once.

// founder is a server as one client reaches it: its reads of the mark arrive after read, and what it writes
// after write.
type founder struct {
	*peer
	read, write time.Duration
}

func (f founder) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	switch {
	case action == script.MarkServer && len(args) == 1:
		time.Sleep(f.read)
	case action == script.MarkServer:
		time.Sleep(f.write)
	}
	return f.peer.Run(ctx, action, keys, args)
}

// begin lets one client for each list of servers use the quorum at once, and returns the stores.
func (w *world) begin(clients [][]founder) []*quorum.Store {
	w.t.Helper()
	var stores []*quorum.Store
	var all sync.WaitGroup
	for n, servers := range clients {
		nodes := make([]store.Store, len(servers))
		for i, f := range servers {
			nodes[i] = f
		}
		s := w.storeOver(nodes, quorum.Config{})
		c := w.clientOf(s)
		stores = append(stores, s)
		all.Go(func() {
			l, err := c.Mutex(fmt.Sprint("lock ", n)).TryLock(context.Background())
			if assert.NoError(w.t, err); err == nil {
				assert.NoError(w.t, l.Release(context.Background()))
			}
		})
	}
	all.Wait()
	synctest.Wait()
	return stores
}

// wantAllCount checks that every client counts on every server.
func (w *world) wantAllCount(stores []*quorum.Store, how string, args ...any) {
	w.t.Helper()
	for n, s := range stores {
		nodes, err := s.ReadNodes(context.Background(), "holdfast")
		assert.Must(w.t, err)
		for _, node := range nodes {
			assert.True(w.t, node.Counts, "client %d: %s does not count, as it %s (%s)",
				n, node.Name, node.Why, fmt.Sprintf(how, args...))
		}
	}
}

// The first client reads all servers at once, and its marks arrive early or late. The second one reads each of
// them before the first mark, between the two, or after them. So there are six ways for a server, and this test
// has every choice of five of them. Servers of the same way are interchangeable.
func TestOfTwoClientsThatBeginAQuorumNoneTakesAServerForNew(t *testing.T) {
	type way struct{ write, read time.Duration }
	var ways []way
	for _, write := range []time.Duration{10 * time.Millisecond, 30 * time.Millisecond} {
		for _, read := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond, 40 * time.Millisecond} {
			ways = append(ways, way{write, read})
		}
	}
	choices := [][]int{nil}
	for range 5 {
		var longer [][]int
		for _, c := range choices {
			for next := range ways {
				if len(c) == 0 || c[len(c)-1] <= next {
					longer = append(longer, append(slices.Clone(c), next))
				}
			}
		}
		choices = longer
	}
	assert.Equal(t, len(choices), 252, "choices")
	for _, choice := range choices {
		bubble(t, func(t *testing.T, w *world) {
			one, other := make([]founder, 5), make([]founder, 5)
			for i, p := range w.peers {
				one[i] = founder{peer: p, write: ways[choice[i]].write}
				other[i] = founder{peer: p, read: ways[choice[i]].read, write: time.Millisecond}
			}
			if w.wantAllCount(w.begin([][]founder{one, other}), "%v of %v", choice, ways); t.Failed() {
				t.FailNow()
			}
		})
	}
}

// Several clients, and requests that take as long as they like.
func TestOfManyClientsThatBeginAQuorumNoneTakesAServerForNew(t *testing.T) {
	const seeds uint64 = max(200/few, 1)
	for seed := range seeds {
		bubble(t, func(t *testing.T, w *world) {
			random := rand.New(rand.NewPCG(seed, 12))
			some := func() time.Duration { return time.Duration(random.IntN(40)) * time.Millisecond }
			clients := make([][]founder, 2+random.IntN(4))
			for n := range clients {
				for _, p := range w.peers {
					clients[n] = append(clients[n], founder{p, some(), some()})
				}
			}
			if w.wantAllCount(w.begin(clients), "seed %d", seed); t.Failed() {
				t.FailNow()
			}
		})
	}
}

// A server forgets in the instant in which a quorum begins: by a restart, or because somebody deletes all of its
// keys. It looks like one that the first client has not marked yet, and it does not count for MaxTTL.
func TestAServerThatForgetsWhileAQuorumBeginsDoesNotCount(t *testing.T) {
	for _, forget := range []func(p *peer){func(p *peer) { p.Restart() }, func(p *peer) { p.Flush() }} {
		for _, after := range []time.Duration{0, 10 * time.Millisecond, 100 * time.Millisecond} {
			bubble(t, func(t *testing.T, w *world) {
				a, s := w.client(), w.store()
				l := w.lock(a, "x")
				time.Sleep(after)
				forget(w.peers[2])
				b := w.clientOf(s)
				w.release(w.lock(b, "other"))
				synctest.Wait()
				infos := s.Nodes()
				assert.True(t, !infos[2].Counts && strings.Contains(infos[2].Why, "lost its memory"), "%+v", infos[2])
				w.kill(3, 4)
				_, err := b.Mutex("x").TryLock(t.Context())
				assert.True(t, err != nil, "two holders")
				w.revive(3, 4)
				w.release(l)
			})
		}
	}
}

// While servers are replaced, processes have different sets. If the old server is stopped first, the
// majorities of any two sets share a server.
func TestAServerIsStoppedBeforeItIsReplaced(t *testing.T) {
	bubble(t, func(t *testing.T, w *world) {
		all := w.nodes()
		before := w.clientOf(w.storeOver(all[:3], quorum.Config{}))
		w.release(w.lock(before, "x"))
		w.kill(2)
		after := w.clientOf(w.storeOver([]store.Store{all[0], all[1], all[3]}, quorum.Config{}))
		w.release(w.lock(after, "x"))
		time.Sleep(2 * time.Minute) // the new server counts
		w.release(w.lock(after, "x"))
		time.Sleep(2 * time.Second)
		try := func(c *holdfast.Client, away int) *holdfast.Lease {
			w.kill(away)
			defer w.revive(away)
			l, _ := c.Mutex("x").TryLock(t.Context())
			return l
		}
		for i := range 18 {
			first, second, away := before, after, []int{0, 1, 3}
			if i%2 == 1 {
				first, second = after, before
			}
			l, m := try(first, away[i/2%3]), try(second, away[i/6])
			assert.True(t, l == nil || m == nil, "run %d: two hold the lock", i)
			for _, held := range []*holdfast.Lease{l, m} {
				if held != nil {
					w.release(held)
				}
			}
			time.Sleep(time.Minute) // what is owed is cancelled
		}
	})
}
