// Command holdfast-verify is the fault suite: it tries to break the locks, and reports which
// promises were kept. holdfast verify finds it and runs it.
//
// It is a command of its own because what it links, from both client libraries to the
// servers' doubles, is more than twice the everyday tool.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/commandline"
	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/report"
	"github.com/holdfast-go/holdfast/verify/suite"
	"github.com/holdfast-go/holdfast/verify/workload"
)

func main() {
	os.Exit(execute(os.Args[1:]))
}

// newCommand makes the command.
func newCommand() *cobra.Command {
	v := &verification{
		duration: commandline.Span(time.Minute), round: commandline.Span(time.Minute),
		server: serverFlags{prefix: defaultPrefix},
	}
	cmd := &cobra.Command{
		Use:   "holdfast-verify [flags]",
		Short: "Try to break the locks, and report which promises were kept",
		Long:  verifyText(),
		Example: `  holdfast verify                               on its own server, for a minute
  holdfast verify --topology cluster --duration 10m --html report.html
  holdfast verify --redis redis://staging:6379  on your server, after asking
  holdfast verify --judge HISTORY.jsonl         judge a saved history again
  holdfast verify --topology quorum --duration 1h --pairs --record record.jsonl
                                                add rounds to a record, missing pairs of faults first
  holdfast verify --summary record.jsonl        a summary of the record, with the tables of pairs`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError(fmt.Sprintf("verify takes no arguments: %q is one too many", args[0]),
					"holdfast verify --help lists the flags")
			}
			return nil
		},
		RunE: v.run,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkGiven(cmd.Flags()); err != nil {
				return err
			}
			return fromEnvironment(cmd.Flags(), os.LookupEnv)
		},
		SilenceErrors: true, SilenceUsage: true, DisableAutoGenTag: true,
	}
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return usageError(err.Error(), "holdfast verify --help lists the flags")
	})
	flags := cmd.Flags()
	v.server.add(flags)
	flags.StringVar(&v.opts.Topology, "topology", "",
		"start servers for this run: "+strings.Join(fault.Topologies(), ", "))
	flags.Var(&v.duration, "duration", "length of the run, from the first server to the verdict")
	flags.Var(&v.round, "round", "length of a round; each round has new servers and its own verdict")
	flags.Var(&v.ttl, "ttl", "TTL of the locks (default 1s; 3s on a quorum)")
	flags.Lookup("ttl").DefValue = "" // it depends
	flags.Uint64Var(&v.opts.Seed, "seed", 0, "decides when and where faults occur (default: random)")
	flags.IntVar(&v.opts.Clients, "clients", 5, "number of client processes")
	flags.Float64Var(&v.opts.Rest, "rest", 1, "factor for the pauses between acquisitions")
	flags.Var(&v.calm, "calm", "time without faults between groups of faults, added to a part of a lease")
	flags.StringSliceVar(&v.opts.Faults, "faults", nil, "faults to inject (default: all that are possible)")
	flags.StringSliceVar(&v.opts.Works, "works", nil, "workloads to run (default: all but thousand)")
	flags.BoolVar(&v.json, "json", false, "print the result as one JSON object, and nothing else")
	flags.StringVar(&v.html, "html", "", "write an HTML report to this file")
	flags.StringVar(&v.opts.Dir, "dir", "", "directory for the history of a broken round")
	flags.BoolVar(&v.opts.Keep, "keep", false, "keep the histories of the other rounds, too")
	flags.StringVar(&v.judge, "judge", "", "run nothing: judge the history in this file")
	flags.BoolVar(&v.pairs, "pairs", false, "first inject pairs of faults that have not occurred together yet")
	flags.StringVar(&v.record, "record", "", "add each round to the record in this file; --pairs skips the pairs in it")
	flags.StringVar(&v.summary, "summary", "", "run nothing: print a summary of the record in this file, as Markdown")
	flags.BoolVarP(&v.yes, "yes", "y", false, "do not ask")
	cmd.AddCommand(&cobra.Command{
		Use: "client", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return workload.Client(cmd.InOrStdin(), cmd.OutOrStdout(), workload.Files)
		},
	})
	return cmd
}

func verifyText() string {
	var b strings.Builder
	b.WriteString(`verify starts client processes that use the locks in every way, and injects faults
into them and their servers. Then it checks the promises of docs/guarantees.md against
the servers' own record, and prints a verdict. For a broken promise, it also prints the
history file and the command that repeats the round.

On its own servers (--topology, or no server is set), verify can inject every fault. It
removes these servers afterwards. On your server (--redis, HOLDFAST_REDIS, REDIS_URL),
it asks first. There it stops and kills only its own processes, and cuts only its own
connections. Its keys begin with PREFIX:verify, and it removes them again. The server's
user needs the permissions in docs/server.md, with +scan and +unlink.

Faults:
`)
	for _, f := range fault.All() {
		where := ""
		if len(f.Topologies) > 0 {
			where = " (" + strings.Join(f.Topologies, ", ") + ")"
		}
		fmt.Fprintf(&b, "  %-14s %s%s\n", f.Name, f.About, where)
	}
	b.WriteString("\nWorkloads:\n")
	for _, name := range workload.Names() {
		fmt.Fprintf(&b, "  %-14s %s\n", name, workload.About(name))
	}
	b.WriteString(`
Exit code: 0 if every promise was kept. 1 if one was broken, or if the run did not get to
its end. For others, see holdfast help exit-codes.`)
	return b.String()
}

