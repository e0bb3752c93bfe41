package main

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// completions are scripts of our own: those of cobra need the package bash-completion, and
// take no name with a space or within quotes.
//
//go:embed completions
var completions embed.FS

const completionLong = `completion prints a script that completes commands, flags and the names of locks in a shell.
make install puts the scripts where shells look for them. Without that:

  bash   source <(holdfast completion bash)     in ~/.bashrc
  zsh    source <(holdfast completion zsh)      in ~/.zshrc, after compinit
  fish   holdfast completion fish | source      in ~/.config/fish/config.fish

The names come from the server that --redis, HOLDFAST_REDIS or REDIS_URL names.`

func newCompletion() *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:       "completion " + strings.Join(shells, "|"),
		Short:     "Print a completion script for a shell",
		Long:      completionLong,
		Example:   "  source <(holdfast completion bash)",
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || !slices.Contains(shells, args[0]) {
				return exit.Usage("completion takes the name of a shell", "write one of "+strings.Join(shells, ", "))
			}
			if args[0] == "powershell" {
				return cmd.Root().GenPowerShellCompletionWithDesc(cmd.OutOrStdout())
			}
			script, err := completions.ReadFile("completions/holdfast." + args[0])
			if err == nil {
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s", script)
			}
			return err
		},
	}
}

// completeValues completes the values of the flags that take one of a few words: their type names them.
func completeValues(cmd *cobra.Command) {
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		words := strings.Split(f.Value.Type(), "|")
		if _, known := cmd.GetFlagCompletionFunc(f.Name); known || len(words) < 2 {
			return
		}
		values := cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
		if err := cmd.RegisterFlagCompletionFunc(f.Name, values); err != nil {
			panic("BUG: " + err.Error())
		}
	})
}
