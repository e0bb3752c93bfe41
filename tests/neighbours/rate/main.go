// Command rate counts how often processes of Redisson and of this library lock and unlock in a second: with a lock
// for each goroutine or thread, and with one lock for all. The rounds of the fleets take turns, so that other load of
// the machine meets all of them.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/tests/redisson/crossing"
	"github.com/holdfast-go/holdfast/verify/fault"
)

func main() {
	crossing.Driven()
	if err := run(); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "rate:", err)
		os.Exit(1)
	}
}

// fleet is two processes.
type fleet struct {
	name      string
	processes []*crossing.Process
	rates     map[string][]int64 // by workload: pairs in a second, all together
	shares    map[string][]int64 // of the first process
}

func run() error {
	each := flag.Duration("each", 3*time.Second, "how long a round is")
	rounds := flag.Int("rounds", 3, "rounds; the table has their medians")
	threads := flag.Int("threads", 4, "of each of the two processes")
	limits := flag.String("handovers", "0,1023,-1", "values of MaxLocalHandOvers; 0 is the default")
	flag.Parse()
	bench := new(fault.Bench)
	defer bench.Close()
	var server *redistest.Server
	if err := fault.Try(func() { server = redistest.Start(bench, redistest.AllowAll()) }); err != nil {
		return err
	}
	settings := crossing.Settings{Address: server.Addr()}
	fleets := []*fleet{{name: "Redisson"}}
	starts := [][]func(crossing.Settings) (*crossing.Process, error){{crossing.StartJava, crossing.StartJava}}
	for word := range strings.SplitSeq(*limits, ",") {
		limit, err := strconv.Atoi(word)
		if err != nil {
			return err
		}
		ours := func(s crossing.Settings) (*crossing.Process, error) {
			s.HandOvers = limit
			return crossing.StartGo(s)
		}
		fleets = append(fleets, &fleet{name: "Holdfast, " + word}, &fleet{name: "mixed, " + word})
		starts = append(starts, []func(crossing.Settings) (*crossing.Process, error){ours, ours},
			[]func(crossing.Settings) (*crossing.Process, error){crossing.StartJava, ours})
	}
	for i, f := range fleets {
		f.rates, f.shares = make(map[string][]int64), make(map[string][]int64)
		for _, start := range starts[i] {
			p, err := start(settings)
			if err != nil {
				return err
			}
			bench.Cleanup(p.Destroy)
			f.processes = append(f.processes, p)
		}
	}
	for n := range *rounds + 1 { // the first makes the Java programs warm, and does not count
		for _, workload := range []string{"own", "one"} {
			for _, f := range fleets {
				if err := f.round(workload, *threads, *each, n > 0); err != nil {
					return err
				}
			}
		}
	}
	return write(fleets)
}

// round lets both processes work at the same time.
func (f *fleet) round(workload string, threads int, each time.Duration, counts bool) error {
	var answers []*crossing.Answer
	for _, p := range f.processes {
		answers = append(answers, p.Begin("1", "pairs", "rate", threads, each.Milliseconds(), workload))
	}
	sum, first := int64(0), int64(0)
	for i, answer := range answers {
		text, err := answer.Wait()
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		pairs, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return err
		}
		if sum += pairs; i == 0 {
			first = pairs
		}
	}
	if counts {
		f.rates[workload] = append(f.rates[workload], sum*1000/each.Milliseconds())
		f.shares[workload] = append(f.shares[workload], first*1000/each.Milliseconds())
	}
	return nil
}

func write(fleets []*fleet) error {
	t := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	// Flush tells what went wrong.
	_, _ = fmt.Fprintln(t, "two processes\tpairs/s, a lock each\tof the first\tpairs/s, one lock\tof the first")
	for _, f := range fleets {
		_, _ = fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\n", f.name, median(f.rates["own"]), median(f.shares["own"]),
			median(f.rates["one"]), median(f.shares["one"]))
	}
	return t.Flush()
}

func median(of []int64) int64 {
	slices.Sort(of)
	return of[len(of)/2]
}
