package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/internal/lockjson"
	"github.com/holdfast-go/holdfast/internal/wire"
)

const statusLong = `status shows whether a lock is held: the holder, the time since the grant, when the
lease expires, the number of waiters, and the last eviction. With -v or --json, it reads
every waiter, and does not count those that are silent. For a semaphore, it shows
the permits in use; for an election, the leader's value; for a periodic job, the run
under way and the next period. It changes nothing.

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
  held           true or false
  fence          the highest token in the record, "0" without one. Tokens are strings:
                 they may be too large for a JSON number
  holders        list of: mode, client_id (random), app, host, pid, version, token,
                 since (UTC, the server's clock), age_ms, remaining_ms, id (of the
                 attempt), owner, permits, entries (of an owner), released (kept for its
                 minimum time), tags (an object: --tag)
  waiting        how many wait, without those that are silent
  waiters        list, in order, of: position, mode, client_id, app, host, pid, version,
                 waited_ms, id, owner, tags, silent (it has not been heard of, and has lost
                 its position; the next request about the lock removes it)
  last_eviction  null, or: at, by, reason
  limit, used    the permits of a semaphore, and those in use; 0 for other kinds
  leader         null, or: value, term
  job            null, or: period_ms, aligned, offset_ms, next (UTC, the server's clock),
                 due_ms, last_run (the attempt's id), run (null, or a holder)
If the server does not know the client, app, host and version are empty, and pid is 0.
Later versions may add fields. They do not rename or remove any, and do not change a
type.`

func newStatus(a *app) *cobra.Command {
	output, asJSON := outputForm("table"), false
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
	cmd.Flags().VarP(&output, "output", "o", "form of the output: table or json")
	rename(cmd.Flags(), map[string]string{"output": "table|json"})
	cmd.Flags().BoolVar(&asJSON, "json", false, "the same as -o json")
	level := verbosity(a, cmd.Flags())
	cmd.Flags().Lookup("quiet").Usage = "print nothing: only the exit code tells"
	cmd.Flags().Lookup("verbose").Usage = "print every waiter, too"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := level(); err != nil {
			return err
		}
		switch {
		case len(args) == 0:
			return usageError("the lock's name is missing",
				"write holdfast status NAME, as in holdfast status nightly"+mayBeName(cmd, os.Args[1:], shortFlags))
		case len(args) > 1:
			return usageError(fmt.Sprintf("%q is one name too many: status takes one lock", args[1]),
				"write holdfast status "+operand(args[0]))
		}
		return runStatus(a, args[0], asJSON || output == "json", stdout)
	}
	return cmd
}

func runStatus(a *app, name string, asJSON bool, w io.Writer) error {
	return a.look(name, asJSON || a.say.level == levelVerbose, func(
		ctx context.Context, s *server, state holdfast.LockInfo, job holdfast.JobInfo,
	) (err error) {
		switch {
		case asJSON:
			err = screen.WriteJSON(w, stateWithJob(state, job, wire.Key(a.server.prefix, name)))
		case a.say.level > levelQuiet:
			err = printState(w, state, job, a.say.level == levelVerbose)
			if f := s.foreignBeside(ctx, state, job); err == nil && f != nil {
				_, err = fmt.Fprintf(w, "  beside   the key %s looks like a lock of %s: by %s, expires in %s\n",
					oneLine(name), kindOfForeign(f.Kind), oneLine(f.Holder), length(f.Remaining))
			}
		}
		if err == nil && (state.Held() || job.Run != nil) {
			err = silent(codeBusy)
		}
		return err
	})
}

// look reads a lock and the job of the same name, and calls show with them. Only with waiters it asks
// for those, too.
func (a *app) look(
	name string, waiters bool, show func(context.Context, *server, holdfast.LockInfo, holdfast.JobInfo) error,
) error {
	if err := wire.CheckName(name); err != nil {
		return usageError("lock name: "+err.Error(), "")
	}
	s, err := a.open(holdfast.Config{})
	if err != nil {
		return err
	}
	defer s.closeSoon()
	ctx, cancel := context.WithTimeout(context.Background(), 2*closeTimeout)
	defer cancel()
	read := s.client.Holders
	if waiters {
		read = s.client.Inspect
	}
	state, err := read(ctx, name)
	if err != nil {
		return s.explain(name, err)
	}
	job, err := s.client.InspectJob(ctx, name)
	if err != nil {
		return s.explainJob(name, err)
	}
	if state.Fence == 0 && job.Schedule.Period == 0 {
		a.mayBePattern(name)
	}
	return show(ctx, s, state, job)
}

// mayBePattern says how to look for several locks, if nobody has used a lock of that name and
// it looks like a pattern.
func (a *app) mayBePattern(name string) {
	if strings.ContainsAny(name, "*?[") {
		a.say.noticef("no lock has the name %s; holdfast list %s shows the locks that match it",
			oneLine(quote(name)), oneLine(quote(name)))
	}
}

