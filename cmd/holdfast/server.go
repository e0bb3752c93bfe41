package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/store/goredis"
)

const (
	defaultURL    = "redis://127.0.0.1:6379"
	defaultPrefix = "holdfast"
)

// serverFlags say where the server is.
type serverFlags struct {
	url          string
	urlFlag      *pflag.Flag
	passwordFile string
	prefix       string
}

func (s *serverFlags) add(flags *pflag.FlagSet) {
	flags.StringVarP(&s.url, "redis", "u", "", "the server (default: HOLDFAST_REDIS, REDIS_URL, "+defaultURL+")")
	flags.StringVar(&s.passwordFile, "password-file", "",
		"file with the server's password (default: HOLDFAST_PASSWORD)")
	flags.StringVar(&s.prefix, "prefix", defaultPrefix, "prefix of every key on the server")
	for name, value := range map[string]string{"redis": "URL", "password-file": "FILE", "prefix": "TEXT"} {
		flags.Lookup(name).Value = named{flags.Lookup(name).Value, value}
	}
	s.urlFlag = flags.Lookup("redis")
}

// server is where the locks are.
type server struct {
	client  *holdfast.Client
	rdb     *redis.Client
	address string // without user and password
	prefix  string
	byHand  bool   // the user named it
	full    string // the URL with the password, wherever that came from
	public  string // what a holdfast inside a command is told: the URL without its password
}

// open makes a client. It does no I/O but reading the password.
func (a *app) open(cfg holdfast.Config) (*server, error) {
	options, s, err := a.locate(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	// The client library's messages would break the rules of output. Its errors arrive
	// as errors.
	logging.Disable()
	cfg.Prefix = a.server.prefix
	s.rdb = redis.NewClient(options)
	s.client, err = holdfast.New(goredis.New(s.rdb), cfg)
	if err != nil {
		s.rdb.Close() //nolint:errcheck // it has no connection yet
		return nil, err
	}
	return s, nil
}

// close releases everything and leaves the wait queue, as far as ctx allows.
func (s *server) close(ctx context.Context) {
	s.client.Close(ctx) //nolint:errcheck // what was held was released before, or is lost
	s.rdb.Close()       //nolint:errcheck // the process ends
}

// locate reads the server's address and password from flags, environment and
// file.
func (a *app) locate(lookup func(string) (string, bool)) (*redis.Options, *server, error) {
	text, source := a.server.url, "--redis"
	// The environment sets flags, too, but other users cannot read it.
	onCommandLine := a.server.onCommandLine(lookup)
	if text == "" {
		text, _ = lookup("REDIS_URL")
		source = "REDIS_URL"
	} else if !onCommandLine {
		source = "HOLDFAST_REDIS"
	}
	s := &server{prefix: a.server.prefix, byHand: text != ""}
	if text == "" {
		text = defaultURL
	}
	options, err := parseServer(text)
	if err != nil {
		return nil, nil, usageError(fmt.Sprintf("%s: %v", source, err),
			"write redis://HOST:PORT/DB, rediss://HOST:PORT for TLS, or unix://PATH")
	}
	if options.Password != "" && onCommandLine {
		a.say.warnf("put the URL into HOLDFAST_REDIS, or the password into a file for --password-file",
			"every user of this machine can read the password in %s while holdfast runs", source)
	}
	if err := a.password(options, lookup); err != nil {
		return nil, nil, err
	}
	s.address, s.full = address(options), withPassword(text, options)
	if source != "REDIS_URL" {
		s.public = withoutPassword(text)
	}
	return options, s, nil
}

// onCommandLine says whether the flag was written, and not set by the environment.
func (s *serverFlags) onCommandLine(lookup func(string) (string, bool)) bool {
	value, _ := lookup(envName("redis"))
	return s.urlFlag.Changed && value != s.url
}

// withPassword is a URL with the password that was found for it.
func withPassword(text string, o *redis.Options) string {
	if !strings.Contains(text, "://") {
		text = "redis://" + text
	}
	u, err := url.Parse(text)
	if err == nil && o.Password != "" {
		u.User = url.UserPassword(o.Username, o.Password)
	}
	if err != nil {
		return text
	}
	return u.String()
}

// parseServer reads a URL, or a bare HOST:PORT. Its error does not repeat the
// URL: there may be a password in it.
func parseServer(text string) (*redis.Options, error) {
	if !strings.Contains(text, "://") {
		text = "redis://" + text
	}
	options, err := redis.ParseURL(text)
	if err != nil {
		if bad, ok := errors.AsType[*url.Error](err); ok {
			err = bad.Err
		}
		why := strings.TrimPrefix(err.Error(), "redis: ")
		if u, parseErr := url.Parse(text); parseErr != nil || u.User != nil {
			why = "not a valid URL"
		}
		return nil, errors.New(why)
	}
	options.DialTimeout = 3 * time.Second
	options.DialerRetries = 1
	// The name is for operators who read CLIENT LIST. ClientName would fail if the user
	// may not set it; this does not.
	options.OnConnect = func(ctx context.Context, conn *redis.Conn) error {
		_ = conn.ClientSetName(ctx, "holdfast").Err()
		return nil
	}
	// It would look up the host's addresses, and ask for notifications that only a
	// managed service sends.
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return options, nil
}

// password sets the password if the URL has none. The user named a password file
// explicitly, so that wins over the URL.
func (a *app) password(options *redis.Options, lookup func(string) (string, bool)) error {
	if file := a.server.passwordFile; file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return usageError(fmt.Sprintf("--password-file: %v", err),
				"name a file that holds the password and nothing else")
		}
		options.Password = strings.TrimRight(string(b), "\r\n")
	} else if options.Password == "" {
		options.Password, _ = lookup("HOLDFAST_PASSWORD")
	}
	return nil
}

