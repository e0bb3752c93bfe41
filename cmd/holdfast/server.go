package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/pflag"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/survey"
	"github.com/holdfast-go/holdfast/internal/commandline"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
)

const (
	defaultURL    = "redis://127.0.0.1:6379"
	defaultPrefix = "holdfast"
)

// serverFlags say where the servers are.
type serverFlags struct {
	urls                      commandline.URLs
	urlFlag                   *pflag.Flag
	passwordFile              string
	sentinelUser              string
	sentinelFile              string
	caFile, certFile, keyFile string
	prefix                    string
	maxTTL                    commandline.Span
}

func (s *serverFlags) add(flags *pflag.FlagSet) {
	s.maxTTL = commandline.Span(time.Minute)
	flags.VarP(&s.urls, "redis", "u", "the server; write it 3 or 5 times for a quorum (default: HOLDFAST_REDIS, "+
		"REDIS_URL, "+defaultURL+")")
	flags.StringVar(&s.passwordFile, "password-file", "",
		"file with the server's password (default: HOLDFAST_PASSWORD)")
	flags.StringVar(&s.sentinelUser, "sentinel-user", "", "user of the Sentinels")
	flags.StringVar(&s.sentinelFile, "sentinel-password-file", "",
		"file with the Sentinels' password (default: HOLDFAST_SENTINEL_PASSWORD)")
	flags.StringVar(&s.caFile, "cacert", "", "certificates that sign the server's (default: the system's)")
	flags.StringVar(&s.certFile, "cert", "", "client certificate for the server")
	flags.StringVar(&s.keyFile, "key", "", "key of the client certificate")
	flags.StringVar(&s.prefix, "prefix", defaultPrefix, "prefix of every key on the server")
	flags.Var(&s.maxTTL, "quorum-max-ttl", "longest TTL on a quorum; the same for all of its clients")
	cli.Rename(flags, map[string]string{
		"password-file": "FILE", "sentinel-user": "USER", "sentinel-password-file": "FILE",
		"cacert": "FILE", "cert": "FILE", "key": "FILE", "prefix": "TEXT",
	})
	s.urlFlag = flags.Lookup("redis")
}

// server is where the locks are: one server, what Sentinels or a Cluster name, or a quorum.
type server struct {
	client   *holdfast.Client
	old      *holdfast.Client // of another library's form, beside client; nil: there is no bridge
	oldStore store.Store      // what old has
	oldName  string           // of the lock there; empty: the same as here
	byName   bool             // client has the locks of another library, whose keys are their names
	nodes    []node           // more than one in a quorum
	quorum   *quorum.Store
	store    store.Store // what the client has, for the scripts that no lease of this process sends
	targets  []*target
	// sentinel is the login at the Sentinels.
	sentinel *redis.Options
	address  string       // without user and password
	looked   atomic.Int64 // how many keys the servers have looked at, about
	prefix   string
	byHand   bool   // the user named it
	public   string // what a holdfast inside a command is told: the URLs without their passwords
}

// node is one server, one set of replicas or one Cluster.
type node struct {
	address string // without user and password
	rdb     redis.UniversalClient
}

// open makes a client, unless the topology cannot carry out one of the words. It does no I/O
// but reading the password, and the question to one server whether it belongs to a Cluster.
func (a *app) open(cfg holdfast.Config, words ...string) (*server, error) {
	return a.openOn(&wireFlags{}, cfg, words...)
}

