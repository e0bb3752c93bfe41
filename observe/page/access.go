package page

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed" // the form
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// open are the paths that need no token: they tell nothing about locks.
var open = map[string]bool{"/login": true, "/page.css": true, "/icon.svg": true, "/healthz": true}

// setHeaders sets what every answer has. A page of another site can neither frame this one
// nor read it, and this one runs nothing but its own files.
func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "+
		"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; "+
		"require-trusted-types-for 'script'; trusted-types 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// role is what a viewer may do. Each role may do what those before it may.
type role int

const (
	nobody  role = iota
	scraper      // reads the metrics
	reader       // sees the locks
	evictor      // evicts holders
)

// access is what a request may do, and until when its session lasts; zero: it has none.
type access struct {
	role  role
	until time.Time
}

type accessKey struct{}

func accessOf(r *http.Request) access {
	a, _ := r.Context().Value(accessKey{}).(access)
	return a
}

func (a access) with(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), accessKey{}, a))
}

// mayUse reports whether a role may use a path. The path of an eviction says itself who may not.
func (a access) mayUse(path string) bool {
	return a.role >= reader || a.role == scraper && path == "/metrics"
}

// best is the role of a viewer with all rights of the page but those of an eviction token.
func (cfg *Config) best() role {
	if cfg.AllowEvict && cfg.EvictToken == "" {
		return evictor
	}
	return reader
}

// tokens are the tokens, each with the role that it gives.
func (cfg *Config) tokens() map[role]string {
	list := map[role]string{scraper: cfg.ScrapeToken, evictor: cfg.EvictToken}
	list[cfg.best()] = cfg.Token
	return list
}

// needsToken reports whether viewers show a token.
func (cfg *Config) needsToken() bool { return cfg.Authorize == nil && !cfg.NoToken }

// roleOf is the role that a token gives.
func (cfg *Config) roleOf(shown string) role {
	found := nobody
	for role, token := range cfg.tokens() {
		if token != "" && same(shown, token) { // all of them are compared, so that the time tells nothing
			found = max(found, role)
		}
	}
	return found
}

// check says what a request may do. The error of a wrong token is that of too many, if there were many before it.
func (p *Page) check(r *http.Request) (access, error) {
	switch {
	case p.cfg.Authorize != nil:
		if p.cfg.Authorize(r) {
			return access{role: p.cfg.best()}, nil
		}
		return access{}, nil
	case p.cfg.NoToken:
		// A name that another site points at this machine is not localhost: so that site's
		// scripts, which run in a browser here, get no answer.
		if isLoopback(r.RemoteAddr) && isLoopback(r.Host) {
			return access{role: reader}, nil
		}
		return access{}, nil
	}
	// The word Bearer has no case (RFC 9110), and spaces may follow.
	if scheme, shown, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(scheme, "Bearer") {
		role, err := p.judge(r, strings.TrimLeft(shown, " "))
		return access{role: role}, err
	}
	best := access{}
	for _, c := range r.CookiesNamed(p.cookie) {
		if a := p.session(c.Value); a.role > best.role {
			best = a
		}
	}
	return best, nil
}

// judge is what a token that a client shows is worth. A right token is never refused, however many wrong ones come from
// its address: that may be the one of all viewers, behind a proxy that is not named. Sessions do not wait.
func (p *Page) judge(r *http.Request, shown string) (role, error) {
	if shown == "" {
		return nobody, nil // it is no guess
	}
	from := p.cfg.clientOf(r)
	role, full := p.wrong.look(time.Now(), func() role { return p.cfg.roleOf(shown) })
	if full {
		if !p.wrong.wait(r.Context(), from) {
			return nobody, errTooManyTries // the viewer has left
		}
		if role = p.cfg.roleOf(shown); role == nobody {
			p.wrong.fill(time.Now())
			return nobody, errTooManyTries
		}
		return role, nil
	}
	if role == nobody {
		p.cfg.Logger.Warn("page: a viewer sent a wrong token", "from", from)
	}
	return role, nil
}

// sessionTime is how long a viewer is logged in: for a day's work.
const sessionTime = 12 * time.Hour

// cookieName is the name of the page's cookie. A browser gives the cookies of a machine to all ports of it, so that
// a page with another token would take this one's place.
func (p *Page) cookieName() string {
	return "holdfast_page_" + p.proof(p.cfg.best(), "holdfast page, cookie")[:16]
}

