package page

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed" // the form
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// open are the paths that need no token: they tell nothing about locks.
var open = map[string]bool{"/login": true, "/page.css": true, "/icon.svg": true}

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

// allowed reports whether the request may see the locks.
func (p *Page) allowed(r *http.Request) bool {
	switch {
	case p.cfg.Authorize != nil:
		return p.cfg.Authorize(r)
	case p.cfg.Token != "":
		return p.showsToken(r)
	}
	// A name that another site points at this machine is not localhost: so that site's
	// scripts, which run in a browser here, get no answer.
	return isLoopback(r.RemoteAddr) && isLoopback(r.Host)
}

// isLoopback reports whether an address, or a Host, is this machine.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

const cookieName = "holdfast_page"

func (p *Page) showsToken(r *http.Request) bool {
	if shown, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return same(shown, p.cfg.Token)
	}
	for _, c := range r.CookiesNamed(cookieName) {
		if same(c.Value, p.session()) {
			return true
		}
	}
	return false
}

// session is the value of the cookie. It depends on the token alone, so that it survives a
// restart, and does not tell the token.
func (p *Page) session() string {
	mac := hmac.New(sha256.New, []byte(p.cfg.Token))
	mac.Write([]byte("holdfast page, session 1"))
	return hex.EncodeToString(mac.Sum(nil))
}

// same compares secrets in a time that depends on neither.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// refuse sends a browser to the form, and tells a program why there is no answer.
func (p *Page) refuse(w http.ResponseWriter, r *http.Request) {
	switch {
	case p.cfg.Authorize != nil:
		answerError(w, http.StatusForbidden, "you are not allowed to see the locks", "")
	case p.cfg.Token == "":
		answerError(w, http.StatusForbidden, "the page can be opened only on the machine it runs on",
			"open it at http://127.0.0.1 or http://localhost, or set a token")
	case r.URL.Path == "/" && r.Method == http.MethodGet:
		w.Header().Set("Location", "login") // relative: the page may be mounted anywhere
		w.WriteHeader(http.StatusSeeOther)
	default:
		w.Header().Set("WWW-Authenticate", "Bearer")
		answerError(w, http.StatusUnauthorized, "the token is missing or wrong",
			`send the header "Authorization: Bearer TOKEN"`)
	}
}

//go:embed assets/login.html
var loginForm string

// loginPage is the form. Everybody may see it, so it does not name the server. It is no
// html/template: a program that links one keeps every exported method of all that it links,
// and the tool would be twice as large.
func loginPage(wrong bool) string {
	attribute, note := "", ""
	if wrong {
		attribute = `aria-invalid="true" aria-describedby="wrong"`
		note = `<p id="wrong" class="error" role="alert">That is not the token.</p>`
	}
	return strings.NewReplacer("{{invalid}}", attribute, "{{wrong}}", note).Replace(loginForm)
}

func (p *Page) showLogin(w http.ResponseWriter, _ *http.Request) {
	p.writeLogin(w, http.StatusOK, false)
}

func (p *Page) writeLogin(w http.ResponseWriter, status int, wrong bool) {
	if p.cfg.Token == "" {
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
	if p.cfg.Token == "" || !same(r.PostFormValue("token"), p.cfg.Token) {
		p.cfg.Logger.Warn("page: a viewer sent a wrong token", "from", r.RemoteAddr)
		p.writeLogin(w, http.StatusForbidden, true)
		return
	}
	// Without a Path, the cookie belongs to the path where the page is mounted.
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // without TLS, a browser would drop a cookie that is Secure
		Name: cookieName, Value: p.session(), HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
	})
	w.Header().Set("Location", "./")
	w.WriteHeader(http.StatusSeeOther)
}
