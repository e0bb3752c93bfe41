// Package page shows the locks of a client on a web page: which client holds each lock,
// since when, and which clients wait. The page is live, and has a JSON API and metrics. The
// command holdfast serve is this package with a listener.
//
// A [Page] is an [http.Handler] for a path of a server of yours:
//
//	p, err := page.New(client, page.Config{Token: token})
//	…
//	mux.Handle("/locks/", http.StripPrefix("/locks", p))
//
// While at least one viewer has the page open, the page reads the locks by [holdfast.Client.List] at an
// interval. All viewers share these reads. docs/page.md describes the page and its API.
package page

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-go/holdfast"
)

// Config has the settings of a page. It says who may see the locks: by Token, by Authorize, or by NoToken.
type Config struct {
	// Token is what a viewer must show: in the form of the page, or in the header
	// "Authorization: Bearer TOKEN". It has 16 bytes or more. A session in a browser ends after 12 hours.
	Token string

	// ScrapeToken, if it is set, reads the metrics and nothing else. EvictToken, if it is set, is needed
	// to evict, and may all that Token may. Each has 16 bytes or more.
	ScrapeToken, EvictToken string

	// NoToken makes the page answer without a token: only requests that come from this machine, and whose
	// Host is localhost or a loopback address. A proxy on this machine makes such requests for everybody
	// who reaches it. So a page without a token evicts nothing.
	NoToken bool

	// Authorize, if it is set, decides in place of tokens whether to answer a request. Use it
	// in a server that knows its users already. The page then checks neither the address of
	// the viewer nor the Host.
	Authorize func(*http.Request) bool

	// Who, if it is set, names the viewer of a request: the user whom a proxy or your server has
	// authenticated. Evictions are then in this name, whatever the viewer types. Nobody evicts without a name.
	Who func(*http.Request) string

	// Proxies are the addresses of proxies in front of the page. From them, and from nobody else, it believes
	// X-Forwarded-For (for limits and the log) and X-Forwarded-Proto (for cookies). Default: none.
	Proxies []netip.Prefix

	// AllowEvict lets viewers evict holders. Without it, the page changes nothing.
	AllowEvict bool

	// Interval is the pause between two reads of the locks. Default: one second. If a read
	// takes long, the pause is longer: the page reads for at most a fifth of the time.
	Interval time.Duration

	// KeepWatching makes the page read the locks also while nobody looks. Otherwise it pauses
	// ten seconds after the last viewer has left, and the timelines have a gap.
	KeepWatching bool

	// Nodes, if it is set, returns the servers of a quorum, which the page then shows. The page
	// calls it after each read of the locks, and once at a time. Its context ends after ten
	// seconds, and when the page closes.
	Nodes func(context.Context) []Node

	// Title says which locks these are, for people, such as the address of the server.
	Title string

	// Logger receives evictions, refused tokens, and reads that begin to fail. Default: none.
	Logger *slog.Logger
}

const (
	minToken    = 16
	minInterval = 50 * time.Millisecond
	idleAfter   = 10 * time.Second
)

// Page is the page. It is safe for concurrent use.
type Page struct {
	cfg     Config
	client  *holdfast.Client
	watcher *watcher
	mux     *http.ServeMux
	guard   *http.CrossOriginProtection
	cookie  string // its name
	wrong   *tries
	streams streams
	ended   context.Context // ends with Close
	end     context.CancelFunc
}

//go:embed assets
var embedded embed.FS