// newSession is the value of a cookie: the role, when the session ends, and a proof of both. It depends on
// the role's token, so that it survives a restart, ends with the token, and does not tell it.
func (p *Page) newSession(role role, until time.Time) string {
	said := fmt.Sprintf("%d.%d", role, until.Unix())
	return said + "." + p.proof(role, "holdfast page, session 2 "+said)
}

// proof is what only a page with the token of this role can say of a text.
func (p *Page) proof(role role, text string) string {
	mac := hmac.New(sha256.New, []byte(p.cfg.tokens()[role]))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// session reads a cookie.
func (p *Page) session(value string) access {
	first, rest, _ := strings.Cut(value, ".")
	second, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(first)
	seconds, bad := strconv.ParseInt(second, 10, 64)
	a := access{role(n), time.Unix(seconds, 0)}
	if err != nil || bad != nil || a.role < reader || a.role > evictor || p.cfg.tokens()[a.role] == "" ||
		!same(value, p.newSession(a.role, a.until)) || !time.Now().Before(a.until) {
		return access{}
	}
	return a
}

// same compares secrets in a time that depends on neither.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// refuse sends a browser to the form, and tells a program why there is no answer.
func (p *Page) refuse(w http.ResponseWriter, r *http.Request, a access) {
	switch {
	case p.cfg.Authorize != nil:
		answerError(w, http.StatusForbidden, "you are not allowed to see the locks", "")
	case p.cfg.NoToken:
		answerError(w, http.StatusForbidden, "the page can be opened only on the machine it runs on",
			"open it at http://127.0.0.1 or http://localhost, or set a token")
	case a.role == scraper:
		answerError(w, http.StatusForbidden, "this token is for the metrics only", "")
	case r.URL.Path == "/" && r.Method == http.MethodGet:
		w.Header().Set("Location", "login") // relative: the page may be mounted anywhere
		w.WriteHeader(http.StatusSeeOther)
	default:
		w.Header().Set("WWW-Authenticate", "Bearer")
		answerError(w, http.StatusUnauthorized, "the token is missing or wrong, or the session is over",
			`send the header "Authorization: Bearer TOKEN"`)
	}
}

//go:embed assets/login.html
var loginForm string

// loginPage is the form. Everybody may see it, so it does not name the server. It is no
// html/template: a program that links one keeps every exported method of all that it links,
// and the tool would be twice as large.
func loginPage(wrong string) string {
	attribute, note := "", ""
	if wrong != "" {
		attribute = `aria-invalid="true" aria-describedby="wrong"`
		note = `<p id="wrong" class="error" role="alert">` + wrong + `</p>`
	}
	return strings.NewReplacer("{{invalid}}", attribute, "{{wrong}}", note).Replace(loginForm)
}

// showLogin shows the form, or logs in with the token of a link: a program that makes a token at its start
// prints such a link.
func (p *Page) showLogin(w http.ResponseWriter, r *http.Request) {
	if shown := r.URL.Query().Get("token"); shown != "" && p.cfg.needsToken() {
		p.logIn(w, r, shown)
		return
	}
	p.writeLogin(w, http.StatusOK, "")
}

func (p *Page) writeLogin(w http.ResponseWriter, status int, wrong string) {
	if !p.cfg.needsToken() {
		answerError(w, http.StatusNotFound, "the page has no token: there is nothing to log in to", "")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if _, err := io.WriteString(w, loginPage(wrong)); err != nil {
		p.cfg.Logger.Debug("page: the viewer has left", "err", err)
	}
}

func (p *Page) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	shown := r.PostFormValue("token")
	setReadDeadline(w, time.Time{}) // the body is here, and the token may have to wait
	p.logIn(w, r, shown)
}

// logIn begins a session if the token is right.
func (p *Page) logIn(w http.ResponseWriter, r *http.Request, shown string) {
	if !p.cfg.needsToken() {
		p.writeLogin(w, http.StatusNotFound, "")
		return
	}
	role, err := p.judge(r, shown)
	switch {
	case err != nil:
		w.Header().Set("Retry-After", triesAgain)
		p.writeLogin(w, http.StatusTooManyRequests,
			"That is not the token, and there were many wrong ones: wait a minute.")
		return
	case role < reader:
		p.writeLogin(w, http.StatusForbidden, "That is not the token.")
		return
	}
	until := time.Now().Add(sessionTime)
	// Without a Path, the cookie belongs to the path where the page is mounted.
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // without TLS, a browser would drop a cookie that is Secure
		Name: p.cookie, Value: p.newSession(role, until), Expires: until,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: p.cfg.overTLS(r),
	})
	w.Header().Set("Location", "./")
	w.WriteHeader(http.StatusSeeOther)
}
