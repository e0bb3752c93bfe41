package hold

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/help"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/commandline"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

const electLong = `elect campaigns in an election, and runs the command while it leads. It waits in order of
arrival, publishes VALUE for others to see, for example its address, and resigns when the
command ends. It exits with the command's exit code.

The command is supervised as with holdfast run: holdfast stops it before another
candidate can lead, and the exit code is then 79. To campaign again after that, let the
program that starts holdfast start it again.

Without a command, elect prints the term on standard output and leads until a signal
ends it (exit code 128+n) or the leadership is lost (exit code 79).

The term is the fencing token: every later leader has a higher one. A command finds it in
HOLDFAST_LOCK_TOKEN. An election is the lock of its name: holdfast status shows the
leader, and holdfast run NAME waits for it. elect does not work on a quorum.

With --state FILE, a leader that crashed leads again after its restart, ahead of all
that wait. holdfast saves the term in FILE before the command begins, and removes FILE
when the leadership has ended. If FILE is there at the start, holdfast resumes that
term; if the lease has ended, it campaigns. The guardian first ends a command that still
runs. On Linux, the new leader leads as soon as the former one and its command have
ended, if the machine has not been restarted. In all other cases, for example with a
copy of FILE, it leads when the former lease would have ended (--ttl). --wait and -n do
not limit that. A second process that uses FILE fails (exit code 75, or that of -E). So
give each process a FILE of its own, on a local disk. FILE.lock beside it stays: leave
it there. If FILE is damaged or belongs to another election, or if FILE or FILE.lock is a
link or not a file of holdfast, holdfast leaves it as it is and fails (exit code 64).

With --observe, elect only watches. It prints the leader and every change of it, each as
one line, until a signal ends it:
  TERM VALUE   this value is published under this term
  none         there is no leader, or a new leader has not published its value yet
  unknown      the server does not answer, so the last line may not be true any more;
               standard error says why

With --json, a line is an object with these fields:
  time       UTC, by this machine's clock
  name       the election's name
  state      leader, none or unknown; leading, if elect itself leads
  term       a string: it may be too large for a JSON number; empty if there is no leader
  value      what the leader publishes
  client_id  the leader's client (random); empty if nobody leads
Later versions may add fields. They do not rename or remove any, and do not change a
type.`

const electExample = `  holdfast elect scheduler -- ./scheduler       standby on every machine, one runs
  holdfast elect primary 10.0.0.5:8080 -- ./serve
  holdfast elect --state /var/lib/app/term primary -- ./serve
                                                after a crash, it leads again
  holdfast elect -l primary | while read term address; do ...; done`

// electOptions are the flags of elect.
type electOptions struct {
	runOptions
	value   string
	observe bool
	asJSON  bool
	state   string
}

// NewElect makes holdfast elect.
func NewElect(a *target.App) *cobra.Command {
	o := &electOptions{}
	cmd := &cobra.Command{
		Use:     "elect [flags] NAME [VALUE] [-- COMMAND [ARG...]]",
		Short:   "Run a command while leading an election, or watch who leads",
		Long:    electLong,
		Example: electExample,
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.observe, "observe", "l", false, "do not campaign: print the leader, and every change of it")
	flags.BoolVar(&o.asJSON, "json", false, "print JSON objects; with --observe, or without a command")
	flags.StringVar(&o.state, "state", "", "save the term in FILE, and resume it after a crash")
	cli.Rename(flags, map[string]string{"state": "FILE"})
	waitFlags(flags, &o.runOptions)
	skipFlag(flags, &o.runOptions)
	leaseFlags(flags, &o.runOptions)
	commandFlags(flags, &o.runOptions)
	help.Brief(cmd, "observe", "json", "state", "nonblock", "wait", "ttl", "max-run", "on-lost", "command", "redis")
	o.perform(a, cmd, o.read, func() error {
		if o.observe {
			return runObserve(a, o, say.Stdout)
		}
		return conduct(a, &o.runOptions, o.candidate)
	})
	return cmd
}

// candidate campaigns, runs the command as the leader, and resigns.
func (o *electOptions) candidate(a *target.App, r *session) (code int, reason string, err error) {
	if o.state == "" {
		return o.term(a, r)
	}
	r.prefix = a.Server.Prefix
	var sig os.Signal
	r.state, sig, err = r.openState(o.state, r.prefix)
	switch {
	case sig != nil:
		return exit.CodeSignal + proc.Number(sig), "interrupted", nil
	case err != nil && exit.Of(err) == int(r.busyCode):
		return int(r.busyCode), "busy", err
	case err != nil:
		return 0, "", err
	}
	defer r.state.close()
	code, reason, err = o.term(a, r)
	if r.state.leads {
		r.state.forget(r) // we have resigned, or have lost the leadership
	}
	return code, reason, err
}

// term is a campaign and what follows. A candidate may wait for weeks: its guardian is started with the command.
func (o *electOptions) term(a *target.App, r *session) (code int, reason string, err error) {
	campaign := func(options []holdfast.LockOption) acquirer { return o.campaign(r, options) }
	if r.bare() {
		return r.within(a, campaign, func() (int, string, error) {
			if err := o.leads(say.Stdout, r.held.tokens[0], r.server.Client.ID()); err != nil {
				return 0, "", err
			}
			r.say.Noticef("leading %s until a signal: there is no command", quoted(r.names))
			return r.holdOnly(nil)
		})
	}
	if code, reason, err = r.findCommand(); err != nil {
		return code, reason, err
	}
	return r.within(a, campaign, r.superviseCommand)
}

