// Package operate has the commands of an operator: evict ends the holds of a stuck lock, limit sets a semaphore's
// permits, doctor checks the server, fence prints a trigger, demo and verify show whether the promises are kept, and
// version says which program this is.
package operate

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/describe"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

const evictLong = `evict asks the holders of a lock to end. From then on the server renews their leases no
more, and the lock passes on when they have released it, at the latest when their leases
have ended. So the next holder does not work beside an evicted one. Do it when a holder
is stuck and its lease is still being renewed. If the holder is gone, the lease expires
by itself.

A holder is told at once, or with its next renewal: up to a third of its TTL later.
holdfast run then stops its command and releases the lock (exit code 79). In a program,
the context of the lease ends.

With --at-once, the holds end now, and the next waiter gets the lock. An evicted holder
may work at the same time as the next one until it learns. A resource that checks tokens
refuses its writes, because the lock's fence is raised.

The server stores who evicted, when and why; holdfast status shows it.

evict asks you to type the lock's name. Without a terminal, it needs --yes. With
--if-token, it ends only the hold with that token, as status shows it: if another client
has acquired the lock in the meantime, that one keeps it.

With --force, evict removes the lock's record, whatever is in it: a record that is
damaged (error FORMAT), or data of another program at the lock's key (WRONGTYPE). Use it
if no other command can read the record. All holds end, and waiters join the queue again
with their next poll. Tokens keep rising, unless the token itself is damaged.

If the lock is free and the periodic job NAME runs, evict ends that run. --job means the
job in any case. holdfast every --again makes the job due again. With --force and --job,
evict removes the record of the job: its schedule and its last run are forgotten.

Exit code: 0 if holders were asked or holds ended, or if the lock is free. 75 if
--if-token names another token than the holder's. For others, see holdfast help
exit-codes.

--json prints one object when the lock is free, or its holders were evicted; with any other
exit code it prints nothing. It asks for the name on standard error. The object has the
fields of holdfast status --json, as the lock was before, and:
  asked    how many holders were asked to end; 0 if the lock was free
  latest   when the lock passes on at the latest (UTC); empty if the holders have ended
  ended    how many holds were ended: with --at-once. With --force 1 or 0
  removed  true if --force has removed the record; what could not be read is empty`

// evictOptions are the flags of evict.
type evictOptions struct {
	reason, by, token string
	yes, asJSON       bool
	force, job        bool
	atOnce            bool
	latest            time.Time // when the holders have ended at the latest; zero: they have
}

// NewEvict makes holdfast evict.
func NewEvict(a *target.App) *cobra.Command {
	o := &evictOptions{}
	cmd := &cobra.Command{
		Use:     "evict [flags] NAME",
		Aliases: []string{"break", "force-release"}, SuggestFor: []string{"kill", "steal", "clear"},
		Short: "End the holds of a stuck lock",
		Long:  evictLong,
		Example: `  holdfast evict nightly --reason "hangs since noon"
  holdfast evict nightly -y --if-token TOKEN --reason hung
  holdfast evict nightly -y --json --reason hung | jq .latest
  holdfast evict nightly --at-once --reason "its machine is gone"
  holdfast evict nightly --force --reason "the record is damaged"`,
	}
	flags := cmd.Flags()
	flags.StringVar(&o.reason, "reason", "", "why; the server stores it for others to read (required)")
	flags.StringVar(&o.by, "by", "", "who evicts (default: USER@HOST)")
	flags.StringVar(&o.token, "if-token", "", "only if the holder has this token")
	flags.BoolVar(&o.atOnce, "at-once", false, "end the holds now, although a holder may still be at work")
	flags.BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&o.force, "force", false, "remove the lock's record, whatever is in it")
	flags.BoolVar(&o.job, "job", false, "the periodic job of this name, and not the lock")
	flags.BoolVar(&o.asJSON, "json", false, "print one JSON object")
	cli.Rename(flags, map[string]string{"reason": "TEXT", "by": "NAME", "if-token": "N"})
	level := cli.Verbosity(a.Say, flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := level(); err != nil {
			return err
		}
		if len(args) != 1 {
			return exit.Usage("evict takes one lock's name",
				`write holdfast evict NAME --reason TEXT, as in holdfast evict nightly --reason "hangs since noon"`)
		}
		return runEvict(a, o, args[0], cmd.InOrStdin(), cmd.OutOrStdout())
	}
	return cmd
}

