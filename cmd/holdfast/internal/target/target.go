package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
)

// topology says what is behind a URL.
type topology int

const (
	oneServer topology = iota // or a Cluster, if the server says so
	BySentinel
	InCluster
)

// Target is one value of --redis.
type Target struct {
	parts    urlParts
	Topology topology
	primary  string         // the name that Sentinels have for the primary
	Options  *redis.Options // of one server; a template for the others
}

// urlParts is a URL with several hosts, which net/url does not take.
type urlParts struct {
	scheme, user, hosts, path, query string
}

func splitURL(text string) urlParts {
	if !strings.Contains(text, "://") {
		text = "redis://" + text
	}
	var p urlParts
	p.scheme, text, _ = strings.Cut(text, "://")
	end := strings.IndexAny(text, "/?#")
	if end < 0 {
		end = len(text)
	}
	p.hosts, p.path = text[:end], text[end:]
	if at := strings.LastIndexByte(p.hosts, '@'); at >= 0 {
		p.user, p.hosts = p.hosts[:at], p.hosts[at+1:]
	}
	p.path, p.query, _ = strings.Cut(p.path, "?")
	switch p.scheme {
	case "valkey":
		p.scheme = "redis"
	case "valkeys":
		p.scheme = "rediss"
	}
	return p
}

func (p urlParts) String() string {
	text := p.scheme + "://"
	if p.user != "" {
		text += p.user + "@"
	}
	text += p.hosts + p.path
	if p.query != "" {
		text += "?" + p.query
	}
	return text
}

// withoutPassword is the URL as everybody may see it.
func (p urlParts) withoutPassword() string {
	p.user, _, _ = strings.Cut(p.user, ":")
	return p.String()
}

// checkURL refuses a URL that net/url would take for another one than its writer meant. For example, in
// redis://default:8/secret@host the password is 8/secret, and net/url sees the host default, the port 8 and the
// database secret@host.
func checkURL(text string) error {
	_, rest, found := strings.Cut(text, "://")
	if !found {
		rest = text
	}
	hosts, behind := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		hosts, behind = rest[:end], rest[end:]
	}
	socket := strings.HasPrefix(text, "unix:")
	user, hasUser := "", false
	if at := strings.LastIndexByte(hosts, '@'); at >= 0 {
		user, hasUser = hosts[:at], true
	}
	_, err := url.PathUnescape(user)
	switch {
	case (!socket || hasUser) && strings.Contains(behind, "@"), socket && hosts != "" && !hasUser, err != nil,
		strings.Contains(user, "@"):
		return errors.New("a user name or a password in a URL must be percent-encoded " +
			"(/ is %2F, ? is %3F, # is %23, % is %25, @ is %40); or put the password into HOLDFAST_PASSWORD")
	}
	return nil
}

// Parse reads a URL, or a bare HOST:PORT. Its errors repeat nothing that could not be parsed: that may be
// a part of a password.
func Parse(text string) (*Target, error) {
	if err := checkURL(text); err != nil {
		return nil, err
	}
	t := &Target{parts: splitURL(text)}
	single := t.parts
	scheme, form, _ := strings.Cut(t.parts.scheme, "+")
	switch form {
	case "":
		if strings.Contains(single.hosts, ",") {
			return nil, errors.New("several hosts need the form redis+cluster:// or redis+sentinel://")
		}
	case "sentinel":
		t.Topology = BySentinel
		t.primary, single.path, _ = strings.Cut(strings.TrimPrefix(single.path, "/"), "/")
		if t.primary == "" {
			return nil, errors.New("the primary's name is missing, as in redis+sentinel://HOST:26379/NAME")
		}
		if single.path != "" {
			single.path = "/" + single.path // the database
		}
	case "cluster":
		t.Topology = InCluster
	default:
		return nil, errNoScheme
	}
	for host := range strings.SplitSeq(t.parts.hosts, ",") {
		// The client library would take localhost, where each machine has locks of its own.
		if (host == "" || host[0] == ':' || strings.HasSuffix(host, ":")) && scheme != "unix" {
			return nil, errors.New("the URL names no host, or no port after the colon: a variable in it may be empty")
		}
	}
	single.scheme = scheme
	single.hosts, _, _ = strings.Cut(single.hosts, ",")
	options, err := parseOptions(single)
	if err != nil {
		return nil, err
	}
	options.DialTimeout = 3 * time.Second
	options.DialerRetries = 1
	// It would look up the host's addresses, and ask for notifications that only a
	// managed service sends.
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	t.Options = options
	for _, addr := range t.addrs() {
		_, port, err := net.SplitHostPort(addr)
		if _, bad := strconv.ParseUint(port, 10, 16); err == nil && bad != nil && options.Network != "unix" {
			return nil, errors.New("the port is not a number up to 65535")
		}
	}
	return t, nil
}

var errNoScheme = errors.New("the URL has not one of the schemes that are supported")

