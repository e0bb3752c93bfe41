// Command page measures what the page of holdfast serve costs. It starts a server, holds many
// locks and gives them from one hold to the next, looks at the page as a browser does, and
// prints the processor time and the memory of the process that serves it.
//
//	make build && cd bench && go run ./page -duration 10m
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// workers change the locks, each its own: one alone would be too slow.
const workers = 16

type settings struct {
	tool            string
	locks, each     int
	viewers         int
	duration, every time.Duration
}

func main() {
	var s settings
	flag.StringVar(&s.tool, "tool", "../bin/holdfast", "the tool")
	flag.IntVar(&s.locks, "locks", 1000, "how many locks are held")
	flag.IntVar(&s.each, "each", 10, "how often each lock changes in a second")
	flag.IntVar(&s.viewers, "viewers", 1, "how many look at the page")
	flag.DurationVar(&s.duration, "duration", time.Minute, "how long")
	flag.DurationVar(&s.every, "every", 30*time.Second, "how often to print")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := measure(ctx, s)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

func measure(ctx context.Context, s settings) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	address := l.Addr().String()
	_, port, _ := strings.Cut(address, ":")
	if err := l.Close(); err != nil {
		return err
	}
	server := exec.CommandContext(ctx, "redis-server", "--port", port, "--save", "")
	if err := server.Start(); err != nil {
		return err
	}
	defer server.Wait() //nolint:errcheck // cancel ends it
	defer cancel()
	rdb := redis.NewClient(&redis.Options{Addr: address})
	for rdb.Ping(ctx).Err() != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	client, err := holdfast.New(goredis.New(rdb), holdfast.Config{App: "bench"})
	if err != nil {
		return err
	}
	var changes atomic.Int64
	work, err := hold(ctx, client, s, &changes)
	if err != nil {
		return err
	}
	work()
	page := exec.CommandContext(ctx, s.tool, "serve", "--listen", "127.0.0.1:0")
	page.Env = append(os.Environ(), "HOLDFAST_REDIS=redis://"+address)
	out, err := page.StdoutPipe()
	if err != nil {
		return err
	}
	if err := page.Start(); err != nil {
		return err
	}
	defer page.Wait() //nolint:errcheck // cancel ends it
	defer cancel()
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return err
	}
	url = strings.TrimSpace(url)
	fmt.Println(url)
	var sent atomic.Int64
	for range s.viewers {
		go look(ctx, url, &sent)
	}
	return s.report(ctx, page.Process.Pid, &changes, &sent)
}

// hold acquires the locks. work gives them from hold to hold, until the context ends.
func hold(ctx context.Context, c *holdfast.Client, s settings, changes *atomic.Int64) (work func(), err error) {
	leases := make([]*holdfast.Lease, s.locks)
	acquire := func(i int) (err error) {
		leases[i], err = c.Mutex(fmt.Sprintf("order/%04d", i)).Lock(ctx)
		return err
	}
	for i := range leases {
		if err := acquire(i); err != nil {
			return nil, err
		}
	}
	change := func(worker int) {
		tick := time.NewTicker(time.Second / time.Duration(s.each))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			for i := worker; i < s.locks; i += workers {
				if leases[i].Release(ctx) != nil || acquire(i) != nil {
					return // the end
				}
				changes.Add(1)
			}
		}
	}
	return func() {
		for worker := range workers {
			go change(worker)
		}
	}, nil
}

func look(ctx context.Context, url string, sent *atomic.Int64) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"api/events", nil)
	if err != nil {
		panic("BUG: the tool printed no URL: " + err.Error())
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return
	}
	defer answer.Body.Close() //nolint:errcheck // it was only read
	buffer := make([]byte, 64<<10)
	for {
		n, err := answer.Body.Read(buffer)
		sent.Add(int64(n))
		if err != nil {
			return
		}
	}
}

func (s settings) report(ctx context.Context, pid int, changes, sent *atomic.Int64) error {
	fmt.Println("     time  cpu of a core  memory MB  changes/s  sent KB/s")
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	began, last := time.Now(), time.Now()
	used, err := processor(pid)
	for err == nil && time.Since(began) < s.duration {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		var now time.Duration
		var memory float64
		if now, err = processor(pid); err != nil {
			break
		}
		if memory, err = resident(pid); err != nil {
			break
		}
		span := time.Since(last).Seconds()
		fmt.Printf("%9s  %12.1f%%  %9.1f  %9.0f  %9.0f\n", time.Since(began).Round(time.Second),
			100*(now-used).Seconds()/span, memory, float64(changes.Swap(0))/span, float64(sent.Swap(0))/span/1024)
		used, last = now, time.Now()
	}
	return err
}

// processor is the processor time that a process has used, on Linux.
func processor(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, io.ErrUnexpectedEOF
	}
	ticks := 0
	for _, field := range fields[11:13] { // of the program, and of the kernel for it
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// resident is the memory that a process has, in megabytes.
func resident(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			return float64(n) / 1024, err
		}
	}
	return 0, io.ErrUnexpectedEOF
}
