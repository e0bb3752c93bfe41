package look

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/describe"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

const statusLong = `status shows whether a lock is held: the holder, the time since the grant, when the
lease expires, the number of waiters, and the last eviction. With -v or --json, it reads
every waiter, and does not count those that are silent. For a semaphore, it shows
the permits in use; for an election, the leader's value; for a periodic job, the run
under way and the next period. If the lock is part of a deadlock, it shows the calls that
wait for each other. It changes nothing.

If the lock has no record, but NAME is a key that looks like the lock of another library,
status shows that, too. Such a lock does not count for the exit code.

The answer may be out of date when you read it. To do something only if the lock is
free, use holdfast run -n. If the lock's name begins with a dash, write -- before it:
holdfast status -- -NAME.

Exit code: 0 if the lock is free, 75 if it is held or if a job of this name runs. For
others, see holdfast help exit-codes.

--json prints one object:
  name           the lock's name
  key            the key of its record on the server
  held           true if a client holds the lock, or if the job of this name runs
  fence          the highest token in the record, "0" without one. Tokens are strings:
                 they may be too large for a JSON number
  holders        list, with the job's run, of: mode, client_id (random), app, host, pid, version, token,
                 since (UTC, the server's clock), age_ms, remaining_ms, lock_delay_ms (the
                 holder trusts its lease for so much less), id (of the attempt), owner,
                 permits, entries (of an owner), released (kept for its minimum time),
                 ending (an operator has asked for its end), tags (an object: --tag)
  waiting        how many wait, without those that are silent
  waiters        list, in order, of: position, mode, client_id, app, host, pid, version,
                 waited_ms, id, owner, tags, silent (it has not been heard of, and has lost
                 its position; the next request about the lock removes it)
  last_eviction  null, or: at, by, reason. Of the lock, or of a run of the job
  limit, used    the permits of a semaphore, and those in use; 0 for other kinds
  leader         null, or: value, term
  job            null, or: period_ms, aligned, offset_ms, next (UTC, the server's clock),
                 due_ms, last_run (the attempt's id), run (null, or a holder), runs (of
                 this period, without a success), tries (how many there may be, or 0)
  deadlock       the calls that wait for each other, if the lock is part of a deadlock:
                 client, holds (a lock of the same code), waits_for, breaks (it has
                 --break-deadlock, or the option BreakDeadlock). Empty otherwise
If the server does not know the client, app, host and version are empty, and pid is 0.
Later versions may add fields. They do not rename or remove any, and do not change a
type.`

// NewStatus makes holdfast status.
func NewStatus(a *target.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "status [flags] NAME",
		Aliases: []string{"test"},
		Short:   "Show the holders and the waiters of a lock",
		Long:    statusLong,
		Example: `  holdfast status nightly
  holdfast status -v nightly                    with every waiter
  holdfast status -q nightly && echo free       by the exit code only
  holdfast status --json nightly | jq .waiting`,
	}
	asJSON := jsonFlags(cmd.Flags())
	level := cli.Verbosity(a.Say, cmd.Flags())
	cmd.Flags().Lookup("quiet").Usage = "print nothing: only the exit code tells"
	cmd.Flags().Lookup("verbose").Usage = "print every waiter, too"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := level(); err != nil {
			return err
		}
		switch {
		case len(args) == 0:
			return exit.Usage("the lock's name is missing",
				"write holdfast status NAME, as in holdfast status nightly"+
					cli.MayBeName(cmd, os.Args[1:], cli.ShortFlags))
		case len(args) > 1:
			return exit.Usage(fmt.Sprintf("%q is one name too many: status takes one lock", args[1]),
				"write holdfast status "+cli.Operand(args[0]))
		}
		return runStatus(a, args[0], asJSON(), say.Stdout)
	}
	return cmd
}

func runStatus(a *target.App, name string, asJSON bool, w io.Writer) error {
	return lookAt(a, name, asJSON || a.Say.Level == say.Verbose, func(
		ctx context.Context, s *target.Server, state holdfast.LockInfo, job holdfast.JobInfo,
	) (err error) {
		var cycle []holdfast.WaitInfo
		if asJSON || a.Say.Level > say.Quiet {
			if cycle, err = deadlockOf(ctx, s.Client, state); err != nil {
				return s.Explain(name, err)
			}
		}
		switch {
		case asJSON:
			all := describe.State(state, job, shownKey(s, name, state, job))
			all.Deadlock = lockjson.OfDeadlock(cycle)
			err = screen.WriteJSON(w, all)
		case a.Say.Level > say.Quiet:
			err = printState(w, state, job, a.Say.Level == say.Verbose)
			if err == nil {
				_, err = io.WriteString(w, deadlockLines(cycle))
			}
			if f := foreignBeside(ctx, s, state, job); err == nil && f != nil {
				_, err = fmt.Fprintf(w, "  beside   the key %s looks like a lock of %s: by %s, expires in %s\n",
					say.OneLine(name), f.Library(), say.OneLine(f.Holder), describe.Length(f.Remaining))
			}
		}
		if err == nil && lockjson.WithJob(state, job).Held() {
			err = exit.Silent(exit.CodeBusy)
		}
		return err
	})
}