// New returns a page that shows the locks of a client, and evicts through it. The client's
// prefix selects the locks.
func New(client *holdfast.Client, cfg Config) (*Page, error) {
	switch {
	case client == nil:
		return nil, errors.New("page: the client is nil")
	case cfg.Interval < 0 || cfg.Interval > 0 && cfg.Interval < minInterval:
		return nil, fmt.Errorf("page: Config.Interval is %v: it must be %v or more", cfg.Interval, minInterval)
	}
	if err := cfg.checkAccess(); err != nil {
		return nil, err
	}
	if cfg.Interval == 0 {
		cfg.Interval = time.Second
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Page{
		cfg: cfg, client: client, mux: http.NewServeMux(), guard: http.NewCrossOriginProtection(), wrong: newTries(),
	}
	p.cookie = p.cookieName()
	p.ended, p.end = context.WithCancel(context.Background())
	p.watcher = newWatcher(p.ended, client, cfg)
	p.routes()
	if cfg.KeepWatching {
		p.watcher.look()
	}
	return p, nil
}

// checkAccess refuses settings by which everybody could see the locks, or evict, by mistake.
func (cfg *Config) checkAccess() error {
	tokens := []struct{ field, token string }{
		{"Config.Token", cfg.Token}, {"Config.ScrapeToken", cfg.ScrapeToken}, {"Config.EvictToken", cfg.EvictToken},
	}
	for i, t := range tokens {
		if t.token != "" && len(t.token) < minToken {
			return fmt.Errorf("page: %s has %d bytes: it needs %d or more", t.field, len(t.token), minToken)
		}
		if t.token != strings.TrimSpace(t.token) || strings.ContainsFunc(t.token, unicode.IsControl) {
			return fmt.Errorf("page: %s has a control character, or a blank at an end: no header can carry it", t.field)
		}
		for _, other := range tokens[:i] {
			if t.token != "" && t.token == other.token {
				return fmt.Errorf("page: %s and %s are the same: each has its own rights", other.field, t.field)
			}
		}
	}
	switch {
	case cfg.Authorize == nil && !cfg.NoToken && cfg.Token == "":
		return errors.New("page: Config says not who may see the locks: set Token, Authorize or NoToken")
	case cfg.NoToken && (cfg.Authorize != nil || cfg.Token != "" || cfg.ScrapeToken != "" || cfg.EvictToken != ""):
		return errors.New("page: Config.NoToken contradicts the other fields that say who may see the locks")
	case cfg.NoToken && cfg.AllowEvict:
		return errors.New("page: Config.AllowEvict needs a token or Authorize: without one, everybody could evict")
	case cfg.EvictToken != "" && !cfg.AllowEvict:
		return errors.New("page: Config.EvictToken is set, and Config.AllowEvict is not")
	}
	return nil
}

// Close ends the streams of all viewers and the reads of the locks, and waits until the
// reads have ended. Call it before [http.Server.Shutdown], which waits for streams: see
// [http.Server.RegisterOnShutdown]. Close does not close the client.
func (p *Page) Close() {
	p.end()
	p.watcher.wait()
}

func (p *Page) routes() {
	assets, err := fs.Sub(embedded, "assets")
	if err != nil {
		panic("BUG: the assets are not embedded: " + err.Error())
	}
	file := func(name string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-cache")
			http.ServeFileFS(w, r, assets, name)
		}
	}
	methods := map[string]string{} // by path
	handle := func(method, path string, f http.HandlerFunc) {
		p.mux.HandleFunc(method+" "+path, f)
		if method == http.MethodGet {
			method = "GET, HEAD"
		}
		if more := methods[path]; more != "" {
			method = more + ", " + method
		}
		methods[path] = method
	}
	handle("GET", "/{$}", file("page.html"))
	for _, name := range []string{
		"icon.svg", "page.css", "page.js", "util.js", "table.js", "detail.js", "timeline.js",
	} {
		handle("GET", "/"+name, file(name))
	}
	handle("GET", "/login", p.showLogin)
	handle("POST", "/login", p.login)
	handle("GET", "/api/locks", p.getLocks)
	handle("GET", "/api/lock", p.getLock)
	handle("GET", "/api/events", p.getEvents)
	handle("POST", "/api/evict", p.evict)
	handle("GET", "/metrics", p.getMetrics)
	handle("GET", "/healthz", p.getHealth)
	// The mux's own errors are no JSON.
	for path, allowed := range methods {
		p.mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", allowed)
			answerError(w, http.StatusMethodNotAllowed, "this path does not support that method", "use "+allowed)
		})
	}
	p.mux.HandleFunc("/", nothingHere)
}

func nothingHere(w http.ResponseWriter, _ *http.Request) {
	answerError(w, http.StatusNotFound, "there is nothing at this path", "docs/page.md lists the paths")
}

// bodyTime is how long a viewer may take to send a request's body.
const bodyTime = 10 * time.Second

// ServeHTTP implements [http.Handler].
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	limitBody(w, r)
	if r.URL.Path == "" {
		p.addSlash(w, r)
		return
	}
	a, err := p.check(r)
	limitBody(w, r) // a token may have waited
	if err != nil && !open[r.URL.Path] {
		w.Header().Set("Retry-After", triesAgain)
		answerError(w, http.StatusTooManyRequests, err.Error(), "wait a minute, and send the right one")
		return
	}
	if !a.mayUse(r.URL.Path) && !open[r.URL.Path] {
		p.refuse(w, r, a)
		return
	}
	if err := p.guard.Check(r); err != nil {
		answerError(w, http.StatusForbidden, "the request comes from another site",
			"if it does not, a proxy in between must pass the header Host on, as docs/page.md shows")
		return
	}
	if r.URL.Path != path.Clean(r.URL.Path) {
		nothingHere(w, r) // the mux would redirect to a path outside of the page's
		return
	}
	p.mux.ServeHTTP(w, a.with(r))
}

// limitBody gives a viewer bodyTime from now to send the request's body. The server clears the deadline before the
// next request.
func limitBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		setReadDeadline(w, time.Now().Add(bodyTime))
	}
}

func setReadDeadline(w http.ResponseWriter, at time.Time) {
	// Writers that cannot have one, as in tests, are not slow.
	_ = http.NewResponseController(w).SetReadDeadline(at)
}

// addSlash redirects from the page's path without a slash: its links are relative.
func (p *Page) addSlash(w http.ResponseWriter, r *http.Request) {
	path, _, _ := strings.Cut(r.RequestURI, "?")
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") {
		nothingHere(w, r) // it would lead to another site
		return
	}
	w.Header().Set("Location", path+"/")
	w.WriteHeader(http.StatusPermanentRedirect)
}
