// Package suite runs the fault suite: real client processes on real servers, and faults,
// each of which is healed in time. Then it judges what happened. A run is a topology,
// workloads, faults, a seed and a duration.
//
// The seed decides the faults, their order, how long each lasts and which clients or
// servers it hits, and what each client draws. It does not decide how the machine
// schedules real processes. So a run that failed is likely, and not certain, to fail
// again under its seed. Its history says what happened in any case.
package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/verify/check"
	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/history"
	"github.com/holdfast-go/holdfast/verify/workload"
)

// Options say what to run. The zero value of a field means its default.
type Options struct { //nolint:recvcheck // learn alone changes them
	Topology string        // one of fault.Topologies; default: standalone
	URL      string        // a server of the user's, instead of servers of the suite's own
	Prefix   string        // default: holdfast-verify
	Works    []string      // default: all that can share a machine
	Faults   []string      // default: all that the topology and the server's owner allow
	Seed     uint64        // default: from the clock
	Duration time.Duration // of the whole run, from the first server to the verdict; default: 60 s
	Round    time.Duration // of one round, on fresh servers; default: 60 s
	TTL      time.Duration // of the leases; default: 1 s, over a quorum 3 s
	Clients  int           // processes; default: 5
	Rest     float64       // part of the usual pauses between acquisitions; default: 1
	Calm     time.Duration // between two bouts of faults, beside a part of a lease; default: none
	Argv     []string      // the program that runs workload.Client
	Command  string        // the command that runs the suite, for the line that repeats a run
	Dir      string        // where histories are left; default: the directory for temporary files
	Keep     bool          // leave histories of rounds that passed, too

	// Asked says that the faults were named one by one: each must come. Complete sets it.
	Asked bool
	// Pairs has faults drawn first that were not yet active at the same time. It says how
	// often two were, by their names with a plus between, in the order of the alphabet;
	// nil: pairs are drawn as they come.
	Pairs map[string]int
	// Left says why a fault is left out that the topology could have. Complete sets it.
	Left map[string]string
	// Each is called for every round once it is judged; may be nil.
	Each func(Round) error

	until time.Time     // when the round is to be over
	tail  time.Duration // what a round takes after its last fault

	// Resource is what clients write to under a lock; default: workload.Files. The
	// program that runs workload.Client must give it the same.
	Resource workload.Resource

	Progress func(Progress) // called about once a second; may be nil
}

// Progress is how far a run is. Its counts include the present round, except those of
// pairs, failures and violations.
type Progress struct {
	Round        int
	Rounds       int
	Step         string // what is being done
	Elapsed      time.Duration
	Left         time.Duration // until the run is to be over
	Acquisitions int
	Faults       int
	Paired       int    // of them, at one time with another
	Missing      int    // possible pairs of faults that have not occurred yet; -1: not asked for
	Last         string // the fault that was injected last
	Violations   int
	Failed       int // rounds that came to no end
}

// Limits of the options.
const (
	MinDuration = 2 * time.Second
	MinTTL      = 200 * time.Millisecond
	MaxClients  = 64
)

