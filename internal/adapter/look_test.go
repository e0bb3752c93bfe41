package adapter

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// Looking takes nothing away from the reader, and ends when there is an answer.
func TestALookReadsNothing(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.Must(t, err)
	defer l.Close() //nolint:errcheck // it is over either way
	client, err := net.Dial("tcp", l.Addr().String())
	assert.Must(t, err)
	defer client.Close() //nolint:errcheck // it is over either way
	server, err := l.Accept()
	assert.Must(t, err)
	defer server.Close() //nolint:errcheck // it is over either way
	raw := SocketOf(client)
	assert.MustTrue(t, raw != nil, "a TCP connection has no socket")
	always := func() bool { return true }
	assert.False(t, look(raw, time.Millisecond, always), "it saw something that is not there")
	assert.False(t, look(raw, time.Hour, func() bool { return false }), "it saw something that is not there")
	assert.Must(t, assert.Err(server.Write([]byte("+"))))
	assert.True(t, look(raw, time.Hour, always), "it saw nothing")
	assert.True(t, look(raw, 0, always), "without time, it saw nothing")
	b := make([]byte, 2)
	n, err := client.Read(b)
	assert.True(t, n == 1 && err == nil, "read %q, %v", b[:n], err)
}

// Renewals look for a small part of the time, together.
func TestLookingHasABudget(t *testing.T) {
	var l Looks
	first, second := l.take(time.Second), l.take(time.Second)
	assert.True(t, first == time.Second/lookShare && second == 0, "looked for %v and %v", first, second)
	assert.Equal(t, l.take(time.Hour), longestLook, "after an hour")
	l.giveBack(time.Millisecond)
	assert.Equal(t, l.take(time.Hour), time.Millisecond, "what is not spent")
}

// A connection that is no socket is read as usual.
func TestWhatIsNoSocketIsNotLookedAt(t *testing.T) {
	one, other := net.Pipe()
	defer one.Close()   //nolint:errcheck // it is over either way
	defer other.Close() //nolint:errcheck // it is over either way
	var raw syscall.RawConn
	assert.Equal(t, SocketOf(one), raw, "a pipe has the socket")
}
