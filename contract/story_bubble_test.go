// What is sent for an attempt, as attempt.txt tells it: a grant and a hand-over with one request each (G11), a lost
// push (G10), and an unknown outcome that is cancelled (G7).

package contract_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

var rewrite = flag.Bool("rewrite", false, "write attempt.txt again")

// chronicle is what clients did, as text for people.
type chronicle struct {
	mu    sync.Mutex
	begun time.Time
	names map[string]string // of what differs from run to run, in the order of their appearance
	text  strings.Builder
}

// varies are the IDs of clients and attempts, and the tokens and instants of the server.
var varies = regexp.MustCompile(`[A-Za-z0-9_-]{22}(?:/\d+)?|\b\d{12,19}\b`)

func (s *chronicle) tellf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	line := varies.ReplaceAllStringFunc(fmt.Sprintf(format, args...), func(word string) string {
		if len(word) == 12 { // of the server's clock, in ms
			at, _ := strconv.ParseInt(word, 10, 64)
			return fmt.Sprintf("@%.3f", time.UnixMilli(at).Sub(s.begun).Seconds())
		}
		if id, number, attempt := strings.Cut(word, "/"); attempt {
			return s.names[id] + "/" + number
		}
		if s.names[word] == "" {
			s.names[word] = fmt.Sprintf("T%d", len(s.names)-1) // A and B are there from the beginning
		}
		return s.names[word]
	})
	fmt.Fprintf(&s.text, "%8.3f  %s\n", time.Since(s.begun).Seconds(), strings.TrimRight(line, " "))
}

// narrator is the network of one client. A request and its answer take 1 ms each.
type narrator struct {
	*memstore.Store
	story *chronicle
	who   string
	lose  int // so many answers to acquisitions are lost
}

func (n *narrator) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	switch action.Name {
	case "register_client", "check_acl", "read_client": // once for each client, in the background
		return n.Store.Run(ctx, action, keys, args)
	case "cancel":
		time.Sleep(100 * time.Microsecond) // it is sent beside another request: a fixed order
	}
	n.story.tellf("%s → %s %s", n.who, action.Name, strings.Join(varies.FindAllString(strings.Join(args, " "), 1), ""))
	time.Sleep(time.Millisecond)
	answer, err := n.Store.Run(context.WithoutCancel(ctx), action, keys, args)
	if action.Name == "acquire" && n.lose > 0 {
		n.lose--
		n.story.tellf("    server: %s, and the answer is lost", answer)
		limit, _ := ctx.Deadline() // its Done need not follow it
		time.Sleep(time.Until(limit))
		return "", context.DeadlineExceeded
	}
	time.Sleep(time.Millisecond)
	n.story.tellf("%s ← %s", n.who, strings.ReplaceAll(strings.TrimSpace(answer), "\n", " · "))
	return answer, err
}

// Random makes the pauses those of every run.
func (n *narrator) Random() func() float64 { return func() float64 { return 0.5 } }

func (n *narrator) Listen(ctx context.Context, channel string, l store.Listener) (func(), error) {
	n.story.tellf("%s subscribes to its channel", n.who)
	time.Sleep(2 * time.Millisecond)
	message := l.Message
	l.Message = func(payload string) {
		n.story.tellf("%s ⇐ push: %s", n.who, payload)
		message(payload)
	}
	return n.Store.Listen(ctx, channel, l)
}

// chapter is one part of the story: A and B are clients of one server.
func (s *chronicle) chapter(t *testing.T, title string,
	f func(t *testing.T, m *memstore.Store, b *narrator, ca, cb *holdfast.Client),
) {
	synctest.Test(t, func(t *testing.T) {
		m := memstore.New()
		s.begun, s.names = time.Now(), make(map[string]string)
		fmt.Fprintf(&s.text, "\n# %s\n", title)
		var clients []*holdfast.Client
		var networks []*narrator
		for _, who := range []string{"A", "B"} {
			n := &narrator{Store: m, story: s, who: who}
			c, err := holdfast.New(n, holdfast.Config{})
			assert.Must(t, err)
			s.names[c.ID()] = who
			clients, networks = append(clients, c), append(networks, n)
		}
		f(t, m, networks[1], clients[0], clients[1])
		synctest.Wait()
		end := s.text.Len()
		for _, c := range clients {
			_ = c.Close(context.Background())
		}
		text := s.text.String()[:end]
		s.text.Reset()
		s.text.WriteString(text)
	})
}

// chapters are the parts of attempt.txt.
var chapters = []struct {
	title string
	tell  func(t *testing.T, m *memstore.Store, b *narrator, ca, cb *holdfast.Client)
}{
	{"The lock is free: one request.", func(t *testing.T, m *memstore.Store, b *narrator, ca, cb *holdfast.Client) {
		works(t, cb)
	}},
	{"A holds the lock. B subscribes, joins the wait queue, and is pushed the grant.",
		func(t *testing.T, m *memstore.Store, b *narrator, ca, cb *holdfast.Client) {
			handsOver(t, ca, cb, func() {})
		}},
	{"The push is lost. B polls when A's lease could be over.",
		func(t *testing.T, m *memstore.Store, b *narrator, ca, cb *holdfast.Client) {
			handsOver(t, ca, cb, func() { m.DropPushes(1) })
		}},
	{"The answer to B's first request is lost. B cancels that attempt, and asks under a new one.",
		func(t *testing.T, m *memstore.Store, b *narrator, ca, cb *holdfast.Client) {
			b.lose = 1
			works(t, cb)
		}},
	{"B gives up. The cancel withdraws its place, so that A's release grants the lock to nobody.",
		func(t *testing.T, m *memstore.Store, b *narrator, ca, cb *holdfast.Client) {
			l := mustLock(t, ca.Mutex("x"))
			assert.Is(t, assert.Err(cb.Mutex("x", holdfast.MaxWait(time.Second)).Lock(t.Context())), holdfast.ErrHeld)
			release(t, l)
		}},
}

// works holds the lock for 50 ms.
func works(t *testing.T, c *holdfast.Client) {
	l := mustLock(t, c.Mutex("x"))
	time.Sleep(50 * time.Millisecond)
	release(t, l)
}

// handsOver has B wait for A. fault comes before A's release.
func handsOver(t *testing.T, ca, cb *holdfast.Client, fault func()) {
	l := mustLock(t, ca.Mutex("x"))
	done := make(chan struct{})
	go func() { works(t, cb); close(done) }()
	time.Sleep(time.Second)
	fault()
	release(t, l)
	<-done
}

// attempt.txt is what the clients send and receive, in virtual time.
func TestTheStoryOfAnAttempt(t *testing.T) {
	s := &chronicle{}
	s.text.WriteString(`# What attempt.go does, as two clients, A and B, send and receive it. Times are in seconds.
# A request and its answer take 1 ms each. A/1 is the first attempt of A. T1 is a fencing token, as the
# server has it; @1.003 is an instant of the server's clock. The head of each script, in script/, explains
# its answers.
# "go test ./contract -run TestTheStoryOfAnAttempt -rewrite" writes this again.
`)
	for _, chapter := range chapters {
		s.chapter(t, chapter.title, chapter.tell)
	}
	if *rewrite {
		assert.Must(t, os.WriteFile("../attempt.txt", []byte(s.text.String()), 0o644))
	}
	want, err := os.ReadFile("../attempt.txt")
	assert.Must(t, err)
	assert.Equal(t, s.text.String(), string(want), "the story")
}