// address is the server's URL without what is secret.
func address(o *redis.Options) string {
	if o.Network == "unix" {
		return "unix://" + o.Addr
	}
	scheme := "redis://"
	if o.TLSConfig != nil {
		scheme = "rediss://"
	}
	if o.DB != 0 {
		return fmt.Sprintf("%s%s/%d", scheme, o.Addr, o.DB)
	}
	return scheme + o.Addr
}

// withoutPassword is a URL that everybody may see.
func withoutPassword(text string) string {
	if !strings.Contains(text, "://") {
		text = "redis://" + text
	}
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	return u.String()
}

// explain adds the address to an error without an answer, and the tool's own hint where
// the library's hint does not know the tool's flags.
func (s *server) explain(name string, err error) error {
	var refused *holdfast.ServerError
	switch {
	case errors.As(err, &refused) && refused.Code == "NOAUTH":
		return &exitError{codeRefused, fmt.Errorf("%s requires a password", s.address),
			"put it into HOLDFAST_PASSWORD, or into a file for --password-file"}
	case errors.As(err, &refused) && refused.Code == "WRONGPASS":
		return &exitError{codeRefused, fmt.Errorf("%s: wrong user or password", s.address),
			"check the user in the URL, and the password in HOLDFAST_PASSWORD or --password-file"}
	case errors.As(err, &refused) && refused.Code == "WRONGTYPE":
		key := wire.Key(s.prefix, name)
		return &exitError{codeProtocol, fmt.Errorf("the key %s holds a value that is not a lock", key),
			"use another name or another --prefix; holdfast has not changed the value"}
	case codeOf(err) != codeUnreachable || errors.As(err, &refused):
		return err
	}
	hint := "check that the server runs at this address and that this machine can reach it; " +
		"--redis, HOLDFAST_REDIS or REDIS_URL set the address"
	if !s.byHand {
		hint = "start redis-server, or set your server with --redis URL or HOLDFAST_REDIS; " +
			"holdfast demo needs no server"
	}
	return &exitError{codeUnreachable, fmt.Errorf("no server answers at %s: %s", s.address, cause(err)), hint}
}

// cause is the short reason in an error of the network.
func cause(err error) string {
	var op *net.OpError
	var dns *net.DNSError
	var late net.Error
	switch {
	case errors.As(err, &dns):
		return "no such host"
	case errors.As(err, &op) && op.Err != nil && !op.Timeout():
		if sys, ok := errors.AsType[*os.SyscallError](op.Err); ok {
			return sys.Err.Error() // without the name of the system call
		}
		return op.Err.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &op), errors.As(err, &late) && late.Timeout():
		return "no answer in time"
	}
	return plain(err)
}
