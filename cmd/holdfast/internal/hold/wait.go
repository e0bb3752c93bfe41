package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/proc"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/commandline"
	"github.com/holdfast-go/holdfast/observe"
)

const waitLong = `wait waits until a lock is free, and ends. It does not acquire the lock, and takes no
position in the wait queue, so it delays no run. While the lock passes from waiter to
waiter, it is not free.

Another client may get the lock before your next step begins. To work while nobody else
does, use holdfast run.

The server tells wait when the lock becomes free. Over a quorum, wait reads the lock once a
second. With --shared, it waits until a reader would get in; with --permits N, until
--weight permits are free.

Exit code: 0 if the lock is free, 75 if it is still held after --wait. For others, see
holdfast help exit-codes.`

// NewWait makes holdfast wait.
func NewWait(a *target.App) *cobra.Command {
	o := &runOptions{ttl: commandline.Span(defaultTTL), onLost: "ignore", awaits: true}
	cmd := &cobra.Command{
		Use:   "wait [flags] NAME",
		Short: "Wait until a lock is free",
		Long:  waitLong,
		Example: `  holdfast wait nightly && ./rotate-logs.sh
  holdfast wait -w 10m nightly                  if held for 10 min: exit 75`,
	}
	flags := cmd.Flags()
	o.busyCode = exit.CodeBusy
	flags.VarP(&o.wait, "wait", "w", "wait at most DUR; 0 asks once (also --timeout)")
	flags.Lookup("wait").DefValue = ""
	o.addModes(flags)
	o.perform(a, cmd, o.readWait, func() error { return conduct(a, o, o.awaitFree) })
	return cmd
}

// readWait reads the arguments and refuses what cannot work.
func (o *runOptions) readWait(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return exit.Usage("the lock's name is missing", "write holdfast wait NAME, as in holdfast wait nightly")
	case len(args) > 1:
		return exit.Usage(fmt.Sprintf("%q is one name too many: wait takes one lock", args[1]),
			"write holdfast wait "+cli.Operand(args[0])+" && holdfast wait "+cli.Operand(args[1]))
	}
	o.names = args
	if err := o.kindFlags.check(args, cmd.Flags().Changed); err != nil {
		return err
	}
	return o.check()
}

// awaitFree waits until the lock is free. It returns the exit code and its reason.
func (o *runOptions) awaitFree(a *target.App, r *session) (code int, reason string, err error) {
	if r.server, err = a.Open(r.config(), r.uses()...); err != nil {
		return 0, "", err
	}
	defer r.close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if !o.limited {
			err = r.insideItself(ctx)
		}
		if err == nil {
			err = o.untilFree(ctx, r.server)
		}
	}()
	r.waiting <- observe.Event{Kind: observe.EventWait, Name: r.names[0]} // so that a long wait shows the holder
	end := r.watchServer(true)
	sig := r.waitOn(ctx, done)
	end()
	cancel()
	<-done
	switch nested := (*nestedError)(nil); {
	case sig != nil:
		return exit.CodeSignal + proc.Number(sig), "interrupted", nil
	case errors.As(err, &nested):
		return int(r.busyCode), "busy", nested.refusal
	case errors.Is(err, holdfast.ErrHeld) && exit.Unasked(err) == nil:
		r.showBusy(err)
		return int(r.busyCode), "busy", nil
	case err != nil:
		return 0, "", r.server.ExplainAny(r.names, err)
	}
	return exit.CodeOK, "", nil
}

// untilFree returns when the lock that the flags name is free for the mode that they name.
func (o *runOptions) untilFree(ctx context.Context, s *target.Server) error {
	var options []holdfast.LockOption
	if o.limited {
		options = append(options, holdfast.MaxWait(time.Duration(o.wait)))
	}
	switch name, c := o.names[0], s.Client; {
	case s.Quorum != nil:
		return o.pollFree(ctx, c)
	case o.shared:
		return c.RWMutex(name, optionsOf[holdfast.RWMutexOption](options)...).AwaitReadable(ctx)
	case o.permits > 0:
		return o.semaphore(c, name, options).AwaitFree(ctx, o.weight)
	default:
		return c.Mutex(name, optionsOf[holdfast.MutexOption](options)...).AwaitFree(ctx)
	}
}

// pollFree reads the lock until it is free: no single server of a quorum knows when it is.
func (o *runOptions) pollFree(ctx context.Context, c *holdfast.Client) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	began, end := time.Now(), (<-chan time.Time)(nil)
	if o.limited {
		end = time.After(time.Duration(o.wait))
	}
	for {
		state, err := c.Holders(ctx, o.names[0])
		switch {
		case err != nil && !exit.Unreachable(err):
			return err
		case err == nil && (!state.Held() || o.shared && state.Holders[0].Mode == "shared"):
			return nil
		case o.limited && time.Since(began) >= time.Duration(o.wait):
			return &holdfast.HeldError{Name: o.names[0], Waited: time.Since(began), Err: err}
		}
		select {
		case <-tick.C:
		case <-end: // and look once more
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
