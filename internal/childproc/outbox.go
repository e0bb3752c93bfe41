package childproc

import (
	"io"
	"os"
	"sync"
	"time"
)

// linger is how long a line may wait for others, so that they go out in one write.
const linger = 2 * time.Millisecond

// Outbox writes the lines that such a process reports, many at once. If the process is killed, those of
// its last moments are lost, and what was written are whole lines. So nothing may be concluded from a
// missing line.
type Outbox struct {
	out   io.Writer
	timer *time.Timer

	mu    sync.Mutex
	lines []byte
	armed bool // the timer is

	writing sync.Mutex // held for a write, and taken before mu
	spare   []byte
}

// NewOutbox makes an outbox that writes to out.
func NewOutbox(out io.Writer) *Outbox {
	o := &Outbox{out: out}
	o.timer = time.AfterFunc(time.Hour, o.Flush)
	return o
}

// Add queues a line, with its end.
func (o *Outbox) Add(line []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = append(o.lines, line...)
	if !o.armed {
		o.armed = true
		o.timer.Reset(linger)
	}
}

// Flush writes what was added before.
func (o *Outbox) Flush() {
	o.writing.Lock()
	defer o.writing.Unlock()
	o.mu.Lock()
	lines := o.lines
	o.lines, o.armed = o.spare[:0], false
	o.mu.Unlock()
	o.spare = lines
	if len(lines) == 0 {
		return
	}
	if _, err := o.out.Write(lines); err != nil {
		os.Exit(1) //nolint:gocritic // nobody reads the lines, and nobody waits for the mutex
	}
}
