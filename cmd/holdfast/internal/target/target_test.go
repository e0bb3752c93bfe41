package target

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/quorum"
)

// located is where an environment says that the server is.
func located(t *testing.T, args []string, env map[string]string) (*Server, string, string) {
	t.Helper()
	var said strings.Builder
	a := &App{Say: &say.Printer{W: &said, Level: say.Normal}}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	a.Server.Add(flags)
	assert.Must(t, flags.Parse(args))
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	if len(a.Server.URLs) == 0 {
		a.Server.URLs.Set(env["HOLDFAST_REDIS"]) // as fromEnvironment does
	}
	s, err := a.Locate(lookup)
	assert.Must(t, err)
	return s, s.Targets[0].Options.Password, said.String()
}

func TestTheServerIsFoundInOrder(t *testing.T) {
	for _, c := range []struct {
		args    []string
		env     map[string]string
		address string
		word    string // the password
		public  string
	}{
		{nil, nil, "redis://127.0.0.1:6379", "", ""},
		{nil, map[string]string{"REDIS_URL": "redis://:p@r"}, "redis://r:6379", "p", ""},
		{
			nil, map[string]string{"REDIS_URL": "redis://r", "HOLDFAST_REDIS": "rediss://u:p@h:1/2"},
			"rediss://h:1/2", "p", "rediss://u@h:1/2",
		},
		{
			[]string{"-u", "f:7"}, map[string]string{"HOLDFAST_REDIS": "redis://h", "HOLDFAST_PASSWORD": "q"},
			"redis://f:7", "q", "redis://f:7",
		},
		{[]string{"--redis", "unix:///run/redis.sock"}, nil, "unix:///run/redis.sock", "", "unix:///run/redis.sock"},
		{[]string{"-u", "valkeys://h"}, nil, "rediss://h:6379", "", "rediss://h"},
		{
			nil, map[string]string{"HOLDFAST_REDIS": "rediss+sentinel://u:p,@a,b:7/first/3"},
			"rediss+sentinel://a:26379,b:7/first/3", "p,", "rediss+sentinel://u@a,b:7/first/3",
		},
		{
			[]string{"-u", "redis+cluster://[::1],b:7"}, map[string]string{"HOLDFAST_PASSWORD": "q"},
			"redis+cluster://[::1]:6379,b:7", "q", "redis+cluster://[::1],b:7",
		},
		{[]string{"-u", "redis+cluster://a,b:7/3"}, nil, "redis+cluster://a:6379,b:7/3", "", "redis+cluster://a,b:7/3"},
		{
			nil, map[string]string{"HOLDFAST_REDIS": "redis://:p@a b:1  redis://c"},
			"redis://a:6379 redis://b:1 redis://c:6379", "p", "redis://a redis://b:1 redis://c",
		},
		{[]string{"-u", "a", "-u", "b", "-u", "c"}, nil,
			"redis://a:6379 redis://b:6379 redis://c:6379", "", "redis://a redis://b redis://c"},
	} {
		s, word, said := located(t, c.args, c.env)
		assert.True(t, s.Address == c.address && word == c.word && s.Public == c.public && said == "",
			"%v %v: %s %q public %q, said %q", c.args, c.env, s.Address, word, s.Public, said)
	}
	if _, word, said := located(t, []string{"-u", "redis://:s3cret@h"}, nil); word != "s3cret" ||
		!strings.Contains(said, "every user of this machine can read") || strings.Contains(said, word) {
		t.Errorf("a password on the command line: %q, said %q", word, said)
	}
}

// Nothing that could not be parsed is quoted, whichever character in a password makes it another URL.
func TestNoPartOfAPasswordIsInAnError(t *testing.T) {
	for _, form := range []string{
		"redis://default:%s@host", "redis://:%s@host:6379/0", "rediss://%s@host", "u:%s@host", "%s@host",
		"redis+sentinel://u:%s@a,b/name", "redis+cluster://u:%s@a,b", "unix://u:%s@/run/redis.sock",
		"redis://host?password=%s", "redis://host?%s", "redis://host/%s", "redis://host:%s", "%s://host", "redis://u:%s",
	} {
		for _, between := range []string{"/", "?", "#", "%", "@", ":", "&", "=", " ", "%2", "://", ""} {
			a := &App{Say: &say.Printer{W: io.Discard}}
			a.Server.Add(pflag.NewFlagSet("test", pflag.ContinueOnError))
			text := fmt.Sprintf(form, "s3cr"+between+"t-w0rd")
			a.Server.URLs.Set(text)
			s, err := a.Locate(func(string) (string, bool) { return "", false })
			said := ""
			switch {
			case err != nil:
				said = err.Error() + exit.HintOf(err)
			case strings.Contains(form, ":%s@"): // elsewhere it may be a user, a host or a scheme
				said = s.Address + s.Public
			}
			assert.False(t, strings.Contains(said, "s3cr") || strings.Contains(said, "t-w0rd"), "%s: %s", text, said)
		}
	}
}

