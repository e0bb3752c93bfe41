package page

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

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

// believes reports whether an address is that of a proxy whose headers say whom it serves.
func (cfg *Config) believes(address string) bool {
	ip := addressOf(address)
	return ip.IsValid() && slices.ContainsFunc(cfg.Proxies, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// addressOf reads an address, with or without a port.
func addressOf(text string) netip.Addr {
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	ip, _ := netip.ParseAddr(strings.TrimSpace(text)) // of what is none, the zero value
	return ip.Unmap().WithZone("")
}

// overTLS reports whether the viewer's connection has TLS: here, or at a proxy.
func (cfg *Config) overTLS(r *http.Request) bool {
	return r.TLS != nil || cfg.believes(r.RemoteAddr) && strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

// clientOf is the address of a viewer: behind proxies that are believed, the one that the first of them saw. Of
// IPv6 it is the network, because one machine has all addresses of it.
func (cfg *Config) clientOf(r *http.Request) string {
	from := r.RemoteAddr
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for ; cfg.believes(from) && len(hops) > 0 && addressOf(hops[len(hops)-1]).IsValid(); hops = hops[:len(hops)-1] {
		from = hops[len(hops)-1]
	}
	ip := addressOf(from)
	if !ip.IsValid() {
		return from // a socket
	}
	if ip.Is6() {
		network, _ := ip.Prefix(64) // 64 fits
		return network.String()
	}
	return ip.String()
}

// Limits for one client, and for all of them.
const (
	mostTries   = 10                    // wrong tokens of all clients together in triesTime
	triesTime   = time.Minute           // until the page has forgotten so many
	triesPause  = 20 * time.Millisecond // before each token, if there were more
	triesAgain  = "60"
	mostStreams = 32 // of one client
	allStreams  = 1024
)

var errTooManyTries = errors.New("too many wrong tokens")

// tries bounds the guesses of all clients together. Wrong tokens fill a bucket, and time empties it. While it is
// full, tokens wait in a line, and there is a pause before each, however many connections bring them. A right token
// waits, too: otherwise the time of an answer would tell a guesser which one is right. The clients in the line take
// turns: one that sends a thousand tokens delays each other client by one pause.
type tries struct {
	mu    sync.Mutex
	empty time.Time // when the bucket will be empty
	turn  turn      // of all clients
	of    map[string]*clientTurn
}

// turn has an element while somebody has the turn. Others get it in the order in which they asked.
type turn chan struct{}

type clientTurn struct {
	turn
	waiting int
}

func newTries() *tries { return &tries{turn: make(turn, 1), of: map[string]*clientTurn{}} }

// look is the role of a token if the bucket has room, and full if it has none.
func (t *tries) look(now time.Time, roleOf func() role) (found role, full bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	const room = triesTime / mostTries
	if t.empty.Sub(now) > triesTime-room {
		return nobody, true
	}
	if found = roleOf(); found == nobody { // under the mutex: no other token is looked at in between
		t.empty = later(t.empty, now).Add(room)
	}
	return found, false
}

// fill fills the bucket: a wrong token came while it was full.
func (t *tries) fill(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.empty = now.Add(triesTime)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// wait returns true when a client may show a token, or false if it has left.
func (t *tries) wait(ctx context.Context, client string) bool {
	own := t.enter(client)
	defer t.leave(client)
	return own.take(ctx, func() bool {
		return t.turn.take(ctx, func() bool {
			select {
			case <-time.After(triesPause):
				return true
			case <-ctx.Done():
				return false
			}
		})
	})
}

// take calls f when it is the caller's turn, and returns false if the caller has left before.
func (t turn) take(ctx context.Context, f func() bool) bool {
	select {
	case t <- struct{}{}:
		defer func() { <-t }()
		return f()
	case <-ctx.Done():
		return false
	}
}

func (t *tries) enter(client string) *clientTurn {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.of[client]
	if own == nil {
		own = &clientTurn{turn: make(turn, 1)}
		t.of[client] = own
	}
	own.waiting++
	return own
}

func (t *tries) leave(client string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.of[client]
	if own.waiting--; own.waiting == 0 {
		delete(t.of, client)
	}
}

// streams counts the streams of each client.
type streams struct {
	mu   sync.Mutex
	from map[string]int
	all  int
}

// begin counts a stream, unless there are too many.
func (s *streams) begin(client string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.from == nil {
		s.from = map[string]int{}
	}
	if s.from[client] >= mostStreams || s.all >= allStreams {
		return false
	}
	s.from[client]++
	s.all++
	return true
}

func (s *streams) end(client string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.from[client]--; s.from[client] == 0 {
		delete(s.from, client)
	}
}
