package operate

import (
	"context"
	"fmt"
	"io"
	"strconv"

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

const limitLong = `limit shows how many permits a semaphore has, and with N sets that number on the server.
Runs with --permits and --server-limit, and programs with ServerLimit, take it. Others
that name another number are refused while the semaphore is in use (exit code 64), and set
their own when it is not.

A higher limit grants waiters at once. A lower one takes no permit away: nobody gets one
until enough are released. With 0, nobody gets a permit until limit sets another number;
holders keep theirs, and waiters their places. The server remembers the number for 30 days
after the last use.

--json prints one object: name, key, limit (null if the server knows none), previous (the
limit before; null if there was none), used, waiting.`

// limitJSON is what limit --json prints: a contract.
type limitJSON struct {
	Name     string `json:"name"`
	Key      string `json:"key"`
	Limit    *int   `json:"limit"`
	Previous *int   `json:"previous"`
	Used     int    `json:"used"`
	Waiting  int    `json:"waiting"`
}

// NewLimit makes holdfast limit.
func NewLimit(a *target.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "limit [flags] NAME [N]",
		Short: "Show or set how many permits a semaphore has",
		Long:  limitLong,
		Example: `  holdfast limit pool
  holdfast limit pool 20
  holdfast limit pool 0                         drain: nobody gets a permit`,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	level := cli.Verbosity(a.Say, cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := level(); err != nil {
			return err
		}
		if len(args) < 1 || len(args) > 2 {
			return exit.Usage("limit takes a semaphore's name and perhaps a number",
				"write holdfast limit NAME [N], as in holdfast limit pool 20")
		}
		if err := target.CheckName("semaphore", args[0]); err != nil {
			return err
		}
		set := -1
		if len(args) == 2 {
			n, err := strconv.ParseInt(args[1], 10, 32)
			if err != nil || n < 0 {
				return exit.Usage(fmt.Sprintf("%q is not a number of permits", args[1]),
					"write a number from 0 on, as in holdfast limit pool 20")
			}
			set = int(n)
		}
		return runLimit(a, args[0], set, asJSON, say.Stdout)
	}
	return cmd
}

// runLimit shows the limit, and first sets it if set is not below 0.
func runLimit(a *target.App, name string, set int, asJSON bool, w io.Writer) error {
	s, err := a.Open(holdfast.Config{}, "limit")
	if err != nil {
		return err
	}
	defer s.CloseSoon()
	ctx, cancel := context.WithTimeout(context.Background(), 2*target.CloseTimeout)
	defer cancel()
	state, err := s.Client.Holders(ctx, name)
	if err != nil {
		return s.Explain(name, err)
	}
	if state.Held() && state.Holders[0].Mode != "permits" {
		return exit.Usage(fmt.Sprintf("%q is no semaphore: it is held %s", name, describe.Holder(state.Holders[0])),
			"holdfast status "+cli.Operand(name)+" shows the lock")
	}
	if state.Fence == 0 && set < 0 {
		a.MayBePattern(name)
	}
	before := limitOf(state)
	if set >= 0 {
		if err := s.Client.Semaphore(name, max(set, 1)).SetLimit(ctx, set); err != nil {
			return s.Explain(name, err)
		}
		if state, err = s.Client.Holders(ctx, name); err != nil {
			return s.Explain(name, err)
		}
	}
	now := limitJSON{
		Name: name, Key: s.Key(name), Limit: limitOf(state), Previous: before,
		Used: lockjson.Used(state), Waiting: describe.Waiting(state),
	}
	if asJSON {
		return screen.WriteJSON(w, now)
	}
	_, err = fmt.Fprintln(w, now.text(set >= 0))
	return err
}

// limitOf is the limit of a semaphore; nil if the server knows none.
func limitOf(state holdfast.LockInfo) *int {
	if state.Limit == 0 && !state.Drained {
		return nil
	}
	return &state.Limit
}

// text is the limit in words. set: it was set just now.
func (l *limitJSON) text(set bool) string {
	name := say.OneLine(l.Name)
	if l.Limit == nil {
		return name + " has no limit: the next holder sets it"
	}
	text := fmt.Sprintf("%s has a limit of %d", name, *l.Limit)
	if set && l.Previous != nil {
		text += fmt.Sprintf(" (was %d)", *l.Previous)
	}
	text += fmt.Sprintf("; %d in use, %d waiting", l.Used, l.Waiting)
	if *l.Limit == 0 {
		text += "; drained: nobody gets a permit"
	}
	return text
}
