package look

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/describe"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/top"
	"github.com/holdfast-go/holdfast/internal/commandline"
)

const topLong = `top shows the locks that are held or waited for, and keeps the screen up to date. GLOB
selects names, as for holdfast list. It reads the locks again and again (--interval), as
gently as list does, and changes nothing.

The bar shows how much of the lease is left, compared with the longest time that top has
seen under this token. A client renews its lease after a third of it. If less than half is
left, the client has missed a renewal, or it does not renew. The trend shows how many
clients waited at the last 16 readings; a narrow screen leaves it out before it cuts a
holder.

Keys: up and down, page up and page down, home and end select a lock. enter shows or hides
its details, as holdfast inspect prints them. / filters by name and holder; esc shows all
again. s changes the order, r reverses it, p stops and continues the display, q ends top.

A record that cannot be read has the kind "unreadable"; its details say why. A lock that is
part of a deadlock has "deadlock" behind the number of its waiters; its details name the
calls that wait for each other. The filter "deadlock" shows these locks.

--once reads the locks once and prints one screen. It needs no terminal. With --json, it
prints what holdfast list -o json --sort FIELD prints.

Exit code: 0 after q or --once, 128 + the signal's number when a signal ends it. For
others, see holdfast help exit-codes.`

// topOptions are the flags of top.
type topOptions struct {
	interval commandline.Span
	sort     string
	once     bool
	asJSON   bool
	pattern  string
}

// NewTop makes holdfast top.
func NewTop(a *target.App) *cobra.Command {
	o := &topOptions{interval: commandline.Span(time.Second)}
	cmd := &cobra.Command{
		Use:   "top [flags] [GLOB]",
		Short: "Watch the locks on the whole screen",
		Long:  topLong,
		Example: `  holdfast top
  holdfast top 'order/*' --interval 250ms --sort waiting
  holdfast top --once                           one screen, for a ticket
  holdfast top --once --json --sort waiting | head -3 | jq -r .name`,
	}
	flags := cmd.Flags()
	flags.Var(&o.interval, "interval", "how often to read the locks")
	flags.StringVar(&o.sort, "sort", "name", "order of the rows: "+strings.Join(top.Sorts, ", "))
	flags.BoolVar(&o.once, "once", false, "print one screen, and end")
	flags.BoolVar(&o.asJSON, "json", false, "with --once: print one JSON object per lock")
	cli.Rename(flags, map[string]string{"sort": "FIELD"})
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		o.asJSON = o.asJSON && (o.once || cli.OnCommandLine(cmd.Flags(), "json"))
		o.pattern, err = onePattern(args)
		switch {
		case err != nil:
			return err
		case time.Duration(o.interval) < 10*time.Millisecond:
			return exit.Usage("--interval is too short", "write 10ms or more, as in --interval 200ms")
		case !slices.Contains(top.Sorts, o.sort):
			return exit.Usage(fmt.Sprintf("--sort %q: there is no such field", o.sort),
				"write one of "+strings.Join(top.Sorts, ", "))
		case o.asJSON && !o.once:
			return exit.Usage("top --json needs --once",
				"write top --once --json; holdfast watch --json prints each change")
		case o.asJSON:
			return topJSON(a, o, say.Stdout)
		case o.once:
			return topOnce(a, o, say.Stdout)
		case !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stdout.Fd())):
			return exit.Usage("top needs a terminal", "write --once to print one screen")
		case os.Getenv("TERM") == screen.Dumb:
			return exit.Usage("top needs a terminal with a screen: TERM is dumb", "write --once to print it once")
		}
		return topLive(a, o)
	}
	return cmd
}

// topLocks reads what top shows.
func topLocks(ctx context.Context, s *target.Server, pattern string) (locks []top.Lock, bad unreadable, err error) {
	at := map[string]int{} // of the locks that may be part of a deadlock
	var stuck []holdfast.LockInfo
	bad, err = eachLock(ctx, s, pattern, func(state holdfast.LockInfo, bad *exit.Error) {
		if r := rowOf(s, state, bad); bad != nil || r.state.Held || r.state.Waiting > 0 {
			if bad == nil && state.Job == nil && mayBeStuck(state) {
				at[state.Name], stuck = len(locks), append(stuck, state)
			}
			locks = append(locks, topLock(state, r, bad))
		}
	})
	found, lookErr := deadlocksOf(ctx, s.Client, stuck)
	for name, cycle := range byLock(found) {
		if i, shown := at[name]; shown {
			lines := strings.Split(strings.TrimRight(deadlockLines(cycle), "\n"), "\n")
			locks[i].Deadlock, locks[i].Detail = true, append(locks[i].Detail, lines...)
		}
	}
	return locks, bad, cmp.Or(err, lookErr)
}

