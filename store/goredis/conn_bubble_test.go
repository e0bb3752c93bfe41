package goredis

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// wire is a connection in virtual time, with the other end in the hands of the test.
type wire struct {
	t     *testing.T
	own   *own
	conn  net.Conn
	other net.Conn
}

func inBubble(t *testing.T, f func(w *wire)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &wire{t: t, own: &own{made: time.Now(), conns: make(map[*conn]struct{})}} // without a pool
		near, far := net.Pipe()
		w.conn, w.other = w.own.watch(near, new(lane)), far
		go func() {
			for b := make([]byte, 1024); ; {
				if _, err := far.Read(b); err != nil {
					return
				}
			}
		}()
		f(w)
		_ = w.conn.Close()
		_ = far.Close()
	})
}

// ask sends a request with so much time, and returns the error of reading the answer, and when that came.
func (w *wire) ask(request string, limit time.Duration) (took time.Duration, err error) {
	w.t.Helper()
	start := time.Now()
	assert.Must(w.t, assert.Err(w.conn.Write([]byte(request))))
	assert.Must(w.t, w.conn.SetReadDeadline(start.Add(limit)))
	_, err = w.conn.Read(make([]byte, 64))
	return time.Since(start), err
}

func (w *wire) doubted() bool { return w.own.inDoubt() }

// A request is in doubt after a second, or after a part of its time. A connection that has rested is in
// doubt earlier.
func TestDoubtBeginsAfterAPartOfTheTime(t *testing.T) {
	for _, c := range []struct {
		rest, limit, doubt time.Duration
	}{
		{0, time.Minute, time.Second},
		{3 * time.Second, time.Minute, 250 * time.Millisecond},
		{0, 3 * time.Second, 500 * time.Millisecond},
		{3 * time.Second, time.Second, 125 * time.Millisecond},
	} {
		inBubble(t, func(w *wire) {
			time.Sleep(c.rest)
			go func() {
				time.Sleep(c.doubt - time.Millisecond)
				assert.False(t, w.doubted(), "%+v: in doubt too early", c)
				time.Sleep(2 * time.Millisecond)
				assert.True(t, w.doubted(), "%+v: not in doubt", c)
			}()
			took, err := w.ask("*1\r\n$4\r\nping\r\n", c.limit)
			assert.True(t, errors.Is(err, os.ErrDeadlineExceeded), "%v", err)
			assert.Equal(t, took, c.limit+lastLook, "it waits for all of its time")
		})
	}
}

// An answer that comes after the doubt is taken, and the connection is as good as before.
func TestALateAnswerEndsTheDoubt(t *testing.T) {
	inBubble(t, func(w *wire) {
		go func() {
			time.Sleep(2 * time.Second)
			_, _ = w.other.Write([]byte("+PONG\r\n"))
		}()
		_, err := w.ask("*1\r\n$4\r\nping\r\n", time.Minute)
		assert.Must(t, err)
		w.own.giveUp(w.own.now())
		assert.False(t, w.doubted(), "it is still in doubt")
		go func() { _, _ = w.other.Write([]byte("+PONG\r\n")) }()
		_, err = w.ask("*1\r\n$4\r\nping\r\n", time.Minute)
		assert.Must(t, err)
	})
}

// A connection that is given up ends its request, and every read after that: go-redis reads once more.
func TestAConnectionThatIsGivenUpFailsAtOnce(t *testing.T) {
	inBubble(t, func(w *wire) {
		go func() {
			time.Sleep(1500 * time.Millisecond)
			w.own.giveUp(w.own.now())
		}()
		took, err := w.ask("*1\r\n$4\r\nping\r\n", time.Minute)
		assert.True(t, errors.Is(err, errGivenUp), "%v", err)
		assert.Equal(t, took, 1500*time.Millisecond+lastLook, "it ended")
		_, err = w.conn.Read(make([]byte, 64))
		assert.True(t, errors.Is(err, errGivenUp), "%v", err)
	})
}

// A connection that dies in the middle of an answer is in doubt, too.
func TestAConnectionThatDiesInTheMiddleOfAnAnswerIsGivenUp(t *testing.T) {
	inBubble(t, func(w *wire) {
		go func() { _, _ = w.other.Write([]byte("+PO")) }()
		_, err := w.ask("*1\r\n$4\r\nping\r\n", time.Minute)
		assert.Must(t, err)
		go func() {
			time.Sleep(1500 * time.Millisecond)
			assert.True(t, w.doubted(), "not in doubt")
			w.own.giveUp(w.own.now())
		}()
		_, err = w.conn.Read(make([]byte, 64))
		assert.True(t, errors.Is(err, errGivenUp), "%v", err)
	})
}

