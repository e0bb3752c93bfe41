package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// exitCode is a flag's exit code.
type exitCode int

func (c *exitCode) String() string { return strconv.Itoa(int(*c)) }
func (c *exitCode) Type() string   { return "N" }

func (c *exitCode) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 255 {
		return fmt.Errorf("%q is not an exit code: write a number from 0 to 255", text)
	}
	*c = exitCode(n)
	return nil
}

// checkGiven refuses what no flag can mean. It looks at the command line alone: a variable of the
// environment that is empty is one that is not set.
func checkGiven(flags *pflag.FlagSet) error {
	var problems []error
	flags.Visit(func(f *pflag.Flag) {
		if f.Value.String() == "" {
			problems = append(problems, emptyValue(f))
		}
	})
	if o := flags.Lookup("output"); o != nil && o.Changed {
		switch form, forms := o.Value.String(), o.Value.Type(); {
		case flags.Changed("json") && form != "json":
			problems = append(problems, exit.Usage("--json and -o "+form+" contradict each other", leaveOut))
		case !strings.Contains(forms, form):
			problems = append(problems, exit.Usage("-o "+form+" is for holdfast list", "write -o "+forms))
		}
	}
	return errors.Join(problems...)
}

// onCommandLine reports whether a flag was written. What the environment sets for every command is
// no mistake where one command cannot use it.
func onCommandLine(flags *pflag.FlagSet, flag string) bool {
	return flags.Changed(flag) && os.Getenv(envName(flag)) == ""
}

// emptyValue refuses a value that is empty, as a shell makes it of a variable that is not set. What
// the flag would have limited or named is not to be guessed.
func emptyValue(f *pflag.Flag) error {
	return exit.Usage(fmt.Sprintf("--%s is empty", f.Name), fmt.Sprintf(
		"write --%s=%s, or leave it out; an unset shell variable is empty", f.Name, sample(f)))
}

// flagAlias gives long flags the other names that people know them by.
func flagAlias(_ *pflag.FlagSet, name string) pflag.NormalizedName {
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

// rename gives values their names in --help.
func rename(flags *pflag.FlagSet, names map[string]string) {
	for flag, name := range names {
		flags.Lookup(flag).Value = named{flags.Lookup(flag).Value, name}
	}
}
