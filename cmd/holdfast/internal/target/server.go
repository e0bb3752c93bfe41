// Package target says where the locks are: it reads the flags and variables that name servers, passwords and
// certificates, makes the client, and explains the errors of a server in the words of the tool.
package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
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
	DefaultPrefix = "holdfast"
)

// Flags say where the servers are.
type Flags struct {
	URLs                      commandline.URLs
	urlFlag                   *pflag.Flag
	passwordFile              string
	sentinelUser              string
	sentinelFile              string
	caFile, certFile, keyFile string
	Prefix                    string
	maxTTL                    commandline.Span
	all                       *pflag.FlagSet // all of them
	files                     []string       // which of them name files
}

// Add adds the flags to a command.
func (s *Flags) Add(flags *pflag.FlagSet) {
	s.maxTTL = commandline.Span(time.Minute)
	parent := flags
	flags = pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.VarP(&s.URLs, "redis", "u", "the server; write it 3 or 5 times for a quorum (default: HOLDFAST_REDIS, "+
		"REDIS_URL, "+defaultURL+")")
	flags.StringVar(&s.passwordFile, "password-file", "",
		"file with the server's password (default: HOLDFAST_PASSWORD)")
	flags.StringVar(&s.sentinelUser, "sentinel-user", "", "user of the Sentinels")
	flags.StringVar(&s.sentinelFile, "sentinel-password-file", "",
		"file with the Sentinels' password (default: HOLDFAST_SENTINEL_PASSWORD)")
	flags.StringVar(&s.caFile, "cacert", "", "certificates that sign the server's (default: the system's)")
	flags.StringVar(&s.certFile, "cert", "", "client certificate for the server")
	flags.StringVar(&s.keyFile, "key", "", "key of the client certificate")
	flags.StringVar(&s.Prefix, "prefix", DefaultPrefix, "prefix of every key on the server")
	flags.Var(&s.maxTTL, "quorum-max-ttl", "longest TTL on a quorum; the same for all of its clients")
	names := map[string]string{"sentinel-user": "USER", "prefix": "TEXT"}
	s.files = []string{"password-file", "sentinel-password-file", "cacert", "cert", "key"}
	for _, name := range s.files {
		names[name] = "FILE"
	}
	cli.Rename(flags, names)
	s.urlFlag = flags.Lookup("redis")
	s.all = flags
	parent.AddFlagSet(flags)
}

// inside are the variables with which a holdfast inside a command finds the same servers, and can log in
// there. The URLs and the prefix are not among them. A password is in a file, and only the file is named: by its
// whole path, because the command may change its directory.
func (s *Flags) inside() (variables []string) {
	s.all.VisitAll(func(f *pflag.Flag) {
		if !f.Changed || f.Name == "redis" || f.Name == "prefix" {
			return
		}
		value := f.Value.String()
		if slices.Contains(s.files, f.Name) {
			if path, err := filepath.Abs(value); err == nil {
				value = path
			}
		}
		variables = append(variables, cli.EnvName(f.Name)+"="+value)
	})
	return variables
}

// Server is where the locks are: one server, what Sentinels or a Cluster name, or a quorum.
type Server struct {
	Client  *holdfast.Client
	Old     *holdfast.Client // of another library's form, beside client; nil: there is no bridge
	oldName string           // of the lock there; empty: the same as here
	ByName  bool             // client has the locks of another library, whose keys are their names
	Nodes   []Node           // more than one in a quorum
	Quorum  *quorum.Store
	Store   store.Store // what the client has, for the scripts that no lease of this process sends
	Targets []*Target
	// sentinel is the login at the Sentinels.
	sentinel *redis.Options
	Address  string       // without user and password
	Looked   atomic.Int64 // how many keys the servers have looked at, about
	Prefix   string
	ByHand   bool     // the user named it
	Public   string   // what a holdfast inside a command is told: the URLs without their passwords
	Inside   []string // and the variables with the rest
}

// Node is one server, one set of replicas or one Cluster.
type Node struct {
	Address string // without user and password
	Conn    redis.UniversalClient
}

// Open makes a client, unless the topology cannot carry out one of the words. It does no I/O
// but reading the password, and the question to one server whether it belongs to a Cluster.
func (a *App) Open(cfg holdfast.Config, words ...string) (*Server, error) {
	return a.OpenOn(&WireFlags{}, cfg, words...)
}