// Complete fills in the defaults and says what cannot be run.
func (o Options) Complete() (Options, error) {
	o.Topology = cmp.Or(o.Topology, fault.Standalone)
	o.Prefix = cmp.Or(o.Prefix, "holdfast-verify")
	o.Duration = cmp.Or(o.Duration, time.Minute)
	o.Round = min(cmp.Or(o.Round, time.Minute), o.Duration)
	if o.Topology == fault.Quorum {
		// A tenth of it bounds each request, and one request elsewhere is eight here. With
		// a shorter TTL the machine would do nothing but connect again.
		o.TTL = cmp.Or(o.TTL, 3*time.Second)
	}
	o.TTL = cmp.Or(o.TTL, time.Second)
	o.Clients, o.Rest = cmp.Or(o.Clients, 5), cmp.Or(o.Rest, 1)
	o.Seed = cmp.Or(o.Seed, uint64(time.Now().UnixNano())%1_000_000_000)
	if o.Resource == nil {
		o.Resource = workload.Files
	}
	able := workload.Names()
	if o.Topology == fault.Quorum {
		able = workload.OverQuorum()
	}
	if len(o.Works) == 0 {
		o.Works = workload.Together(able)
	}
	switch {
	case childproc.Supported() != nil:
		return o, childproc.Supported()
	case !slices.Contains(fault.Topologies(), o.Topology):
		return o, fmt.Errorf("--topology %q: write one of %s", o.Topology, strings.Join(fault.Topologies(), ", "))
	case o.Duration < MinDuration || o.Round < MinDuration:
		return o, fmt.Errorf("--duration or --round %v: write at least %v", min(o.Duration, o.Round), MinDuration)
	case o.TTL < MinTTL || o.TTL > o.Duration:
		return o, fmt.Errorf("--ttl %v: write at least %v, and at most the duration", o.TTL, MinTTL)
	case o.Clients < 2 || o.Clients > MaxClients:
		return o, fmt.Errorf("--clients %d: write 2 to %d", o.Clients, MaxClients)
	case !(o.Rest > 0 && o.Rest <= 10):
		return o, fmt.Errorf("--rest %v: write a factor above 0, at most 10", o.Rest)
	case o.Calm < 0 || o.Calm > o.Round:
		return o, fmt.Errorf("--calm %v: write at most the length of a round", o.Calm)
	case len(o.Argv) == 0:
		return o, errors.New("BUG: no program for the clients")
	}
	for _, name := range o.Works {
		if !slices.Contains(able, name) {
			return o, fmt.Errorf("--works %q: write one of %s", name, strings.Join(able, ", "))
		}
	}
	return o.faults()
}

// faults finds the faults that can be, or says why one cannot.
func (o Options) faults() (Options, error) {
	var able []string
	o.Left = make(map[string]string)
	for _, f := range fault.All() {
		if err := o.able(f); err == nil {
			able = append(able, f.Name)
		} else if f.In(o.Topology) {
			o.Left[f.Name] = err.Error()
		}
	}
	if len(o.Faults) == 0 {
		o.Faults = able
		return o, nil
	}
	// Completed before, they need not be those that somebody named.
	o.Asked = o.Asked || !slices.Equal(o.Faults, able)
	asked, err := fault.Named(o.Faults)
	if err != nil {
		return o, fmt.Errorf("--faults: %w; write some of %s", err, strings.Join(able, ", "))
	}
	for _, f := range asked {
		if err := o.able(f); err != nil {
			return o, err
		}
	}
	return o, nil
}

// able says why a fault cannot be injected, or nil.
func (o Options) able(f fault.Fault) error {
	switch {
	case !f.In(o.Topology):
		return fmt.Errorf("fault %s is not possible on %s", f.Name, o.Topology)
	case slices.Contains(fault.Clocks(), f.Name) && fault.Movable() != nil:
		return fmt.Errorf("fault %s: %w", f.Name, fault.Movable())
	case o.URL != "" && f.Side == fault.OnServer:
		return fmt.Errorf("fault %s would break your server: leave out the URL, "+
			"and verify starts a server for it", f.Name)
	case o.URL != "" && strings.HasPrefix(o.URL, "rediss:") && f.Side == fault.OnNetwork:
		return fmt.Errorf("fault %s is not possible with TLS, which the proxies cannot read", f.Name)
	case f.Name == "stop-writer" && !slices.Contains(o.Works, workload.Update):
		return fmt.Errorf("fault %s needs the workload %s", f.Name, workload.Update)
	}
	return nil
}

