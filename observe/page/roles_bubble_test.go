package page

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

const (
	scrapeToken = "a token for the metrics"
	evictToken  = "a token for evictions"
)

func bearer(shown string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+shown) }
}

// post sends the form of the page.
func post(p *Page, shown string, change func(*http.Request)) *httptest.ResponseRecorder {
	r := request("POST", "/login", strings.NewReader(url.Values{"token": {shown}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	change(r)
	return serve(p, r)
}

// Each token has its own rights, on every path, in a header and in a session.
func TestEachTokenHasItsRights(t *testing.T) {
	p, client := newPage(t, Config{Token: token, ScrapeToken: scrapeToken, EvictToken: evictToken, AllowEvict: true})
	over, cancel := context.WithCancel(t.Context())
	cancel() // a stream ends at once
	for _, path := range guarded {
		method, path, _ := strings.Cut(path, " ")
		for _, c := range []struct {
			token string
			ok    bool
		}{{token, true}, {evictToken, true}, {scrapeToken, path == "/metrics"}} {
			r := request(method, path, nil).WithContext(over)
			bearer(c.token)(r)
			code := serve(p, r).Code
			refused := code == http.StatusUnauthorized || code == http.StatusForbidden
			if path == "/api/evict" && c.token == token {
				assert.Equal(t, code, http.StatusForbidden, "an eviction by a reader")
				continue
			}
			assert.Equal(t, !refused, c.ok, "%s %s with %q: %d", method, path, c.token, code)
		}
	}
	l, err := client.Mutex("a").TryLock(t.Context())
	assert.Must(t, err)
	assert.Equal(t, post(p, scrapeToken, none).Code, http.StatusForbidden, "a session to scrape")
	for _, c := range []struct {
		token, allowed string
		code           int
	}{
		{token, `"allow_evict":false`, http.StatusForbidden}, {evictToken, `"allow_evict":true`, http.StatusOK},
	} {
		session := post(p, c.token, none).Result().Cookies()[0]
		r := request("GET", "/api/locks", nil)
		r.AddCookie(session)
		assert.Contains(t, serve(p, r).Body.String(), c.allowed)
		code := evictWith(t, p, steps(l), func(r *http.Request) { r.AddCookie(session) })
		assert.Equal(t, code, c.code, "an eviction in the session of %q", c.token)
	}
}

// A link logs in once, and the token is not in the address of the page.
func TestALinkLogsIn(t *testing.T) {
	p, _ := newPage(t, Config{Token: token})
	w := serve(p, request("GET", "/login?token="+url.QueryEscape(token), nil))
	cookies := w.Result().Cookies()
	assert.True(t, w.Code == http.StatusSeeOther && w.Header().Get("Location") == "./" && len(cookies) == 1,
		"%d to %s", w.Code, w.Header().Get("Location"))
	w = serve(p, request("GET", "/login?token=wrong", nil))
	assert.True(t, w.Code == http.StatusForbidden && len(w.Result().Cookies()) == 0, "a wrong one: %d", w.Code)
}

// A browser gives the cookies of a machine to all ports of it. Two pages with different tokens, as for production
// and for a test, do not log each other's viewers out.
func TestTwoPagesOnOneMachineKeepTheirSessions(t *testing.T) {
	sessions := map[string]string{} // by name, as a browser keeps them
	pages := map[string]*Page{}
	for _, shown := range []string{token, "another token, 16 bytes or more"} {
		p, _ := newPage(t, Config{Token: shown})
		pages[shown] = p
		for _, c := range post(p, shown, none).Result().Cookies() {
			sessions[c.Name] = c.Value
		}
	}
	for shown, p := range pages {
		r := request("GET", "/metrics", nil)
		for name, value := range sessions {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		assert.Equal(t, serve(p, r).Code, http.StatusOK, "the session with %q", shown)
	}
}

// A session ends by itself, with its stream, and nobody can make it longer.
func TestASessionEnds(t *testing.T) {
	bubble(t, Config{Token: token}, func(t *testing.T, w *world) {
		session := post(w.page, token, none).Result().Cookies()[0]
		get := func(path, value string) int {
			r := request("GET", path, nil)
			r.AddCookie(&http.Cookie{Name: w.page.cookie, Value: value})
			return serve(w.page, r).Code
		}
		ended := make(chan int)
		go func() { ended <- get("/api/events", session.Value) }()
		time.Sleep(sessionTime - time.Minute)
		assert.Equal(t, get("/metrics", session.Value), http.StatusOK, "before the end")
		select {
		case <-ended:
			t.Error("the stream has ended")
		default:
		}
		began := time.Now()
		<-ended
		assert.AtMost(t, time.Since(began), time.Minute+time.Second, "the stream's end")
		assert.Equal(t, get("/metrics", session.Value), http.StatusUnauthorized, "after the end")
		later := w.page.newSession(reader, time.Now().Add(time.Hour))
		said, proof := later[:strings.LastIndex(later, ".")], later[strings.LastIndex(later, "."):]
		role, _, _ := strings.Cut(said, ".")
		for _, forged := range []string{
			role + ".99999999999" + proof, "3" + said[1:] + proof, said, said + ".", said + ".x",
		} {
			assert.Equal(t, get("/metrics", forged), http.StatusUnauthorized, "the session %s", forged)
		}
	})
}

// Wrong tokens of everybody together have a limit, however many connections and addresses bring them. Beyond it each
// token waits in a line, the right one as well: the time tells a guesser nothing. A right token is never refused, and
// waits for one token of each other address. Sessions go on at once.
func TestWrongTokensHaveALimit(t *testing.T) {
	bubble(t, Config{Token: token, Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}, func(
		t *testing.T, w *world,
	) {
		session := post(w.page, token, none).Result().Cookies()[0]
		as := func(client string, more func(*http.Request)) int {
			r := request("GET", "/metrics", nil)
			r.RemoteAddr = "10.1.1.1:9"
			r.Header["X-Forwarded-For"] = []string{"198.51.100.9, " + client}
			more(r)
			return serve(w.page, r).Code
		}
		attacker := func(i int) string { return netip.AddrFrom4([4]byte{172, 16, byte(i >> 8), byte(i)}).String() }
		for i := range mostTries {
			assert.Equal(t, as("192.0.2.7", bearer(token)), http.StatusOK, "a right token before")
			assert.Equal(t, as(attacker(i), bearer("")), http.StatusUnauthorized, "no token")
			assert.Equal(t, as(attacker(i), bearer("wrong")), http.StatusUnauthorized, "a wrong token")
		}
		took := func(pause time.Duration, want int, what string, code func() int) {
			t.Helper()
			began := time.Now()
			assert.Equal(t, code(), want, "%s", what)
			assert.Equal(t, time.Since(began), pause, "%s: the pause", what)
		}
		right := func() int { return as("192.0.2.7", bearer(token)) }
		took(triesPause, http.StatusTooManyRequests, "one more", func() int { return as("192.0.2.8", bearer("wrong")) })
		took(triesPause, http.StatusOK, "the right one", right)
		took(triesPause, http.StatusSeeOther, "in the form", func() int { return post(w.page, token, none).Code })
		took(0, http.StatusOK, "a session", func() int {
			return as("192.0.2.7", func(r *http.Request) { r.AddCookie(session) })
		})
		left, leave := context.WithCancel(t.Context())
		leave()
		took(0, http.StatusTooManyRequests, "a viewer who has left", func() int {
			return as("192.0.2.7", func(r *http.Request) {
				*r = *r.WithContext(left)
				bearer(token)(r)
			})
		})

		const guesses, attackers = 3000, 3
		began, done := time.Now(), sync.WaitGroup{}
		for i := range guesses {
			done.Go(func() { as(attacker(i%attackers), bearer("wrong")) })
		}
		synctest.Wait()
		took((attackers+1)*triesPause, http.StatusOK, "the right one among thousands", right)
		took((attackers+1)*triesPause, http.StatusOK, "and the next one", right)
		done.Wait()
		assert.Equal(t, time.Since(began), (guesses+2)*triesPause, "the time of all guesses")
		assert.Equal(t, len(w.page.wrong.of), 0, "clients that are remembered")
		time.Sleep(triesTime)
		took(0, http.StatusOK, "a minute later", right)
	})
}

// One client cannot take all streams.
func TestStreamsHaveALimit(t *testing.T) {
	bubble(t, Config{Token: token}, func(t *testing.T, w *world) {
		ctx, leave := context.WithCancel(t.Context())
		stream := func(from string, done chan<- int) {
			r := request("GET", "/api/events", nil).WithContext(ctx)
			bearer(token)(r)
			r.RemoteAddr = from
			done <- serve(w.page, r).Code
		}
		done := make(chan int, mostStreams+1)
		for range mostStreams {
			go stream("192.0.2.7:1", done)
		}
		synctest.Wait()
		stream("192.0.2.7:2", done)
		assert.Equal(t, <-done, http.StatusTooManyRequests, "one more")
		go stream("192.0.2.8:1", done)
		synctest.Wait()
		select {
		case code := <-done:
			t.Errorf("another client: %d", code)
		default:
		}
		leave()
		for range mostStreams + 1 {
			<-done
		}
		assert.True(t, w.page.streams.all == 0 && len(w.page.streams.from) == 0, "%+v", w.page.streams.from)
	})
}

// Whom a proxy has authenticated evicts in that name. Nobody evicts without one.
func TestAnEvictionIsInTheNameOfTheViewer(t *testing.T) {
	p, client := newPage(t, Config{Token: token, AllowEvict: true, Who: func(r *http.Request) string {
		return r.Header.Get("X-User")
	}})
	l, err := client.Mutex("a").TryLock(t.Context())
	assert.Must(t, err)
	assert.Equal(t, evictWith(t, p, steps(l), bearer(token)), http.StatusForbidden, "nobody")
	code := evictWith(t, p, steps(l), func(r *http.Request) {
		bearer(token)(r)
		r.Header.Set("X-User", "carol")
	})
	s, err := client.Inspect(t.Context(), "a")
	assert.True(t, err == nil && code == http.StatusOK && s.LastEviction.By == "carol",
		"%d: %+v, %v", code, s.LastEviction, err)
}

// A cookie is for TLS only if the viewer's connection has TLS. Only a proxy that is named says so.
func TestACookieBehindAProxyWithTLS(t *testing.T) {
	p, _ := newPage(t, Config{Token: token, Proxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}})
	for from, secure := range map[string]bool{"10.1.2.3:4": true, "192.0.2.7:4": false} {
		w := post(p, token, func(r *http.Request) {
			r.RemoteAddr = from
			r.Header.Set("X-Forwarded-Proto", "https")
		})
		assert.Equal(t, w.Result().Cookies()[0].Secure, secure, "from %s", from)
	}
}

// Settings by which everybody could see the locks, or evict, are refused.
func TestAccessIsNamed(t *testing.T) {
	allow := func(*http.Request) bool { return true }
	for _, c := range []struct {
		cfg  Config
		want string // in the error; empty: none
	}{
		{Config{}, "who may see the locks"},
		{Config{ScrapeToken: scrapeToken}, "who may see the locks"},
		{Config{NoToken: true}, ""},
		{Config{NoToken: true, AllowEvict: true}, "AllowEvict"},
		{Config{NoToken: true, Token: token}, "NoToken"},
		{Config{NoToken: true, Authorize: allow}, "NoToken"},
		{Config{Authorize: allow, AllowEvict: true}, ""},
		{Config{Token: "short"}, "16 or more"},
		{Config{Token: token, ScrapeToken: "short"}, "Config.ScrapeToken has 5 bytes"},
		{Config{Token: token + "\n" + scrapeToken}, "Config.Token has a control character"}, // a file of two lines
		{Config{Token: token, ScrapeToken: scrapeToken + " "}, "Config.ScrapeToken has a control character, or a"},
		{Config{Token: token, EvictToken: token, AllowEvict: true}, "the same"},
		{Config{Token: token, EvictToken: evictToken}, "AllowEvict"},
		{Config{Token: token, EvictToken: evictToken, AllowEvict: true}, ""},
	} {
		err := c.cfg.checkAccess()
		if c.want == "" {
			assert.NoError(t, err)
			continue
		}
		assert.MustTrue(t, err != nil, "%+v is accepted", c.cfg)
		assert.Contains(t, err.Error(), c.want)
		assert.False(t, strings.Contains(err.Error(), token), "it shows the token")
	}
}
