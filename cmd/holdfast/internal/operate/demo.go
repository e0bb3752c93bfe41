package operate

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/demo"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/internal/commandline"
)

const demoText = `demo shows locks at work. It starts a server and worker processes, which compete for
one lock around a counter in a file. It kills one holder, and pauses another past the
end of its lease. Then it shows who held the lock when, and whether anything went wrong.

The server is redis-server or valkey-server from PATH, or else an embedded one. The
demo removes everything that it started or wrote.

Exit code: 0 if no holds overlapped and no update was lost. 1 if something went wrong,
or if the demo did not get to its end. For others, see holdfast help exit-codes.`

// NewDemo makes holdfast demo. It ignores the flags that name a server: the demo
// starts its own.
func NewDemo() *cobra.Command {
	opts := demo.Options{Server: demo.ServerAuto}
	duration := commandline.Span(5 * time.Second)
	asJSON := false
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch locks at work for a few seconds; needs no server",
		Long:  demoText,
		Example: `  holdfast demo
  holdfast demo --workers 8 --duration 10s
  holdfast demo --json | jq .handover_p50_us`,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			opts.Duration = time.Duration(duration)
			return runDemo(cmd, opts, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&opts.Workers, "workers", 4, "number of worker processes")
	flags.Var(&duration, "duration", "length of the demo")
	flags.StringVar(&opts.Server, "server", opts.Server, "auto, redis-server, valkey-server or embedded")
	flags.BoolVar(&asJSON, "json", false, "print the result as one JSON object, and nothing else")
	cli.Rename(flags, map[string]string{"workers": "N", "server": "SERVER"})
	cmd.AddCommand(&cobra.Command{
		Use: "worker", Hidden: true, Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return demo.Work(cmd.InOrStdin(), cmd.OutOrStdout())
		},
	})
	return cmd
}

func runDemo(cmd *cobra.Command, opts demo.Options, asJSON bool) error {
	if err := opts.Check(); err != nil {
		return exit.Usage(err.Error(), "holdfast demo --help lists the flags")
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	opts.Worker = []string{self, "demo", "worker"}
	out := cmd.OutOrStdout()
	terminal := term.IsTerminal(int(os.Stdout.Fd()))
	if asJSON {
		// Standard output has the object and nothing else.
		terminal = term.IsTerminal(int(os.Stderr.Fd()))
		if terminal {
			opts.Progress = cmd.ErrOrStderr()
		}
	} else {
		opts.Progress = out
	}
	opts.Live = terminal

	ctx, stop := commandline.Signalled(cmd.Context())
	defer stop()
	result, err := demo.Run(ctx, opts)
	var by commandline.SignalError
	switch {
	case errors.As(err, &by):
		return exit.With(exit.CodeSignal+int(by.Signal), errors.New("the demo was interrupted before it finished"), "")
	case err != nil:
		return exit.With(exit.CodeFailed, err, "")
	case asJSON:
		err = screen.WriteJSON(out, result)
	default:
		look := demo.Look{Unicode: screen.UTF8(os.Getenv), Color: terminal && screen.Colors(os.Getenv)}
		_, err = fmt.Fprint(out, result.Text(look))
	}
	if err == nil && !result.OK {
		err = exit.Silent(exit.CodeFailed)
	}
	return err
}
