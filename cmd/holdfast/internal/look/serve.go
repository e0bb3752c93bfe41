package look

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/help"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/commandline"
	"github.com/holdfast-go/holdfast/observe/page"
)

const serveLong = `serve shows the locks on a web page, live: the holders, how long they have held, what
is left of their leases, the waiters in order, and what happened in the last minutes.
It also has a JSON API, metrics for Prometheus, and /healthz for monitoring, which needs no
token; docs/page.md describes them. It prints the page's address, and serves until a signal
ends it.

A viewer needs a token. Without one, serve makes one at its start, and prints an address
that has it: open that in a browser. For a token of your own, put 16 bytes or more into a
file for --token-file, or into HOLDFAST_TOKEN. A browser asks for the token; a program
sends the header "Authorization: Bearer TOKEN". With --no-token, every user of this
machine sees the locks, and so does everybody who reaches a proxy on it.

The page changes nothing, unless you write --allow-evict. Then viewers may evict holders;
with --evict-token-file or HOLDFAST_EVICT_TOKEN, only those with that token. The token of
--scrape-token-file or HOLDFAST_SCRAPE_TOKEN reads the metrics, and nothing else.

serve speaks HTTP: across a network, put a proxy with TLS in front of it. --proxy names
the addresses of proxies, and from them serve believes X-Forwarded-For and
X-Forwarded-Proto. If the proxy authenticates users, name the header in which it says who
the user is, as in --user-header X-Forwarded-User: evictions are in that name. The proxy
must remove the header from what viewers send.

serve reads the locks as holdfast list does, while somebody looks at the page, and a few
seconds longer. With --keep-watching, it reads them all the time, so that the timelines
have no gaps.

Exit code: 128 + the signal's number when a signal ends it. For others, see
holdfast help exit-codes.`

// serveOptions are the flags of serve.
type serveOptions struct {
	listen, tokenFile, scrapeFile, evictFile string
	interval                                 commandline.Span
	noToken, allowEvict, keep                bool
	proxies                                  proxiesFlag
	userHeader                               string
}

// NewServe makes holdfast serve.
func NewServe(a *target.App) *cobra.Command {
	o := &serveOptions{interval: commandline.Span(time.Second)}
	cmd := &cobra.Command{
		Use:        "serve [flags]",
		SuggestFor: []string{"web", "page", "ui", "dashboard"},
		Short:      "Show the locks on a web page",
		Long:       serveLong,
		Example: `  holdfast serve                                prints the page's address
  holdfast serve --allow-evict
  holdfast serve --listen :8380 --token-file /etc/holdfast/page-token`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usage(fmt.Sprintf("serve takes no arguments: %q is one too many", args[0]),
					"write --listen HOST:PORT to listen elsewhere")
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8380", "address of the page")
	flags.StringVar(&o.tokenFile, "token-file", "",
		"file with the token that viewers need (default: "+cli.EnvPageToken+")")
	flags.StringVar(&o.scrapeFile, "scrape-token-file", "",
		"file with a token for the metrics only (default: "+cli.EnvScrapeToken+")")
	flags.StringVar(&o.evictFile, "evict-token-file", "",
		"file with the token that an eviction needs (default: "+cli.EnvEvictToken+", or the token of viewers)")
	flags.BoolVar(&o.noToken, "no-token", false, "show the locks to every user of this machine")
	flags.Var(&o.proxies, "proxy",
		"addresses or networks of proxies, whose X-Forwarded headers are believed (default: this machine)")
	flags.StringVar(&o.userHeader, "user-header", "", "header in which a proxy says who the user is, for evictions")
	flags.BoolVar(&o.allowEvict, "allow-evict", false, "let viewers evict holders")
	flags.Var(&o.interval, "interval", "how often to read the locks")
	flags.BoolVar(&o.keep, "keep-watching", false, "read the locks even while nobody is looking")
	cli.Rename(flags, map[string]string{
		"listen": "HOST:PORT", "token-file": "FILE", "scrape-token-file": "FILE", "evict-token-file": "FILE",
		"user-header": "NAME",
	})
	help.Brief(cmd, "listen", "token-file", "no-token", "allow-evict", "evict-token-file", "proxy", "user-header",
		"interval", "keep-watching", "redis")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runServe(cmd.Context(), a, o, cmd.OutOrStdout()) }
	return cmd
}

