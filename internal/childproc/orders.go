package childproc

import (
	"bufio"
	"os"
	"sync"
	"sync/atomic"
)

// The orders of a process that works under locks, a line each. When its input ends, the program
// that started it is gone, and it ends at once.
const (
	OrderBegin = "begin" // start to work
	OrderStand = "stand" // at the next read-modify-write, say so just before the write, and wait
	OrderGo    = "go"    // write now
	OrderStop  = "stop"  // end what is under way, close and end
)

// Orders are the orders that such a process was given.
type Orders struct {
	Begun  chan struct{} // closed by the order to begin or to stop
	Stand  atomic.Bool   // until the process obeys
	Resume chan struct{} // one for the next write
}

// NewOrders returns no orders yet.
func NewOrders() *Orders {
	return &Orders{Begun: make(chan struct{}), Resume: make(chan struct{}, 1)}
}

// Obey takes orders until the input ends, and then ends the process. It calls stop to stop it.
func (o *Orders) Obey(lines *bufio.Scanner, stop func()) {
	begun := sync.OnceFunc(func() { close(o.Begun) })
	for lines.Scan() {
		switch lines.Text() {
		case OrderBegin:
			begun()
		case OrderStand:
			o.Stand.Store(true)
		case OrderGo:
			select {
			case o.Resume <- struct{}{}:
			default:
			}
		case OrderStop:
			stop()
			begun()
		}
	}
	os.Exit(1)
}
