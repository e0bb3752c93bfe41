package main

import (
	"fmt"
	"strconv"

	"github.com/spf13/pflag"
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