func runServe(parent context.Context, a *target.App, o *serveOptions, w io.Writer) error {
	cfg, link, err := o.access()
	if err != nil {
		return err
	}
	if err := checkListen(parent, o.listen); err != nil {
		return err
	}
	if !thisMachine(o.listen) {
		if o.noToken {
			return exit.Usage(fmt.Sprintf(
				"--listen %s: others can reach this address, and --no-token is for this machine", o.listen),
				"leave --no-token out, or listen on 127.0.0.1")
		}
		a.Say.Warnf("put a proxy with TLS in front of it, and listen on 127.0.0.1",
			"--listen %s: the page speaks HTTP without TLS, so others can read the locks and the tokens on the network",
			o.listen)
	}
	s, err := a.Open(holdfast.Config{})
	if err != nil {
		return err
	}
	defer s.CloseSoon()
	cfg.Title = s.Title()
	if s.Prefix != target.DefaultPrefix {
		cfg.Title += ", prefix " + s.Prefix
	}
	cfg.AllowEvict, cfg.Interval, cfg.KeepWatching = o.allowEvict, time.Duration(o.interval), o.keep
	cfg.Logger, cfg.Nodes = slog.New(serveLog{a.Say}), pageNodes(s)
	p, err := page.New(s.Client, cfg)
	if err != nil {
		text := strings.NewReplacer("page: ", "", "Config.ScrapeToken", "the token for the metrics",
			"Config.EvictToken is set, and Config.AllowEvict is not",
			"there is a token for evictions, and no --allow-evict",
			"Config.EvictToken", "the token for evictions", "Config.Token", "the token",
			"a token or Authorize", "a token",
			"Config.Interval", "--interval", "Config.NoToken", "--no-token", "Config.AllowEvict", "--allow-evict")
		return exit.Usage(text.Replace(err.Error()), "holdfast serve --help lists the flags")
	}
	defer p.Close()
	return o.serve(parent, p, link, w)
}

// access says who may see the page. link is the path of the address that is printed: if nobody has set a token,
// with one that is made here.
func (o *serveOptions) access() (cfg page.Config, link string, err error) {
	var errs [3]error
	cfg.NoToken = o.noToken
	cfg.Token, errs[0] = target.Secret("--token-file", o.tokenFile, cli.EnvPageToken, os.LookupEnv)
	cfg.ScrapeToken, errs[1] = target.Secret("--scrape-token-file", o.scrapeFile, cli.EnvScrapeToken, os.LookupEnv)
	cfg.EvictToken, errs[2] = target.Secret("--evict-token-file", o.evictFile, cli.EnvEvictToken, os.LookupEnv)
	if err := errors.Join(errs[:]...); err != nil {
		return cfg, "", err
	}
	if cfg.Proxies = o.proxies; cfg.Proxies == nil {
		cfg.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	if o.userHeader != "" {
		cfg.Who = o.viewer(cfg.Proxies)
	}
	if cfg.Token == "" && !cfg.NoToken {
		cfg.Token = rand.Text()
		return cfg, "login?token=" + cfg.Token, nil
	}
	return cfg, "", nil
}

// proxiesFlag is the value of --proxy: addresses or networks, with commas between them.
type proxiesFlag []netip.Prefix

func (f *proxiesFlag) String() string {
	texts := make([]string, len(*f))
	for i, network := range *f {
		texts[i] = network.String()
	}
	return strings.Join(texts, ",")
}

// Type is what the help calls the value.
func (f *proxiesFlag) Type() string { return "ADDRESS" }

// Set adds to the value.
func (f *proxiesFlag) Set(list string) error {
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		network, err := netip.ParsePrefix(text)
		if one, alone := netip.ParseAddr(text); alone == nil {
			network, err = one.Prefix(one.BitLen())
		}
		if err != nil {
			return fmt.Errorf("%q is no address: write one as in 10.0.0.5, or a network as in 10.0.0.0/8", text)
		}
		*f = append(*f, network)
	}
	return nil
}

// viewer is the user whom a proxy names. A header that somebody else sent, or that came twice, names nobody.
func (o *serveOptions) viewer(proxies []netip.Prefix) func(*http.Request) string {
	return func(r *http.Request) string {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		named := r.Header.Values(o.userHeader)
		if err != nil || len(named) != 1 || !slices.ContainsFunc(proxies, func(p netip.Prefix) bool {
			return p.Contains(from.Addr().Unmap())
		}) {
			return ""
		}
		return named[0]
	}
}

