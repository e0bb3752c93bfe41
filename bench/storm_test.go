package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/crew"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/leasetime"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// stormWorker is the value of envWorker for the process that holds the leases of a storm.
const stormWorker = "storm"

// A renewal storm: after a pause of a third of the TTL all leases are due at the same time.

// BenchmarkStorm is how long a client needs to renew all its leases after a pause, of its server
// or of its own process, in which all of them became due: storm-ms. The pause is 0.4 of the TTL,
// and the TTL is so long that this machine can renew all leases in a tenth of it. lost is how
// many leases it lost. An op is a storm.
func BenchmarkStorm(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 100_000, 1_000_000} {
		if n > *most {
			continue
		}
		for _, who := range []string{"server", "process"} {
			b.Run(fmt.Sprintf("%s/%d", who, n), func(b *testing.B) { benchStorm(b, n, who == "server") })
		}
	}
}

func benchStorm(b *testing.B, n int, ofServer bool) {
	ttl := max(3*time.Second, time.Duration(n)*150*time.Microsecond)
	server := redistest.Start(b)
	w := holdElsewhere(b, server.Addr(), n, ttl)
	for b.Loop() {
		crew.Wait(ttl / 3) // so that the leases are due at their usual times
		pause, resume := w.stop, w.resume
		if ofServer {
			pause, resume = server.Pause, server.Continue
		}
		began := crew.Mono()
		pause()
		crew.Wait(ttl * 4 / 10)
		resumed := crew.Mono()
		resume()
		w.Tell(fmt.Sprint(int64(began)))
		over, lost := w.over(b)
		b.ReportMetric(milliseconds(over-resumed), "storm-ms")
		b.ReportMetric(float64(lost), "lost")
		b.ReportMetric(float64(n)/(over-resumed).Seconds(), "renewals/s")
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ttl.Seconds(), "TTL-s")
}

// stormJob is what the process with the leases is told first.
type stormJob struct {
	Addr   string
	Leases int
	TTL    time.Duration
}

// holder is the process with the leases.
type holder struct {
	*childproc.Process
	b     *testing.B
	lines chan string
}

func holdElsewhere(b *testing.B, addr string, n int, ttl time.Duration) *holder {
	b.Helper()
	w := &holder{b: b, lines: make(chan string, 16)}
	cmd := exec.Command(os.Args[0], "-test.run", "^$")
	cmd.Env = append(os.Environ(), envWorker+"="+stormWorker)
	p, err := childproc.Start(cmd, stormJob{addr, n, ttl},
		func(line []byte) { w.lines <- string(line) },
		func(err error, stderr string) { w.lines <- fmt.Sprint("ended ", err, stderr) })
	check(b, err)
	w.Process = p
	b.Cleanup(p.Destroy)
	w.await(b, "held")
	return w
}

// await returns what follows a word that the process says.
func (w *holder) await(b *testing.B, word string) string {
	b.Helper()
	rest, ok := strings.CutPrefix(<-w.lines, word)
	if !ok {
		b.Fatalf("the process did not say %q", word)
	}
	return rest
}

func (w *holder) stop()   { check(w.b, w.Stop()) }
func (w *holder) resume() { check(w.b, w.Continue()) }

// over waits until every lease was renewed or lost.
func (w *holder) over(b *testing.B) (at time.Duration, lost int) {
	b.Helper()
	_, err := fmt.Sscan(w.await(b, "over"), &at, &lost)
	check(b, err)
	return at, lost
}

// renewedSince waits until every lease was renewed by a request sent after began, or is lost.
// Events would not do: the client drops renewals if thousands of them wait for the observer.
func renewedSince(leases []*holdfast.Lease, began, ttl time.Duration) (at time.Duration, lost int) {
	since := time.Now().Add(leasetime.Deadline(began, ttl) - crew.Mono())
	for _, l := range leases {
		for l.Err() == nil && time.Now().Add(l.Remaining()).Before(since) {
			crew.Wait(time.Millisecond)
		}
		if l.Err() != nil {
			lost++
		}
	}
	return crew.Mono(), lost
}

// serveStorm holds leases until its input ends.
func serveStorm(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("the process of a storm is started by the benchmark only")
	}
	var job stormJob
	if err := json.Unmarshal(lines.Bytes(), &job); err != nil {
		return err
	}
	p, err := kitNamed("rueidis").open(job.Addr)
	if err != nil {
		return err
	}
	client, err := holdfast.New(p.store, holdfast.Config{TTL: job.TTL})
	if err != nil {
		return err
	}
	leases, err := holdAll(client, job.Leases)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "held")
	for lines.Scan() {
		began, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			return err
		}
		at, lost := renewedSince(leases, time.Duration(began), job.TTL)
		fmt.Fprintln(out, "over", int64(at), lost)
	}
	return lines.Err()
}

func holdAll(client *holdfast.Client, n int) ([]*holdfast.Lease, error) {
	leases := make([]*holdfast.Lease, n)
	var failed atomic.Pointer[error]
	inParallel(n, func(i int) {
		mu := client.Mutex(fmt.Sprintf("held/%d", i))
		err := holdfast.ErrUnknownOutcome // requests may time out on a busy machine
		for errors.Is(err, holdfast.ErrUnknownOutcome) {
			leases[i], err = mu.Lock(context.Background())
		}
		if err != nil {
			failed.Store(&err)
		}
	})
	if err := failed.Load(); err != nil {
		return nil, *err
	}
	return leases, nil
}
