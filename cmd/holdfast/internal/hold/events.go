package hold

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

// EventsText is the page of help about --events-fd.
const EventsText = `holdfast run --events-fd N writes events to the open file descriptor N, one JSON object
per line. Example:

  holdfast run --events-fd 3 nightly -- ./report.sh 3>events.jsonl

Every object has "time" (UTC), "event" and "name" (the lock's). With several locks,
"name" is the first, and "names" lists all of them. The events, in order:

  waiting   another client holds the lock; "position" in the wait queue, an upper bound
  acquired  "token" (a string: it may be too large for a JSON number), "waited_ms";
            with several locks also "tokens", in the order of the names
  started   "pid" of the command
  stopping  holdfast stops or kills the command; "signal", and "reason": lost or max-run
  exited    "code" of the command
  left      the command has left processes behind; "pids", if they are known. holdfast
            waits for them with --wait-all
  released  holdfast has released the lock; "held_ms"
  end       always the last; "code" of holdfast, and "reason", the name of the code in
            holdfast help exit-codes. If the command ended by itself, it is done, whatever
            the code is

Later versions may add events and fields. They do not rename or remove any, and do not
change a type. The command does not inherit the file descriptor.`

// event is one line on the events file descriptor.
type event struct {
	Time     string   `json:"time"`
	Event    string   `json:"event"`
	Name     string   `json:"name"`
	Names    []string `json:"names,omitempty"`
	Position int      `json:"position,omitempty"`
	Token    string   `json:"token,omitempty"`
	Tokens   []string `json:"tokens,omitempty"`
	WaitedMS *int64   `json:"waited_ms,omitempty"`
	PID      int      `json:"pid,omitempty"`
	Signal   string   `json:"signal,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Code     *int     `json:"code,omitempty"`
	PIDs     []int    `json:"pids,omitempty"`
	HeldMS   *int64   `json:"held_ms,omitempty"`
}

// events writes to the events file descriptor, if there is one.
type events struct {
	names []string

	mu   sync.Mutex // keeps lines whole
	file *os.File
}

// openEvents checks fd before the run acquires the lock; 0 means no events.
func openEvents(names []string, fd int) (*events, error) {
	if fd == 0 {
		return &events{names: names}, nil
	}
	if fd < 2 {
		return nil, exit.Usage(fmt.Sprintf("--events-fd %d: the events need a file descriptor of their own", fd),
			"write --events-fd 3 and redirect it, as in 3>events.jsonl")
	}
	if !proc.Inherited(fd) {
		return nil, exit.Usage(fmt.Sprintf("--events-fd %d: this file descriptor is not open for writing", fd),
			fmt.Sprintf("open it in the shell, as in %d>events.jsonl", fd))
	}
	proc.CloseOnExec(fd)
	return &events{names: names, file: os.NewFile(uintptr(fd), "events")}, nil
}

// emit writes one event. If the reader is gone, the run continues.
func (e *events) emit(ev event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.file == nil {
		return
	}
	ev.Time, ev.Name = lockjson.Stamp(time.Now()), e.names[0]
	if len(e.names) > 1 {
		ev.Names = e.names
	}
	if b, err := screen.JSON(ev); err == nil {
		e.file.Write(b) //nolint:errcheck // see above
	}
}

func millis(d time.Duration) *int64 {
	ms := d.Milliseconds()
	return &ms
}
