package adapter

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// longestLook is how long a renewal looks for its answer before other goroutines get its processor. If those
	// use it up, they give it back seconds later, although a server that is near answers at once. A longer look
	// would often be interrupted by the end of its turn, with the same effect. One part of lookShare of the time is
	// spent like that, at most.
	longestLook = 200 * time.Microsecond
	lookShare   = 1000
	// longestDoze is how long it then sleeps between looks, in sum. longestNap is the longest such sleep.
	longestDoze = 250 * time.Millisecond
	longestNap  = 20 * time.Millisecond
)

// Looks is the time that renewals may look for their answers. The zero value is ready.
type Looks struct{ last atomic.Int64 } // all of the time before that is spent

// Look returns true when there is something to read, or false when the time for that is over, or goesOn reports false.
// Meanwhile the goroutine keeps its processor. now is since the first connection.
func (l *Looks) Look(now time.Duration, raw syscall.RawConn, goesOn func() bool) (readable bool) {
	limit, began := l.take(now), time.Now()
	readable = look(raw, limit, goesOn)
	l.giveBack(limit - time.Since(began))
	return readable
}

// Arrives looks for so long whether there is something to read, and keeps its processor.
func Arrives(raw syscall.RawConn, d time.Duration) bool {
	return look(raw, d, func() bool { return true })
}

func (l *Looks) take(now time.Duration) time.Duration {
	return min((now-time.Duration(l.last.Swap(int64(now))))/lookShare, longestLook)
}

func (l *Looks) giveBack(rest time.Duration) { l.last.Add(-int64(max(rest, 0)) * lookShare) }

// SocketOf returns the socket of a connection, also under TLS; nil if there is none.
func SocketOf(c net.Conn) syscall.RawConn {
	if secured, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = secured.NetConn()
	}
	socket, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}
