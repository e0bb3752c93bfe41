package workload

import (
	"io"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/verify/history"
)

// linger is how long an event may wait for others, so that they go out in one write. If a
// process is killed, the events of its last moments are lost, as are those between a call
// and its report. So no check concludes anything from a missing report.
const linger = 2 * time.Millisecond

// outbox writes events, many at once.
type outbox struct {
	out   io.Writer
	timer *time.Timer

	mu    sync.Mutex
	lines []byte
	armed bool // the timer is

	writing sync.Mutex // held for a write, and taken before mu
	spare   []byte
}

func newOutbox(out io.Writer) *outbox {
	o := &outbox{out: out}
	o.timer = time.AfterFunc(time.Hour, o.flush)
	return o
}

// add queues an event.
func (o *outbox) add(e history.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lines = history.AppendLine(o.lines, &e)
	if !o.armed {
		o.armed = true
		o.timer.Reset(linger)
	}
}

// flush writes what was added before, whole lines.
func (o *outbox) flush() {
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
		os.Exit(1) //nolint:gocritic // nobody reads the events, and nobody waits for the mutex
	}
}
