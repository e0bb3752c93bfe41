// Command guard runs a few of the benchmarks and fails if Holdfast has become slower: if
// a ratio is worse than the recorded one. Both sides of a ratio run in the same minute on
// the same machine.
//
//	go run ./guard            compare with recorded.json
//	go run ./guard -record    write recorded.json
//
// Run it in the directory of the benchmarks.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/bench/figures"
)

// run is one call of the benchmarks.
type run struct{ bench, benchtime string }

// runs take about three minutes on two idle cores.
var runs = []run{
	{"^BenchmarkPair$/(goredis|rueidis)/holdfast$", "1000x"},
	{"^BenchmarkOwnKeys64$/(goredis|rueidis)/holdfast$", "6400x"},
	{"^BenchmarkContended4x4$/(goredis|rueidis)/holdfast$", "1x"},
	{"^BenchmarkHandOver$/waiters-1$/(goredis|rueidis)/holdfast$", "1x"},
	{"^BenchmarkKinds$/(read|sem-8)/rueidis$", "1000x"},
}

// How often each benchmark runs. Six runs against ten are enough for alpha.
const (
	toRecord  = 10
	toCompare = 6
)

func main() {
	record := flag.Bool("record", false, "write the recorded figures instead of comparing with them")
	file := flag.String("file", "recorded.json", "the recorded figures")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := guard(ctx, os.Stdout, *file, *record); err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		os.Exit(1) //nolint:gocritic // nothing is left to stop
	}
}

func guard(ctx context.Context, out io.Writer, file string, record bool) error {
	count := toCompare
	if record {
		count = toRecord
	}
	now, err := measure(ctx, out, count)
	if err != nil {
		return err
	}
	if record {
		return now.Save(file)
	}
	recorded, err := figures.Load(file)
	if err != nil {
		return fmt.Errorf("%w: go run ./guard -record writes it", err)
	}
	verdicts, err := compare(recorded, now)
	if err != nil {
		return err
	}
	lost := 0
	for _, v := range verdicts {
		printf(out, "%v\n", v)
		if v.lost() {
			lost++
		}
	}
	if lost > 0 {
		return fmt.Errorf("%d of %d ratios are worse than recorded: find out why, "+
			"or record the new ones with make bench-check RECORD=yes and say why in the commit", lost, len(verdicts))
	}
	return nil
}

// measure runs the benchmarks count times, and keeps only their ratios.
func measure(ctx context.Context, out io.Writer, count int) (*figures.Figures, error) {
	dir, err := os.MkdirTemp("", "guard")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "bench.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, ".")
	if text, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go test -c: %w\n%s", err, text)
	}
	all := figures.New()
	start := time.Now()
	for _, r := range runs {
		var printed bytes.Buffer
		cmd := exec.CommandContext(ctx, program, "-test.run", "^$", "-test.bench", r.bench,
			"-test.benchtime", r.benchtime, "-test.count", strconv.Itoa(count), "-test.timeout", "10m")
		cmd.Stdout, cmd.Stderr = &printed, os.Stderr
		if err := cmd.Run(); err != nil {
			return nil, fmt.Errorf("%s: %w\n%s", r.bench, err, &printed)
		}
		if err := all.Read(&printed, r.bench); err != nil {
			return nil, err
		}
		printf(out, "%-52s after %v\n", r.bench, time.Since(start).Round(time.Second))
	}
	for _, metrics := range all.Samples {
		for metric := range metrics {
			if _, ratio := better[metric]; !ratio {
				delete(metrics, metric)
			}
		}
	}
	if len(all.Samples) == 0 {
		return nil, errors.New("no benchmark ran: is this the directory of the benchmarks?")
	}
	return all, nil
}

// printf prints progress for people. If it fails, that changes nothing.
func printf(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
