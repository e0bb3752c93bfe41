package page

import (
	"errors"
	"maps"
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
	mostTries   = 10 // wrong tokens in triesTime
	triesTime   = time.Minute
	triesPause  = 3 * time.Second // then, before the page looks at a token
	triesAgain  = "60"
	mostClients = 4096 // that are remembered for their wrong tokens
	mostStreams = 32   // of one client
	allStreams  = 1024
)

var errTooManyTries = errors.New("too many wrong tokens")

// tries counts the wrong tokens of each client.
type tries struct {
	mu   sync.Mutex
	from map[string][]time.Time // the latest ones, in order
}

// others is the client that stands for all that are not remembered: an attack from very many addresses shares
// one count.
const others = "others"

// full reports whether a client has shown too many wrong tokens.
func (t *tries) full(client string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.from[client] == nil && len(t.from) >= mostClients {
		client = others
	}
	list := t.from[client]
	return len(list) >= mostTries && now.Sub(list[len(list)-mostTries]) < triesTime
}

func (t *tries) count(client string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.from == nil {
		t.from = map[string][]time.Time{}
	}
	if t.from[client] == nil && len(t.from) >= mostClients {
		maps.DeleteFunc(t.from, func(_ string, list []time.Time) bool {
			return now.Sub(list[len(list)-1]) >= triesTime
		})
		if len(t.from) >= mostClients {
			client = others
		}
	}
	list := t.from[client]
	t.from[client] = append(list[max(0, len(list)+1-mostTries):], now)
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
