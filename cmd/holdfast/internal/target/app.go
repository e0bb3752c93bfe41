package target

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
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
	if _, err := holdfast.Key(a.Server.Prefix, "x"); err != nil {
		return exit.Usage("--prefix: "+say.Plain(err), "write a short word, as in --prefix staging")
	}
	a.Say.JSON = a.Log == "json"
	return nil
}

// CheckName refuses a name that no lock, election or job can have. It is for what is checked before a server is known.
func CheckName(kind, name string) error {
	if _, err := holdfast.Key(DefaultPrefix, name); err != nil {
		return exit.Usage(kind+" name: "+say.Plain(err), "")
	}
	return nil
}