// OpenOn is open for a lock in the form of another library, or in both forms.
func (a *App) OpenOn(f *WireFlags, cfg holdfast.Config, words ...string) (*Server, error) {
	s, err := a.Locate(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	if err := s.onQuorum(words...); err != nil {
		return nil, err
	}
	if s.sentinel, err = a.sentinel(os.LookupEnv); err != nil {
		return nil, err
	}
	if maxTTL := time.Duration(a.Server.maxTTL); len(s.Targets) > 1 && cfg.TTL > maxTTL {
		return nil, exit.Usage(
			fmt.Sprintf("--ttl %v is longer than a quorum allows (--quorum-max-ttl %v)", cfg.TTL, maxTTL),
			"write a shorter --ttl, or raise --quorum-max-ttl in every process that uses this quorum")
	}
	// The client library's messages would break the rules of output. Its errors arrive
	// as errors.
	logging.Disable()
	cfg.Prefix = a.Server.Prefix
	var stores []store.Store
	for _, t := range s.Targets {
		rdb := t.Single()
		if len(s.Targets) == 1 {
			rdb = t.client(context.Background(), s.sentinel)
		}
		s.Nodes = append(s.Nodes, Node{t.Address(), rdb})
		stores = append(stores, counter{goredis.New(rdb), &s.Looked})
	}
	s.Store = stores[0]
	if len(stores) > 1 {
		if s.Quorum, err = quorum.New(stores, quorum.Config{MaxTTL: time.Duration(a.Server.maxTTL)}); err != nil {
			return nil, errors.Join(err, s.CloseNodes())
		}
		s.Store = s.Quorum
	}
	if err := s.openWire(f, stores, cfg); err != nil {
		return nil, errors.Join(err, s.CloseNodes())
	}
	if s.Client, err = holdfast.New(s.Store, cfg); err != nil {
		return nil, errors.Join(err, s.CloseNodes())
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

// Inner is the prefix for a holdfast inside a command, empty if that finds the same one by itself.
func (s *Server) Inner() string {
	if s.Prefix == cmp.Or(os.Getenv(EnvPrefix), DefaultPrefix) {
		return ""
	}
	return s.Prefix
}

// Key is the key of a lock's record; empty if no lock can have the name.
func (s *Server) Key(name string) string {
	key, _ := holdfast.Key(s.Prefix, name)
	return key
}

// JobKey is the key of the record of the job of that name.
func (s *Server) JobKey(name string) string { return s.Key(name) + ":periodic" }

// Title is where the locks are, on one line for people.
func (s *Server) Title() string {
	if len(s.Nodes) > 1 {
		return fmt.Sprintf("a quorum of %d servers", len(s.Nodes))
	}
	return s.Address
}

// Close releases everything and leaves the wait queue, as far as ctx allows.
func (s *Server) Close(ctx context.Context) {
	s.Client.Close(ctx) //nolint:errcheck // what was held was released before, or is lost
	if s.Old != nil {
		s.Old.Close(ctx) //nolint:errcheck // as above
	}
	s.CloseNodes() //nolint:errcheck // the process ends
}

// CloseNodes closes the connections.
func (s *Server) CloseNodes() error {
	if s.Quorum != nil {
		s.Quorum.Close()
	}
	var errs []error
	for _, n := range s.Nodes {
		errs = append(errs, n.Conn.Close())
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

// Locate reads the servers' addresses and passwords from flags, environment and files.
func (a *App) Locate(lookup func(string) (string, bool)) (*Server, error) {
	texts, source := a.Server.URLs, "--redis"
	// The environment sets flags, too, but other users cannot read it.
	onCommandLine := a.Server.onCommandLine(lookup)
	if len(texts) == 0 {
		text, _ := lookup("REDIS_URL")
		if texts, source = strings.Fields(text), "REDIS_URL"; len(texts) == 0 && text != "" {
			return nil, exit.Usage("REDIS_URL is set, but names no server", urlHint+eachServer(source))
		}
	} else if !onCommandLine {
		source = "HOLDFAST_REDIS"
	}
	s := &Server{Prefix: a.Server.Prefix, ByHand: len(texts) > 0, Inside: a.Server.inside()}
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
		if len(texts) > 1 && t.Topology != oneServer {
			return nil, exit.Usage(source+": the servers of a quorum are independent primaries, not "+t.parts.scheme,
				"write redis://HOST:PORT for each of them")
		}
		s.Targets = append(s.Targets, t)
		addresses, public = append(addresses, t.Address()), append(public, t.parts.withoutPassword())
	}
	s.Address = strings.Join(addresses, " ")
	if source != "REDIS_URL" {
		s.Public = strings.Join(public, " ")
	}
	return s, nil
}

// target reads one URL and its password.
func (a *App) target(text, source string, onCommandLine bool, lookup func(string) (string, bool)) (*Target, error) {
	t, err := Parse(text)
	if err != nil {
		return nil, exit.Usage(fmt.Sprintf("%s: %v", source, err), urlHint+eachServer(source))
	}
	if t.Options.Password != "" && onCommandLine {
		a.Say.Warnf("put the URL into HOLDFAST_REDIS, or the password into a file for --password-file",
			"every user of this machine can read the password in %s while holdfast runs", source)
	}
	if err := a.password(t.Options, onCommandLine, lookup); err != nil {
		return nil, err
	}
	return t, t.trust(&a.Server)
}

// onCommandLine says whether the flag was written, and not set by the environment.
func (s *Flags) onCommandLine(lookup func(string) (string, bool)) bool {
	value, _ := lookup(cli.EnvName("redis"))
	return s.urlFlag.Changed && strings.Join(strings.Fields(value), " ") != s.URLs.String()
}

// password sets the password if the URL has none. If both are on the command line, or both in the environment,
// the password file wins over the URL. A URL on the command line wins over a file in the environment: that may be the
// file of a run around this one, for another server.
func (a *App) password(options *redis.Options, onCommandLine bool, lookup func(string) (string, bool)) error {
	inherited, _ := lookup(cli.EnvName("password-file"))
	fromAround := onCommandLine && a.Server.passwordFile == inherited
	if options.Password != "" && (a.Server.passwordFile == "" || fromAround) {
		return nil
	}
	var err error
	options.Password, err = Secret("--password-file", a.Server.passwordFile, "HOLDFAST_PASSWORD", lookup)
	if err == nil && a.Server.passwordFile != "" {
		options.CredentialsProviderContext = loginOf(options.Username, a.Server.passwordFile, options.Password)
	}
	return err
}

// sentinel is the login at the Sentinels.
func (a *App) sentinel(lookup func(string) (string, bool)) (*redis.Options, error) {
	file, user := a.Server.sentinelFile, a.Server.sentinelUser
	password, err := Secret("--sentinel-password-file", file, "HOLDFAST_SENTINEL_PASSWORD", lookup)
	if file != "" {
		return &redis.Options{Username: user, CredentialsProviderContext: loginOf(user, file, password)}, err
	}
	return &redis.Options{Username: user, Password: password}, err
}

// Secret reads a password from the file of a flag, or else from the environment.
func Secret(flag, file, variable string, lookup func(string) (string, bool)) (string, error) {
	if file == "" {
		password, _ := lookup(variable)
		return password, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return "", exit.Usage(fmt.Sprintf("%s: %v", flag, err), "name a file that holds the secret and nothing else")
	}
	secret := strings.TrimRight(string(b), "\r\n")
	if secret == "" { // without a password there is no login, and the server takes us for its default user
		return "", exit.Usage(fmt.Sprintf("%s: %s is empty", flag, file),
			"write the secret into the file, or omit "+flag)
	}
	return secret, nil
}

// EnvPrefix is the variable of --prefix.
const EnvPrefix = "HOLDFAST_PREFIX"

// NodesOfQuorum reads the servers as a quorum sees them. It returns nothing for any other
// topology, and if they cannot be read: then other checks say why.
func (s *Server) NodesOfQuorum(ctx context.Context) []quorum.NodeInfo {
	if s.Quorum == nil {
		return nil
	}
	infos, err := s.Quorum.ReadNodes(ctx, s.Prefix)
	if err != nil {
		return nil
	}
	return infos
}

// WhereIs is the address, and the server behind it that has the key now, if Sentinels or a
// Cluster name that.
func (s *Server) WhereIs(ctx context.Context, key string) string {
	if cluster, ok := s.Nodes[0].Conn.(*redis.ClusterClient); ok {
		if one, err := cluster.MasterForKey(ctx, key); err == nil {
			return s.Address + ", now at " + one.Options().Addr
		}
	}
	if t := s.Targets[0]; t.Topology == BySentinel {
		for _, addr := range t.addrs() {
			if primary, err := t.askSentinel(ctx, addr, s.sentinel); err == nil && len(primary) == 2 {
				return s.Address + ", now at " + net.JoinHostPort(primary[0], primary[1])
			}
		}
	}
	return s.Address
}

// CloseSoon closes the server within a bounded time.
func (s *Server) CloseSoon() {
	ctx, cancel := context.WithTimeout(context.Background(), CloseTimeout)
	defer cancel()
	s.Close(ctx)
}

// Conns are the connections to all nodes.
func (s *Server) Conns() (list []redis.UniversalClient) {
	for _, n := range s.Nodes {
		list = append(list, n.Conn)
	}
	return list
}

// CloseTimeout bounds the last requests to the server. If a release takes longer, the
// lease expires by itself.
const CloseTimeout = 3 * time.Second