// lookAt reads a lock and the job of the same name, and calls show with them. Only with waiters it asks
// for those, too.
func lookAt(a *target.App,
	name string, waiters bool, show func(context.Context, *target.Server, holdfast.LockInfo, holdfast.JobInfo) error,
) error {
	if err := target.CheckName("lock", name); err != nil {
		return err
	}
	s, err := a.Open(holdfast.Config{})
	if err != nil {
		return err
	}
	defer s.CloseSoon()
	ctx, cancel := context.WithTimeout(context.Background(), 2*target.CloseTimeout)
	defer cancel()
	read := s.Client.Holders
	if waiters {
		read = s.Client.Inspect
	}
	state, err := read(ctx, name)
	if err != nil {
		return s.Explain(name, err)
	}
	job, err := s.Client.InspectJob(ctx, name)
	if err != nil {
		return s.ExplainJob(name, err)
	}
	if state.Fence == 0 && job.Schedule.Period == 0 {
		a.MayBePattern(name)
	}
	return show(ctx, s, state, job)
}

// printState prints the state for people.
func printState(w io.Writer, s holdfast.LockInfo, job holdfast.JobInfo, verbose bool) error {
	var b strings.Builder
	name, used := say.OneLine(s.Name), lockjson.Used(s)
	switch {
	case s.Drained:
		fmt.Fprintf(&b, "%s is drained: nobody gets a permit; %d in use\n", name, used)
	case !s.Held() && job.Run != nil && describe.Waiting(s) == 0: // the job is all
	case !s.Held():
		fmt.Fprintf(&b, "%s is free\n", name)
	case s.Holders[0].Mode == "permits":
		fmt.Fprintf(&b, "%s is held: %d of %d permits\n", name, used, s.Limit)
	case s.Holders[0].Mode == "shared":
		fmt.Fprintf(&b, "%s is held: shared\n", name)
	default:
		fmt.Fprintf(&b, "%s is held\n", name)
	}
	for _, h := range s.Holders {
		printHolder(&b, h)
	}
	if s.Leader != nil {
		fmt.Fprintf(&b, "  leader   %s\n", say.OneLine(s.Leader.Value))
	}
	if waiting := describe.Waiting(s); s.Held() || waiting > 0 {
		fmt.Fprintf(&b, "  waiting  %d\n", waiting)
	}
	if verbose {
		for _, v := range s.Waiters {
			fmt.Fprintf(&b, "    %d. %s, for %s%s%s%s\n", v.Position, describe.Who(v.Client, v.ClientID),
				describe.Length(v.Waited), ifSilent(v), describe.Owner(v.Owner), taggedWith(v.Tags))
		}
	}
	if job.Run != nil {
		fmt.Fprintf(&b, "%s is a job that is running\n", name)
		printHolder(&b, *job.Run)
	}
	if e := lockjson.WithJob(s, job).LastEviction; e != nil {
		fmt.Fprintf(&b, "  evicted  %s by %s: %s\n", describe.Instant(e.At), say.OneLine(e.By), say.OneLine(e.Reason))
	}
	if job.Schedule.Period > 0 {
		next := "due"
		if job.Due > 0 {
			next = fmt.Sprintf("next %s (in %s)", describe.Instant(job.Next), describe.Length(job.Due))
		}
		if job.Tries > 0 {
			next += fmt.Sprintf("; try %d of %d had no success yet", job.Runs, job.Tries)
		}
		fmt.Fprintf(&b, "  job      every %v, %s\n", job.Schedule, next)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ifSilent says that a waiter is gone, or hangs.
func ifSilent(w holdfast.Waiter) string {
	if !w.Silent {
		return ""
	}
	return ", silent: not heard from for too long"
}

func printHolder(b *strings.Builder, h holdfast.Holder) {
	by := describe.Who(h.Client, h.ClientID) + describe.Owner(h.Owner)
	if h.Mode == "permits" {
		by += fmt.Sprintf(", %d of the permits", h.Permits)
	}
	if h.Entries > 1 {
		by += fmt.Sprintf(", %d entries", h.Entries)
	}
	fmt.Fprintf(b, "  by       %s\n", by)
	fmt.Fprintf(b, "  since    %s (%s ago)\n", describe.Instant(h.Since), describe.Length(h.Age))
	if h.Released {
		fmt.Fprintf(b, "  kept     released, and kept for another %s\n", describe.Length(h.Remaining))
	} else {
		fmt.Fprintf(b, "  lease    %s\n", describe.Lease(h))
	}
	fmt.Fprintf(b, "  token    %d\n", h.Token)
	if len(h.Tags) > 0 {
		fmt.Fprintf(b, "  tags     %s\n", describe.Tags(h.Tags))
	}
}

func taggedWith(tags map[string]string) string {
	if len(tags) == 0 {
		return ""
	}
	return ", tags " + describe.Tags(tags)
}
