package redistest_test

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestProxyPasses(t *testing.T) {
	s := redistest.Start(t, redistest.AllowAll())
	p := redistest.NewProxy(t, s.Addr())
	c := redistest.Dial(t, p.Addr())
	for range 3 {
		c.Send(t, "INCR", "n")
	}
	for want := int64(1); want <= 3; want++ {
		assert.Equal[any](t, c.Receive(t), want, "c.Receive")
	}
	assert.Equal(t, p.Count(redistest.Executed, "incr"), 3, "counted")
}

func TestDroppedReplyHadItsEffect(t *testing.T) {
	s := redistest.Start(t, redistest.AllowAll())
	p := redistest.NewProxy(t, s.Addr())
	c := redistest.Dial(t, p.Addr())
	c.Do(t, "PING")

	p.DropReplies(1, "incr")
	c.Send(t, "INCR", "n")
	p.Await(t, redistest.Dropped, "INCR", 1)
	assert.Equal(t, c.Do(t, "GET", "n"), "1", "the request had no effect")

	p.DropRepliesAndCut(1)
	c.Send(t, "INCR", "n")
	p.Await(t, redistest.Dropped, "INCR", 2)
	assert.Equal(t, redistest.Dial(t, p.Addr()).Do(t, "GET", "n"), "2", "the request had no effect")
	assert.Equal(t, p.Count(redistest.Answered, "INCR"), 0, "answers that came through")
}

func TestPushedMessagesAreNoReplies(t *testing.T) {
	s := redistest.Start(t, redistest.AllowAll())
	p := redistest.NewProxy(t, s.Addr())
	c := redistest.Dial(t, p.Addr())
	p.DropReplies(1)
	c.Send(t, "SUBSCRIBE", "channel")
	got := c.Receive(t).([]any)[0]
	assert.MustTrue(t, got == "subscribe", "got %v", got)
	s.Do(t, "PUBLISH", "channel", "hello")
	got = c.Receive(t).([]any)[2]
	assert.True(t, got == "hello", "got %v", got)
}

func TestBlackHoleHoldsBothDirections(t *testing.T) {
	s := redistest.Start(t, redistest.AllowAll())
	p := redistest.NewProxy(t, s.Addr())
	c := redistest.Dial(t, p.Addr())
	c.Do(t, "PING")

	// The answer to a request that got through is held as well.
	p.Hook(func(e redistest.Event) {
		if e.Stage == redistest.Executed {
			p.BlackHole()
		}
	})
	c.Send(t, "INCR", "n")
	p.Await(t, redistest.Executed, "INCR", 1)
	c.Send(t, "INCR", "n")
	other := redistest.Dial(t, p.Addr())
	other.Send(t, "INCR", "n")
	p.Await(t, redistest.Arrived, "INCR", 3)
	assert.Equal(t, s.Do(t, "GET", "n"), "1", "n behind a black hole")
	assert.Equal(t, p.Count(redistest.Answered, "INCR"), 0, "answers out of the black hole")

	p.Hook(nil)
	p.Pass()
	sum := c.Receive(t).(int64) + c.Receive(t).(int64) + other.Receive(t).(int64)
	assert.Equal(t, sum, 1+2+3, "the answers add up to")
}

func TestDelayIsLatencyNotBandwidth(t *testing.T) {
	s := redistest.Start(t, redistest.AllowAll())
	p := redistest.NewProxy(t, s.Addr())
	c := redistest.Dial(t, p.Addr())
	c.Do(t, "PING")
	const delay, requests = 100 * time.Millisecond, 100
	p.Delay(delay)
	start := time.Now()
	for range requests {
		c.Send(t, "PING")
	}
	for range requests {
		c.Receive(t)
	}
	// One request after the other would take at least requests*delay.
	took := time.Since(start)
	assert.True(t, took >= delay && took < requests*delay, "%d pipelined requests took %v", requests, took)
}

