package main

import (
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/commandline"
)

// Whatever stands on the command line: flags and arguments are read or refused with a
// message of the tool's, and nothing panics. Nothing is run.
func FuzzFlags(f *testing.F) {
	for _, line := range []string{
		"run a -- true", "run -n -w 5 a -- true", "run --wait=1h30m --ttl 500ms a -- x",
		"run --wait", "run --wait=-1 a",
		"run --ttl NaN a -- x", "run -E 300 a -- x", "run --nonblok a -- x", "run -s a -- x", "run --prefix {} a -- x",
		"status --json a", "status", "statu a", "--redis redis://:secret@h:1/0 status a",
		"run a true", "run -n a true -n", "flock -s -w5 a true", "run a b -- true", "run --permits 3 --weight=2 a -- x",
		"run -- -a b -- true", "-x", "--", "",
		"run -- -a -- true", "run -nightly -- x", "status -vv", "run -w5x",
		"run --url \x00 a -- x", "run --once-per 0 a -- x", "version --json", "help", "run --timeout 1e99 a -- x",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		root := newRoot(&app{say: &say.Printer{W: io.Discard, Level: say.Normal}, log: "text"})
		root.SetOut(io.Discard)
		root.SetErr(io.Discard)
		disarm(root)
		args := strings.Split(line, " ")
		was := os.Args
		os.Args = append([]string{"holdfast"}, args...) // a hint looks there
		defer func() { os.Args = was }()
		root.SetArgs(cli.WithDashes(root, args))
		if err := root.Execute(); err != nil && (err.Error() == "" || exit.Of(err) == 0) {
			t.Errorf("%q: %v, exit code %d", line, err, exit.Of(err))
		}
	})
}

// disarm takes from every command what it does.
func disarm(cmd *cobra.Command) {
	cmd.Run = nil
	cmd.RunE = func(*cobra.Command, []string) error { return nil }
	for _, sub := range cmd.Commands() {
		disarm(sub)
	}
}

// A password in the server's address is in no message about it.
func FuzzAddresses(f *testing.F) {
	for _, text := range []string{
		"redis://u:%s@h:1/0", "rediss://:%s@h", "redis://h:1?password=%s", "%s", "unix:///tmp/x?db=%s", "redis://%s@", "h:%s",
	} {
		f.Add(text)
	}
	const secret = "s3cr3t-w0rd"
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.Replace(text, "%s", secret, 1)
		u, err := url.Parse(text)
		if err != nil || u.User == nil {
			return
		}
		if password, set := u.User.Password(); !set || password != secret {
			return
		}
		var said strings.Builder
		a := &app{say: &say.Printer{W: &said, Level: say.Verbose}}
		_ = newRoot(a)
		a.server.urls = commandline.URLs{text}
		s, err := a.locate(func(string) (string, bool) { return "", false })
		if err != nil {
			said.WriteString(err.Error())
		}
		if s != nil {
			said.WriteString(s.address)
		}
		assert.False(t, strings.Contains(said.String(), secret), "%q: the password is said: %s", text, said.String())
	})
}

// No part of a password is in a message, whatever stands in it and around it. The parts are marked by zq, and
// between them is all that a URL or a shell has a use for.
func TestNoPartOfAPasswordIsSaid(t *testing.T) {
	chance := rand.New(rand.NewPCG(37, 1)) //nolint:gosec // no secret
	pick := func(of ...string) string { return of[chance.IntN(len(of))] }
	between := strings.Split("/ ? # % @ : [ ] & = + , ; ' \" < > { } | ^ ` $ ! * ( ) ~ - _ %20 %zz %4 // :// \\ \t \n é", " ")
	var said strings.Builder
	a := &app{say: &say.Printer{W: &said, Level: say.Verbose}}
	_ = newRoot(a)
	for range 10_000 {
		secret := ""
		for range 1 + chance.IntN(3) {
			secret += pick("", pick(between...)) + "zq" + pick("a", "7", "7b") + pick("", pick(between...))
		}
		text := pick("redis://", "rediss://", "valkey://", "redis+sentinel://", "redis+cluster://", "unix://",
			"http://", "REDIS://", "redis:/", "", "redis+://")
		host := pick("h", "h:1", "[::1]:6379", "h:1,g:2", ":1", "", "h:", "h:99999", "/tmp/x.sock")
		if chance.IntN(4) == 0 {
			name := pick("password", "db", "pool_size", "read_timeout", "authSource", "max_retries", "protocol", "addr",
				"sentinel_password", secret+"7")
			text += host + pick("", "/", "/0", "/name") + "?" + name + "=" + secret
		} else {
			text += pick("", "u", "u%41", "default") + ":" + secret + "@" + host +
				pick("", "/", "/0", "/name", "/name/1", "/x") + pick("", "?db=1", "?skip_verify=true", "?x=y&x=y", "#f")
		}
		said.Reset()
		a.server.urls = commandline.URLs{text}
		s, err := a.locate(func(string) (string, bool) { return "", false })
		if err != nil {
			said.WriteString(err.Error() + exit.HintOf(err))
		} else {
			said.WriteString(s.address + s.public + s.title())
		}
		said.WriteString(strings.Join(cli.WithoutSecrets([]string{text, "--redis=" + text, "-u" + text}), " "))
		all := said.String()
		assert.False(t, strings.Contains(all, "zq"), "%q: a part of the password is said: %s", text, all)
	}
}