// printState prints the state for people.
func printState(w io.Writer, s holdfast.LockInfo, job holdfast.JobInfo, verbose bool) error {
	var b strings.Builder
	name, used := oneLine(s.Name), 0
	for _, h := range s.Holders {
		used += h.Permits
	}
	switch {
	case !s.Held() && job.Run != nil:
		fmt.Fprintf(&b, "%s is a job that is running\n", name)
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
		fmt.Fprintf(&b, "  leader   %s\n", oneLine(s.Leader.Value))
	}
	if waiting := waitingOn(s); s.Held() || waiting > 0 {
		fmt.Fprintf(&b, "  waiting  %d\n", waiting)
	}
	if verbose {
		for _, v := range s.Waiters {
			fmt.Fprintf(&b, "    %d. %s, for %s%s%s%s\n", v.Position, who(v.Client, v.ClientID), length(v.Waited),
				ifSilent(v), ownedBy(v.Owner), taggedWith(v.Tags))
		}
	}
	if e := s.LastEviction; e != nil {
		fmt.Fprintf(&b, "  evicted  %s by %s: %s\n", e.At.UTC().Format("2006-01-02 15:04:05 UTC"),
			oneLine(e.By), oneLine(e.Reason))
	}
	if job.Run != nil {
		printHolder(&b, *job.Run)
	}
	if job.Schedule.Period > 0 {
		next := "due"
		if job.Due > 0 {
			next = fmt.Sprintf("next %s (in %s)", job.Next.UTC().Format("2006-01-02 15:04:05 UTC"), length(job.Due))
		}
		fmt.Fprintf(&b, "  job      every %v, %s\n", job.Schedule, next)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// waitingOn is how many wait for a lock. The next request about it removes the others.
func waitingOn(s holdfast.LockInfo) (n int) {
	if len(s.Waiters) == 0 {
		return s.Waiting // they were not asked for
	}
	for _, w := range s.Waiters {
		if !w.Silent {
			n++
		}
	}
	return n
}

// ifSilent says that a waiter is gone, or hangs.
func ifSilent(w holdfast.Waiter) string {
	if !w.Silent {
		return ""
	}
	return ", silent: not heard from for too long"
}

func printHolder(b *strings.Builder, h holdfast.Holder) {
	by := who(h.Client, h.ClientID) + ownedBy(h.Owner)
	if h.Mode == "permits" {
		by += fmt.Sprintf(", %d of the permits", h.Permits)
	}
	if h.Entries > 1 {
		by += fmt.Sprintf(", %d entries", h.Entries)
	}
	fmt.Fprintf(b, "  by       %s\n", by)
	fmt.Fprintf(b, "  since    %s (%s ago)\n", h.Since.UTC().Format("2006-01-02 15:04:05 UTC"), length(h.Age))
	if h.Released {
		fmt.Fprintf(b, "  kept     released, and kept for another %s\n", length(h.Remaining))
	} else {
		fmt.Fprintf(b, "  lease    expires in %s unless renewed\n", length(h.Remaining))
	}
	fmt.Fprintf(b, "  token    %d\n", h.Token)
	if len(h.Tags) > 0 {
		fmt.Fprintf(b, "  tags     %s\n", tagText(h.Tags))
	}
}

func taggedWith(tags map[string]string) string {
	if len(tags) == 0 {
		return ""
	}
	return ", tags " + tagText(tags)
}

func ownedBy(owner string) string {
	if owner == "" {
		return ""
	}
	return ", owner " + oneLine(owner)
}

// who names a client: by its id only, if the server does not know more.
func who(info *holdfast.ClientInfo, client string) string {
	if info == nil {
		return "client " + oneLine(client)
	}
	return oneLine(info.String())
}

// briefly describes a holder within a message.
func briefly(h holdfast.Holder) string {
	switch {
	case h.Token == 0 && h.Remaining == 0: // SET without PX, or an EXPIRE that never came
		return fmt.Sprintf("by %s, and its key never expires", who(h.Client, h.ClientID))
	case h.Token == 0: // of another library, whose record has neither a token nor the time of the grant
		return fmt.Sprintf("by %s, lease expires in %s unless renewed", who(h.Client, h.ClientID), length(h.Remaining))
	}
	return fmt.Sprintf("by %s for %s, lease expires in %s unless renewed",
		who(h.Client, h.ClientID), length(h.Age), length(h.Remaining))
}

// length writes a duration with as many digits as a reader needs.
func length(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	case d < 10*time.Second:
		return d.Truncate(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Truncate(time.Second).String()
	}
	return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
}

// stateWithJob is what status prints as JSON: statusLong describes it.
func stateWithJob(s holdfast.LockInfo, job holdfast.JobInfo, key string) lockjson.State {
	j := lockjson.Of(s, key)
	j.Job = lockjson.OfJob(job)
	return j
}
