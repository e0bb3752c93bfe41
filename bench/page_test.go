package bench

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/bench/crew"
)

var pageTool = flag.String("tool", "", "the program holdfast: measure its page")

const (
	pageLocks    = 1000
	pageEach     = 10 // how often each lock changes in a second
	pageChangers = 16 // goroutines that change them: one alone would be too slow
)

// BenchmarkPage is what the page of holdfast serve costs the process that serves it. It shows a
// thousand locks, each of which passes to another hold ten times a second, to one viewer. An op is
// a window of 30 s. It prints the page's address, for a browser.
//
//	serve-cpu-%  of one core
//	serve-MB     the most memory that it had
func BenchmarkPage(b *testing.B) {
	if *pageTool == "" {
		return
	}
	r := newRig(b, kitNamed("goredis"))
	client := r.party.client(b, holdfast.Config{App: "bench"})
	leases := hold(b, client, pageLocks)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	serve := exec.CommandContext(ctx, *pageTool, "serve", "--no-token", "--listen", "127.0.0.1:0")
	serve.Env = append(os.Environ(), "HOLDFAST_REDIS="+r.server.URL())
	out, err := serve.StdoutPipe()
	check(b, err)
	check(b, serve.Start())
	url, err := bufio.NewReader(out).ReadString('\n')
	check(b, err)
	url = strings.TrimSpace(url)
	fmt.Println(url)
	var changes, received atomic.Int64
	var all sync.WaitGroup
	for i := range pageChangers {
		all.Go(func() { changeLocks(ctx, client, leases, i, &changes) })
	}
	looked := make(chan error, 1)
	go func() { looked <- lookAtPage(ctx, url, &received) }()
	start := time.Now()
	for b.Loop() {
		crew.Wait(short(30 * time.Second))
	}
	watched := time.Since(start).Seconds()
	cancel()
	all.Wait()
	check(b, <-looked)
	_ = serve.Wait() // it was killed
	used := serve.ProcessState
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(100*(used.UserTime()+used.SystemTime()).Seconds()/watched, "serve-cpu-%")
	b.ReportMetric(float64(used.SysUsage().(*syscall.Rusage).Maxrss)/1024, "serve-MB")
	b.ReportMetric(float64(changes.Load())/watched, "changes/s")
	b.ReportMetric(float64(received.Load())/watched/1024, "sent-KB/s")
}

// changeLocks gives its part of the locks from hold to hold, until ctx ends.
func changeLocks(ctx context.Context, c *holdfast.Client, leases []*holdfast.Lease, first int, changes *atomic.Int64) {
	tick := time.NewTicker(time.Second / pageEach)
	defer tick.Stop()
	for ctx.Err() == nil {
		for i := first; i < len(leases); i += pageChangers {
			err := leases[i].Release(ctx)
			if err == nil {
				leases[i], err = c.Mutex(leases[i].Name()).Lock(ctx)
			}
			if err != nil {
				return // the end
			}
			changes.Add(1)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// lookAtPage reads what the page is sent, until ctx ends. An error says that it was not served until then.
func lookAtPage(ctx context.Context, url string, received *atomic.Int64) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"api/events", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", request.URL, answer.Status)
	}
	buffer := make([]byte, 64<<10)
	for err == nil {
		var n int
		n, err = answer.Body.Read(buffer)
		received.Add(int64(n))
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}
