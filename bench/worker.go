package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/holdfast-go/holdfast"
)

// envWorker is set in the environment of worker processes.
const envWorker = "HOLDFAST_BENCH_WORKER"

// job is one line of a worker's input: a shift to work.
type job struct {
	Kit     string
	Addr    string
	Raw     bool   // pass a token instead of the lock
	Name    string // of the lock or the token
	Clients int    // with connections of their own
	Each    int    // goroutines of each client
	Shift   shift
}

// report is one line of its output.
type report struct {
	Tally tally
	Error string `json:",omitempty"`
}

// worker is what a worker process has open.
type worker struct {
	parties []*party
	clients []*holdfast.Client
}

// work serves jobs until the input ends, which it does when the process at
// the other end is gone.
func work(in io.Reader, out io.Writer) error {
	w := &worker{}
	defer w.close()
	jobs, reports := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var j job
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

// serve works one job. The clients stay open for the next one.
func (w *worker) serve(j job) (tally, error) {
	for len(w.clients) < j.Clients {
		p, err := kitNamed(j.Kit).open(j.Addr)
		if err != nil {
			return tally{}, err
		}
		c, err := holdfast.New(p.store, holdfast.Config{})
		if err != nil {
			return tally{}, err
		}
		w.parties, w.clients = append(w.parties, p), append(w.clients, c)
	}
	var members []enter
	for i := range j.Clients {
		member := enterToken(w.parties[i].raw, j.Name)
		if !j.Raw {
			member = enterLock(w.clients[i].Mutex(j.Name))
		}
		for range j.Each {
			members = append(members, member)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), j.Shift.For+time.Minute)
	defer cancel()
	return crowd(ctx, members, j.Shift)
}

func (w *worker) close() {
	for i, c := range w.clients {
		_ = c.Close(context.Background())
		w.parties[i].close()
	}
}

// fleet is a number of worker processes.
type fleet struct {
	workers []*process
}

type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	*json.Encoder
	*json.Decoder
}

// launch starts n processes of the running test binary as workers.
func launch(n int) (*fleet, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f := &fleet{}
	for range n {
		cmd := exec.Command(self) //nolint:noctx // it ends with its input
		cmd.Env = append(os.Environ(), envWorker+"=1")
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
		if err := cmd.Start(); err != nil {
			return nil, errors.Join(err, f.close())
		}
		f.workers = append(f.workers, &process{cmd, in, json.NewEncoder(in), json.NewDecoder(out)})
	}
	return f, nil
}

// run has every worker work its job, all at the same time.
func (f *fleet) run(jobs []job) (tally, error) {
	for i, j := range jobs {
		if err := f.workers[i].Encode(j); err != nil {
			return tally{}, err
		}
	}
	var all tally
	var failed error
	for i := range jobs {
		var r report
		if err := f.workers[i].Decode(&r); err != nil {
			return tally{}, fmt.Errorf("worker %d: %w", i, err)
		}
		if r.Error != "" {
			failed = errors.Join(failed, fmt.Errorf("worker %d: %s", i, r.Error))
		}
		for k := range r.Tally.Turns {
			r.Tally.Turns[k].Proc = i
		}
		all.add(r.Tally, false)
	}
	return all, failed
}

// close ends the workers and waits for them.
func (f *fleet) close() error {
	var failed error
	for _, p := range f.workers {
		failed = errors.Join(failed, p.in.Close(), p.cmd.Wait())
	}
	return failed
}
