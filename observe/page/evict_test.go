package page

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// steps is an eviction with all of its steps.
func steps(l *holdfast.Lease) map[string]string {
	return map[string]string{
		"name": l.Name(), "typed": l.Name(), "by": "ann", "reason": "stuck",
		"token": strconv.FormatUint(l.Token(), 10),
	}
}

func evictWith(t *testing.T, p *Page, steps any, change func(*http.Request)) int {
	t.Helper()
	body, err := json.Marshal(steps)
	assert.Must(t, err)
	r := request("POST", "/api/evict", strings.NewReader(string(body)))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	change(r)
	return serve(p, r).Code
}

func none(*http.Request) {}

func TestEvictionNeedsEveryStep(t *testing.T) {
	p, client := newPage(t, Config{AllowEvict: true})
	l, err := client.Mutex("order/42").TryLock(t.Context())
	assert.Must(t, err)
	bad := func(field, value string) map[string]string {
		s := maps.Clone(steps(l))
		s[field] = value
		return s
	}
	for _, c := range []struct {
		what string
		code int
		with map[string]string
	}{
		{"no name", 400, bad("name", "")},
		{"another name is typed", 400, bad("typed", "order/4")},
		{"no name is typed", 400, bad("typed", "")},
		{"nobody", 400, bad("by", "")},
		{"a long name", 400, bad("by", strings.Repeat("x", 129))},
		{"no reason", 400, bad("reason", "")},
		{"a blank reason", 400, bad("reason", " \t")},
		{"a blank name", 400, bad("by", " ")},
		{"no token", 400, bad("token", "")},
		{"token 0", 400, bad("token", "0")},
		{"a token that is none", 400, bad("token", "new")},
		{"the token of another hold", 409, bad("token", strconv.FormatUint(l.Token()+1<<10, 10))},
	} {
		if code := evictWith(t, p, c.with, none); code != c.code || l.Err() != nil {
			t.Errorf("%s: %d, want %d; the lease: %v", c.what, code, c.code, l.Err())
		}
	}
	code := evictWith(t, p, steps(l), none)
	assert.True(t, code == http.StatusOK && l.Err() != nil, "all steps: %d; the lease: %v", code, l.Err())
	s, err := client.Inspect(t.Context(), "order/42")
	assert.MustTrue(t, err == nil && s.Held() && s.Holders[0].Ending, "asked to end: %+v, %v", s, err)
	code = evictWith(t, p, map[string]any{
		"name": "order/42", "typed": "order/42", "by": "ann", "reason": "stuck", "at_once": true,
		"token": strconv.FormatUint(l.Token(), 10),
	}, none)
	assert.Equal(t, code, http.StatusOK, "at once")
	s, err = client.Inspect(t.Context(), "order/42")
	want := holdfast.EvictionInfo{By: "ann", Reason: "stuck"}
	assert.MustTrue(t, err == nil && !s.Held() && s.LastEviction != nil, "%+v, %v", s, err)
	want.At = s.LastEviction.At
	assert.True(t, *s.LastEviction == want, "%+v, %v", s, err)
}

func TestEvictionIsOffUnlessAllowed(t *testing.T) {
	p, client := newPage(t, Config{})
	l, err := client.Mutex("a").TryLock(t.Context())
	assert.Must(t, err)
	code := evictWith(t, p, steps(l), none)
	assert.True(t, code == http.StatusForbidden && l.Err() == nil, "%d; the lease: %v", code, l.Err())
}

func TestAnotherSiteCannotEvict(t *testing.T) {
	p, client := newPage(t, Config{AllowEvict: true, Token: token})
	l, err := client.Mutex("a").TryLock(t.Context())
	assert.Must(t, err)
	for what, change := range map[string]func(*http.Request){
		"cross-site": func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"same-site":  func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") },
		"an old browser": func(r *http.Request) {
			r.Header.Del("Sec-Fetch-Site")
			r.Header.Set("Origin", "http://evil.example")
		},
		"a form's type": func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
		"no type":       func(r *http.Request) { r.Header.Del("Content-Type") },
		"a GET":         func(r *http.Request) { r.Method = http.MethodGet },
	} {
		code := evictWith(t, p, steps(l), func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: p.cookie, Value: p.newSession(evictor, time.Now().Add(time.Hour))})
			change(r)
		})
		assert.True(t, code >= 400 && l.Err() == nil, "%s: %d; the lease: %v", what, code, l.Err())
	}
	code := evictWith(t, p, steps(l), func(r *http.Request) {
		r.AddCookie(&http.Cookie{Name: p.cookie, Value: p.newSession(evictor, time.Now().Add(time.Hour))})
	})
	assert.Equal(t, code, http.StatusOK, "the page itself")
}

// An error has no prefix of Go, and no field of the library: a person reads it, at the page.
func TestAnErrorIsForAPerson(t *testing.T) {
	p, _ := newPage(t, Config{})
	w := serve(p, request("GET", "/api/lock?name=", nil))
	assert.True(t, strings.HasPrefix(w.Body.String(), `{"error":"the name is empty: `), "%s", w.Body)
	p, _ = newPage(t, Config{AllowEvict: true})
	long := fmt.Sprintf(`{"name":"a","typed":"a","by":"%s","reason":"r","token":"1"}`, strings.Repeat("x", 129))
	for body, want := range map[string]string{
		`{"token":5}`: `form: "token" is a number`, `[]`: "form", "{": "form", "": "form",
		`{"job":"x"}`: `form: "job" is a string`,
		long:          "your name or the reason is too long",
	} {
		r := request("POST", "/api/evict", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := serve(p, r)
		var told map[string]string
		assert.Must(t, json.Unmarshal(w.Body.Bytes(), &told))
		assert.True(t, w.Code == 400 && strings.Contains(told["error"], want) && !strings.Contains(told["error"], "Go"),
			"%s: %d %s", body, w.Code, w.Body)
	}
	lost := fmt.Errorf("holdfast: listing %q: %w: gone", "a", holdfast.ErrUnreachable)
	assert.Equal(t, plain(lost), `listing "a": server cannot be reached: gone`, "the text")
}
