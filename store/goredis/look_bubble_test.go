package goredis

import (
	"net"
	"syscall"
	"testing"
	"testing/synctest"
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
	raw := socketOf(client)
	assert.MustTrue(t, raw != nil, "a TCP connection has no socket")
	look(raw, time.Millisecond) // in vain
	assert.Must(t, assert.Err(server.Write([]byte("+"))))
	look(raw, time.Hour)
	b := make([]byte, 2)
	n, err := client.Read(b)
	assert.True(t, n == 1 && err == nil, "read %q, %v", b[:n], err)
}

// Renewals look for a small part of the time, together.
func TestLookingHasABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &own{made: time.Now()}
		time.Sleep(time.Second)
		first, second := o.lookFor(), o.lookFor()
		assert.True(t, first == time.Second/lookShare && second == 0, "looked for %v and %v", first, second)
		time.Sleep(time.Hour)
		assert.Equal(t, o.lookFor(), longestLook, "after an hour")
	})
}

// A connection that is no socket is read as usual.
func TestWhatIsNoSocketIsNotLookedAt(t *testing.T) {
	one, other := net.Pipe()
	defer one.Close()   //nolint:errcheck // it is over either way
	defer other.Close() //nolint:errcheck // it is over either way
	var raw syscall.RawConn
	assert.Equal(t, socketOf(one), raw, "a pipe has the socket")
}
