// Package cli has what flags, arguments and the variables of the environment mean to every command, and says what to
// write in place of a mistake.
package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/help"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
)

// ExitCode is a flag's exit code.
type ExitCode int

func (c *ExitCode) String() string { return strconv.Itoa(int(*c)) }
func (c *ExitCode) Type() string   { return "N" }

func (c *ExitCode) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 255 {
		return fmt.Errorf("%q is not an exit code: write a number from 0 to 255", text)
	}
	*c = ExitCode(n)
	return nil
}

// CheckGiven refuses what no flag can mean. It looks at the command line alone: a variable of the
// environment that is empty is one that is not set.
func CheckGiven(flags *pflag.FlagSet) error {
	var problems []error
	flags.Visit(func(f *pflag.Flag) {
		if f.Value.String() == "" {
			problems = append(problems, emptyValue(f))
		}
	})
	if o := flags.Lookup("output"); o != nil && o.Changed {
		switch form, forms := o.Value.String(), o.Value.Type(); {
		case flags.Changed("json") && form != "json":
			problems = append(problems, exit.Usage("--json and -o "+form+" contradict each other", LeaveOut))
		case !strings.Contains(forms, form):
			problems = append(problems, exit.Usage("-o "+form+" is for holdfast list", "write -o "+forms))
		}
	}
	return errors.Join(problems...)
}

// OnCommandLine reports whether a flag was written. What the environment sets for every command is
// no mistake where one command cannot use it.
func OnCommandLine(flags *pflag.FlagSet, flag string) bool {
	return flags.Changed(flag) && os.Getenv(EnvName(flag)) == ""
}

// emptyValue refuses a value that is empty, as a shell makes it of a variable that is not set. What
// the flag would have limited or named is not to be guessed.
func emptyValue(f *pflag.Flag) error {
	return exit.Usage(fmt.Sprintf("--%s is empty", f.Name), fmt.Sprintf(
		"write --%s=%s, or leave it out; an unset shell variable is empty", f.Name, sample(f)))
}

// FlagAlias gives long flags the other names that people know them by.
func FlagAlias(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	switch name {
	case "timeout":
		name = "wait"
	case "nb":
		name = "nonblock"
	case "url":
		name = "redis"
	}
	return pflag.NormalizedName(name)
}

// named gives a flag's value a name in --help.
type named struct {
	pflag.Value
	name string
}

func (n named) Type() string { return n.name }

// Rename gives values their names in --help.
func Rename(flags *pflag.FlagSet, names map[string]string) {
	for flag, name := range names {
		flags.Lookup(flag).Value = named{flags.Lookup(flag).Value, name}
	}
}

// NoArguments refuses every argument.
func NoArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return exit.Usage(fmt.Sprintf("%s takes no arguments: %q is one too many", cmd.Name(), args[0]),
		cmd.CommandPath()+" --help lists the flags")
}

// Verbosity adds --quiet and --verbose to a command.
func Verbosity(p *say.Printer, flags *pflag.FlagSet) func() error {
	defer help.Messages.In(flags)()
	quiet := flags.BoolP("quiet", "q", false, "print only errors and warnings")
	verbose := flags.BoolP("verbose", "v", false, "print each step on standard error")
	return func() error {
		switch {
		case *quiet && *verbose:
			return exit.Usage("--quiet and --verbose contradict each other", "leave one out")
		case *quiet:
			p.Level = say.Quiet
		case *verbose:
			p.Level = say.Verbose
		}
		return nil
	}
}

// LeaveOut is the hint about two flags that contradict each other.
const LeaveOut = "leave one of them out"
