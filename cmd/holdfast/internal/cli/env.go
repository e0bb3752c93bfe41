package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// IsSecret reports whether a variable is hidden in the environment that other processes can read. REDIS_URL
// is not: the command has it, too.
func IsSecret(name, value string) bool {
	switch name {
	case "HOLDFAST_PASSWORD", "HOLDFAST_SENTINEL_PASSWORD", EnvPageToken, EnvScrapeToken, EnvEvictToken:
		return true
	case "HOLDFAST_REDIS":
		return passwordInURL.MatchString(value)
	}
	return false
}

// EnvPrefix begins the name of each variable of the tool.
const EnvPrefix = "HOLDFAST_"

// The secrets of the page of serve.
const (
	EnvPageToken   = EnvPrefix + "TOKEN"
	EnvScrapeToken = EnvPrefix + "SCRAPE_TOKEN"
	EnvEvictToken  = EnvPrefix + "EVICT_TOKEN"
)

// NoFlagVariables set no flag, although they are called like one. The --token of extend and release
// would take the secret of the page, and show it in an error: its variable is HOLDFAST_LOCK_TOKEN.
// Programs that install holdfast keep its version in such a variable.
var NoFlagVariables = []string{EnvPageToken, EnvPrefix + "HELP", EnvPrefix + "VERSION"}

// EnvName is the variable that sets a flag.
func EnvName(flag string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// alternatives are flags that exclude each other. If the command line has one of them,
// the environment sets none.
var alternatives = [][]string{
	{"nonblock", "wait", "skip-if-held"},
	{"quiet", "verbose"},
	{"json", "output"},
	{"exclusive", "ex", "shared", "permits", "owner"},
}

// FromEnvironment sets the flags that the command line did not.
func FromEnvironment(cmd *cobra.Command, lookup func(string) (string, bool)) error {
	given := map[string]bool{}
	cmd.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = true })
	for _, group := range alternatives {
		if slices.ContainsFunc(group, func(name string) bool { return given[name] }) {
			for _, name := range group {
				given[name] = true
			}
		}
	}
	var problems []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := EnvName(f.Name)
		value, ok := lookup(name)
		if !ok || value == "" || given[f.Name] || slices.Contains(NoFlagVariables, name) {
			return
		}
		if err := cmd.Flags().Set(f.Name, value); err != nil {
			problems = append(problems, badEnvironment(f, err))
		}
	})
	return errors.Join(problems...)
}

func badEnvironment(f *pflag.Flag, err error) error {
	cause := err
	if inner := errors.Unwrap(err); inner != nil {
		cause = plainCause(inner)
	}
	if f.Value.Type() == "bool" {
		cause = errors.New("write 1 or true to set it, 0 or false to unset it")
	}
	return exit.Usage(fmt.Sprintf("%s in the environment: %v", EnvName(f.Name), cause),
		fmt.Sprintf("correct or unset the variable, or write --%s", f.Name))
}
