package look

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
)

const checkLong = `check asks the server whether a lease with this token is live now. It is for a service that is
sent tokens ($HOLDFAST_LOCK_TOKEN of run) and cannot remember the highest one. The lease may
end right after the answer. check asks the primary, never a replica, and changes nothing.

A Go program acquires the lock with the option Checked. Other tokens are refused, because
the server does not know all of them. Of several locks, each has a token of its own: a line
of $HOLDFAST_LOCK_TOKEN.

--json prints one object:
  name, token    as given; tokens are strings
  live           true or false
  now            the token of the present holder, or the highest of several; "0" if there
                 is none, or if live
  held_by        the attempt or the owner that holds the lock; empty if unknown, or if live

Exit code: 0 if the lease is live, 79 if it is not, 69 if the server cannot be asked. For
others, see holdfast help exit-codes.`

// NewCheck makes holdfast check.
func NewCheck(a *target.App) *cobra.Command {
	job := false
	cmd := &cobra.Command{
		Use:   "check [flags] NAME TOKEN",
		Short: "Ask whether the lease with a token is live",
		Long:  checkLong,
		Example: `  holdfast check nightly "$HOLDFAST_LOCK_TOKEN"
  holdfast check -q nightly "$TOKEN" || exit    by the exit code only`,
	}
	asJSON := jsonFlags(cmd.Flags())
	cmd.Flags().BoolVar(&job, "job", false, "the periodic job of this name, and not the lock")
	level := cli.Verbosity(a.Say, cmd.Flags())
	cmd.Flags().Lookup("quiet").Usage = "print nothing: only the exit code tells"
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		if err := level(); err != nil {
			return err
		}
		if len(args) != 2 {
			return exit.Usage("check takes a lock's name and a token", "write holdfast check NAME TOKEN")
		}
		token, err := strconv.ParseUint(args[1], 10, 64)
		switch {
		case err != nil:
			return exit.Usage(fmt.Sprintf("%q is not a token", args[1]),
				"write the number that $HOLDFAST_LOCK_TOKEN or Lease.Token has; of several locks, "+
					"the line for this one")
		case token == 0:
			return exit.Usage("0 is the token of no lease",
				"acquire the lock without --wire: a lock of another library has no token")
		}
		return runCheck(a, args[0], token, job, asJSON(), say.Stdout)
	}
	return cmd
}

// checkJSON is the JSON of check: a contract, described in checkLong.
type checkJSON struct {
	Name   string `json:"name"`
	Token  string `json:"token"`
	Live   bool   `json:"live"`
	Now    string `json:"now"`
	HeldBy string `json:"held_by"`
}

func runCheck(a *target.App, name string, token uint64, job, asJSON bool, w io.Writer) error {
	if err := target.CheckName("lock", name); err != nil {
		return err
	}
	var uses []string
	if job {
		uses = []string{"--job"}
	}
	s, err := a.Open(holdfast.Config{}, uses...)
	if err != nil {
		return err
	}
	defer s.CloseSoon()
	ctx, cancel := context.WithTimeout(context.Background(), 2*target.CloseTimeout)
	defer cancel()
	check, explain := s.Client.Check, s.Explain
	other, hint := s.Client.CheckJob, "this is the token of a job: write --job, too"
	if job {
		check, explain, other, hint = other, s.ExplainJob, check, "this is the token of a lock: leave --job out"
	}
	err = check(ctx, name, token)
	var over *holdfast.NotHeldError
	switch {
	case err != nil && !errors.As(err, &over):
		return explain(name, err)
	case asJSON:
		answer := checkJSON{Name: name, Token: strconv.FormatUint(token, 10), Live: err == nil, Now: "0"}
		if over != nil {
			answer.Now, answer.HeldBy = strconv.FormatUint(over.Now, 10), over.HeldBy
		}
		if failed := screen.WriteJSON(w, answer); failed != nil || err == nil {
			return failed
		}
		return exit.Silent(exit.CodeLost)
	case err == nil && a.Say.Level > say.Quiet:
		_, err = fmt.Fprintf(w, "%s: the lease with the token %d is live\n", say.OneLine(name), token)
	case err != nil && a.Say.Level == say.Quiet:
		return exit.Silent(exit.CodeLost)
	case err != nil && other(ctx, name, token) == nil:
		return exit.With(exit.CodeLost, err, hint)
	}
	return err
}
