// Package commandline is what the everyday tool and holdfast-verify have in common: the values
// of their flags, the signals that end them, and what they were built from.
package commandline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Span is a flag's length of time: a bare number is seconds, as for flock(1)
// and timeout(1), or a number with a unit.
type Span time.Duration

func (s *Span) String() string { return time.Duration(*s).String() }

// Type is what the help calls the value.
func (s *Span) Type() string { return "DUR" }

// Set reads the value. It is not negative.
func (s *Span) Set(text string) error {
	var d time.Duration
	if seconds, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(seconds) {
		if math.Abs(seconds) > math.MaxInt64/float64(time.Second)/2 {
			return fmt.Errorf("%q is too long", text)
		}
		d = time.Duration(seconds * float64(time.Second))
	} else if d, err = withDays(text); err != nil {
		return err
	}
	if d < 0 {
		return fmt.Errorf("%q is negative: write 0 or more, as in 10s", text)
	}
	*s = Span(d)
	return nil
}

// withDays reads a number with a unit. To those of Go it adds d, of 24 hours, in front: 1d12h.
func withDays(text string) (d time.Duration, err error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "0", text
	}
	n, bad := strconv.ParseFloat(days, 64)
	if found && rest == "" {
		rest = "0"
	}
	if d, err = time.ParseDuration(rest); err != nil || bad != nil || math.IsNaN(n) {
		return 0, fmt.Errorf("%q is not a duration: write seconds, as in 2.5, or 500ms, 10s, 5m, 1h30m, 1d", text)
	}
	if whole := n*float64(24*time.Hour) + float64(d); math.Abs(whole) > math.MaxInt64/2 {
		return 0, fmt.Errorf("%q is too long", text)
	}
	return time.Duration(n*float64(24*time.Hour)) + d, nil
}

// URLs is the value of --redis: one URL for each time that the flag was written. In the
// environment, spaces are between them.
type URLs []string

func (u *URLs) String() string { return strings.Join(*u, " ") }

// Type is what the help calls the value.
func (u *URLs) Type() string { return "URL" }

// Set adds to the value.
func (u *URLs) Set(text string) error {
	words := strings.Fields(text)
	if len(words) == 0 {
		return errors.New("it names no server")
	}
	*u = append(*u, words...)
	return nil
}

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ syscall.Signal }

func (e SignalError) Error() string { return e.Signal.String() }

// Signalled ends the context when INT, TERM, HUP or QUIT comes, with the signal as its
// cause. A signal that was ignored at the start stays ignored: nohup relies on it.
func Signalled(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !signal.Ignored(sig) {
			signal.Notify(signals, sig)
		}
	}
	go func() {
		select {
		case s := <-signals:
			cancel(SignalError{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// Commit is what the program was built from, empty if that is not known.
func Commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return ""
}
