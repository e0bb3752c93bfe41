// Command fleet lets processes of another library and of this one share locks while faults hit them,
// and the other library alone under the same faults. It says who was in with whom, and fails if this
// library adds anything to what the original does by itself.
//
//	go run ./fleet -neighbour redisson -duration 10m -seed 1
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/tests/neighbours"
)

func main() {
	if was, err := neighbours.Worker(); was {
		exit(err)
	}
	exit(run())
}

func exit(err error) {
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func run() error {
	name := flag.String("neighbour", "redisson", "the other library")
	duration := flag.Duration("duration", time.Minute, "how long the fleets work")
	seed := flag.Uint64("seed", 1, "of the faults and of what the processes do")
	ttl := flag.Duration("ttl", 3*time.Second, "of every lease")
	clients := flag.Int("clients", 4, "processes of each fleet")
	threads := flag.Int("threads", 3, "that take locks in each process")
	locks := flag.Int("locks", 4, "locks")
	faults := flag.String("faults", strings.Join(neighbours.Faults, ","), "the faults to inject")
	quiet := flag.Bool("quiet", false, "do not say which fault begins")
	flag.Parse()
	n, err := neighbours.Named(*name)
	if err != nil {
		return err
	}
	opts := neighbours.Options{
		TTL: *ttl, Duration: *duration, Seed: *seed, Clients: *clients, Threads: *threads,
		Tell: func(format string, args ...any) {
			if !*quiet {
				_, _ = fmt.Fprintf(os.Stderr, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
			}
		},
	}
	if *faults != "" {
		opts.Faults = strings.Split(*faults, ",")
	}
	for i := range *locks {
		opts.Locks = append(opts.Locks, fmt.Sprintf("fleet-%d", i+1))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	report, err := neighbours.Both(ctx, n, opts)
	if err != nil {
		return err
	}
	if err := report.Write(os.Stdout); err != nil {
		return err
	}
	if bad := report.Bad(); len(bad) > 0 {
		return fmt.Errorf("%d reasons: the original alone would not do that", len(bad))
	}
	return nil
}