// A request that was sent after the question, or is not in doubt, goes on.
func TestOnlyOlderRequestsInDoubtAreGivenUp(t *testing.T) {
	inBubble(t, func(w *wire) {
		before := w.own.now()
		go func() {
			time.Sleep(500 * time.Millisecond)
			w.own.giveUp(w.own.now()) // it is not in doubt yet
			time.Sleep(time.Second)
			w.own.giveUp(before) // it was sent later
			time.Sleep(time.Second)
			_, _ = w.other.Write([]byte("+PONG\r\n"))
		}()
		time.Sleep(time.Millisecond)
		_, err := w.ask("*1\r\n$4\r\nping\r\n", time.Minute)
		assert.NoError(t, err)
	})
}

// WAIT is silent by right.
func TestARequestForAcknowledgementsIsNeverInDoubt(t *testing.T) {
	inBubble(t, func(w *wire) {
		w.own.patient.Add(1)
		go func() {
			time.Sleep(10 * time.Second)
			assert.False(t, w.doubted(), "it is in doubt")
			w.own.giveUp(w.own.now())
			_, _ = w.other.Write([]byte(":1\r\n"))
		}()
		_, err := w.ask("*1\r\n$7\r\nevalsha\r\n*3\r\n$4\r\nwait\r\n$1\r\n1\r\n$5\r\n20000\r\n", time.Minute)
		assert.NoError(t, err)
	})
}

// What rested while another connection was in doubt is not written to any more.
func TestARestedConnectionIsRetired(t *testing.T) {
	inBubble(t, func(w *wire) {
		w.own.retire()
		assert.NoError(t, assert.Err(w.conn.Write([]byte("x"))))
		w.conn.(*conn).asked.Store(0)
		time.Sleep(time.Second)
		w.own.retire()
		_, err := w.conn.Write([]byte("x"))
		assert.True(t, errors.Is(err, errRetired), "%v", err)
	})
}

// A connection that has refused a script because it has no login is not written to any more, with TLS too. As it is
// made, it may be refused: then the caller wants to know.
func TestAConnectionWithoutALoginIsLeft(t *testing.T) {
	inBubble(t, func(w *wire) {
		refused := func(request string) {
			go func() { _, _ = w.other.Write([]byte("-NOAUTH Authentication required.\r\n")) }()
			_, err := w.ask(request, time.Minute)
			assert.Must(t, err)
		}
		refused("*2\r\n$5\r\nhello\r\n$1\r\n3\r\n")
		refused("*3\r\n$7\r\nevalsha\r\n$40\r\n0123456789012345678901234567890123456789\r\n$1\r\n0\r\n")
		_, err := w.conn.Write([]byte("*1\r\n$4\r\nping\r\n"))
		assert.True(t, errors.Is(err, errRetired), "%v", err)
	})
}

// release is a request whose pushes are to come first.
const release = "*3\r\n$7\r\nEVALSHA\r\n$40\r\n0123456789012345678901234567890123456789\r\n$1\r\n0\r\n"

// The answer to the PING in front of a request is for nobody, in however many pieces it arrives.
func TestTheAnswerToThePINGInFrontIsSkipped(t *testing.T) {
	for _, pieces := range [][]string{
		{"+PONG\r\n$2\r\nok\r\n"},
		{"+PONG\r\n", "$2\r\nok\r\n"},
		{"+PO", "NG\r", "\n$2\r\nok\r\n"},
		{"-NOAUTH Authentication required.\r\n$2\r\n", "ok\r\n"},
	} {
		inBubble(t, func(w *wire) {
			go func() {
				for _, piece := range pieces {
					time.Sleep(time.Millisecond)
					_, _ = w.other.Write([]byte(piece))
				}
			}()
			assert.Must(w.t, assert.Err(w.conn.Write([]byte(release))))
			assert.Must(w.t, w.conn.SetReadDeadline(time.Now().Add(time.Minute)))
			got := make([]byte, 8)
			assert.Must(w.t, assert.Err(io.ReadFull(w.conn, got)))
			assert.Equal(w.t, string(got), "$2\r\nok\r\n", "read")
		})
	}
}