func runEvict(a *target.App, o *evictOptions, name string, in io.Reader, w io.Writer) error {
	if err := target.CheckName("lock", name); err != nil {
		return err
	}
	e := holdfast.Eviction{By: cmp.Or(o.by, operator()), Reason: o.reason, AtOnce: o.atOnce}
	if o.force && o.token != "" {
		return exit.Usage("--force removes the record, whoever holds the lock: it cannot be combined with --if-token",
			"leave one out")
	}
	const mostBy, mostReason = 128, 512 // see Eviction
	switch {
	case strings.TrimSpace(o.reason) == "":
		return exit.Usage("--reason is missing: others will want to know why", `write --reason "hangs since noon"`)
	case strings.TrimSpace(e.By) == "":
		return exit.Usage("--by is blank: others will want to know who", "write your name, or leave --by out")
	case len(o.reason) > mostReason:
		return exit.Usage(fmt.Sprintf("--reason has %d bytes; the limit is %d", len(o.reason), mostReason),
			"write a shorter one")
	case len(e.By) > mostBy:
		return exit.Usage(fmt.Sprintf("--by has %d bytes; the limit is %d", len(e.By), mostBy), "write a shorter name")
	}
	if o.token != "" {
		var err error
		if e.Token, err = strconv.ParseUint(o.token, 10, 64); err != nil || e.Token == 0 {
			return exit.Usage(fmt.Sprintf("--if-token %q is not a token", o.token),
				"copy it from holdfast status "+cli.Operand(name))
		}
	}
	var uses []string
	if o.job {
		uses = []string{"--job"}
	}
	s, err := a.Open(holdfast.Config{}, uses...)
	if err != nil {
		return err
	}
	defer s.CloseSoon()
	if o.force {
		return o.remove(a, s, name, in, w)
	}
	return o.evict(a, s, e, name, in, w)
}

// evict evicts the holders of a lock that can be read.
func (o *evictOptions) evict(
	a *target.App, s *target.Server, e holdfast.Eviction, name string, in io.Reader, w io.Writer,
) error {
	state, job, err := o.readBoth(s, name)
	if err != nil {
		return err
	}
	o.job = o.job || !state.Held() && job.Run != nil
	switch e.Job = o.job; {
	case o.job && job.Run == nil, !o.job && !state.Held():
		if state.Fence == 0 && job.Schedule.Period == 0 {
			a.MayBePattern(name)
		}
		o.warnBeside(a, s, name, 0)
		return o.print(w, s, state, job, 0)
	case e.Token == 0 && o.job:
		e.Token = job.Run.Token
	case e.Token == 0 && state.Holders[0].Mode == "exclusive":
		// Evict the present holder, and not a client that acquires the lock while we ask.
		e.Token = state.Holders[0].Token
	}
	if o.job {
		err = o.confirm(holdfast.LockInfo{Name: name}, job, nil, in, w)
	} else {
		err = o.confirm(state, holdfast.JobInfo{}, nil, in, w)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*target.CloseTimeout)
	defer cancel()
	n, err := s.Client.Evict(ctx, name, e)
	switch {
	case err != nil:
		return s.Explain(name, err)
	case n == 0:
		return exit.With(exit.CodeBusy,
			fmt.Errorf("%s was not evicted: no holder has the token %d any more", name, e.Token),
			"holdfast status "+cli.Operand(name)+" shows who holds it now")
	}
	if !o.atOnce {
		before, after := state, holdfast.LockInfo{}
		if o.job {
			var now holdfast.JobInfo
			now, err = s.Client.InspectJob(ctx, name)
			before, after = lockjson.WithJob(holdfast.LockInfo{}, job), lockjson.WithJob(after, now)
		} else {
			after, err = s.Client.Holders(ctx, name)
		}
		o.latest = latestEnd(after, before, err)
	}
	o.warnBeside(a, s, name, n)
	return o.print(w, s, state, job, n)
}

