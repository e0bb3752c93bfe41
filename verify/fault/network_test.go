package fault

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/history"
)

// way is a world of one client with one way to one server.
type way struct {
	World
	Client
	proxy *redistest.Proxy
}

func (w way) TTL() time.Duration          { return 200 * time.Millisecond }
func (w way) Topology() string            { return Standalone }
func (w way) Clients() []Client           { return []Client{w} }
func (w way) Number() int                 { return 1 }
func (w way) Proxies() []*redistest.Proxy { return []*redistest.Proxy{w.proxy} }

// during injects a fault, and calls act until it is over.
func (w way) during(t *testing.T, name string, seed uint64, act func()) history.FaultSpan {
	t.Helper()
	faults, err := Named([]string{name})
	assert.Must(t, err)
	spans := make(chan history.FaultSpan, 1)
	go func() {
		span, _ := faults[0].Inject(context.Background(), w, rand.New(rand.NewPCG(seed, 1)))
		spans <- span
	}()
	for {
		select {
		case span := <-spans:
			return span
		default:
			act()
		}
	}
}

// What is sent over a connection that rested, or that is old, gets no answer; what is sent over a new one does.
func TestForgottenConnectionsSwallow(t *testing.T) {
	s := redistest.Start(t, redistest.AllowAll())
	for seed := range uint64(4) {
		w := way{proxy: redistest.NewProxy(t, s.Addr())}
		var rested []*redistest.Conn
		for range 20 {
			rested = append(rested, redistest.Dial(t, w.proxy.Addr()))
			rested[len(rested)-1].Do(t, "PING")
		}
		began := time.Now()
		redistest.Await(t, "they rest for a lease", func() bool { return time.Since(began) > w.TTL() })
		sent, last := int64(0), time.Now()
		span := w.during(t, "forget", seed, func() {
			s.Do(t, "PING")
			// Spread over two leases: the fault takes time to begin, and lasts half a lease at least.
			if len(rested) > 0 && time.Since(last) > w.TTL()/10 {
				rested[0].Send(t, "INCR", "rested")
				rested, last = rested[1:], time.Now()
				sent++
			}
		})
		assert.Equal(t, span.Err, "", "forget")
		assert.True(t, strings.HasSuffix(span.Text, " connections forgotten"), "it says %q", span.Text)
		var forgotten int64
		assert.NoError(t, assert.Err(fmt.Sscan(span.Text, &forgotten)))
		redistest.Await(t, "each connection that was not forgotten answers", func() bool {
			return w.proxy.Count(redistest.Answered, "INCR") == sent-forgotten
		})
		redistest.Dial(t, w.proxy.Addr()).Do(t, "PING")
	}
}

// A late copy has its effect once more, and nobody hears of it.
func TestLateCopiesHaveTheirEffectOnceMore(t *testing.T) {
	s := redistest.Start(t, redistest.AllowAll())
	w := way{proxy: redistest.NewProxy(t, s.Addr())}
	c := redistest.Dial(t, w.proxy.Addr())
	sent := 0
	span := w.during(t, "late", 1, func() {
		c.Do(t, "EVAL", "return redis.call('INCR', 'copied')", 0)
		sent++
	})
	assert.Equal(t, span.Err, "", "late")
	var copies int
	assert.NoError(t, assert.Err(fmt.Sscan(span.Text, &copies)))
	assert.Equal(t, s.Do(t, "GET", "copied"), any(fmt.Sprint(sent+copies)), "requests and copies that were carried out")
	c.Do(t, "EVAL", "return redis.call('INCR', 'copied')", 0)
	assert.Equal(t, s.Do(t, "GET", "copied"), any(fmt.Sprint(sent+copies+1)), "after the fault nothing is sent again")
}

// Copies come after a millisecond as well as after several leases.
func TestCopiesComeSoonAndLate(t *testing.T) {
	c := &copies{
		rng: rand.New(rand.NewPCG(1, 1)), till: time.Now().Add(time.Hour), chance: 1, left: mostCopies,
		longest: 4 * time.Second,
	}
	var soon, late int
	for range mostCopies {
		d, ok := c.after()
		assert.MustTrue(t, ok && d >= time.Millisecond && d <= 4*time.Second, "a copy after %v: %v", d, ok)
		switch {
		case d < 100*time.Millisecond:
			soon++
		case d > time.Second:
			late++
		}
	}
	assert.AtLeast(t, soon, mostCopies/4, "copies before a tenth of a lease")
	assert.AtLeast(t, late, mostCopies/10, "copies after a lease")
	_, more := c.after()
	assert.False(t, more, "there is no end of copies")
}
