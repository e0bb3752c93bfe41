package target

import (
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/commandline"
)

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
		a := &App{Say: &say.Printer{W: &said, Level: say.Verbose}}
		a.Server.Add(pflag.NewFlagSet("test", pflag.ContinueOnError))
		a.Server.URLs = commandline.URLs{text}
		s, err := a.Locate(func(string) (string, bool) { return "", false })
		if err != nil {
			said.WriteString(err.Error())
		}
		if s != nil {
			said.WriteString(s.Address)
		}
		assert.False(t, strings.Contains(said.String(), secret), "%q: the password is said: %s", text, said.String())
	})
}

// No part of a password is in a message, whatever stands in it and around it. The parts are marked by zq, and
// between them is all that a URL or a shell has a use for.
func TestNoPartOfAPasswordIsSaid(t *testing.T) {
	chance := rand.New(rand.NewPCG(37, 1))
	pick := func(of ...string) string { return of[chance.IntN(len(of))] }
	between := strings.Split("/ ? # % @ : [ ] & = + , ; ' \" < > { } | ^ ` $ ! * ( ) ~ - _ %20 %zz %4 // :// \\ \t \n é", " ")
	var said strings.Builder
	a := &App{Say: &say.Printer{W: &said, Level: say.Verbose}}
	a.Server.Add(pflag.NewFlagSet("test", pflag.ContinueOnError))
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
		a.Server.URLs = commandline.URLs{text}
		s, err := a.Locate(func(string) (string, bool) { return "", false })
		if err != nil {
			said.WriteString(err.Error() + exit.HintOf(err))
		} else {
			said.WriteString(s.Address + s.Public + s.Title())
		}
		said.WriteString(strings.Join(cli.WithoutSecrets([]string{text, "--redis=" + text, "-u" + text}), " "))
		all := said.String()
		assert.False(t, strings.Contains(all, "zq"), "%q: a part of the password is said: %s", text, all)
	}
}
