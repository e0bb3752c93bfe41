package goredis

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/internal/adapter"
)

// A connection is in doubt if it has not answered a request for so long, and at most for a part of the
// time that the request has.
const (
	doubtAfter  = time.Second
	doubtRested = 250 * time.Millisecond // if it had rested, or if a renewal is under way
	doubtShare  = 4
	// restedAfter is for how long a connection has not been used then.
	restedAfter = 2 * time.Second
	// lastLook is how long to look for an answer after the deadline. If the processor is busy, the
	// answer may have been there for long: Go says that a deadline has passed before it looks.
	lastLook = time.Millisecond
)

// conn is a connection that knows when it has answered. go-redis sets the deadline, writes one request
// and reads its answer, from one goroutine at a time.
type conn struct {
	net.Conn
	own      *own
	lane     *lane
	raw      syscall.RawConn // of the socket; nil: none
	made     time.Duration   // since own.made
	asked    atomic.Int64    // when the present request was written, in ns since own.made; 0: it is idle
	answered atomic.Int64    // when it has answered last
	retired  atomic.Bool     // it may be dead, or has no login: nothing more is written
	doubted  atomic.Bool     // the present request has no answer for long
	closed   atomic.Bool
	over     atomic.Bool // it was given up, and has no answer
	silent   bool        // the present request may be silent by right; of go-redis' goroutine
	script   bool        // the present request is a script; of the same goroutine
	pinged   pinged      // a PING in front of the present request; of the same goroutine
	both     []byte      // the PING and the request; of the same goroutine
	heard    bool        // it has answered; of the same goroutine
	farewell error       // the first answer, if with it the server refuses the connection; of the same goroutine

	mu       sync.Mutex // guards the fields below, and the socket's deadline of reading
	deadline time.Time  // of reading, as go-redis has set it
	readBy   time.Time  // the socket's, when the present read began
	early    bool       // the socket's deadline is earlier: then the connection is in doubt
	givenUp  bool
	left     bool // the caller of the present request has left
}

// noLogin begins the answer of a server that has got a password since. go-redis takes such a connection for one
// that is logged in, and would use it first, because it is the newest. Older ones are served on. So the connection
// is retired when it has answered a script like that, and not before: its caller wants to know the refusal.
var noLogin, scripts = []byte("-NOAUTH "), []byte("\r\neval")

// errLeft ends a request whose context has ended before anything was written.
var errLeft = adapter.Unsent(errors.New("the caller has left before the request was written"))

var errRetired = adapter.Unsent(errors.New("the connection is left: it has rested for too long, or has no login"))

func (c *conn) Write(b []byte) (int, error) {
	if c.retired.Load() {
		return 0, errRetired
	}
	if c.asked.Load() == 0 {
		c.uncut()
		if !c.lane.begin(c) {
			return 0, errLeft
		}
	}
	patient := c.own.patient.Load() > 0 && waits(b)
	if c.asked.Load() != 0 { // more of a request that is longer than go-redis' buffer
		c.silent = c.silent || patient
		return c.write(b)
	}
	head := b[:min(len(b), 16)]
	first := bytes.Contains(head, pushFirst)
	c.silent, c.pinged = patient, no
	c.script = first || bytes.Contains(head, scripts)
	c.doubted.Store(false)
	c.asked.Store(int64(c.own.now()))
	if !first || c.own.noPing.Load() {
		return c.write(b)
	}
	c.pinged = unanswered
	c.both = append(append(c.both[:0], ping...), b...)
	n, err := c.write(c.both)
	return max(n-len(ping), 0), err
}

// write writes. A server that has no place for a connection, or wants none from elsewhere, says so before it has read
// anything, and closes the connection. That has arrived, although nothing more can be written.
func (c *conn) write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil && !c.heard {
		said := make([]byte, 1024)
		_ = c.Conn.SetReadDeadline(time.Now().Add(lastLook))
		if n, _ := c.Conn.Read(said); n > 0 {
			c.hear(said[:n])
		}
	}
	if err != nil && c.farewell != nil {
		err = c.farewell
	}
	return n, err
}

// hear notes the first answer. go-redis takes such a refusal for the answer to its HELLO, and goes on.
func (c *conn) hear(said []byte) {
	c.heard = true
	line, _, _ := bytes.Cut(said, []byte("\r\n"))
	line, _, _ = bytes.Cut(line, []byte(". ")) // a whole page may follow
	if text, refuses := bytes.CutPrefix(line, []byte("-")); refuses {
		if refusal := adapter.Refusal(string(text)); refusal.Code == "MAXCLIENTS" || refusal.Code == "DENIED" {
			c.farewell = refusal
		}
	}
}

// A PING in front of a request brings the pushes of that to others before its answer, see package mark. It is
// between the server and the connection: go-redis has sent one request and reads one answer.
type pinged uint8

const (
	no         pinged = iota
	unanswered        // no byte of its answer has arrived
	halfway           // its answer has begun
)

// pushFirst begins a script whose pushes are to come first, see evalWords.
var pushFirst, ping, noPermission = []byte("\r\nEVAL"), []byte("*1\r\n$4\r\nping\r\n"), []byte("-NOPERM ")

// errPushed ends a request with a PING in front if something else than an answer arrives first. Only a connection
// with RESP3 for which the client's OnConnect has asked for pushes gets that. It gets no PING again.
var errPushed = fmt.Errorf("a message of the server is in front of the answer: %w", io.ErrUnexpectedEOF)

