package rueidis_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/mark"
	"github.com/holdfast-go/holdfast/internal/slot"
	"github.com/holdfast-go/holdfast/store/internal/adaptertest"
	rueidisstore "github.com/holdfast-go/holdfast/store/rueidis"
)

// silence is how long a connection may be silent before rueidis gives it up.
const silence = 10 * time.Minute

// imitation is a Cluster in virtual time. Node A has the lower half of the slots, node B the upper half, and node C
// gets some later. A node that is frozen accepts connections and answers nothing.
type imitation struct {
	t     *testing.T
	store *rueidisstore.Store

	mu     sync.Mutex
	owners map[int]string           // of slots that have moved
	moving map[int]string           // where slots move to
	frozen map[string]chan struct{} // closed when the node answers again
}

// imitate runs f with a store on such a Cluster.
func imitate(t *testing.T, f func(c *imitation)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &imitation{
			t: t, owners: map[int]string{}, moving: map[int]string{}, frozen: map[string]chan struct{}{},
		}
		rdb, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{"a:1", "b:1"}, DisableCache: true, ConnWriteTimeout: silence,
			DialCtxFn: func(_ context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
				near, far := net.Pipe()
				go c.serve(addr, far)
				return near, nil
			},
		})
		assert.Must(t, err)
		c.store = rueidisstore.New(rdb)
		defer func() {
			for addr := range c.frozen {
				c.thaw(addr)
			}
			c.store.CloseIdleConnections()
			rdb.Close()
			time.Sleep(time.Minute) // rueidis closes connections of former nodes later
		}()
		f(c)
	})
}

func (c *imitation) freeze(addr string) { c.set(func() { c.frozen[addr] = make(chan struct{}) }) }

func (c *imitation) thaw(addr string) {
	c.set(func() {
		if frozen := c.frozen[addr]; frozen != nil {
			close(frozen)
			delete(c.frozen, addr)
		}
	})
}

func (c *imitation) set(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

// serve answers the commands of a connection.
func (c *imitation) serve(addr string, conn net.Conn) {
	defer conn.Close()
	r, asking := bufio.NewReader(conn), false
	for {
		words, err := command(r)
		if err != nil {
			return
		}
		c.mu.Lock()
		frozen := c.frozen[addr]
		c.mu.Unlock()
		if frozen != nil {
			<-frozen
		}
		if _, err := io.WriteString(conn, c.answer(addr, words, asking)); err != nil {
			return
		}
		asking = words[0] == "ASKING"
	}
}

// command reads a command.
func command(r *bufio.Reader) (words []string, err error) {
	number := func() (n int) {
		line, e := r.ReadString('\n')
		if err = e; err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(line[1:]))
		}
		return n
	}
	for range number() {
		word := make([]byte, number()+len("\r\n"))
		if err == nil {
			_, err = io.ReadFull(r, word)
		}
		if err != nil {
			return nil, err
		}
		words = append(words, strings.TrimSpace(string(word)))
	}
	return words, err
}

func (c *imitation) answer(addr string, words []string, asking bool) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch words[0] {
	case "HELLO":
		return "%2\r\n+proto\r\n:3\r\n+version\r\n+7.0.0\r\n"
	case "CLUSTER":
		return c.slots()
	case "EVALSHA":
		n := slot.Of(words[3])
		switch owner, to := c.owner(n), c.moving[n]; {
		case asking && addr == to:
		case addr != owner:
			return fmt.Sprintf("-MOVED %d %s\r\n", n, owner)
		case to != "":
			return fmt.Sprintf("-ASK %d %s\r\n", n, to)
		}
		return "+" + words[len(words)-1] + "\r\n"
	}
	return "+OK\r\n"
}

func (c *imitation) owner(n int) string {
	switch owner := c.owners[n]; {
	case owner != "":
		return owner
	case n < slot.Count/2:
		return "a:1"
	}
	return "b:1"
}

// slots is the answer to CLUSTER SLOTS.
func (c *imitation) slots() string {
	entries, n := "", 0
	for first := 0; first < slot.Count; n++ {
		last, owner := first, c.owner(first)
		for last+1 < slot.Count && c.owner(last+1) == owner {
			last++
		}
		entries += fmt.Sprintf("*3\r\n:%d\r\n:%d\r\n*2\r\n+%s\r\n:1\r\n", first, last, strings.TrimSuffix(owner, ":1"))
		first = last + 1
	}
	return fmt.Sprintf("*%d\r\n%s", n, entries)
}

// keys returns keys that a node has, each in a slot of its own.
func (c *imitation) keys(addr string) (first, second string) {
	for i := 0; ; i++ {
		key := fmt.Sprint("key", i)
		switch n := slot.Of(key); {
		case c.owner(n) != addr:
		case first == "":
			first = key
		case n != slot.Of(first):
			return first, key
		}
	}
}