// again is the command that runs a round once more.
func (o Options) again() string {
	words := []string{cmp.Or(o.Command, "holdfast verify")}
	faults := "--faults " + strings.Join(o.Faults, ",")
	if !o.Asked {
		faults = ""
	}
	if o.URL == "" {
		words = append(words, "--topology "+o.Topology)
	}
	if o.Rest != 1 {
		words = append(words, fmt.Sprintf("--rest %v", o.Rest))
	}
	if o.Calm != 0 {
		words = append(words, fmt.Sprintf("--calm %v", o.Calm))
	}
	return strings.TrimSpace(strings.Join(append(words,
		fmt.Sprintf("--seed %d", o.Seed), fmt.Sprintf("--duration %v", o.Round), fmt.Sprintf("--ttl %v", o.TTL),
		fmt.Sprintf("--clients %d", o.Clients), "--works "+strings.Join(o.Works, ","), faults,
	), " "))
}

// Round is what one round of a run has shown.
type Round struct {
	Setup  history.Setup  `json:"setup"`
	OK     bool           `json:"ok"`
	Error  string         `json:"error,omitempty"` // it came to no end
	Checks []check.Result `json:"checks"`
	Tally  Tally          `json:"tally"`
	Gaps   []check.Gap    `json:"gaps"` // the slowest recoveries
	// Recoveries are how long all took, slowest first.
	Recoveries []time.Duration   `json:"-"`
	Left       map[string]string `json:"left_out,omitempty"` // faults that could not be, and why
	History    string            `json:"history,omitempty"`  // the file, if it was left
	Elapsed    time.Duration     `json:"elapsed"`

	Run *check.Run `json:"-"` // for the timeline

	tail time.Duration // what came after the last fault
}

// Tally counts what happened.
type Tally struct {
	Acquisitions map[string]int `json:"acquisitions"` // by workload
	Failures     map[string]int `json:"failures"`     // acquisitions that came to nothing, by reason
	Ends         map[string]int `json:"ends"`         // of leases, by how
	Losses       int            `json:"losses"`       // leases whose loss was signalled
	Faults       map[string]int `json:"faults"`       // injected, by kind
	Pairs        map[string]int `json:"pairs"`        // that were active at the same time, by both kinds
	Paired       int            `json:"paired"`       // faults that were active at the same time with another
	Triples      int            `json:"triples"`      // three that were active at the same time
	Refused      map[string]int `json:"refused"`      // requests that servers refused, by fault
	Notes        int            `json:"notes"`        // changes by the server's account
}

// Sum adds up all the counts of one kind.
func Sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

// Outcome is what a run has shown.
type Outcome struct {
	OK     bool    `json:"ok"`
	Rounds []Round `json:"rounds"`
	Tally  Tally   `json:"tally"`
}

// mostFailures is how many rounds in a row may fail to end before the run is abandoned.
const mostFailures = 5

