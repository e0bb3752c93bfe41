package redistest

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// Error is an error answer of the server. It begins with the code.
type Error string

func (e Error) Error() string { return string(e) }

// Conn is one connection that speaks RESP2. Tests use it beside the code under test. It is not
// safe for concurrent use.
//
// Answers are string (simple and bulk), int64, [Error], []any or nil.
type Conn struct {
	net net.Conn
	r   *bufio.Reader
}

// Dial connects to a server or proxy at addr as the default user. The connection is closed
// with the test.
func Dial(t testing.TB, addr string) *Conn {
	t.Helper()
	c, err := dial(addr, Secured())
	assert.MustTrue(t, err == nil, "redistest: %v", err)
	t.Cleanup(c.Close)
	return c
}

// Dial connects to the server as a user who may do everything.
func (s *Server) Dial(t testing.TB) *Conn {
	t.Helper()
	c, err := s.dial()
	assert.MustTrue(t, err == nil, "redistest: %v", err)
	t.Cleanup(c.Close)
	return c
}

// Do runs one command on its own connection, as a user who may do everything, and returns the
// answer. Only a broken connection fails the test: an [Error] is an answer.
func (s *Server) Do(t testing.TB, args ...any) any {
	t.Helper()
	c, err := s.dial()
	assert.MustTrue(t, err == nil, "redistest: %v", err)
	defer c.Close()
	return c.Do(t, args...)
}

// Do sends one command and returns its answer.
func (c *Conn) Do(t testing.TB, args ...any) any {
	t.Helper()
	reply, err := c.try(args...)
	assert.MustTrue(t, err == nil, "redistest: %v: %v", args, err)
	return reply
}

// Send sends one command and leaves its answer to Receive.
func (c *Conn) Send(t testing.TB, args ...any) {
	t.Helper()
	err := c.write(args)
	assert.MustTrue(t, err == nil, "redistest: %v: %v", args, err)
}

// Receive waits for the next answer or pushed message.
func (c *Conn) Receive(t testing.TB) any {
	t.Helper()
	reply, err := c.read()
	assert.MustTrue(t, err == nil, "redistest: %v", err)
	return reply
}

// Close closes the connection; it may be called again.
func (c *Conn) Close() {
	c.net.Close() //nolint:errcheck // closing twice is no fault
}

func (s *Server) dial() (*Conn, error) {
	c, err := dial(s.Addr(), s.secured)
	user, password := s.Admin()
	if err != nil || password == "" {
		return c, err
	}
	login := []any{"AUTH", user, password}
	if user == "" {
		login = []any{"AUTH", password}
	}
	reply, err := c.try(login...)
	if e, refused := reply.(Error); refused {
		err = e
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func dial(addr string, secured bool) (*Conn, error) {
	nc, err := connect(addr, secured)
	if err != nil {
		return nil, err
	}
	return &Conn{net: nc, r: bufio.NewReader(nc)}, nil
}

func (c *Conn) try(args ...any) (any, error) {
	if err := c.write(args); err != nil {
		return nil, err
	}
	return c.read()
}

func (c *Conn) write(args []any) error {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, arg := range args {
		text := fmt.Sprint(arg)
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(text), text)
	}
	c.net.SetDeadline(time.Now().Add(Patience)) //nolint:errcheck // the write tells
	_, err := c.net.Write(b)
	return err
}

func (c *Conn) read() (any, error) {
	c.net.SetDeadline(time.Now().Add(Patience)) //nolint:errcheck // the read tells
	frame, err := readFrame(c.r)
	if err != nil {
		return nil, err
	}
	reply, _, err := parse(frame)
	return reply, err
}

// parse turns a whole RESP2 value into a Go one and returns what follows it.
func parse(frame []byte) (value any, rest []byte, err error) {
	line, rest := cutLine(frame)
	kind, text := line[0], string(line[1:])
	switch kind {
	case '+':
		return text, rest, nil
	case '-':
		return Error(text), rest, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, nil, fmt.Errorf("not RESP2: %q", line)
	}
	switch {
	case kind == ':':
		return n, rest, nil
	case n < 0:
		return nil, rest, nil
	case kind == '$':
		return string(rest[:n]), rest[n+2:], nil
	case kind != '*':
		return nil, nil, fmt.Errorf("not RESP2: %q", line)
	}
	list := make([]any, n)
	for i := range list {
		if list[i], rest, err = parse(rest); err != nil {
			return nil, nil, err
		}
	}
	return list, rest, nil
}