// topLock is a lock in the texts of list and of inspect, or why its record cannot be read.
func topLock(state holdfast.LockInfo, r row, bad *exit.Error) top.Lock {
	l := top.Lock{
		Job: state.Job != nil, Name: r.cells["NAME"], Kind: r.cells["KIND"],
		Holder: r.cells["HOLDER"], Token: r.cells["TOKEN"],
		Value: r.cells["VALUE"], Held: r.state.Held, Waiting: r.state.Waiting,
		Age:  time.Duration(oldest(r)) * time.Millisecond,
		Left: time.Duration(remaining(r)) * time.Millisecond,
	}
	if bad != nil {
		l.Detail = []string{say.OneLine(say.Plain(bad))}
		if bad.Hint != "" {
			l.Detail = append(l.Detail, "hint: "+say.OneLine(bad.Hint))
		}
		return l
	}
	var job holdfast.JobInfo
	if state.Job != nil {
		state, job = holdfast.LockInfo{Name: state.Name}, *state.Job // its run is not shown twice
	}
	var b strings.Builder
	printState(&b, state, job, true) //nolint:errcheck // a Builder takes everything
	l.Detail = strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	return l
}

// topJSON prints the locks of one screen as list prints them.
func topJSON(a *target.App, o *topOptions, w io.Writer) error {
	return runList(a, &listOptions{output: "json", sort: o.sort, pattern: o.pattern}, w)
}

// topLook is what the terminal can show.
func topLook() top.Look {
	terminal := term.IsTerminal(int(os.Stdout.Fd()))
	return top.Look{
		Unicode: screen.UTF8(os.Getenv), Color: terminal && screen.Colors(os.Getenv), Length: describe.Length,
	}
}

// topOnce prints one screen.
func topOnce(a *target.App, o *topOptions, w io.Writer) error {
	s, err := a.Open(holdfast.Config{})
	if err != nil {
		return err
	}
	defer s.CloseSoon()
	ctx, stop := commandline.Signalled(context.Background())
	defer stop()
	locks, bad, err := topLocks(ctx, s, o.pattern)
	if by := exit.Signalled(ctx); by != nil {
		return by
	}
	if err != nil {
		err = s.Explain("", err)
	}
	if err != nil && len(locks) == 0 {
		return err
	}
	width, _ := strconv.Atoi(os.Getenv("COLUMNS"))
	width = max(width, 0) // 0: as wide as needed
	if columns, _, err := term.GetSize(int(os.Stdout.Fd())); err == nil {
		width = columns
	}
	m := top.New(s.Title(), o.sort).Resize(width, 0).State(time.Now(), locks)
	if err != nil {
		m = m.Failed(say.OneLine(say.Plain(err)))
	}
	_, writeErr := fmt.Fprintln(w, strings.Join(m.View(topLook()), "\n"))
	return cmp.Or(writeErr, err, bad.err())
}

// reading is the answer to one reading of the locks.
type reading struct {
	locks []top.Lock
	at    time.Time
	err   error
}

// maxSilence bounds how long a reading may bring nothing, so that a server that is away is noticed.
const maxSilence = 10 * time.Second

// topReading is topLocks, and ends if no page of keys arrives for so long.
func topReading(ctx context.Context, s *target.Server, pattern string) (locks []top.Lock, err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() {
		tick := time.NewTicker(maxSilence)
		defer tick.Stop()
		for before := s.Looked.Load(); ; {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			now := s.Looked.Load()
			if now == before {
				end(context.DeadlineExceeded)
			}
			before = now
		}
	}()
	locks, _, err = topLocks(ctx, s, pattern)
	if err != nil && context.Cause(ctx) != nil {
		err = context.Cause(ctx)
	}
	return locks, err
}

// topLive shows the screen until q or a signal ends it.
func topLive(a *target.App, o *topOptions) error {
	s, err := a.Open(holdfast.Config{})
	if err != nil {
		return err
	}
	defer s.CloseSoon()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, proc.Signals()...)
	readings := make(chan reading)
	go func() {
		tick := time.NewTicker(time.Duration(o.interval))
		defer tick.Stop()
		for ctx.Err() == nil {
			locks, err := topReading(ctx, s, o.pattern)
			select {
			case readings <- reading{locks, time.Now(), err}:
			case <-ctx.Done():
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	terminal, err := screen.Open(os.Stdin, os.Stdout)
	if err != nil {
		return exit.With(exit.CodeInternal, fmt.Errorf("the terminal: %w", err), "write --once to print one screen")
	}
	defer terminal.Close()
	return topLoop(s, terminal, top.New(s.Title(), o.sort), readings, signals)
}

// topLoop brings keys, readings and signals to the model, and the model to the screen.
func topLoop(
	s *target.Server, terminal *screen.Terminal, m top.Model, readings <-chan reading, signals <-chan os.Signal,
) error {
	look := topLook()
	for {
		m = m.Resize(terminal.Size())
		if err := terminal.Draw(m.View(look)); err != nil {
			return exit.With(exit.CodeInternal, fmt.Errorf("the terminal: %w", err), "")
		}
		select {
		case r := <-readings:
			if r.err == nil || len(r.locks) > 0 {
				m = m.State(r.at, r.locks) // of the nodes that answer
			}
			if r.err == nil {
				continue
			}
			err := s.Explain("", r.err)
			if exit.Of(err) != exit.CodeUnreachable {
				return err
			}
			m = m.Failed(say.OneLine(say.Plain(err)))
		case sig := <-signals:
			if proc.Ends(sig) {
				return exit.Silent(exit.CodeSignal + proc.Number(sig))
			}
			terminal.Forget() // the size may have changed, or the shell has written
		case key, open := <-terminal.Keys:
			var quit bool
			if m, quit = m.Key(key); quit || !open {
				return nil
			}
		}
	}
}