// openOn is open for a lock in the form of another library, or in both forms.
func (a *app) openOn(f *wireFlags, cfg holdfast.Config, words ...string) (*server, error) {
	s, err := a.locate(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	if err := s.onQuorum(words...); err != nil {
		return nil, err
	}
	if s.sentinel, err = a.sentinel(os.LookupEnv); err != nil {
		return nil, err
	}
	if maxTTL := time.Duration(a.server.maxTTL); len(s.targets) > 1 && cfg.TTL > maxTTL {
		return nil, exit.Usage(
			fmt.Sprintf("--ttl %v is longer than a quorum allows (--quorum-max-ttl %v)", cfg.TTL, maxTTL),
			"write a shorter --ttl, or raise --quorum-max-ttl in every process that uses this quorum")
	}
	// The client library's messages would break the rules of output. Its errors arrive
	// as errors.
	logging.Disable()
	cfg.Prefix = a.server.prefix
	var stores []store.Store
	for _, t := range s.targets {
		rdb := t.single()
		if len(s.targets) == 1 {
			rdb = t.client(context.Background(), s.sentinel)
		}
		s.nodes = append(s.nodes, node{t.address(), rdb})
		stores = append(stores, counter{goredis.New(rdb), &s.looked})
	}
	s.store = stores[0]
	if len(stores) > 1 {
		if s.quorum, err = quorum.New(stores, quorum.Config{MaxTTL: time.Duration(a.server.maxTTL)}); err != nil {
			return nil, errors.Join(err, s.closeNodes())
		}
		s.store = s.quorum
	}
	if err := s.openWire(f, stores, cfg); err != nil {
		return nil, errors.Join(err, s.closeNodes())
	}
	if s.client, err = holdfast.New(s.store, cfg); err != nil {
		return nil, errors.Join(err, s.closeNodes())
	}
	return s, nil
}

// counter is a store that counts the keys that a scan looks at.
type counter struct {
	*goredis.Store
	looked *atomic.Int64
}

func (c counter) Scan(ctx context.Context, prefix string, visit func(keys []string) error) error {
	return c.Store.Scan(ctx, prefix, func(keys []string) error {
		c.looked.Add(survey.Page)
		return visit(keys)
	})
}

// inner is the prefix for a holdfast inside a command, empty if that finds the same one by itself.
func (s *server) inner() string {
	if s.prefix == cmp.Or(os.Getenv(envPrefixOfKeys), defaultPrefix) {
		return ""
	}
	return s.prefix
}

// title is where the locks are, on one line for people.
func (s *server) title() string {
	if len(s.nodes) > 1 {
		return fmt.Sprintf("a quorum of %d servers", len(s.nodes))
	}
	return s.address
}

// close releases everything and leaves the wait queue, as far as ctx allows.
func (s *server) close(ctx context.Context) {
	s.client.Close(ctx) //nolint:errcheck // what was held was released before, or is lost
	if s.old != nil {
		s.old.Close(ctx) //nolint:errcheck // as above
	}
	s.closeNodes() //nolint:errcheck // the process ends
}

// closeNodes closes the connections.
func (s *server) closeNodes() error {
	if s.quorum != nil {
		s.quorum.Close()
	}
	var errs []error
	for _, n := range s.nodes {
		errs = append(errs, n.rdb.Close())
	}
	return errors.Join(errs...)
}

const urlHint = "write redis://HOST:PORT/DB, rediss://HOST:PORT for TLS, unix://PATH, " +
	"redis+sentinel://HOST:PORT,HOST:PORT/NAME or redis+cluster://HOST:PORT,HOST:PORT; for a quorum, write "

// eachServer is how several servers are written in a flag or a variable.
func eachServer(source string) string {
	if source == "--redis" {
		return "--redis once for each server"
	}
	return "all URLs into " + source + ", with spaces between them"
}

// locate reads the servers' addresses and passwords from flags, environment and files.
func (a *app) locate(lookup func(string) (string, bool)) (*server, error) {
	texts, source := a.server.urls, "--redis"
	// The environment sets flags, too, but other users cannot read it.
	onCommandLine := a.server.onCommandLine(lookup)
	if len(texts) == 0 {
		text, _ := lookup("REDIS_URL")
		if texts, source = strings.Fields(text), "REDIS_URL"; len(texts) == 0 && text != "" {
			return nil, exit.Usage("REDIS_URL is set, but names no server", urlHint+eachServer(source))
		}
	} else if !onCommandLine {
		source = "HOLDFAST_REDIS"
	}
	s := &server{prefix: a.server.prefix, byHand: len(texts) > 0}
	if len(texts) == 0 {
		texts = commandline.URLs{defaultURL}
	}
	if len(texts)%2 == 0 {
		return nil, exit.Usage(
			fmt.Sprintf("%s names %d servers: a quorum has 3, 5 or another odd number", source, len(texts)),
			"name one server more or fewer: an even number adds no safety")
	}
	var addresses, public []string
	for _, text := range texts {
		t, err := a.target(text, source, onCommandLine, lookup)
		if err != nil {
			return nil, err
		}
		if len(texts) > 1 && t.topology != oneServer {
			return nil, exit.Usage(source+": the servers of a quorum are independent primaries, not "+t.parts.scheme,
				"write redis://HOST:PORT for each of them")
		}
		s.targets = append(s.targets, t)
		addresses, public = append(addresses, t.address()), append(public, t.parts.withoutPassword())
	}
	s.address = strings.Join(addresses, " ")
	if source != "REDIS_URL" {
		s.public = strings.Join(public, " ")
	}
	return s, nil
}

// target reads one URL and its password.
func (a *app) target(text, source string, onCommandLine bool, lookup func(string) (string, bool)) (*target, error) {
	t, err := parseTarget(text)
	if err != nil {
		return nil, exit.Usage(fmt.Sprintf("%s: %v", source, err), urlHint+eachServer(source))
	}
	if t.options.Password != "" && onCommandLine {
		a.say.Warnf("put the URL into HOLDFAST_REDIS, or the password into a file for --password-file",
			"every user of this machine can read the password in %s while holdfast runs", source)
	}
	if err := a.password(t.options, lookup); err != nil {
		return nil, err
	}
	return t, t.trust(&a.server)
}

// onCommandLine says whether the flag was written, and not set by the environment.
func (s *serverFlags) onCommandLine(lookup func(string) (string, bool)) bool {
	value, _ := lookup(cli.EnvName("redis"))
	return s.urlFlag.Changed && strings.Join(strings.Fields(value), " ") != s.urls.String()
}

// password sets the password if the URL has none. The user named a password file
// explicitly, so that wins over the URL.
func (a *app) password(options *redis.Options, lookup func(string) (string, bool)) error {
	if a.server.passwordFile == "" && options.Password != "" {
		return nil
	}
	var err error
	options.Password, err = secret("--password-file", a.server.passwordFile, "HOLDFAST_PASSWORD", lookup)
	if err == nil && a.server.passwordFile != "" {
		options.CredentialsProviderContext = loginOf(options.Username, a.server.passwordFile, options.Password)
	}
	return err
}

// sentinel is the login at the Sentinels.
func (a *app) sentinel(lookup func(string) (string, bool)) (*redis.Options, error) {
	file, user := a.server.sentinelFile, a.server.sentinelUser
	password, err := secret("--sentinel-password-file", file, "HOLDFAST_SENTINEL_PASSWORD", lookup)
	if file != "" {
		return &redis.Options{Username: user, CredentialsProviderContext: loginOf(user, file, password)}, err
	}
	return &redis.Options{Username: user, Password: password}, err
}

// secret reads a password from the file of a flag, or else from the environment.
func secret(flag, file, variable string, lookup func(string) (string, bool)) (string, error) {
	if file == "" {
		password, _ := lookup(variable)
		return password, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", exit.Usage(fmt.Sprintf("%s: %v", flag, err), "name a file that holds the secret and nothing else")
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}