// If a request is longer than go-redis' buffer, it is written in parts. The first has the PING in front.
func TestALongRequestHasOnePINGInFront(t *testing.T) {
	inBubble(t, func(w *wire) {
		half := len(release) / 2
		for _, part := range []string{release[:half], release[half:]} {
			n, err := w.conn.Write([]byte(part))
			assert.True(t, n == len(part) && err == nil, "written %d of %d, %v", n, len(part), err)
		}
		go func() { _, _ = w.other.Write([]byte("+PONG\r\n$2\r\nok\r\n")) }()
		got := make([]byte, 8)
		assert.Must(t, assert.Err(io.ReadFull(w.conn, got)))
		assert.Equal(t, string(got), "$2\r\nok\r\n", "read")
	})
}

// An answer to the PING is none to the request: that is in doubt as any other.
func TestARequestWithoutAnAnswerIsInDoubtAfterThePONG(t *testing.T) {
	inBubble(t, func(w *wire) {
		go func() {
			_, _ = w.other.Write([]byte("+PONG\r\n"))
			time.Sleep(doubtAfter + time.Millisecond)
			assert.True(t, w.doubted(), "not in doubt")
			w.own.giveUp(w.own.now())
		}()
		_, err := w.ask(release, time.Minute)
		assert.True(t, errors.Is(err, errGivenUp), "%v", err)
	})
}

// If the server sends something else first, the connection is broken, and no later one gets a PING in front.
func TestAMessageInFrontOfThePONGBreaksTheConnection(t *testing.T) {
	inBubble(t, func(w *wire) {
		go func() { _, _ = w.other.Write([]byte(">2\r\n+message\r\n+x\r\n+PONG\r\n$2\r\nok\r\n")) }()
		_, err := w.ask(release, time.Minute)
		assert.Equal(t, classify(t.Context(), err), adapter.Broken, "the outcome")
		assert.True(t, w.own.noPing.Load(), "it would get a PING again")
	})
}

// A lease may be short, so a renewal is in doubt early.
func TestARenewalIsInDoubtEarly(t *testing.T) {
	inBubble(t, func(w *wire) {
		w.own.renewed.Add(1)
		go func() {
			time.Sleep(doubtRested - time.Millisecond)
			assert.False(t, w.doubted(), "in doubt too early")
			time.Sleep(2 * time.Millisecond)
			assert.True(t, w.doubted(), "not in doubt")
		}()
		_, err := w.ask("*1\r\n$4\r\nping\r\n", time.Minute)
		assert.True(t, errors.Is(err, os.ErrDeadlineExceeded), "%v", err)
	})
}

// If the Sentinels tell no primary in time, the former connection serves on. One that is made too late is the next to
// do so. A connection that was not needed is closed.
func TestTheFormerConnectionServesOn(t *testing.T) {
	away := errors.New("no Sentinel is there")
	for name, c := range map[string]struct {
		after  time.Duration // the Sentinels answer
		err    error
		former bool // is used
		took   time.Duration
	}{
		"at once":   {0, nil, false, 0},
		"late":      {hedgeAfter + formerAfter, nil, true, formerAfter},
		"never":     {time.Hour, away, true, formerAfter},
		"a refusal": {0, away, true, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, closed := new(lane), make(map[string]bool)
			conn := func(name string) net.Conn { return closing{name: name, closed: closed} }
			l.former = conn("former")
			start := time.Now()
			got, err := l.hedged(func(context.Context, string, string) (net.Conn, error) {
				time.Sleep(c.after)
				if c.err != nil {
					return nil, c.err
				}
				return conn("new"), nil
			})(t.Context(), "", "")
			assert.Must(t, err)
			assert.Equal(t, got.(closing).name == "former", c.former, "%s: the former one is used", name)
			assert.Equal(t, time.Since(start), c.took, "%s: it took", name)
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			late := l.takeFormer()
			assert.Equal(t, late != nil, c.err == nil && c.former, "%s: one that came late is kept", name)
			assert.Equal(t, closed["former"], !c.former, "%s: the former one is closed", name)
		})
	}
}

// closing notes that it was closed.
type closing struct {
	net.Conn
	name   string
	closed map[string]bool
}

func (c closing) Close() error {
	c.closed[c.name] = true
	return nil
}
