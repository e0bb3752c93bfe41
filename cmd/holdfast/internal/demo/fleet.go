package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
)

// worker is a worker process as the demo sees it. Its number is that of its
// row in the timeline; a worker that was killed is followed by another process
// with the same number.
type worker struct {
	number int
	cmd    *exec.Cmd
	orders io.WriteCloser
	stderr bytes.Buffer // what it said; complete once it is reported gone
	err    error        // how it ended; valid once it is reported gone
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

// fleet starts worker processes and gathers what they report. Its methods,
// the channel apart, belong to one goroutine, the one that starts processes.
type fleet struct {
	argv    []string
	all     []*worker // everyone who was ever started
	reports chan report
	readers sync.WaitGroup
}

func newFleet(argv []string) *fleet {
	return &fleet{argv: argv, reports: make(chan report, 1024)}
}

// start starts a worker process; it reports when it is ready, and does nothing
// before it is told to begin.
func (f *fleet) start(ctx context.Context, cfg workerConfig) (*worker, error) {
	w := &worker{number: cfg.Worker}
	w.cmd = exec.CommandContext(ctx, f.argv[0], f.argv[1:]...)
	w.cmd.Stderr = &w.stderr
	ownGroup(w.cmd)
	var err error
	if w.orders, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting a worker: %w", err)
	}
	f.all = append(f.all, w)
	f.readers.Go(func() { f.listen(w, out) })
	first, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	w.tell(string(first))
	return w, nil
}

// listen passes a worker's reports on until it ends.
func (f *fleet) listen(w *worker, out io.Reader) {
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		r := report{worker: w}
		// A line that a kill has cut off is no report.
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			f.reports <- r
		}
	}
	w.err = w.cmd.Wait()
	f.reports <- report{Kind: reportGone, worker: w}
}

// reportGone is said of a worker, not by it: its process has ended, and no
// report of it follows.
const reportGone = "gone"

// tell gives a worker an order. A worker that has just ended does not take it,
// which its end will explain.
func (w *worker) tell(order string) {
	_, _ = io.WriteString(w.orders, order+"\n")
}

// stop tells everyone to finish their turn and end.
func (f *fleet) stop() {
	for _, w := range f.all {
		if w.fate == fateNone {
			w.fate = fateStopped
			w.tell(orderStop)
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

// failure explains the end of a worker that should be running, or answers nil.
func (w *worker) failure() error {
	if w.fate == fateKilled || w.err == nil && w.fate == fateStopped {
		return nil
	}
	err := w.err
	if err == nil {
		err = errors.New("the process ended")
	}
	if text := lastLine(w.stderr.String()); text != "" {
		err = fmt.Errorf("%w; its last message: %s", err, strings.TrimSpace(text))
	}
	return fmt.Errorf("worker %d: %w", w.number, err)
}

// destroy ends whatever still runs, however it fares, and returns when nothing
// of it is left. A stopped process can be killed, too.
func (f *fleet) destroy() {
	for _, w := range f.all {
		_ = w.cmd.Process.Kill()
		_ = w.orders.Close()
	}
	drained := make(chan struct{})
	go func() {
		f.readers.Wait()
		close(drained)
	}()
	for {
		select {
		case <-f.reports: // nobody listens any more; a reader must not hang on it
		case <-drained:
			return
		}
	}
}
