package main

// What holdfast-verify has in common with the everyday tool: exit codes, the form of its
// messages, the environment, and the way to name a server.

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/internal/commandline"
	"github.com/holdfast-go/holdfast/internal/wire"
)

// The exit codes; holdfast help exit-codes has all of them.
const (
	codeFailed = 1
	codeUsage  = 64
	codeSignal = 128 // to which the signal's number is added
)

// execute runs the command and returns its exit code.
func execute(args []string) int {
	cmd := newCommand()
	cmd.SetArgs(args)
	cmd.SetOut(os.Stdout)
	cmd.SetErr(os.Stderr)
	err := cmd.Execute()
	if err == nil {
		return 0
	}
	exit, ok := errors.AsType[*exitError](err)
	if !ok {
		exit = &exitError{codeFailed, err, ""}
	}
	if exit.err != nil {
		say(exit.err.Error(), exit.hint)
	}
	return exit.code
}

// exitError is an error with an exit code. Without err, everything was said before.
type exitError struct {
	code int
	err  error
	hint string
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError is a mistake in the command line; hint says what to write instead.
func usageError(text, hint string) error {
	return &exitError{codeUsage, errors.New(text), hint}
}

// say writes a message in the form of the tool's messages, and what to do about it.
func say(text, hint string) {
	fmt.Fprintf(os.Stderr, "holdfast: %s\n", strings.ReplaceAll(text, "\n", `\n`))
	if hint != "" {
		fmt.Fprintf(os.Stderr, "hint: %s\n", hint)
	}
}

// fromEnvironment sets the flags that the command line did not: HOLDFAST_MAX_RUN is
// --max-run.
func fromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var problems []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := "HOLDFAST_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := lookup(name)
		if !ok || value == "" || f.Changed || f.Name == "help" {
			return
		}
		if err := f.Value.Set(value); err != nil {
			problems = append(problems, usageError(fmt.Sprintf("%s in the environment: %v", name, err),
				"correct or unset the variable, or write --"+f.Name))
		}
	})
	return errors.Join(problems...)
}

// checkGiven refuses a value that is empty, as a shell makes it of a variable that is not set: without
// --judge or --redis this run would be another one.
func checkGiven(flags *pflag.FlagSet) error {
	var problems []error
	flags.Visit(func(f *pflag.Flag) {
		if text := f.Value.String(); text == "" || text == "[]" {
			problems = append(problems, usageError("--"+f.Name+" is empty", "write a value, or leave it out"))
		}
	})
	return errors.Join(problems...)
}

const defaultPrefix = "holdfast"

// serverFlags say where the user's server is.
type serverFlags struct {
	urls         commandline.URLs
	passwordFile string
	prefix       string
	written      bool // --redis is on the command line
	flags        *pflag.FlagSet
}

func (s *serverFlags) add(flags *pflag.FlagSet) {
	flags.VarP(&s.urls, "redis", "u", "use your server in place of new ones (HOLDFAST_REDIS, REDIS_URL)")
	flags.StringVar(&s.passwordFile, "password-file", "",
		"file with the server's password (default: HOLDFAST_PASSWORD)")
	flags.StringVar(&s.prefix, "prefix", defaultPrefix, "prefix of every key on the server")
	s.flags = flags
}

// place is the user's server.
type place struct {
	full   string // the URL with its password; empty: the user named no server
	public string // without
}

// checkHost refuses addresses that verify cannot use.
func checkHost(u *url.URL, options *redis.Options) error {
	switch {
	case options.Network == "unix":
		return usageError("verify cannot use a Unix socket", "name the port of the server, as in redis://HOST:PORT")
	case u.Hostname() == "" || strings.HasSuffix(u.Host, ":"): // the client library would take localhost
		return usageError("the URL names no host, or no port after the colon: a variable in it may be empty",
			"write redis://HOST:PORT")
	}
	return nil
}

// locate reads the address and the password from flags, environment and file.
func (s *serverFlags) locate(lookup func(string) (string, bool), warn func(text, hint string)) (place, error) {
	if err := wire.CheckPrefix(s.prefix); err != nil {
		return place{}, usageError("--prefix: "+err.Error(), "write a short word, as in --prefix staging")
	}
	s.written = s.flags.Changed("redis")
	texts := s.urls
	if len(texts) == 0 {
		text, _ := lookup("REDIS_URL")
		texts = strings.Fields(text)
	}
	const several = "verify runs on one server of yours, or starts others by itself"
	const one = "name one server, or write --topology, as in --topology quorum"
	switch len(texts) {
	case 0:
		return place{}, nil
	case 1:
	default:
		return place{}, usageError(several, one)
	}
	text := texts[0]
	if !strings.Contains(text, "://") {
		text = "redis://" + text
	}
	if rest, ok := strings.CutPrefix(text, "valkey"); ok {
		text = "redis" + rest
	}
	scheme, _, _ := strings.Cut(text, "://")
	if strings.Contains(scheme, "+") {
		return place{}, usageError(several, one)
	}
	options, err := redis.ParseURL(text)
	u, bad := url.Parse(text)
	if err != nil || bad != nil { // the errors may have the password in them
		return place{}, usageError("--redis, HOLDFAST_REDIS or REDIS_URL: not a valid URL",
			"write redis://HOST:PORT/DB, or rediss://HOST:PORT for TLS")
	}
	if err := checkHost(u, options); err != nil {
		return place{}, err
	}
	if _, ok := u.User.Password(); ok && s.written {
		warn("every user of this machine can read the password in --redis while verify runs",
			"put the URL into HOLDFAST_REDIS, or the password into a file for --password-file")
	}
	password := options.Password
	if s.passwordFile != "" {
		b, err := os.ReadFile(s.passwordFile)
		if err != nil {
			return place{}, usageError("--password-file: "+err.Error(),
				"name a file that holds the password and nothing else")
		}
		password = strings.TrimRight(string(b), "\r\n")
	} else if password == "" {
		password, _ = lookup("HOLDFAST_PASSWORD")
	}
	var p place
	if u.User != nil {
		u.User = url.User(options.Username)
	}
	if options.Username == "" {
		u.User = nil
	}
	p.public = u.String()
	if password != "" {
		u.User = url.UserPassword(options.Username, password)
	}
	p.full = u.String()
	return p, nil
}
