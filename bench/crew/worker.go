package crew

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// Job is a shift for one process.
type Job struct {
	Side    string // whose lock
	Addr    string // of the server
	Kind    string // of lock; empty: the mutex
	Name    string // of the lock
	Own     bool   // each member has its own lock
	Keys    int    // if more than 1: each turn takes one of this many locks at random
	Clients int    // each with its own connections
	Each    int    // goroutines of each client
	Shift   Shift
}

// Client is one connected client of some lock.
type Client interface {
	// Enter names a lock, for one member of the crowd.
	Enter(ctx context.Context, kind, name string) (Enter, error)
	Close()
}

// Open connects a client of side.
type Open func(side, addr string) (Client, error)

// report is one line of a worker's output.
type report struct {
	Tally Tally
	Error string `json:",omitempty"`
}

// worker has the open clients of a worker process, by side and server.
type worker struct {
	open    Open
	clients map[[2]string][]Client
	enters  map[Job][][]Enter // of each client, of jobs with many keys
}

// Serve works jobs, one per line, until the input ends. The input also ends when the
// other process ends.
func Serve(in io.Reader, out io.Writer, open Open) error {
	w := &worker{open: open, clients: make(map[[2]string][]Client), enters: make(map[Job][][]Enter)}
	defer w.close()
	jobs, reports := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var j Job
		if err := jobs.Decode(&j); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		var r report
		t, err := w.serve(j)
		if err != nil {
			r.Error = err.Error()
		} else {
			r.Tally = t
		}
		if err := reports.Encode(r); err != nil {
			return err
		}
	}
}

// serve works one job. It keeps the clients open for the next one.
func (w *worker) serve(j Job) (Tally, error) {
	ctx, cancel := context.WithTimeout(context.Background(), j.Shift.For+2*time.Minute)
	defer cancel()
	members, err := w.members(ctx, j)
	if err != nil {
		return Tally{}, fmt.Errorf("%s: %w", j.Side, err)
	}
	t, err := Work(ctx, members, j.Shift)
	if err != nil {
		err = fmt.Errorf("%s: %w", j.Side, err)
	}
	return t, err
}

func (w *worker) members(ctx context.Context, j Job) ([]Enter, error) {
	at := [2]string{j.Side, j.Addr}
	for len(w.clients[at]) < j.Clients {
		c, err := w.open(j.Side, j.Addr)
		if err != nil {
			return nil, err
		}
		w.clients[at] = append(w.clients[at], c)
	}
	var members []Enter
	for i, c := range w.clients[at][:j.Clients] {
		for k := range j.Each {
			member, err := w.member(ctx, j, c, i, k)
			if err != nil {
				return nil, err
			}
			members = append(members, member)
		}
	}
	return members, nil
}

// member is goroutine k of client i.
func (w *worker) member(ctx context.Context, j Job, c Client, i, k int) (Enter, error) {
	switch {
	case j.Own:
		return c.Enter(ctx, j.Kind, fmt.Sprintf("%s/%d/%d/%d", j.Name, os.Getpid(), i, k))
	case j.Keys <= 1:
		return c.Enter(ctx, j.Kind, j.Name)
	}
	of := j
	of.Shift = Shift{}
	for len(w.enters[of]) <= i {
		w.enters[of] = append(w.enters[of], nil)
	}
	for n := len(w.enters[of][i]); n < j.Keys; n++ {
		enter, err := c.Enter(ctx, j.Kind, fmt.Sprintf("%s/%d", j.Name, n))
		if err != nil {
			return nil, err
		}
		w.enters[of][i] = append(w.enters[of][i], enter)
	}
	return AnyOf(w.enters[of][i], uint64(os.Getpid()*1_000_000+i*1000+k)), nil
}

func (w *worker) close() {
	for _, clients := range w.clients {
		for _, c := range clients {
			c.Close()
		}
	}
}

// Fleet is a number of worker processes.
type Fleet struct {
	workers []*process
}

type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	*json.Encoder
	*json.Decoder
}

// Launch starts n processes. Each has its own command, which serves jobs.
func Launch(n int, command func() *exec.Cmd) (*Fleet, error) {
	f := &Fleet{}
	for range n {
		cmd := command()
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if err := cmd.Start(); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		f.workers = append(f.workers, &process{cmd, in, json.NewEncoder(in), json.NewDecoder(out)})
	}
	return f, nil
}

// Run gives each job to a worker. They work at the same time.
func (f *Fleet) Run(jobs []Job) (Tally, error) {
	for i, j := range jobs {
		if err := f.workers[i].Encode(j); err != nil {
			return Tally{}, err
		}
	}
	var all Tally
	var failed error
	for i := range jobs {
		var r report
		if err := f.workers[i].Decode(&r); err != nil {
			return Tally{}, fmt.Errorf("worker %d: %w", i, err)
		}
		if r.Error != "" {
			failed = errors.Join(failed, fmt.Errorf("worker %d: %s", i, r.Error))
		}
		for k := range r.Tally.Turns {
			r.Tally.Turns[k].Proc = i
		}
		all.Add(r.Tally, false)
	}
	return all, failed
}

// Close ends the workers and waits for them.
func (f *Fleet) Close() error {
	var failed error
	for _, p := range f.workers {
		failed = errors.Join(failed, p.in.Close(), p.cmd.Wait())
	}
	return failed
}