func TestCutAndRefuse(t *testing.T) {
	s := redistest.Start(t, redistest.AllowAll())
	p := redistest.NewProxy(t, s.Addr())
	ping := func(c net.Conn) error {
		c.SetDeadline(time.Now().Add(redistest.Patience))
		if _, err := c.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
			return err
		}
		_, err := c.Read(make([]byte, 64))
		return err
	}
	connect := func() (net.Conn, error) {
		c, err := net.Dial("tcp", p.Addr())
		if cfg := redistest.TLS(); cfg != nil && err == nil {
			cfg.ServerName = "localhost"
			c = tls.Client(c, cfg)
		}
		if err != nil {
			return nil, err // the reset may come as early as this
		}
		t.Cleanup(func() { c.Close() })
		return c, ping(c)
	}
	c, err := connect()
	assert.Must(t, err)
	p.BlackHole()
	p.Cut()
	assert.True(t, ping(c) != nil, "a connection that was cut answers")
	p.Pass()
	p.RefuseNew(true)
	assert.True(t, assert.Err(connect()) != nil, "a refused connection answers")
	p.RefuseNew(false)
	assert.NoError(t, assert.Err(connect()))
}

func TestModesSwitchUnderTraffic(t *testing.T) {
	s := redistest.Start(t, redistest.AllowAll())
	p := redistest.NewProxy(t, s.Addr())
	var seen atomic.Int64
	p.Hook(func(redistest.Event) { seen.Add(1) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 50 {
			p.BlackHole()
			p.Delay(time.Microsecond)
			p.Pass()
		}
	}()
	c := redistest.Dial(t, p.Addr())
	for want := int64(1); want <= 200; want++ {
		assert.MustEqual[any](t, c.Do(t, "INCR", "n"), want, "c.Do")
	}
	<-done
	p.Await(t, redistest.Forwarded, "INCR", 200) // may be noted after the answer
	p.Await(t, redistest.Answered, "INCR", 200)
	assert.AtLeast(t, seen.Load(), 800, "events that the hook saw")
}

func TestStaggeredConnectionsOvertakeEachOther(t *testing.T) {
	s := redistest.Start(t, redistest.AllowAll())
	p := redistest.NewProxy(t, s.Addr())
	slow, fast := redistest.Dial(t, p.Addr()), redistest.Dial(t, p.Addr())
	redistest.Dial(t, p.Addr()).Do(t, "PING")
	assert.MustTrue(t, p.Overtaken() == 0, "overtaken without a fault")
	p.Stagger(redistest.Patience / 2)
	slow.Send(t, "SET", "n", "late")
	p.Await(t, redistest.Arrived, "SET", 1)
	redistest.Await(t, "the held request is overtaken", func() bool {
		fast.Do(t, "SET", "n", "early")
		return p.Overtaken() > 0
	})
	assert.Equal(t, s.Do(t, "GET", "n"), "early", "n")
}

func TestWhatWasGivenUpInABlackHoleIsNotDelivered(t *testing.T) {
	s := redistest.Start(t, redistest.AllowAll())
	p := redistest.NewProxy(t, s.Addr())
	open := redistest.Dial(t, p.Addr())
	open.Do(t, "PING")
	p.BlackHole()
	open.Send(t, "INCR", "open")
	never := redistest.Dial(t, p.Addr())
	never.Send(t, "INCR", "never")
	waits := redistest.Dial(t, p.Addr())
	waits.Send(t, "INCR", "waits")
	p.Await(t, redistest.Arrived, "INCR", 3)
	open.Close()
	never.Close()
	p.Pass()
	waits.Receive(t)
	redistest.Await(t, "what was sent over an open connection arrives", func() bool {
		return s.Do(t, "GET", "open") == "1"
	})
	got := s.Do(t, "GET", "never")
	assert.True(t, got == nil, "a connection that never was has delivered: %v", got)
}

// A server answers INFO while it loads its log, and refuses to read a key.
func TestAServerThatLoadsIsNotReady(t *testing.T) {
	s := redistest.Start(t, redistest.Args("--appendonly", "yes", "--key-load-delay", "20")) // in us
	s.Do(t, "EVAL", "for i = 1, 2500 do redis.call('SET', 'key' .. i, i) end", 0)
	s.Kill()
	s.Restart()
	assert.Equal(t, s.Do(t, "GET", "key2500"), "2500", "the last key")
}

func TestALogThatIsCutHasLostItsEnd(t *testing.T) {
	s := redistest.Start(t, redistest.Args("--appendonly", "yes"))
	s.Do(t, "SET", "n", "1")
	size := s.LogSize()
	s.Do(t, "SET", "n", "2")
	s.Kill()
	s.CutLog(size)
	s.Restart()
	assert.Equal(t, s.Do(t, "GET", "n"), "1", "n")
}
