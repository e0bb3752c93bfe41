package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/lockjson"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// listing permits what list, watch and top do, and the page.
var listing = redistest.Needs("for `Client.List`")

// scheme begins the URLs of servers and proxies.
func scheme() string {
	if redistest.Secured() {
		return "rediss://"
	}
	return "redis://"
}

// served is holdfast serve in this process, over a real server.
type served struct {
	t      *testing.T
	server *redistest.Server
	said   bytes.Buffer
	url    string
	web    *http.Client // that shows the token of the link
	end    func()
}

func serve(t *testing.T, args ...string) *served {
	t.Helper()
	server := redistest.Start(t, redistest.Tenant(target.DefaultPrefix), listing)
	return serveOver(t, []*redistest.Server{server}, args...)
}

// serveOver is serve over one server, or over a quorum.
func serveOver(t *testing.T, servers []*redistest.Server, args ...string) *served {
	t.Helper()
	s := &served{t: t, server: servers[0]}
	a := &target.App{Say: &say.Printer{W: &s.said, Level: say.Normal}, Log: "text"}
	root := newRoot(a)
	words := append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)
	for _, one := range servers {
		words = append(words, "--redis", one.URL())
	}
	if redistest.Secured() {
		words = append(words, "--cacert", s.server.CAFile())
	}
	root.SetArgs(words)
	out, in := io.Pipe()
	root.SetOut(in)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		err := root.ExecuteContext(ctx)
		in.CloseWithError(fmt.Errorf("serve has ended: %w", err))
		ended <- err
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	assert.Must(t, err)
	address, link, _ := strings.Cut(strings.TrimSpace(line), "login?token=")
	s.url, s.web = address, &http.Client{Transport: withToken(link)}
	s.end = func() {
		cancel()
		assert.NoError(t, <-ended)
	}
	return s
}

// withToken sends the token that serve has printed.
type withToken string

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(w))
	return http.DefaultTransport.RoundTrip(r)
}

// lock acquires a lock as another process would.
func (s *served) lock(name string) *holdfast.Lease {
	s.t.Helper()
	options, err := redis.ParseURL(s.server.URL())
	assert.Must(s.t, err)
	options.TLSConfig = redistest.TLS()
	rdb := redis.NewClient(options)
	client, err := holdfast.New(goredis.New(rdb), holdfast.Config{App: "worker"})
	assert.Must(s.t, err)
	s.t.Cleanup(func() {
		_ = client.Close(context.Background())
		_ = rdb.Close()
	})
	l, err := client.Mutex(name).TryLock(s.t.Context())
	assert.Must(s.t, err)
	return l
}

type pageEvent struct {
	name  string
	Locks []struct {
		Name    string            `json:"name"`
		Held    bool              `json:"held"`
		Holders []lockjson.Holder `json:"holders"`
	} `json:"locks"`
}

// events reads the stream until it ends.
func (s *served) events() (<-chan pageEvent, func()) {
	ctx, cancel := context.WithTimeout(s.t.Context(), redistest.Patience)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"api/events", nil)
	assert.Must(s.t, err)
	answer, err := s.web.Do(r) //nolint:bodyclose // the goroutine below closes it
	assert.Must(s.t, err)
	list := make(chan pageEvent)
	go func() {
		defer close(list)
		defer answer.Body.Close()
		lines, e := bufio.NewReader(answer.Body), pageEvent{}
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch field {
			case "event":
				e = pageEvent{name: value}
			case "data":
				assert.NoError(s.t, json.Unmarshal([]byte(value), &e))
				list <- e
			}
		}
	}()
	return list, cancel
}

func TestServeStreamsAndEvictsOnARealServer(t *testing.T) {
	t.Parallel()
	s := serve(t, "--allow-evict", "--interval", "50ms")
	first := s.lock("order/42")
	events, leave := s.events()
	e := <-events
	for ; e.name != "snapshot" || len(e.Locks) == 0; e = <-events {
		assert.MustTrue(t, e.name != "", "the stream has ended")
	}
	l := e.Locks[0]
	assert.MustTrue(t, l.Name == "order/42" && l.Held && l.Holders[0].Token == fmt.Sprint(first.Token()), "%+v", e)
	evict := func(token string) int {
		body := strings.NewReader(fmt.Sprintf(
			`{"name":"order/42","typed":"order/42","by":"ann","reason":"stuck","token":%q,"at_once":true}`, token))
		answer, err := s.web.Post(s.url+"api/evict", "application/json", body)
		assert.Must(t, err)
		defer answer.Body.Close()
		return answer.StatusCode
	}
	assert.Equal(t, evict(fmt.Sprint(first.Token()-1<<10)), http.StatusConflict, "with another token")
	assert.Equal(t, evict(fmt.Sprint(first.Token())), http.StatusOK, "with the token")
	for e = range events {
		if e.name == "change" && len(e.Locks) == 1 && !e.Locks[0].Held {
			break
		}
	}
	assert.Equal(t, e.name, "change", "nobody was told of the eviction")
	assert.True(t, first.Release(t.Context()) != nil, "the holder released what was taken from it")
	leave()
	for range events { // the stream ends, too
		continue
	}
	s.end()
	said := s.said.String()
	assert.True(t, strings.Contains(said, "eviction") && strings.Contains(said, "by ann"), "the log: %s", said)
}

func TestServeGoesOnWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	s := serve(t, "--interval", "50ms")
	up := func() bool {
		answer, err := s.web.Get(s.url + "metrics")
		assert.Must(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		assert.Must(t, err)
		return strings.Contains(string(text), "\nholdfast_server_up 1\n")
	}
	until := func(want bool) {
		for began := time.Now(); up() != want; {
			assert.MustTrue(t, time.Since(began) <= redistest.Patience, "up is not %t", want)
		}
	}
	health := func(code int) { // as a probe asks: without a token
		answer, err := http.Get(s.url + "healthz")
		assert.Must(t, err)
		assert.NoError(t, answer.Body.Close())
		assert.Equal(t, answer.StatusCode, code, "/healthz")
	}
	until(true)
	health(http.StatusOK)
	s.server.Kill()
	until(false)
	health(http.StatusServiceUnavailable)
	s.server.Restart()
	until(true)
	health(http.StatusOK)
	s.end() // with the streams and the reads that there are
}

// Over a quorum, the page shows each server, by the address that the user wrote, and which of
// them does not answer.
func TestServeShowsTheServersOfAQuorum(t *testing.T) {
	t.Parallel()
	servers := redistest.Primaries(t, 3, redistest.Tenant(target.DefaultPrefix),
		redistest.Needs("in a quorum"), listing)
	s := serveOver(t, servers, "--interval", "50ms")
	nodes := func() (list struct {
		Title string `json:"title"`
		Nodes []struct {
			Address string `json:"address"`
			Answers bool   `json:"answers"`
		} `json:"nodes"`
	}) {
		answer, err := s.web.Get(s.url + "api/locks")
		assert.Must(t, err)
		defer answer.Body.Close()
		assert.Must(t, json.NewDecoder(answer.Body).Decode(&list))
		return list
	}
	list := nodes()
	assert.MustTrue(t, list.Title == "a quorum of 3 servers" && len(list.Nodes) == 3, "%+v", list)
	for i, n := range list.Nodes {
		assert.False(t, n.Address != scheme()+servers[i].Addr() || !n.Answers, "server %d: %+v", i, n)
	}
	servers[1].Kill()
	redistest.Await(t, "the page shows that a server is down", func() bool {
		n := nodes().Nodes
		return n[0].Answers && !n[1].Answers && n[2].Answers
	})
	s.end()
}