// read reads the arguments and refuses what cannot work.
func (o *electOptions) read(cmd *cobra.Command, args []string) error {
	words, _ := o.split(cmd, args, 1)
	const example = "write holdfast elect NAME -- COMMAND, as in holdfast elect scheduler -- ./scheduler"
	switch {
	case len(words) == 0:
		return exit.Usage("the election's name is missing", example)
	case len(words) > 2:
		return exit.Usage(fmt.Sprintf("%q is one word too many: elect takes a name and a value", words[2]),
			"write -- before the command, as in holdfast elect scheduler -- ./scheduler")
	case o.shell != "" && len(o.command) > 0:
		return exit.Usage("the command is given twice: with -c, and after --", cli.LeaveOut)
	}
	o.names = words[:1]
	if err := target.CheckName("election", o.names[0]); err != nil {
		return err
	}
	if len(words) == 2 {
		o.value = words[1]
	}
	bare := o.bare()
	clashes := []clash{
		{
			len(o.value) > holdfast.MaxValue,
			fmt.Sprintf("the value has %d bytes; the limit is %d", len(o.value), holdfast.MaxValue),
			"publish an address at which others find the rest",
		},
		{
			len(words) == 2 && o.value == "", "the value is empty",
			"write what the leader publishes, or leave it out; an unset shell variable is empty",
		},
		{o.observe && len(words) == 2, "--observe takes no value: it does not campaign", "leave the value out"},
		{o.observe && !bare, "--observe takes no command: it does not campaign", "leave the command out"},
		{
			cli.OnCommandLine(cmd.Flags(), "json") && !o.observe && !bare, "--json and a command contradict each other",
			"standard output belongs to the command; write --events-fd for events as JSON",
		},
	}
	if o.state != "" {
		clashes = append(clashes,
			clash{o.onLost == "ignore", "--state and --on-lost=ignore contradict each other: " +
				"a command that outlives holdfast would run beside the resumed leader's", cli.LeaveOut},
			clash{o.noRenew, "--state and --no-renew contradict each other: " +
				"a resumed lease may be over before the command can begin", cli.LeaveOut})
	}
	needCommand := []string{"max-run", "wait-all", "kill-after", "on-lost", "no-stdin", "signal-group"}
	if o.observe {
		needCommand = append(needCommand, "nonblock", "wait", "skip-if-held", "conflict-exit-code", "no-renew",
			"break-deadlock", "on-lost-exec", "on-acquire-exec", "lost-exit-code", "splay", "events-fd", "tag", "state")
	}
	for _, flag := range needCommand {
		wrong := bare && cli.OnCommandLine(cmd.Flags(), flag)
		text, hint := "--"+flag+" needs a command", "write it after --, or leave --"+flag+" out"
		if o.observe {
			text, hint = "--"+flag+" and --observe contradict each other", cli.LeaveOut
		}
		clashes = append(clashes, clash{wrong, text, hint})
	}
	if err := refuse(clashes); err != nil {
		return err
	}
	return o.check()
}

// campaign returns how a leadership is acquired.
func (o *electOptions) campaign(r *session, options []holdfast.LockOption) acquirer {
	return func(ctx context.Context, try bool) (lease, error) {
		if try {
			options = append(options, holdfast.MaxWait(0))
		}
		l, err := o.lead(ctx, r, r.server.Client.Election(o.names[0], options...))
		if err != nil {
			return nil, err
		}
		return l, nil
	}
}

// leaderJSON is one line of --json: a contract, described in electLong.
type leaderJSON struct {
	Time     string `json:"time"`
	Name     string `json:"name"`
	State    string `json:"state"`
	Term     string `json:"term"`
	Value    string `json:"value"`
	ClientID string `json:"client_id"`
}

// leads prints that elect itself leads.
func (o *electOptions) leads(w io.Writer, term uint64, client string) error {
	if o.asJSON {
		return screen.WriteJSON(w, leaderJSON{
			lockjson.Stamp(time.Now()), o.names[0], "leading", tokenText(term), o.value, client,
		})
	}
	_, err := fmt.Fprintln(w, term)
	return err
}

// runObserve prints the leader and every change of it until a signal ends it.
func runObserve(a *target.App, o *electOptions, w io.Writer) error {
	s, err := a.Open(holdfast.Config{TTL: time.Duration(o.ttl), App: o.app}, o.uses()...)
	if err != nil {
		return err
	}
	ctx, stop := commandline.Signalled(context.Background())
	defer stop()
	defer s.CloseSoon()
	for now, err := range s.Client.Election(o.names[0]).Observe(ctx) {
		var failed error
		if err != nil {
			if failed = s.Explain(o.names[0], err); exit.Of(failed) != exit.CodeUnreachable {
				return failed
			}
			a.Say.Away(failed, "waiting for the server")
		}
		if err := o.observed(w, now, failed != nil); err != nil {
			return err
		}
	}
	return exit.Signalled(ctx)
}

// observed prints one line.
func (o *electOptions) observed(w io.Writer, now holdfast.Leader, unknown bool) error {
	line := leaderJSON{Time: lockjson.Stamp(time.Now()), Name: o.names[0], State: "none"}
	text := "none"
	switch {
	case unknown:
		line.State, text = "unknown", "unknown"
	case now.Token != 0:
		line.State, line.Term = "leader", tokenText(now.Token)
		line.Value, line.ClientID = now.Value, now.ClientID
		text = strings.TrimRight(line.Term+" "+say.OneLine(now.Value), " ")
	}
	if o.asJSON {
		return screen.WriteJSON(w, line)
	}
	_, err := fmt.Fprintln(w, text)
	return err
}