// Run runs the suite, round by round. If a round fails to end, its error says why, and the
// next one begins. Only if it is the only round, or if several in a row fail, Run returns
// an error. The outcome has the rounds until then. Run leaves no process behind.
func Run(ctx context.Context, opts Options) (*Outcome, error) {
	opts, err := opts.Complete()
	if err != nil {
		return nil, err
	}
	out := &Outcome{OK: true}
	began, rounds := time.Now(), opts.rounds()
	failed := 0
	for i := range rounds {
		this := opts
		this.Seed = opts.Seed + uint64(i)
		this.until = began.Add(time.Duration(i+1) * opts.Duration / time.Duration(rounds))
		if opts.Progress != nil {
			before := out.sofar(opts)
			before.Round, before.Rounds, before.Left = i+1, rounds, opts.Duration
			this.Progress = func(p Progress) { opts.Progress(before.and(p, time.Since(began))) }
		}
		round, err := runRound(ctx, this)
		if round == nil {
			round = &Round{Setup: history.Setup{Topology: opts.Topology, Seed: this.Seed, Command: this.again()}}
		}
		round.Error = text(err)
		if i < rounds-1 {
			round.Run = nil // one timeline is enough, and histories are big
		}
		out.add(*round)
		if opts.Each != nil {
			if err := opts.Each(*round); err != nil {
				return out, err
			}
		}
		opts.learn(round)
		if err == nil {
			failed = 0
			continue
		}
		if failed++; ctx.Err() != nil || rounds == 1 || failed == mostFailures {
			return out, fmt.Errorf("round %d: %w\n  repeat: %s", i+1, err, this.again())
		}
		history.Sleep(ctx, time.Second) // what was in the way may go away
	}
	return out, nil
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// add takes in a round.
func (out *Outcome) add(r Round) {
	out.Rounds = append(out.Rounds, r)
	out.OK = out.OK && r.OK
	out.Tally.add(r.Tally)
}

// sofar is the progress before a round.
func (out *Outcome) sofar(opts Options) (p Progress) {
	p.Acquisitions, p.Faults, p.Paired = Sum(out.Tally.Acquisitions), Sum(out.Tally.Faults), out.Tally.Paired
	for _, r := range out.Rounds {
		for _, c := range r.Checks {
			p.Violations += len(c.Violations)
		}
		if r.Error != "" {
			p.Failed++
		}
	}
	p.Missing = -1
	if opts.Pairs != nil {
		p.Missing = 0
		for _, pair := range Possible(opts.Faults) {
			if opts.Pairs[pair] == 0 {
				p.Missing++
			}
		}
	}
	return p
}

// and is the progress within a round; the run has lasted for elapsed.
func (p Progress) and(r Progress, elapsed time.Duration) Progress {
	p.Step, p.Last = r.Step, r.Last
	p.Acquisitions += r.Acquisitions
	p.Faults += r.Faults
	p.Elapsed = elapsed.Round(time.Second)
	p.Left = max(p.Left-p.Elapsed, 0)
	return p
}

// learn takes from a round what those after it go by.
func (o *Options) learn(r *Round) {
	if r.tail > 0 {
		o.tail = max(r.tail, (o.tail+r.tail)/2) // one slow end says little of the next
	}
	for pair, n := range r.Tally.Pairs {
		if o.Pairs != nil {
			o.Pairs[pair] += n
		}
	}
}

// rounds is how many rounds the run has.
func (o Options) rounds() int { return max(int((o.Duration+o.Round/2)/o.Round), 1) }

func (t *Tally) add(o Tally) {
	for _, pair := range [][2]*map[string]int{
		{&t.Acquisitions, &o.Acquisitions}, {&t.Failures, &o.Failures}, {&t.Ends, &o.Ends}, {&t.Faults, &o.Faults},
		{&t.Pairs, &o.Pairs}, {&t.Refused, &o.Refused},
	} {
		if *pair[0] == nil {
			*pair[0] = make(map[string]int)
		}
		for name, n := range *pair[1] {
			(*pair[0])[name] += n
		}
	}
	t.Paired += o.Paired
	t.Triples += o.Triples
	t.Losses += o.Losses
	t.Notes += o.Notes
}

// count makes the tally of a history.
func count(events []history.Event) (t Tally) {
	t.add(Tally{})
	var spans []history.FaultSpan
	for _, e := range events {
		switch e.Kind {
		case history.Got, history.Run:
			t.Acquisitions[e.Work]++
		case history.Fail:
			t.Failures[e.How]++
		case history.End:
			t.Ends[e.How]++
		case history.Lost:
			t.Losses++
		case history.Note:
			t.Notes++
		case history.Fault:
			if e.Fault.Err == "" {
				t.Faults[e.Fault.Name]++
				t.Refused[e.Fault.Name] += e.Fault.Refused
				spans = append(spans, *e.Fault)
			}
		default: // not counted
		}
	}
	t.Pairs = pairsOf(spans)
	t.Paired, t.Triples = together(spans)
	return t
}