// parseOptions reads the URL of one server. go-redis' own errors quote what they do not understand.
func parseOptions(u urlParts) (*redis.Options, error) {
	query := u.query
	u.query = ""
	plain := u.String()
	if _, err := redis.ParseURL(plain); err != nil {
		switch parsed, bad := url.Parse(plain); {
		case bad != nil:
			return nil, errors.New("not a valid URL")
		case !slices.Contains([]string{"redis", "rediss", "unix"}, parsed.Scheme):
			return nil, errNoScheme
		case parsed.Scheme != "unix" && strings.Trim(parsed.Path, "/") != "":
			return nil, errors.New("the path of the URL is not the number of a database, as in redis://HOST:PORT/0")
		}
		return nil, errors.New("not a valid URL")
	}
	parameters, err := url.ParseQuery(query)
	if err != nil {
		return nil, errors.New("the parameters of the URL cannot be read: they are NAME=VALUE, with & between them")
	}
	for name, values := range parameters {
		one, err := redis.ParseURL(plain + "?" + url.Values{name: values}.Encode())
		switch {
		case err != nil && !isParameter(name):
			return nil, errors.New("a parameter of the URL has a name that cannot be one")
		case err != nil && strings.Contains(err.Error(), "unexpected option"):
			return nil, fmt.Errorf("the URL has the parameter %s, which holdfast does not know", name)
		case err != nil:
			return nil, fmt.Errorf("the parameter %s of the URL has a value that cannot be used", name)
		case one.TLSConfig != nil && one.TLSConfig.InsecureSkipVerify:
			return nil, errors.New("skip_verify in the URL would accept any server's certificate: " +
				"name the certificate of the authority by --cacert")
		}
	}
	if u.query = query; query == "" {
		return redis.ParseURL(plain)
	}
	options, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, errors.New("the parameters of the URL cannot be used together")
	}
	return options, nil
}

// isParameter reports whether a text looks like the name of a parameter, and not like a secret.
func isParameter(name string) bool {
	return len(name) <= 40 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-") == ""
}

// addrs are the hosts of the URL, each with a port.
func (t *Target) addrs() []string {
	if t.Topology == oneServer {
		return []string{t.Options.Addr}
	}
	port := "6379"
	if t.Topology == BySentinel {
		port = "26379"
	}
	hosts := strings.Split(t.parts.hosts, ",")
	for i, host := range hosts {
		if !strings.Contains(host, ":") || strings.HasSuffix(host, "]") {
			hosts[i] = host + ":" + port
		}
	}
	return hosts
}

// Address is the URL without what is secret and without what says nothing.
func (t *Target) Address() string {
	o := t.Options
	if o.Network == "unix" {
		return "unix://" + o.Addr
	}
	text := t.parts.scheme + "://" + strings.Join(t.addrs(), ",")
	if t.Topology == BySentinel {
		text += "/" + t.primary
	}
	if o.DB != 0 {
		text += fmt.Sprintf("/%d", o.DB)
	}
	return text
}

// trust sets the certificates that --cacert, --cert and --key name.
func (t *Target) trust(s *Flags) error {
	if s.caFile == "" && s.certFile == "" && s.keyFile == "" {
		return nil
	}
	if t.Options.TLSConfig == nil {
		return exit.Usage("--cacert, --cert and --key are for TLS, and "+t.Address()+" does not use TLS",
			"write rediss:// in place of redis://")
	}
	if (s.certFile == "") != (s.keyFile == "") {
		return exit.Usage("--cert and --key go together, and one is missing", "name both files, in PEM form")
	}
	var err error
	if t.Options.TLSConfig, err = s.readTrust(t.Options.TLSConfig); err == nil {
		t.Options.Dialer = s.dialer(t.Options)
	}
	return err
}

// probeTimeout bounds the question whether a server belongs to a Cluster. If it gets no
// answer, the tool goes on as for one server: a call that waits for a lock also waits for
// the server.
const probeTimeout = time.Second

// client makes the client of the target.
func (t *Target) client(ctx context.Context, sentinel *redis.Options) redis.UniversalClient {
	o := t.Options
	switch t.Topology {
	case BySentinel:
		rdb := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: t.primary, SentinelAddrs: t.addrs(),
			SentinelUsername: sentinel.Username, SentinelPassword: sentinel.Password,
			Username: o.Username, Password: o.Password, DB: o.DB, TLSConfig: o.TLSConfig, Dialer: o.Dialer,
			CredentialsProviderContext: o.CredentialsProviderContext,
			DialTimeout:                o.DialTimeout, DialerRetries: o.DialerRetries, OnConnect: logInto(sentinel),
		})
		rdb.Options().OnConnect = setName // the options above are those of the connections to Sentinels, too
		return rdb
	case InCluster:
		return t.clusterClient()
	case oneServer:
	}
	var clustered atomic.Bool
	options := *o
	options.OnConnect = func(ctx context.Context, conn *redis.Conn) error {
		pipe := conn.Pipeline()
		pipe.ClientSetName(ctx, clientName) // as in setName, it may fail
		hello := pipe.Do(ctx, "HELLO")
		_, _ = pipe.Exec(ctx)
		if answer, err := hello.Result(); err == nil && modeOf(answer) == "cluster" {
			clustered.Store(true)
		}
		return nil
	}
	rdb := redis.NewClient(&options)
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	_ = rdb.Ping(ctx).Err() // whatever it says: the connection has told
	if !clustered.Load() {
		return rdb
	}
	rdb.Close() //nolint:errcheck // it was used for the question only
	return t.clusterClient()
}

