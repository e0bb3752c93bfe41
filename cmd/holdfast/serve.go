package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/commandline"
	"github.com/holdfast-go/holdfast/observe/page"
)

const serveLong = `serve shows the locks on a web page, live: the holders, how long they have held, what
is left of their leases, the waiters in order, and what happened in the last minutes.
It also has a JSON API and metrics for Prometheus; docs/page.md describes both. It prints
the page's address, and serves until a signal ends it.

The page changes nothing, unless you write --allow-evict. Without --listen, only this
machine can open it. To listen on another address, put a token of 16 bytes or more into a
file and name it by --token-file, or into HOLDFAST_TOKEN. A browser asks for the token; a program sends the header
"Authorization: Bearer TOKEN". serve speaks HTTP: across a network, put a proxy with TLS
in front of it. Other users of this machine can open a page without a token, too.

serve reads the locks as holdfast list does, while somebody looks at the page, and a few
seconds longer. With --keep-watching, it reads them all the time, so that the timelines
have no gaps.

Exit code: 128 + the signal's number when a signal ends it. For others, see
holdfast help exit-codes.`

// serveOptions are the flags of serve.
type serveOptions struct {
	listen, tokenFile string
	interval          commandline.Span
	allowEvict, keep  bool
}

func newServe(a *app) *cobra.Command {
	o := &serveOptions{interval: commandline.Span(time.Second)}
	cmd := &cobra.Command{
		Use:        "serve [flags]",
		SuggestFor: []string{"web", "page", "ui", "dashboard"},
		Short:      "Show the locks on a web page",
		Long:       serveLong,
		Example: `  holdfast serve                                http://127.0.0.1:8380/
  holdfast serve --allow-evict
  holdfast serve --listen :8380 --token-file /etc/holdfast/page-token`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError(fmt.Sprintf("serve takes no arguments: %q is one too many", args[0]),
					"write --listen HOST:PORT to listen elsewhere")
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", "127.0.0.1:8380", "address of the page")
	flags.StringVar(&o.tokenFile, "token-file", "", "file with the token that viewers need (default: "+envPageToken+")")
	flags.BoolVar(&o.allowEvict, "allow-evict", false, "let viewers evict holders")
	flags.Var(&o.interval, "interval", "how often to read the locks")
	flags.BoolVar(&o.keep, "keep-watching", false, "read the locks even while nobody is looking")
	rename(flags, map[string]string{"listen": "HOST:PORT", "token-file": "FILE"})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runServe(cmd.Context(), a, o, cmd.OutOrStdout()) }
	return cmd
}

func runServe(parent context.Context, a *app, o *serveOptions, w io.Writer) error {
	token, err := secret("--token-file", o.tokenFile, envPageToken, os.LookupEnv)
	if err != nil {
		return err
	}
	if err := checkListen(parent, o.listen); err != nil {
		return err
	}
	if token == "" && !thisMachine(o.listen) {
		return usageError(fmt.Sprintf("--listen %s: others can reach this address, and there is no token", o.listen),
			"put a token into a file for --token-file or into HOLDFAST_TOKEN, or listen on 127.0.0.1")
	}
	s, err := a.open(holdfast.Config{})
	if err != nil {
		return err
	}
	defer s.closeSoon()
	title := s.title()
	if s.prefix != defaultPrefix {
		title += ", prefix " + s.prefix
	}
	p, err := page.New(s.client, page.Config{
		Token: token, AllowEvict: o.allowEvict, Interval: time.Duration(o.interval), KeepWatching: o.keep,
		Title: title, Logger: slog.New(serveLog{a.say}), Nodes: s.pageNodes(),
	})
	if err != nil {
		text := strings.NewReplacer("page: ", "", "Config.Token", "the token", "Config.Interval", "--interval")
		return usageError(text.Replace(err.Error()), "holdfast serve --help lists the flags")
	}
	defer p.Close()
	return o.serve(parent, p, w)
}

// pageNodes reads the servers of a quorum for the page; nil for any other topology.
func (s *server) pageNodes() func(context.Context) []page.Node {
	if s.quorum == nil {
		return nil
	}
	return func(ctx context.Context) (list []page.Node) {
		for i, n := range s.nodesOfQuorum(ctx) {
			list = append(list, page.Node{
				Address: s.nodes[i].address, Answers: n.Answers, Counts: n.Counts, Why: n.Why, RoundTrip: n.RoundTrip,
				ClockOffset: n.ClockOffset, ClockError: n.ClockError,
			})
		}
		return list
	}
}

// serve answers requests until a signal.
func (o *serveOptions) serve(parent context.Context, p *page.Page, w io.Writer) error {
	ctx, stop := commandline.Signalled(parent)
	defer stop()
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return &exitError{codeUnreachable, fmt.Errorf("cannot listen on %s: %s", o.listen, cause(err)),
			"choose another address with --listen, as in --listen 127.0.0.1:0"}
	}
	server := &http.Server{
		Handler: p, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // what strangers send is no news
	}
	server.RegisterOnShutdown(p.Close)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	if _, err := fmt.Fprintf(w, "http://%s/\n", l.Addr()); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	soon, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if server.Shutdown(soon) != nil {
		server.Close() //nolint:errcheck // the process ends
	}
	if by, ok := errors.AsType[commandline.SignalError](context.Cause(ctx)); ok {
		return silent(codeSignal + int(by.Signal))
	}
	return nil
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
	return usageError(fmt.Sprintf("--listen %s: this is not HOST:PORT", oneLine(listen)),
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
type serveLog struct{ say *printer }

// Enabled drops debug records.
func (serveLog) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

// Handle prints a record as one line.
func (h serveLog) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString(strings.TrimPrefix(r.Message, "page: "))
	r.Attrs(func(a slog.Attr) bool {
		if err, bad := a.Value.Any().(error); bad {
			b.WriteString(": " + cause(err))
		} else if text := a.Value.String(); text != "<nil>" {
			fmt.Fprintf(&b, ", %s %s", a.Key, plain(errors.New(text)))
		}
		return true
	})
	if r.Level >= slog.LevelWarn {
		h.say.warnf("", "%s", b.String())
		return nil
	}
	h.say.noticef("%s", b.String())
	return nil
}

// WithAttrs is not needed: the page adds attributes to each record.
func (h serveLog) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup is not needed: the page does not group.
func (h serveLog) WithGroup(string) slog.Handler { return h }