// readBoth reads the lock and, if that matters, the job of the same name.
func (o *evictOptions) readBoth(
	s *target.Server, name string,
) (state holdfast.LockInfo, job holdfast.JobInfo, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*target.CloseTimeout)
	defer cancel()
	if state, err = o.read(s.Client)(ctx, name); err != nil {
		return state, job, s.Explain(name, err)
	}
	if o.job || o.asJSON || !state.Held() {
		// Without --job, what is no job has no run.
		if job, err = s.Client.InspectJob(ctx, name); err != nil && o.job {
			return state, job, s.ExplainJob(name, err)
		}
	}
	return state, job, nil
}

// latestEnd is when the holders that were asked to end have ended at the latest; zero if they have. If the lock could
// not be read after that, what was known before must do.
func latestEnd(after, before holdfast.LockInfo, unknown error) (latest time.Time) {
	if unknown != nil {
		after = before
	}
	for _, h := range after.Holders {
		if end := time.Now().Add(h.Remaining); (h.Ending || unknown != nil) && end.After(latest) {
			latest = end
		}
	}
	return latest
}

// read reads the lock: only --json shows the waiters.
func (o *evictOptions) read(c *holdfast.Client) func(context.Context, string) (holdfast.LockInfo, error) {
	if o.asJSON {
		return c.Inspect
	}
	return c.Holders
}

// hasNoRecord reports whether err says that the lock's key has no record that this program can read.
func hasNoRecord(err error) bool {
	refused, is := errors.AsType[*holdfast.ServerError](err)
	return exit.UnknownAnswer(err) || is && (refused.Code == "FORMAT" || refused.Code == "WRONGTYPE")
}

// remove removes the record of a lock or of a job, whether or not it can be read.
func (o *evictOptions) remove(a *target.App, s *target.Server, name string, in io.Reader, w io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*target.CloseTimeout)
	defer cancel()
	state, job := holdfast.LockInfo{Name: name}, holdfast.JobInfo{Name: name}
	var cannot error
	explain := s.Explain
	if o.job {
		explain = s.ExplainJob
		job, cannot = s.Client.InspectJob(ctx, name)
	} else {
		state, cannot = o.read(s.Client)(ctx, name)
	}
	if cannot != nil && !hasNoRecord(cannot) {
		return explain(name, cannot)
	}
	if err := o.confirm(state, job, cannot, in, w); err != nil {
		return err
	}
	ctx, cancel = context.WithTimeout(context.Background(), 2*target.CloseTimeout)
	defer cancel()
	e := holdfast.Eviction{By: cmp.Or(o.by, operator()), Reason: o.reason, Force: true, Job: o.job}
	n, err := s.Client.Evict(ctx, name, e)
	if err != nil {
		return explain(name, err)
	}
	if n == 0 && !o.job {
		if _, err := s.Client.InspectJob(ctx, name); hasNoRecord(err) {
			a.Say.Warnf("write --job, too, to remove the record of the job", "%s", say.Plain(err))
		}
	}
	o.warnBeside(a, s, name, n)
	return o.print(w, s, state, job, n)
}

// warnBeside warns of the lock of another library, if no lock of that name was there to evict.
func (o *evictOptions) warnBeside(a *target.App, s *target.Server, name string, n int) {
	if n > 0 || o.job {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*target.CloseTimeout)
	defer cancel()
	if f := s.ForeignAt(ctx, name); f != nil {
		a.Say.Warnf("end it by the means of that library; Go programs can use Client.Evict with its store",
			"the key %s looks like a lock of %s, which evict leaves alone", say.OneLine(name), f.Library())
	}
}

// evictedJSON is the JSON of evict: a contract, described in evictLong.
type evictedJSON struct {
	lockjson.State
	Asked   int    `json:"asked"`
	Latest  string `json:"latest"`
	Ended   int    `json:"ended"`
	Removed bool   `json:"removed,omitempty"`
}