// verification is one call of holdfast verify.
type verification struct {
	server               serverFlags
	opts                 suite.Options
	duration, round, ttl commandline.Span
	calm                 commandline.Span
	json, yes            bool
	html, judge          string
	pairs                bool
	record, summary      string
}

func (v *verification) run(cmd *cobra.Command, _ []string) error {
	switch {
	case v.judge != "":
		return v.again(cmd.OutOrStdout())
	case v.summary != "":
		return v.sum(cmd.OutOrStdout())
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	v.opts.Argv = []string{self, "client"}
	v.opts.Duration, v.opts.Round, v.opts.TTL = time.Duration(v.duration), time.Duration(v.round), time.Duration(v.ttl)
	v.opts.Calm = time.Duration(v.calm)
	if err := v.servers(); err != nil {
		return err
	}
	if v.opts, err = v.opts.Complete(); err != nil {
		return usageError(err.Error(), "holdfast verify --help lists the faults and the workloads")
	}
	if err := v.recording(); err != nil {
		return err
	}
	if err := v.permission(cmd.InOrStdin(), cmd.ErrOrStderr()); err != nil {
		return err
	}
	shown := &progress{w: cmd.ErrOrStderr(), live: term.IsTerminal(int(os.Stderr.Fd()))}
	v.opts.Progress = shown.show
	ctx, stop := commandline.Signalled(cmd.Context())
	defer stop()
	out, err := suite.Run(ctx, v.opts)
	shown.clear()
	if by, ok := errors.AsType[commandline.SignalError](context.Cause(ctx)); ok {
		return &exitError{codeSignal + int(by.Signal), errors.New("verify was interrupted before its end"), ""}
	}
	if err != nil {
		return &exitError{codeFailed, err, ""}
	}
	return v.write(report.Make(out), cmd.OutOrStdout())
}

// recording adds each round to the record, and reads which pairs the record has.
func (v *verification) recording() error {
	var record []report.Entry
	if v.record != "" {
		var err error
		if record, err = report.ReadRecord(v.record); err != nil {
			return usageError("--record: "+err.Error(), "name the file of a record, or a new one")
		}
		v.opts.Each = func(r suite.Round) error {
			entry := report.NewEntry(r, cmp.Or(commandline.Commit(), holdfast.Version), time.Now())
			return report.Append(v.record, entry)
		}
	}
	if v.pairs {
		v.opts.Pairs = report.Met(record, v.opts.Topology)
	}
	return nil
}

// sum prints the summary of a record.
func (v *verification) sum(w io.Writer) error {
	record, err := report.ReadRecord(v.summary)
	if err == nil && len(record) == 0 {
		err = fmt.Errorf("%s has no rounds", v.summary)
	}
	if err != nil {
		return usageError("--summary: "+err.Error(), "name the file of a record")
	}
	_, err = io.WriteString(w, report.Summary(record))
	return err
}

// servers decides between own servers and the user's.
func (v *verification) servers() error {
	s, err := v.server.locate(os.LookupEnv, func(text, hint string) { say("warning: "+text, hint) })
	if err != nil {
		return err
	}
	v.opts.Command = "holdfast verify"
	if v.opts.Topology != "" || s.full == "" {
		if v.opts.Topology != "" && v.server.written {
			return usageError("--redis and --topology contradict each other: your server, or new ones", "leave one out")
		}
		return nil
	}
	v.opts.URL, v.opts.Prefix = s.full, v.server.prefix+":verify"
	v.opts.Command += " --redis " + s.public
	return nil
}

// permission asks before it uses a server of the user.
func (v *verification) permission(in io.Reader, out io.Writer) error {
	if v.opts.URL == "" || v.yes {
		return nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return usageError("verify asks before it uses your server, but standard input is not a terminal",
			"read holdfast verify --help, and add --yes")
	}
	_, _ = fmt.Fprintf(out, `verify will run %d client processes for %v on %s.
They send hundreds of requests per second. Their keys begin with %s: and are removed again.
Faults, all in these processes and their connections: %s.
Continue? [y/N] `, v.opts.Clients, v.opts.Duration, strings.TrimPrefix(v.opts.Command, "holdfast verify --redis "),
		v.opts.Prefix, strings.Join(v.opts.Faults, ", "))
	answer, _ := bufio.NewReader(in).ReadString('\n') // no answer is none
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return &exitError{codeFailed, errors.New("verify did nothing, because you did not answer yes"), ""}
	}
	return nil
}

// again judges a saved history.
func (v *verification) again(w io.Writer) error {
	file, err := os.Open(v.judge)
	if err != nil {
		return usageError("--judge: "+err.Error(), "name the file of a history")
	}
	defer file.Close() //nolint:errcheck // it was only read
	doc, err := report.FromHistory(file)
	if err != nil {
		return &exitError{codeFailed, fmt.Errorf("%s: %w", v.judge, err), ""}
	}
	return v.write(doc, w)
}

// write writes the result as text, JSON or HTML.
func (v *verification) write(doc *report.Document, w io.Writer) error {
	if v.html != "" {
		file, err := os.Create(v.html)
		if err != nil {
			return &exitError{codeFailed, err, ""}
		}
		if err := errors.Join(doc.HTML(file), file.Close()); err != nil {
			return &exitError{codeFailed, err, ""}
		}
	}
	var err error
	if v.json {
		err = json.NewEncoder(w).Encode(doc)
	} else {
		_, err = io.WriteString(w, doc.Text())
	}
	if err == nil && !doc.OK {
		err = &exitError{code: codeFailed}
	}
	return err
}
