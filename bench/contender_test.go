package bench

import (
	"bufio"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/bench/crew"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// contender is one side at one workload, with its server and its processes.
type contender struct {
	side   side
	work   workload
	server *redistest.Server // nil for etcd
	fleet  *crew.Fleet
	jobs   []crew.Job
	last   crew.Tally // of the last round
	seen   figures
}

// figures are the sums over all rounds.
type figures struct {
	crew.Tally

	calls  int64         // commands that clients sent, and pushes
	ran    int64         // and those that scripts called
	cpu    time.Duration // of the server
	watch  time.Duration // in which they were counted, if not all the time
	pauses []time.Duration
}

func contend(b *testing.B, w workload, s side) *contender {
	b.Helper()
	c := &contender{side: s, work: w}
	j := w.job
	j.Side, j.Name, j.Shift.Grace = s.name, s.name, patient
	if s.open == nil {
		j.Addr = serveEtcd(b)
		c.fleet = launch(b, w.procs, func() *exec.Cmd { return exec.Command(*etcdProgram, "work") })
	} else {
		c.server = redistest.Start(b)
		r := &rig{server: c.server}
		j.Addr, c.fleet = far(b, c.server), r.fleet(b, w.procs)
	}
	if s.name == "raw-"+s.kit {
		j.Kind = kindToken
		if w.own {
			j.Kind = kindKey
		}
		c.lay(b, j)
	}
	for i := range w.procs {
		one := j
		one.Shift.Start = time.Duration(i) * w.stagger()
		one.Shift.Step = time.Duration(w.procs) * w.stagger()
		c.jobs = append(c.jobs, one)
	}
	return c
}

// lay creates the tokens.
func (c *contender) lay(b *testing.B, j crew.Job) {
	b.Helper()
	switch {
	case j.Kind != kindToken:
	case j.Keys <= 1:
		c.server.Do(b, "RPUSH", j.Name, "1")
	default:
		for i := range j.Keys {
			c.server.Do(b, "RPUSH", fmt.Sprintf("%s/%d", j.Name, i), "1")
		}
	}
}

// stagger is how long after one member the next one begins. The queue keeps that order,
// so the processes take turns.
func (w workload) stagger() time.Duration {
	if w.job.Shift.Record {
		return apart
	}
	return 0
}

// warm is a short round that is not counted. It makes connections and subscriptions, and
// loads scripts.
func (c *contender) warm(b *testing.B) {
	b.Helper()
	jobs := c.jobs
	c.jobs = slices.Clone(jobs)
	for i := range c.jobs {
		c.jobs[i].Shift.For /= 5
	}
	_, err := c.fleet.Run(c.jobs)
	check(b, err)
	c.jobs = jobs
}

// round is one round of this side.
func (c *contender) round(b *testing.B) {
	b.Helper()
	var before time.Duration
	if c.server != nil {
		c.server.ResetStats(b)
		before = cpuOf(b, c.server)
	}
	var t crew.Tally
	var err error
	if c.work.window == 0 || c.server == nil {
		t, err = c.fleet.Run(c.jobs)
	} else {
		t, err = c.watched(b)
	}
	check(b, err)
	c.last = t
	c.seen.pauses = append(c.seen.pauses, c.timed()...)
	t.Turns, t.Samples = nil, nil // of a thousand rounds they would be many
	c.seen.Add(t, true)
	if c.server != nil && c.work.window == 0 {
		c.count(b)
		c.seen.cpu += cpuOf(b, c.server) - before
	}
}

// count adds the commands since the last reset.
func (c *contender) count(b *testing.B) {
	b.Helper()
	calls := c.server.CommandCalls(b)
	for _, n := range calls {
		c.seen.ran += n
	}
	for _, name := range c.side.scripted {
		delete(calls, name)
	}
	c.seen.calls += sent(calls)
}

// watched is a round in which only the commands of a window in the middle count. By then
// every member has joined, and none leaves.
func (c *contender) watched(b *testing.B) (t crew.Tally, err error) {
	b.Helper()
	var group sync.WaitGroup
	group.Go(func() { t, err = c.fleet.Run(c.jobs) })
	crew.Wait((c.work.job.Shift.For - c.work.window) * 3 / 4)
	c.server.ResetStats(b)
	crew.Wait(c.work.window)
	c.count(b)
	c.seen.watch += c.work.window
	group.Wait()
	return t, err
}

// timed returns how long each hand-over of the last round took, or each turn.
func (c *contender) timed() []time.Duration {
	if c.work.job.Shift.Record {
		return crew.HandOvers(c.last.Turns, labour)
	}
	return c.last.Samples
}

func (c *contender) p50() time.Duration { return crew.Percentile(c.timed(), 50) }

func (c *contender) report(b *testing.B) {
	b.Helper()
	t := &c.seen
	turns := float64(t.Sum())
	shift := c.work.job.Shift
	switch {
	case c.server == nil || turns == 0:
	case c.work.window > 0:
		b.ReportMetric(float64(t.calls)/t.watch.Seconds(), "commands/s")
		return
	default:
		b.ReportMetric(float64(t.calls)/turns, "commands/turn")
		b.ReportMetric(float64(t.ran)/turns, "ran/turn")
		b.ReportMetric(float64(t.cpu.Microseconds())/turns, "server-µs/turn")
		b.ReportMetric(float64(t.calls)/t.Took.Seconds(), "commands/s")
	}
	if len(t.pauses) > 0 {
		b.ReportMetric(milliseconds(crew.Percentile(t.pauses, 50)), "p50-ms")
		b.ReportMetric(milliseconds(crew.Percentile(t.pauses, 99)), "p99-ms")
	}
	if shift.Sample && turns > 0 {
		b.ReportMetric(float64(t.Mallocs)/turns, "mallocs/turn")
	}
	if shift.Hold < labour {
		b.ReportMetric(t.Rate(), "acq/s")
	}
	if !c.work.own {
		b.ReportMetric(crew.Jain(t.Counts), "jain")
		b.ReportMetric(milliseconds(t.Worst), "worst-wait-ms")
		b.ReportMetric(float64(t.Starved), "starved")
	}
}

// serveEtcd starts an etcd server. It ends with the benchmark.
func serveEtcd(b *testing.B) (addr string) {
	b.Helper()
	cmd := exec.Command(*etcdProgram, "serve", b.TempDir())
	in, err := cmd.StdinPipe()
	check(b, err)
	out, err := cmd.StdoutPipe()
	check(b, err)
	check(b, cmd.Start())
	b.Cleanup(func() {
		_ = in.Close()
		assert.NoError(b, cmd.Wait())
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	check(b, err)
	return strings.TrimSpace(line)
}
