package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const envPrefix = "HOLDFAST_"

const environmentText = `Every flag can be set in the environment: --max-run is HOLDFAST_MAX_RUN, a flag
without a value is set by 1 or true. The command line wins over the environment.

The server, first one that is set:
  --redis URL, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379
The password: in the URL of one of those variables, in the file of --password-file
(HOLDFAST_PASSWORD_FILE), or in HOLDFAST_PASSWORD. Command lines can be read by
every user of a machine, so a password in --redis is used, with a warning.

A command under holdfast run finds in its environment:
  HOLDFAST_LOCK_HELD         true
  HOLDFAST_LOCK_NAME         the lock's name
  HOLDFAST_LOCK_KEY          the key of its record on the server
  HOLDFAST_LOCK_TOKEN        the fencing token: it rises with every holder. A resource
                             that remembers the highest it saw can refuse late writers
  HOLDFAST_LOCK_TTL_MS       the lease
  HOLDFAST_LOCK_MODE         exclusive
  HOLDFAST_LOCK_ACQUIRED_AT  when, in UTC, by this machine's clock
  HOLDFAST_LOCK_CHAIN        the locks held around the command, to notice a run inside
                             a run of the same lock, which would wait for itself
  HOLDFAST_REDIS             the server's URL without its password, for a holdfast inside
HOLDFAST_PASSWORD is taken out. --pass-url leaves both as they are. REDIS_URL is the
command's own: it is left as it is, with the password that may be in it.`

// envName is the variable that sets a flag.
func envName(flag string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// alternatives are flags that say different things about the same question. If
// the command line has answered it, the environment is not asked.
var alternatives = [][]string{
	{"nonblock", "wait", "skip-if-held"},
	{"quiet", "verbose"},
}

// fromEnvironment sets the flags that the command line did not.
func fromEnvironment(cmd *cobra.Command, lookup func(string) (string, bool)) error {
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
		value, ok := lookup(envName(f.Name))
		if !ok || value == "" || given[f.Name] || f.Name == "help" {
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
		cause = inner
	}
	if f.Value.Type() == "bool" {
		cause = errors.New("it is set by 1 or true, and unset by 0 or false")
	}
	return usageError(fmt.Sprintf("%s in the environment: %v", envName(f.Name), cause),
		fmt.Sprintf("correct or unset it, or give --%s", f.Name))
}