func TestWhatIsNoServerIsRefused(t *testing.T) {
	for urls, want := range map[string]string{
		"redis://a redis://b":                              "names 2 servers",
		"redis://a,b":                                      "several hosts need the form",
		"redis+sentinel://a,b":                             "the primary's name is missing",
		"redis+cluster://a/three":                          "not the number of a database",
		"redis+ring://a":                                   "not one of the schemes that are supported",
		"redis://a redis://b redis+sentinel://c/n":         "independent primaries",
		"redis://a redis://b redis+cluster://:s3cret@c::9": "independent primaries",
		"http://:s3cret@a":                                 "not one of the schemes that are supported",
		"redis://a?tls=s3cret":                             "the parameter tls, which",
		"redis://a?db=s3cret":                              "the parameter db of the URL has a value",
		"rediss://a?skip_verify=true":                      "accept any server's certificate",
		"redis://a/s3cret":                                 "not the number of a database",
		"redis://default:8/s3cret@a":                       "percent-encoded",
		"a:99999":                                          "the port is not a number",
		"redis://:6379":                                    "names no host",
		"redis:///0":                                       "names no host",
		"rediss://:s3cret@":                                "names no host",
		"a:":                                               "no port after the colon",
		"redis+sentinel://a,/n":                            "names no host",
		"redis+cluster://,b":                               "names no host",
		"redis+sentinel://a,b:99999/n":                     "the port is not a number",
	} {
		a := &App{Say: &say.Printer{W: io.Discard}}
		a.Server.Add(pflag.NewFlagSet("test", pflag.ContinueOnError))
		a.Server.URLs.Set(urls)
		_, err := a.Locate(func(string) (string, bool) { return "", false })
		if err == nil || !strings.Contains(err.Error(), want) ||
			exit.Of(err) != exit.CodeUsage || exit.HintOf(err) == "" ||
			strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", urls, err)
		}
	}
	a := &App{Say: &say.Printer{W: io.Discard}}
	a.Server.Add(pflag.NewFlagSet("test", pflag.ContinueOnError))
	_, err := a.Locate(func(name string) (string, bool) { return " ", name == "REDIS_URL" })
	assert.Equal(t, exit.Of(err), exit.CodeUsage, "a blank REDIS_URL")
}

func TestAHintSaysHowToWriteSeveralServersWhereTheyCameFrom(t *testing.T) {
	for source, want := range map[string]string{
		"--redis":        "write --redis once for each server",
		"HOLDFAST_REDIS": "write all URLs into HOLDFAST_REDIS, with spaces between them",
		"REDIS_URL":      "write all URLs into REDIS_URL, with spaces between them",
	} {
		a := &App{Say: &say.Printer{W: io.Discard}}
		_, err := a.target("redis://a,redis://b", source, false, func(string) (string, bool) { return "", false })
		assert.True(t, strings.HasSuffix(exit.HintOf(err), "; for a quorum, "+want), "%s: %s", source, exit.HintOf(err))
	}
}

func TestNobodyAtTheDefaultAddressNamesTheDemo(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	s, _, _ := located(t, nil, nil)
	err := s.Explain("x", fmt.Errorf("%w: %w", holdfast.ErrUnknownOutcome, refused))
	want := "no server answers at redis://127.0.0.1:6379: connection refused"
	if err.Error() != want || exit.Of(err) != exit.CodeUnreachable ||
		!strings.Contains(exit.HintOf(err), "holdfast demo") {
		t.Errorf("%v (%d), hint %s", err, exit.Of(err), exit.HintOf(err))
	}
	s, _, _ = located(t, []string{"-u", "h"}, nil)
	if err = s.Explain("x", refused); strings.Contains(exit.HintOf(err), "demo") {
		t.Errorf("a named server: hint %s", exit.HintOf(err))
	}
}

// All servers of a quorum answer, and too few count: that ends by itself, and is no error of the tool.
func TestAQuorumOfWhichTooFewCountCannotServeNow(t *testing.T) {
	s, _, _ := located(t, []string{"-u", "h1", "-u", "h2", "-u", "h3"}, nil)
	missing := []error{errors.New("h2: is new"), errors.New("h3: is new")}
	few := &quorum.NoMajorityError{Have: 1, Nodes: 3, Missing: missing}
	for _, err := range []error{few, &holdfast.HeldError{Name: "x", Err: few}} {
		got := s.Explain("x", err)
		assert.Equal(t, exit.Of(got), exit.CodeUnreachable, "the exit code of %v", got)
	}
}