// print tells how many holds of a lock have ended or are to end. state is the lock before.
func (o *evictOptions) print(
	w io.Writer, s *target.Server, state holdfast.LockInfo, job holdfast.JobInfo, n int,
) (err error) {
	switch name := say.OneLine(state.Name); {
	case o.asJSON:
		key := s.Key(state.Name)
		if o.job {
			key = s.JobKey(state.Name)
		}
		before := describe.State(state, job, key)
		j := evictedJSON{State: before, Asked: n, Removed: o.force && n > 0}
		if o.force || o.atOnce {
			j.Asked, j.Ended = 0, n
		}
		if !o.latest.IsZero() {
			j.Latest = lockjson.Stamp(o.latest)
		}
		err = screen.WriteJSON(w, j)
	case n == 0 && o.job && job.Schedule.Period > 0 && !o.force:
		_, err = fmt.Fprintf(w, "%s is a job that does not run: there is nothing to evict\n", name)
	case n == 0 && o.job:
		_, err = fmt.Fprintf(w, "%s is no job: there is nothing to %s\n", name, o.verb())
	case n == 0:
		_, err = fmt.Fprintf(w, "%s is free: there is nothing to evict\n", name)
	case o.force:
		_, err = fmt.Fprintf(w, "%s: the record was removed\n", name)
	case o.job && o.latest.IsZero():
		_, err = fmt.Fprintf(w, "%s: the run of the job ended\n", name)
	case o.job:
		_, err = fmt.Fprintf(w, "%s: asked the run of the job to end; it ends at the latest at %s\n",
			name, describe.Instant(o.latest))
	case o.atOnce:
		_, err = fmt.Fprintf(w, "%s: %d %s ended; %d waiting\n",
			name, n, plural(n, "hold", "holds"), describe.Waiting(state))
	case o.latest.IsZero():
		_, err = fmt.Fprintf(w, "%s: asked %d %s to end; the lock has passed on\n",
			name, n, plural(n, "holder", "holders"))
	default:
		_, err = fmt.Fprintf(w, "%s: asked %d %s to end; the lock passes on when %s, at the latest at %s; %d waiting\n",
			name, n, plural(n, "holder", "holders"), plural(n, "it has", "they have"),
			describe.Instant(o.latest), describe.Waiting(state))
	}
	return err
}

// verb is what o would have done.
func (o *evictOptions) verb() string {
	if o.force {
		return "remove"
	}
	return "evict"
}

// confirm shows who holds the lock, or why nobody knows, and asks for the lock's name.
func (o *evictOptions) confirm(
	state holdfast.LockInfo, job holdfast.JobInfo, cannot error, in io.Reader, w io.Writer,
) error {
	if o.yes {
		return nil
	}
	if o.asJSON {
		w = os.Stderr // the object is all that a script reads
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return exit.Usage("evict asks you to type the lock's name, but standard input is not a terminal",
			"write --yes to evict without being asked")
	}
	var b strings.Builder
	for _, h := range state.Holders {
		fmt.Fprintf(&b, "%s is held %s.\n", say.OneLine(state.Name), describe.Holder(h))
	}
	if job.Run != nil {
		fmt.Fprintf(&b, "The job %s is running, %s.\n", say.OneLine(state.Name), describe.Holder(*job.Run))
	}
	if cannot != nil {
		fmt.Fprintf(&b, "The record of %s cannot be read: %s\n", say.OneLine(state.Name), say.OneLine(cannot.Error()))
	}
	if o.force {
		what := "with all holders and waiters"
		if o.job {
			what = "with the schedule and the last run of the job"
		}
		fmt.Fprintf(&b, "This removes the record, %s.\n", what)
	}
	if !o.force && !o.atOnce {
		b.WriteString("The lock passes on when the holder has ended.\n")
	} else {
		b.WriteString("The holder may be at work. ")
	}
	b.WriteString("To evict, type the lock's name: ")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	answer, _ := bufio.NewReader(in).ReadString('\n') // no answer is none
	if strings.TrimRight(answer, "\r\n") != state.Name {
		return exit.With(exit.CodeFailed,
			errors.New("nothing was evicted, because you did not type the lock's name"), "")
	}
	return nil
}

// operator is who runs the tool, as far as the system knows.
func operator() string {
	name := cmp.Or(os.Getenv("USER"), os.Getenv("LOGNAME"))
	if u, err := user.Current(); name == "" && err == nil {
		name = u.Username
	}
	host, _ := os.Hostname() // without one, the name must do
	text := cmp.Or(name, "unknown") + "@" + host
	return text[:min(len(text), 128)]
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
