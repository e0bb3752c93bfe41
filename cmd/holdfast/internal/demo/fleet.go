package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"

	"github.com/holdfast-go/holdfast/internal/childproc"
)

// worker is a worker process as the demo sees it. Its number is that of its
// row in the timeline; a worker that was killed is followed by another process
// with the same number.
type worker struct {
	*childproc.Process

	number int
	client string // the library's id of it
	fate   fate
	ended  bool // it was reported gone
}

// fate is what a worker's end means.
type fate int

const (
	fateNone    fate = iota // it should be running: its end is an error
	fateKilled              // the demo killed it
	fateStopped             // it was told to stop
)

// report is an event of a worker, or a note of the server.
type report struct {
	worker *worker // nil: the server
	event
}

// fleet starts worker processes and gathers what they report. Its methods,
// the channel apart, belong to one goroutine, the one that starts processes.
type fleet struct {
	argv    []string
	all     []*worker // all that were ever started
	reports chan report
}

func newFleet(argv []string) *fleet {
	return &fleet{argv: argv, reports: make(chan report, 1024)}
}

// start starts a worker process; it reports when it is ready, and does nothing
// before it is told to begin.
func (f *fleet) start(ctx context.Context, a assignment) (*worker, error) {
	w := &worker{number: a.Proc}
	cmd := exec.CommandContext(ctx, f.argv[0], f.argv[1:]...)
	var err error
	w.Process, err = childproc.Start(cmd, a,
		func(line []byte) {
			var e event
			if json.Unmarshal(line, &e) == nil { // else a kill has cut the line off
				f.reports <- report{w, e}
			}
		},
		func(err error, stderr string) { f.reports <- report{w, ended(err, stderr)} })
	if err != nil {
		return nil, err
	}
	f.all = append(f.all, w)
	return w, nil
}

// ended is the end of a worker process.
func ended(err error, stderr string) event {
	e := event{At: now(), Kind: gone}
	if err != nil {
		e.Err = err.Error()
		if text := lastLine(stderr); text != "" {
			e.Err += "; its last message: " + text
		}
	}
	return e
}

// stop tells all workers to finish their hold and end.
func (f *fleet) stop() {
	for _, w := range f.all {
		if w.fate == fateNone {
			w.fate = fateStopped
			w.Tell(childproc.OrderStop)
		}
	}
}

// living counts the workers whose end was not reported yet.
func (f *fleet) living() int {
	n := 0
	for _, w := range f.all {
		if !w.ended {
			n++
		}
	}
	return n
}

// failure explains the end of a worker that should be running. Otherwise it is nil.
func (w *worker) failure(end string) error {
	if w.fate == fateKilled || end == "" && w.fate == fateStopped {
		return nil
	}
	return fmt.Errorf("worker %d: %s", w.number, cmp.Or(end, "the process ended"))
}

// destroy ends whatever still runs, and returns when nothing of it is left. A stopped
// process can be killed, too.
func (f *fleet) destroy() {
	ended := make(chan struct{})
	go func() {
		for _, w := range f.all {
			w.Destroy()
		}
		close(ended)
	}()
	for {
		select {
		case <-f.reports: // a process whose reports nobody takes would not end
		case <-ended:
			return
		}
	}
}