// The server is named, and the text has the words of the tool: none of Go, and none of a client library.
func TestAnErrorIsInTheWordsOfTheTool(t *testing.T) {
	answered := func(message string) error {
		code, _, _ := strings.Cut(message, " ")
		return &holdfast.ServerError{Code: code, Message: message}
	}
	untrusted := func(err error) error {
		return answered("TLS " + (&tls.CertificateVerificationError{Err: err}).Error())
	}
	away := func(text string, err error) error {
		return fmt.Errorf("%w: goredis: h:1: %w", holdfast.ErrUnreachable, fmt.Errorf(text+"%w", err))
	}
	refusedBy := func(ip string) error {
		return &net.OpError{Op: "dial", Addr: &net.TCPAddr{IP: net.ParseIP(ip), Port: 7}, Err: errors.New("refused")}
	}
	for _, c := range []struct {
		url        string
		err        error
		code       int
		text, hint string
	}{
		{"redis://h:1", away("", io.EOF), exit.CodeUnreachable,
			"no server answers at redis://h:1: the connection was closed", "if it has TLS, write rediss://"},
		{"rediss://h:1", away("", io.EOF), exit.CodeUnreachable,
			"no server answers at rediss://h:1: the connection was closed", "check that the server is running"},
		{"redis://h:1", away("redis: can't parse map reply: HTTP/1.1 400", errors.New("")), exit.CodeUnreachable,
			"no server answers at redis://h:1: the program there is not a Redis or Valkey server", "check that the server is running"},
		{"redis+cluster://h:1,h:2", away("", refusedBy("10.0.0.3")), exit.CodeUnreachable,
			"no server answers at 10.0.0.3:7, a node of redis+cluster://h:1,h:2: refused", "holdfast doctor checks every node"},
		{"redis+cluster://h:1", away("", &net.DNSError{Name: "inside"}), exit.CodeUnreachable,
			"no server answers at inside, a node of redis+cluster://h:1: no such host", "holdfast doctor checks every node"},
		{"redis://h:1", away("", &net.OpError{Op: "dial", Err: syscall.EMFILE}), exit.CodeUnreachable,
			"cannot connect to redis://h:1: too many open files", "allow this process more open files"},
		{"redis://h:1", away("", refusedBy("10.0.0.3")), exit.CodeUnreachable,
			"no server answers at redis://h:1: refused", "check that the server is running"},
		{"rediss://h:1", untrusted(x509.UnknownAuthorityError{}),
			exit.CodeUnreachable, "rediss://h:1: failed to verify certificate: x509: certificate signed by unknown authority",
			"name the authority with --cacert"},
		{"rediss://h:1", untrusted(x509.CertificateInvalidError{Reason: x509.Expired, Detail: "!"}), exit.CodeUnreachable,
			"rediss://h:1: failed to verify certificate: x509: certificate has expired or is not yet valid: !",
			"renew the server's certificate"},
		{"rediss://h:1", untrusted(errors.New("x509: another name")),
			exit.CodeUnreachable, "rediss://h:1: failed to verify certificate: x509: another name", "write the host in the URL"},
		{"rediss://h:1", answered("TLS the server refuses: " + tls.AlertError(116).Error()),
			exit.CodeUnreachable, "rediss://h:1: the server refuses: tls: certificate required", "name a client certificate"},
		{"redis://h:1/3", answered("ERR SELECT is not allowed in cluster mode"), exit.CodeUsage,
			"redis://h:1/3: this Cluster has no database but 0",
			"leave the number out; a Cluster of Valkey 9 can have more (cluster-databases)"},
		{"redis+cluster://h:1", answered("ERR unknown command 'cluster'"), exit.CodeUsage,
			"redis+cluster://h:1 is not a Cluster", "write redis://HOST:PORT for one server"},
		{"redis://h:1", &holdfast.MismatchError{Name: "a", Got: 2, Want: 3}, exit.CodeUsage,
			(&holdfast.MismatchError{Name: "a", Got: 2, Want: 3}).Error(), "write the same --permits"},
	} {
		s, _, _ := located(t, []string{"-u", c.url}, nil)
		if s.Targets[0].Topology == InCluster {
			s.Nodes = []Node{{c.url, s.Targets[0].clusterClient()}}
		}
		err := s.Explain("a", c.err)
		if err.Error() != c.text || exit.Of(err) != c.code || !strings.HasPrefix(exit.HintOf(err), c.hint) &&
			!strings.Contains(exit.HintOf(err), "; "+c.hint) {
			t.Errorf("%v: %v (%d), hint %s", c.err, err, exit.Of(err), exit.HintOf(err))
		}
	}
	assert.Equal(t, say.Plain(fmt.Errorf("%w: Config.TTL: the TTL is 0s", holdfast.ErrInvalid)),
		"the TTL is 0s", "plain")
}