// pageNodes reads the servers of a quorum for the page; nil for any other topology.
func pageNodes(s *target.Server) func(context.Context) []page.Node {
	if s.Quorum == nil {
		return nil
	}
	return func(ctx context.Context) (list []page.Node) {
		for i, n := range s.NodesOfQuorum(ctx) {
			list = append(list, page.Node{
				Address: s.Nodes[i].Address, Answers: n.Answers, Counts: n.Counts, Why: n.Why, RoundTrip: n.RoundTrip,
				ClockOffset: n.ClockOffset, ClockError: n.ClockError,
			})
		}
		return list
	}
}

// serve answers requests until a signal.
func (o *serveOptions) serve(parent context.Context, p *page.Page, link string, w io.Writer) error {
	ctx, stop := commandline.Signalled(parent)
	defer stop()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return exit.With(exit.CodeUnreachable, fmt.Errorf("cannot listen on %s: %s", o.listen, target.Cause(err)),
			"choose another address with --listen, as in --listen 127.0.0.1:0")
	}
	server := &http.Server{
		Handler: p, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		WriteTimeout: time.Minute,                                             // of what is no stream
		ErrorLog:     slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // no lines about bad requests
	}
	server.RegisterOnShutdown(p.Close)
	ended := make(chan error, 1)
	go func() {
		ended <- server.Serve(&fewConnections{Listener: l, free: make(chan struct{}, mostConnections)})
	}()
	if _, err := fmt.Fprintf(w, "http://%s/%s\n", l.Addr(), link); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	soon, cancel := context.WithTimeout(context.Background(), target.CloseTimeout)
	defer cancel()
	if server.Shutdown(soon) != nil {
		server.Close() //nolint:errcheck // the process ends
	}
	return exit.Signalled(ctx)
}

// mostConnections is how many connections the page has at once. Each takes some memory, and a token may have to wait
// for those of all others: for less than the WriteTimeout.
const mostConnections = 2048

// fewConnections is a listener that closes what is too much. It does not make others wait: who opens
// connections and says nothing would keep everybody out.
type fewConnections struct {
	net.Listener
	free chan struct{}
}

func (l *fewConnections) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.free <- struct{}{}:
			return &countedConnection{Conn: c, end: sync.OnceFunc(func() { <-l.free })}, nil
		default:
			c.Close() //nolint:errcheck // nothing was sent over it
		}
	}
}

type countedConnection struct {
	net.Conn
	end func()
}

func (c *countedConnection) Close() error {
	defer c.end()
	return c.Conn.Close()
}

// checkListen refuses what is not an address to listen on.
func checkListen(ctx context.Context, listen string) error {
	_, port, err := net.SplitHostPort(listen)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(ctx, "tcp", port)
	}
	if err == nil {
		return nil
	}
	return exit.Usage(fmt.Sprintf("--listen %s: this is not HOST:PORT", say.OneLine(listen)),
		"write HOST:PORT with a port up to 65535, as in --listen 127.0.0.1:8380")
}

// thisMachine reports whether only this machine can reach an address.
func thisMachine(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false // checkListen has said why
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// serveLog prints the page's log: evictions, wrong tokens, and reads that begin to fail.
type serveLog struct{ say *say.Printer }

// Enabled drops debug records.
func (serveLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle prints a record as one line.
func (h serveLog) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(strings.TrimPrefix(r.Message, "page: "))
	r.Attrs(func(a slog.Attr) bool {
		if err, bad := a.Value.Any().(error); bad {
			b.WriteString(": " + target.Cause(err))
		} else if text := a.Value.String(); text != "<nil>" {
			fmt.Fprintf(&b, ", %s %s", a.Key, say.Plain(errors.New(text)))
		}
		return true
	})
	if r.Level >= slog.LevelWarn {
		h.say.Warnf("", "%s", b.String())
		return nil
	}
	h.say.Noticef("%s", b.String())
	return nil
}

// WithAttrs is not needed: the page adds attributes to each record.
func (h serveLog) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup is not needed: the page does not group.
func (h serveLog) WithGroup(string) slog.Handler { return h }
