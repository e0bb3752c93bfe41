// Package hold has the commands that hold a lock: run (and flock), every, elect, acquire, extend and release, and wait,
// which waits as they do. plan, in supervise.go, decides when a command must end so that its lease outlives it, and is
// pure.
package hold

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/help"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
)

const runLong = `run waits for the lock, runs the command while holding the lock, and releases it.
It exits with the command's exit code. Waiters get the lock in order of arrival.

holdfast renews the lease while the command runs. If the renewals fail, holdfast sends
the command a signal (--on-lost) before the lease can expire. If the command goes on,
holdfast kills it in time. Whenever the lock is lost, the exit code is 79.

A small process, the guardian, runs between holdfast and the command. If holdfast is
killed, or is stopped for longer than its lease, the guardian ends the command by the
same rules. If the guardian is killed, holdfast kills the command. On each platform:
  Linux    the command and all that it has started end, whatever process group or
           session it is in. If both processes are killed at once, only the command
           itself ends. Processes of other users (sudo) cannot be ended
  BSD, macOS   the command and its process group end; on a terminal, only the command.
           If both processes are killed at once, the command goes on
  Windows  no guardian: a command goes on if holdfast is killed
With --on-lost=ignore there is no guardian.

If the command ends and leaves processes behind, they go on without the lock, and run says
which. With --wait-all, the lock is held until they have ended (Linux; on other systems,
those of the command's process group, and not on a terminal). A signal, --max-run and a
loss end them, too.

The lock is exclusive: one holder at a time. With --shared, several commands hold it
together, but none beside an exclusive holder. With --permits N, it is a semaphore:
commands hold up to N permits together, and each of them takes --weight permits. With
several names, the command runs under all of these locks or none; then -- is required.
With --owner NAME, several processes hold the lock together under one name: they do not
wait for each other, and the lock is free when the last of them ends. --app is only the
name that status shows. --permits and --owner do not work on a quorum.

holdfast passes signals on to the command. If a signal ends holdfast while it waits,
holdfast leaves the wait queue first. Without a terminal, the command has its own
process group, and signals reach the whole group. If standard input is a terminal, or
holdfast is in the foreground of one, the command is in holdfast's group: Ctrl-C and
Ctrl-Z work as usual, and it can ask for a password although its input is a pipe.

With --wire redsync, redislock or redisson, the lock is the one that the library keeps
under the key NAME: programs that use the library and this command exclude each other.
Of Redisson's locks, it is the RLock, as getLock makes it. The lock is renewed, and a
loss ends the command, as with other locks. There is no token: HOLDFAST_LOCK_TOKEN is 0.
Waiters have no order. With redsync and redislock, waiters poll; with redisson, a release
wakes them. With three --redis URLs, the lock is a quorum of redsync.
With --bridge, the command holds that lock and the native one of the same name, the
library's first: so it excludes programs that have moved, and programs that have not. If
either is lost, the command ends. If the library's lock has another name, write
--bridge-name KEY.

With one lock, the -- may be left out, as with flock: the flags after the first word of
the command are the command's. If the lock's name begins with a dash, write -- before it
too, after all flags: holdfast run -n -- -NAME -- COMMAND. This form works for every
name and every command.

Without a command, holdfast run NAME prints the token when it has the lock, and holds it
until Ctrl-C, another signal, or the end of standard input; with --no-stdin, until a
signal. If standard input is the null device, it refuses: cron and systemd would not
notice that the command is missing.

DUR is a number of seconds, such as 2.5, or has a unit: 500ms, 5m, 1h30m, 1d.`

const runExample = `  holdfast run nightly -- ./report.sh --full
  holdfast run -n nightly -- ./report.sh        if busy: exit with 75 at once
  holdfast run --skip-if-held nightly -- ./report.sh
                                                for cron: no message, exit 0
  holdfast run -w 30 nightly -- ./report.sh     if busy for 30 s: exit with 75
  holdfast run --permits 3 api -- ./call.sh     at most three at a time
  holdfast run --shared catalog -- ./read.sh    beside other readers
  holdfast run orders stock -- ./move.sh        both locks, or none
  holdfast run nightly -c 'dump | gzip > out'   through the shell
  holdfast run nightly                          hold it until Ctrl-C
  holdfast flock -n nightly ./report.sh --full  as flock(1) is written
  holdfast run --skip-if-held --once-per 50m hourly -- ./report.sh
                                                on many machines: one run an hour
  holdfast run --wire redsync --bridge nightly -- ./report.sh
                                                beside programs with redsync
  holdfast run db -- sh -c 'migrate --token "$HOLDFAST_LOCK_TOKEN"'`

// NewRun makes holdfast run, which is also holdfast flock.
func NewRun(a *target.App) *cobra.Command {
	o := &runOptions{}
	cmd := &cobra.Command{
		Use:     "run [flags] NAME... [-- COMMAND [ARG...]]",
		Aliases: []string{"lock", "exec", "flock"},
		Short:   "Run a command while holding a lock",
		Long:    runLong,
		Example: runExample,
	}
	flags := cmd.Flags()
	waitFlags(flags, o)
	skipFlag(flags, o)
	o.kindFlags.add(flags)
	o.WireFlags.Add(flags)
	leaseFlags(flags, o)
	keepFlags(flags, o)
	commandFlags(flags, o)
	help.Brief(cmd, "nonblock", "wait", "skip-if-held", "shared", "permits", "ttl", "max-run", "on-lost",
		"command", "redis")
	o.perform(a, cmd, o.read, func() error { return conduct(a, o, o.run) })
	return cmd
}

// run runs the command while holding the lock.
func (o *runOptions) run(a *target.App, r *session) (code int, reason string, err error) {
	if o.bare() {
		return r.within(a, r.byFlags, r.untilInputEnds)
	}
	if code, reason, err = r.findCommand(); err != nil {
		return code, reason, err
	}
	if o.onLost != "ignore" {
		// It gets ready while we ask the server. If that fails, a second try is made with the command.
		r.guardian, _ = proc.Prepare(nil)
	}
	return r.within(a, r.byFlags, r.superviseCommand)
}

// untilInputEnds prints the token, and holds the lock without a command.
func (r *session) untilInputEnds() (code int, reason string, err error) {
	if _, err := fmt.Fprintln(say.Stdout, r.held.tokenTexts()[0]); err != nil {
		return 0, "", err
	}
	if r.noStdin {
		r.say.Noticef("holding %s until a signal", quoted(r.names))
		return r.holdOnly(nil)
	}
	r.say.Noticef("holding %s until Ctrl-C or the end of standard input", quoted(r.names))
	proc.ReadInBackground()
	return r.holdOnly(os.Stdin)
}
