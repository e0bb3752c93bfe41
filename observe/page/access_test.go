package page

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
)

const token = "a token of some length"

func newPage(t *testing.T, cfg Config) (*Page, *holdfast.Client) {
	t.Helper()
	client, err := holdfast.New(memstore.New(), holdfast.Config{})
	assert.Must(t, err)
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	p, err := New(client, forAll(cfg))
	assert.Must(t, err)
	t.Cleanup(p.Close)
	return p, client
}

// forAll lets everybody see the locks, and evict, unless the settings say who may.
func forAll(cfg Config) Config {
	if cfg.Token == "" && cfg.Authorize == nil {
		cfg.NoToken = !cfg.AllowEvict
		if cfg.AllowEvict {
			cfg.Authorize = func(*http.Request) bool { return true }
		}
	}
	return cfg
}

func serve(p http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

// Every path that tells of locks or changes them.
var guarded = []string{
	"GET /", "GET /page.js", "GET /util.js", "GET /table.js", "GET /detail.js", "GET /timeline.js", "GET /api/locks",
	"GET /api/lock?name=a", "GET /api/events", "POST /api/evict", "GET /metrics", "GET /no/such",
}

func TestWithoutATokenOnlyThisMachineIsServed(t *testing.T) {
	p, _ := newPage(t, Config{})
	for _, c := range []struct {
		from, host string
		ok         bool
	}{
		{"127.0.0.1:1", "127.0.0.1:8380", true},
		{"[::1]:1", "localhost:8380", true},
		{"[::ffff:127.0.0.1]:1", "LOCALHOST", true},
		{"127.8.8.8:1", "[::1]:8380", true},
		{"[::1]:1", "[::1]", true},
		{"192.0.2.7:1", "localhost", false},
		{"127.0.0.1:1", "rebound.example:8380", false}, // its name is pointed at this machine
		{"127.0.0.1:1", "127.0.0.1.example", false},
		{"127.0.0.1:1", "localhost.example", false},
		{"127.0.0.1:1", "192.0.2.1", false},
		{"127.0.0.1:1", "", false},
		{"", "localhost", false},
		{"@", "localhost", false},
	} {
		r := request("GET", "/metrics", nil)
		r.RemoteAddr, r.Host = c.from, c.host
		if w := serve(p, r); (w.Code == http.StatusOK) != c.ok || !c.ok && w.Code != http.StatusForbidden {
			t.Errorf("%+v: %d", c, w.Code)
		}
	}
}

func cookie(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: name, Value: value}) }
}

func TestATokenIsNeededForEveryPath(t *testing.T) {
	p, _ := newPage(t, Config{Token: token, AllowEvict: true})
	for _, path := range guarded {
		method, path, _ := strings.Cut(path, " ")
		for what, set := range map[string]func(*http.Request){
			"none":          func(*http.Request) {},
			"wrong":         func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token+"x") },
			"empty":         func(r *http.Request) { r.Header.Set("Authorization", "Bearer ") },
			"in the URL":    func(r *http.Request) { r.URL.RawQuery += "&token=" + url.QueryEscape(token) },
			"basic":         func(r *http.Request) { r.SetBasicAuth("x", token) },
			"wrong cookie":  cookie(p.cookie, "x"),
			"token cookie":  cookie(p.cookie, url.QueryEscape(token)),
			"other's, too":  cookie("other", p.newSession(evictor, time.Now().Add(time.Hour))),
			"empty session": cookie(p.cookie, ""),
		} {
			r := request(method, path, nil)
			set(r)
			p.wrong = newTries() // their number is another test
			w := serve(p, r)
			want := http.StatusUnauthorized
			if path == "/" {
				want = http.StatusSeeOther
			}
			assert.False(t, w.Code != want || path == "/" && w.Header().Get("Location") != "login",
				"%s %s, %s: %d", method, path, what, w.Code)
		}
	}
	r := request("GET", "/metrics", nil)
	r.RemoteAddr, r.Host = "192.0.2.7:1", "locks.example"
	for _, scheme := range []string{"Bearer ", "bearer ", "BEARER  "} {
		r.Header.Set("Authorization", scheme+token)
		assert.Equal(t, serve(p, r).Code, http.StatusOK, "with the token, after %q", scheme)
	}
}

