package operate

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/internal/commandline"
)

// versionJSON is what version --json prints: a contract.
type versionJSON struct {
	Version string `json:"version"`
	Commit  string `json:"commit"` // empty if the build does not tell
	Go      string `json:"go"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// NewVersion makes holdfast version.
func NewVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "version prints the version. --json prints one object: version, commit, go, os, arch.",
		Example: "  holdfast version\n  holdfast version --json",
		Args:    cli.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			v := versionJSON{holdfast.Version, commandline.Commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH}
			if asJSON {
				return screen.WriteJSON(say.Stdout, v)
			}
			_, err := fmt.Fprintf(say.Stdout, "holdfast %s (%s %s/%s)\n", v.Version, v.Go, v.OS, v.Arch)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}