// modeOf is what a server's answer to HELLO says of its mode. In the protocol RESP2, the
// answer is a list of names and values.
func modeOf(hello any) any {
	switch words := hello.(type) {
	case map[any]any:
		return words["mode"]
	case []any:
		for i := 1; i < len(words); i += 2 {
			if words[i-1] == "mode" {
				return words[i]
			}
		}
	}
	return nil
}

// askSentinel asks one Sentinel for the host and the port of the primary.
func (t *Target) askSentinel(ctx context.Context, addr string, login *redis.Options) ([]string, error) {
	s := redis.NewSentinelClient(&redis.Options{
		Addr: addr, Username: login.Username, Password: login.Password,
		CredentialsProviderContext: login.CredentialsProviderContext,
		TLSConfig:                  t.Options.TLSConfig, Dialer: t.Options.Dialer,
		DialTimeout: probeTimeout, ReadTimeout: probeTimeout, MaxRetries: -1, DialerRetries: 1,
		MaintNotificationsConfig: t.Options.MaintNotificationsConfig,
	})
	defer s.Close() //nolint:errcheck // it was used for one question
	return s.GetMasterAddrByName(ctx, t.primary).Result()
}

// findPrimary asks the Sentinels for the primary, and says why if none of them names one.
func (t *Target) findPrimary(login *redis.Options) (primary string, why error) {
	refused, asked := "", strings.Join(t.addrs(), ", ")
	for _, addr := range t.addrs() {
		found, err := t.askSentinel(context.Background(), addr, login)
		switch {
		case err == nil && len(found) == 2:
			return net.JoinHostPort(found[0], found[1]), nil
		case err == nil:
			return "the primary", nil
		case errors.Is(err, redis.Nil):
			unknown := fmt.Errorf("the Sentinels know no primary named %s", say.OneLine(t.primary))
			return "", exit.With(exit.CodeUnreachable, unknown,
				"SENTINEL MASTERS on a Sentinel lists the names")
		case strings.Contains(err.Error(), "unknown command"):
			return "", exit.With(exit.CodeUnreachable,
				fmt.Errorf("no Sentinel at %s: a Redis server answers there", addr),
				"name the Sentinels, usually at port 26379, or write redis://HOST:PORT for one server")
		case redis.HasErrorPrefix(err, "NOAUTH"), redis.HasErrorPrefix(err, "WRONGPASS"):
			user := cmp.Or(login.Username, "default")
			return "", exit.With(exit.CodeRefused,
				fmt.Errorf("the Sentinel at %s refuses the login (user %s)", addr, user),
				"set --sentinel-user, and HOLDFAST_SENTINEL_PASSWORD or --sentinel-password-file")
		}
		refused = Cause(err)
	}
	return "", exit.With(exit.CodeUnreachable, fmt.Errorf("no Sentinel answers at %s: %s", asked, refused),
		"check that the Sentinels run at these addresses and that this machine can reach them")
}

// Single is the client of a server that belongs to a quorum.
func (t *Target) Single() redis.UniversalClient {
	options := *t.Options
	options.OnConnect = setName
	return redis.NewClient(&options)
}

func (t *Target) clusterClient() redis.UniversalClient {
	o := t.Options
	return redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: t.addrs(), Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig, Dialer: o.Dialer,
		CredentialsProviderContext: o.CredentialsProviderContext,
		DialTimeout:                o.DialTimeout, DialerRetries: o.DialerRetries, OnConnect: setName,
		MaintNotificationsConfig: o.MaintNotificationsConfig,
		// A Cluster of Valkey 9 has databases (cluster-databases), which go-redis has no option for. Others refuse.
		NewClient: func(node *redis.Options) *redis.Client {
			node.DB = o.DB
			return redis.NewClient(node)
		},
	})
}

// logInto logs a connection to a Sentinel in, if the password is in a file: go-redis has one password for all
// connections to Sentinels.
func logInto(sentinel *redis.Options) func(context.Context, *redis.Conn) error {
	if sentinel.CredentialsProviderContext == nil {
		return setName
	}
	return func(ctx context.Context, conn *redis.Conn) error {
		user, password, err := sentinel.CredentialsProviderContext(ctx)
		if err == nil && password != "" {
			err = conn.AuthACL(ctx, cmp.Or(user, "default"), password).Err()
		}
		if err != nil {
			return err
		}
		return setName(ctx, conn)
	}
}

// clientName is for operators who read CLIENT LIST.
const clientName = "holdfast"

// setName names a connection. The option ClientName would fail if the user may not set it;
// this does not.
func setName(ctx context.Context, conn *redis.Conn) error {
	_ = conn.ClientSetName(ctx, clientName).Err()
	return nil
}
