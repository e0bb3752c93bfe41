package target

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// App has what all commands share.
type App struct {
	Say    *say.Printer
	Server Flags
	Log    say.Format
}

// Prepare applies the environment and the flags of all commands.
func (a *App) Prepare(cmd *cobra.Command) error {
	if err := cli.CheckGiven(cmd.Flags()); err != nil {
		return err
	}
	if err := cli.FromEnvironment(cmd, os.LookupEnv); err != nil {
		return err
	}
	if err := wire.CheckPrefix(a.Server.Prefix); err != nil {
		return exit.Usage("--prefix: "+err.Error(), "write a short word, as in --prefix staging")
	}
	a.Say.JSON = a.Log == "json"
	return nil
}