func (c *imitation) run(parent context.Context, key string) error {
	limited := adaptertest.Limit{Context: parent, At: time.Now().Add(time.Hour)}
	got, err := c.store.Run(limited, adaptertest.Echo, []string{key}, []string{"x"})
	assert.True(c.t, err != nil || got == "x", "the answer is %q", got)
	return err
}

// use makes so many requests for each key that the store may have all connections to the nodes, and takes them for
// nodes that answer.
func (c *imitation) use(keys ...string) {
	c.t.Helper()
	for range 400 {
		for _, key := range keys {
			assert.Must(c.t, c.run(c.t.Context(), key))
		}
		synctest.Wait()
	}
}

// cancels expects that a request which gets no answer ends with its context.
func (c *imitation) cancels(key string) {
	c.t.Helper()
	for _, parent := range []context.Context{c.t.Context(), mark.PushFirst(c.t.Context())} {
		ctx, cancel := context.WithCancel(parent)
		start := time.Now()
		time.AfterFunc(time.Millisecond, cancel)
		assert.Is(c.t, c.run(ctx, key), context.Canceled)
		assert.Equal(c.t, time.Since(start), time.Millisecond, "the request ended after")
	}
}

// pending returns how many goroutines more there are while n requests wait for an answer.
func (c *imitation) pending(n int, key string) (more int) {
	c.t.Helper()
	before := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(c.t.Context())
	var all sync.WaitGroup
	for range n {
		all.Go(func() { assert.Is(c.t, c.run(ctx, key), context.Canceled) })
	}
	synctest.Wait()
	more = runtime.NumGoroutine() - before
	cancel()
	all.Wait()
	return more
}

// In a Cluster, too, a request whose context can be cancelled runs in the caller's goroutine. It costs two allocations.
func TestARequestInAClusterNeedsNoGoroutine(t *testing.T) {
	imitate(t, func(c *imitation) {
		a, _ := c.keys("a:1")
		b, _ := c.keys("b:1")
		c.use(a, b)
		allocs := func(ctx context.Context) float64 {
			return testing.AllocsPerRun(200, func() { assert.Must(c.t, c.run(ctx, a)) })
		}
		plain := allocs(context.WithoutCancel(c.t.Context()))
		assert.AtMost(c.t, allocs(c.t.Context())-plain, 2, "allocations more than with a plain context")
		for _, key := range []string{a, b} {
			addr := c.owner(slot.Of(key))
			c.freeze(addr)
			assert.AtMost(c.t, c.pending(20, key), 30, "goroutines for 20 requests")
			c.thaw(addr)
		}
	})
}

// A node freezes, and its connections are given up. While new ones hang, the other node answers all requests. A
// request to the frozen node ends with its context all the same.
func TestACancelDoesNotWaitForAConnectionToAFrozenNode(t *testing.T) {
	imitate(t, func(c *imitation) {
		a, _ := c.keys("a:1")
		b, _ := c.keys("b:1")
		c.use(a, b)
		c.freeze("b:1")
		c.cancels(b)
		time.Sleep(2 * silence)
		for range 3 {
			c.use(a)
			c.cancels(b)
		}
		c.thaw("b:1")
		time.Sleep(time.Minute)
		c.use(b)
		c.freeze("b:1")
		assert.AtMost(c.t, c.pending(20, b), 30, "goroutines for 20 requests when the node has answered again")
	})
}

// A slot moves to a node that the client does not know, and that freezes later. The slot's former node goes on
// answering for its other slots.
func TestACancelDoesNotWaitForTheNodeThatASlotHasMovedTo(t *testing.T) {
	imitate(t, func(c *imitation) {
		a, moved := c.keys("a:1")
		b, _ := c.keys("b:1")
		c.use(a, b, moved)
		c.set(func() { c.moving[slot.Of(moved)] = "b:1" })
		assert.NoError(c.t, c.run(c.t.Context(), moved)) // ASK
		c.freeze("b:1")
		c.cancels(moved)
		c.thaw("b:1")
		c.set(func() { c.moving[slot.Of(moved)], c.owners[slot.Of(moved)] = "", "c:1" })
		c.use(a, b, moved) // MOVED, once
		c.freeze("c:1")
		for range 50 { // the store asks a node that answers for the slots, and may ask the frozen one before
			c.cancels(moved)
			time.Sleep(4 * time.Second)
		}
		time.Sleep(2 * silence)
		for range 3 {
			c.use(a, b)
			c.cancels(moved)
		}
		c.thaw("c:1")
		time.Sleep(time.Minute)
		c.use(moved)
	})
}