// withoutPong removes the answer to the PING from the bytes that have arrived, and returns how many are left.
// A server that refuses notes each refusal in its log, so it gets no PING again.
func (c *conn) withoutPong(b []byte) (int, error) {
	if c.pinged == unanswered {
		if b[0] != '+' && b[0] != '-' {
			c.own.noPing.Store(true)
			return 0, errPushed
		}
		if bytes.HasPrefix(b, noPermission) {
			c.own.noPing.Store(true)
		}
		c.pinged = halfway
	}
	_, rest, ended := bytes.Cut(b, []byte("\n"))
	if !ended {
		return 0, nil
	}
	c.pinged = no
	return copy(b, rest), nil
}

// waits reports whether a request contains WAIT or WAITAOF, which answer when their time is over. An owner may be
// called like that, so the commands are compared from their first byte. No argument of the library's scripts contains
// the end of a line.
func waits(request []byte) bool {
	return bytes.Contains(request, []byte("*3\r\n$4\r\nwait\r\n")) ||
		bytes.Contains(request, []byte("*4\r\n$7\r\nwaitaof\r\n"))
}

// SetReadDeadline implements [net.Conn]. The socket's deadline is that of the doubt, if that is
// earlier.
func (c *conn) SetReadDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline, c.early = at, false
	if c.givenUp || c.left {
		return nil // it has passed
	}
	if patience := c.patience(at); patience > 0 {
		c.early = true
		at = time.Now().Add(patience)
	}
	c.readBy = at
	return c.Conn.SetReadDeadline(at)
}

// patience is how long to read before the connection is in doubt; 0: as long as the request.
func (c *conn) patience(deadline time.Time) time.Duration {
	asked := c.asked.Load()
	if asked == 0 || c.silent || c.doubted.Load() {
		return 0
	}
	wait := doubtAfter
	if time.Duration(asked-c.answered.Load()) > restedAfter || c.own.renewed.Load() > 0 {
		wait = doubtRested
	}
	if deadline.IsZero() {
		return wait
	}
	// A request whose caller may leave lingers on its connection, see adapter.Lingering.
	left := time.Until(deadline)
	return min(wait, max((left-adapter.LingerTime)/doubtShare, left/(2*doubtShare), 0))
}

// SetDeadline implements [net.Conn]. go-redis calls it while the connection is idle.
func (c *conn) SetDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline, c.early = at, false
	if c.givenUp {
		return nil
	}
	return c.Conn.SetDeadline(at)
}

// Read reads. If nothing comes for a while, the connection is in doubt.
func (c *conn) Read(b []byte) (int, error) {
	if c.over.Load() {
		return 0, errGivenUp // go-redis reads once more after it has looked for pushes
	}
	if c.asked.Load() == 0 {
		// The rest of an answer: the connection may have died in its middle. What has come has ended the doubt.
		c.doubted.Store(false)
		c.asked.Store(int64(c.own.now()))
	}
	if c.raw != nil && c.lane.renewing && !c.own.looks.Look(c.own.now(), c.raw, func() bool { return true }) {
		adapter.Doze(c.raw, c.wanted)
	}
	n, err := c.read(b)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	if c.endPatience() {
		c.doubted.Store(true)
		c.own.doubt()
		if n, err = c.read(b); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
	}
	givenUp := c.lookOnce()
	if n, err = c.read(b); n == 0 && givenUp {
		c.over.Store(true)
		return 0, errGivenUp
	}
	return n, err
}

// wanted reports whether somebody waits for the answer, and the socket's deadline has not passed.
func (c *conn) wanted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.givenUp && !c.left && (c.readBy.IsZero() || time.Now().Before(c.readBy))
}

// endPatience gives the present request the rest of its time. It reports false if that is over.
func (c *conn) endPatience() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.early || c.givenUp || c.left {
		return false
	}
	c.early = false
	return c.Conn.SetReadDeadline(c.deadline) == nil
}

// lookOnce makes one more read possible, and reports whether the connection was given up.
func (c *conn) lookOnce() (givenUp bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.Conn.SetReadDeadline(time.Now().Add(lastLook))
	return c.givenUp
}

func (c *conn) read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	switch {
	case c.heard && n == 0 && err != nil && c.farewell != nil:
		return 0, c.farewell
	case !c.heard && n > 0:
		c.hear(b[:n])
	}
	for n > 0 && c.pinged != no {
		var wrong error
		if n, wrong = c.withoutPong(b[:n]); wrong != nil {
			return 0, wrong
		}
		if n == 0 && err == nil {
			n, err = c.Conn.Read(b)
		}
	}
	if n > 0 {
		if c.script && bytes.HasPrefix(b[:n], noLogin) {
			c.retired.Store(true)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.answered.Store(int64(c.own.now()))
		c.asked.Store(0)
		if c.givenUp || c.left { // at the last moment
			c.givenUp, c.left = false, false
			_ = c.Conn.SetReadDeadline(c.deadline)
		}
	}
	return n, err
}

// giveUp ends the present read, if its request is in doubt and was sent before that.
func (c *conn) giveUp(before time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if asked := c.asked.Load(); asked != 0 && time.Duration(asked) < before && c.doubted.Load() {
		c.givenUp = true
		_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
	}
}

// cut ends the present read: its caller has left. An answer that is there is still read.
func (c *conn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = true
	_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
}

// uncut is called before the next request is written.
func (c *conn) uncut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = false
}

// old reports whether the pool may make a new connection in place of this one.
func (c *conn) old() bool { return c.own.follows && c.own.now()-c.made > ownMoving*9/10 }

func (c *conn) Close() error {
	c.closed.Store(true)
	c.own.forget(c)
	if c.lane.keeps(c) {
		return nil
	}
	return c.Conn.Close()
}

// plainConn lets go-redis look at the socket of a connection without TLS before it uses that again.
type plainConn struct {
	*conn
	raw syscall.Conn
}

func (c *plainConn) SyscallConn() (syscall.RawConn, error) {
	if c.retired.Load() {
		return nil, errRetired
	}
	return c.raw.SyscallConn()
}