func TestTheFormGivesACookieThatIsNotTheToken(t *testing.T) {
	p, _ := newPage(t, Config{Token: token, Title: "10.0.0.1"})
	w := serve(p, request("GET", "/login", nil))
	assert.True(t, w.Code == http.StatusOK && !strings.Contains(w.Body.String(), "10.0.0.1"),
		"the form: %d %s", w.Code, w.Body)
	post := func(shown string) *httptest.ResponseRecorder {
		r := request("POST", "/login", strings.NewReader(url.Values{"token": {shown}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		return serve(p, r)
	}
	if w := post("wrong"); w.Code != http.StatusForbidden || len(w.Result().Cookies()) != 0 {
		t.Errorf("a wrong token: %d, %v", w.Code, w.Result().Cookies())
	}
	w = post(token)
	cookies := w.Result().Cookies()
	assert.MustTrue(t, w.Code == http.StatusSeeOther && len(cookies) == 1, "the token: %d, %v", w.Code, cookies)
	c := cookies[0]
	if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || strings.Contains(c.Value, token) || c.Path != "" {
		t.Errorf("%+v", c)
	}
	r := request("GET", "/metrics", nil)
	r.AddCookie(c)
	assert.Equal(t, serve(p, r).Code, http.StatusOK, "with the cookie")
	again, _ := newPage(t, Config{Token: token})
	assert.Equal(t, serve(again, r).Code, http.StatusOK, "with the cookie, after a restart")
	other, _ := newPage(t, Config{Token: "another token of some length"})
	assert.Equal(t, serve(other, r).Code, http.StatusUnauthorized, "with the cookie of another token")
}

func TestEveryAnswerHasTheHeaders(t *testing.T) {
	p, _ := newPage(t, Config{})
	closed, _ := newPage(t, Config{Token: token})
	for _, path := range append(guarded, "GET /login", "GET /page.css", "GET /icon.svg", "DELETE /") {
		method, path, _ := strings.Cut(path, " ")
		for _, p := range []*Page{p, closed} {
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // the stream must end
			h := serve(p, request(method, path, nil).WithContext(ctx)).Header()
			csp := h.Get("Content-Security-Policy")
			if strings.Contains(csp, "unsafe") || !strings.Contains(csp, "default-src 'none'") ||
				!strings.Contains(csp, "frame-ancestors 'none'") || h.Get("X-Frame-Options") != "DENY" ||
				h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" ||
				h.Get("Cache-Control") == "" || h.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s %s: %v", method, path, h)
			}
		}
	}
}

func TestThePageNeedsNothingFromElsewhere(t *testing.T) {
	p, _ := newPage(t, Config{})
	for path, kind := range map[string]string{
		"/": "text/html", "/page.css": "text/css", "/page.js": "javascript", "/util.js": "javascript",
		"/table.js": "javascript", "/detail.js": "javascript", "/timeline.js": "javascript", "/icon.svg": "image/svg",
	} {
		w := serve(p, request("GET", path, nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Content-Type"), kind) {
			t.Errorf("%s: %d, %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		text := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", "") // a name, and no address
		for _, bad := range []string{"http://", "https://", "innerHTML", "eval(", "<style", " style=", " onclick="} {
			assert.False(t, strings.Contains(text, bad), "%s contains %s", path, bad)
		}
	}
}

func TestThePageMayBeMountedAnywhere(t *testing.T) {
	p, _ := newPage(t, Config{})
	mux := http.NewServeMux()
	mux.Handle("/ops/locks/", http.StripPrefix("/ops/locks", p))
	mux.Handle("/bare", http.StripPrefix("/bare", p))
	assert.Equal(t, serve(mux, request("GET", "/ops/locks/api/locks", nil)).Code, http.StatusOK, "the status")
	w := serve(mux, request("GET", "/bare?x=1", nil))
	if w.Code != http.StatusPermanentRedirect || w.Header().Get("Location") != "/bare/" {
		t.Errorf("%d to %s", w.Code, w.Header().Get("Location"))
	}
	r := request("GET", "/bare", nil)
	r.RequestURI = "//evil.example"
	r.URL.Path = ""
	if w := serve(p, r); w.Code != http.StatusNotFound {
		t.Errorf("%d to %s", w.Code, w.Header().Get("Location"))
	}
}

func TestAuthorizeDecidesInPlaceOfTheToken(t *testing.T) {
	asked := 0
	p, _ := newPage(t, Config{Authorize: func(r *http.Request) bool {
		asked++
		return r.Header.Get("X-User") == "ann"
	}})
	r := request("GET", "/metrics", nil)
	r.RemoteAddr, r.Host = "192.0.2.7:1", "locks.example"
	assert.Equal(t, serve(p, r).Code, http.StatusForbidden, "nobody")
	r.Header.Set("X-User", "ann")
	w := serve(p, r)
	assert.True(t, w.Code == http.StatusOK && asked == 2, "ann: %d, asked %d times", w.Code, asked)
	assert.Equal(t, serve(p, request("GET", "/login", nil)).Code, http.StatusNotFound, "a form without a token")
}

// A proxy on this machine makes every request look as if it came from here.
func TestABareProxyDoesNotOpenThePage(t *testing.T) {
	p, _ := newPage(t, Config{Token: token, AllowEvict: true})
	backend := httptest.NewServer(p)
	defer backend.Close()
	for _, path := range guarded {
		method, path, _ := strings.Cut(path, " ")
		r, err := http.NewRequestWithContext(t.Context(), method, backend.URL+path, nil)
		assert.Must(t, err)
		answer, err := http.DefaultTransport.RoundTrip(r)
		assert.Must(t, err)
		answer.Body.Close()
		toLogin := path == "/" && answer.StatusCode == http.StatusSeeOther
		assert.True(t, answer.StatusCode == http.StatusUnauthorized || toLogin,
			"%s %s: %d", method, path, answer.StatusCode)
	}
}
