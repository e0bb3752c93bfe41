package main

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/spf13/pflag"
)

// span is a flag's length of time: a bare number is seconds, as for flock(1)
// and timeout(1), or a number with a unit.
type span time.Duration

func (s *span) String() string { return time.Duration(*s).String() }
func (s *span) Type() string   { return "DUR" }

func (s *span) Set(text string) error {
	d, err := parseSpan(text)
	if err == nil {
		*s = span(d)
	}
	return err
}

func parseSpan(text string) (time.Duration, error) {
	var d time.Duration
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if math.IsNaN(seconds) || math.Abs(seconds) > math.MaxInt64/float64(time.Second)/2 {
			return 0, fmt.Errorf("%q is too long", text)
		}
		d = time.Duration(seconds * float64(time.Second))
	} else if d, err = time.ParseDuration(text); err != nil {
		return 0, fmt.Errorf("%q is not a duration: write seconds, as in 2.5, or 500ms, 10s, 5m, 1h30m", text)
	}
	if d < 0 {
		return 0, fmt.Errorf("%q is negative: write 0 or more, as in 10s", text)
	}
	return d, nil
}

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
