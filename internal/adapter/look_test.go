package adapter

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// connected is a connection, its other end, and its socket.
func connected(t *testing.T) (client, server net.Conn, raw syscall.RawConn) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.Must(t, err)
	defer l.Close()
	client, err = net.Dial("tcp", l.Addr().String())
	assert.Must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	server, err = l.Accept()
	assert.Must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	raw = SocketOf(client)
	assert.MustTrue(t, raw != nil, "a TCP connection has no socket")
	return client, server, raw
}

// Looking takes nothing away from the reader, and ends when there is an answer.
func TestALookReadsNothing(t *testing.T) {
	client, server, raw := connected(t)
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

// A doze ends when nobody waits any more, when there is an answer, and after a while without one.
func TestADozeEnds(t *testing.T) {
	_, server, raw := connected(t)
	asked := 0
	Doze(raw, func() bool { asked++; return asked < 3 })
	assert.Equal(t, asked, 3, "asked until nobody waits")
	Doze(raw, func() bool { asked++; return true })
	assert.AtLeast(t, asked, int(longestDoze/longestNap), "asked until it is over")
	asked = 0
	Doze(raw, func() bool {
		if asked++; asked == 3 {
			assert.Must(t, assert.Err(server.Write([]byte("+"))))
		}
		return true
	})
	// On a busy machine, the answer is under way for longer than a nap.
	assert.AtMost(t, asked, int(longestDoze/longestNap), "asked until there is an answer")
}

// Renewals look for a small part of the time, together.
func TestLookingHasABudget(t *testing.T) {
	var l Looks
	const since = 100 * time.Millisecond
	first, second := l.take(since), l.take(since)
	assert.True(t, first == since/lookShare && second == 0, "looked for %v and %v", first, second)
	assert.Equal(t, l.take(time.Hour), longestLook, "after an hour")
	l.giveBack(time.Microsecond)
	assert.Equal(t, l.take(time.Hour), time.Microsecond, "what is not spent")
}

// A connection that is no socket is read as usual.
func TestWhatIsNoSocketIsNotLookedAt(t *testing.T) {
	one, other := net.Pipe()
	defer one.Close()
	defer other.Close()
	var raw syscall.RawConn
	assert.Equal(t, SocketOf(one), raw, "a pipe has the socket")
}
