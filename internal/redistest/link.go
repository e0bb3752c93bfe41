package redistest

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"time"
)

// link is one client connection through a proxy, and the connection to the server for it. The
// latter is opened for the first request that may pass.
type link struct {
	proxy  *Proxy
	client net.Conn
	number int           // of the proxy's connections
	done   chan struct{} // closed by close

	forgotten bool // nothing passes any more, see [Proxy.Forget]; guarded by the mu of the proxy

	mu      sync.Mutex // guards what follows; no I/O while it is held
	server  net.Conn
	closed  bool
	pending [][]string // requests without an answer yet, oldest first
	resp3   bool       // the client said HELLO 3: pushes have a type of their own
	pushes  bool       // RESP2 in subscribed mode: what comes are pushes

	made  time.Time // when it was accepted
	used  time.Time // when something last passed; guarded as forgotten is
	setup [][]byte  // the requests that log in and choose the database; of the goroutine that reads requests
}

// accept takes connections until the listener is closed.
func (p *Proxy) accept(serving *sync.WaitGroup) {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		now := time.Now()
		l := &link{proxy: p, client: c, done: make(chan struct{}), made: now, used: now}
		if p.identity != nil {
			l.client = tls.Server(c, p.identity.server)
		}
		p.mu.Lock()
		refuse := p.worst().refuse || p.closed
		if !refuse {
			p.made++
			l.number = p.made
			p.links[l] = struct{}{}
		}
		p.mu.Unlock()
		if refuse {
			c.(*net.TCPConn).SetLinger(0) //nolint:errcheck // a reset, as from a closed port
			c.Close()                     //nolint:errcheck // as above
			continue
		}
		serving.Go(func() {
			l.requests(serving)
			l.close()
		})
	}
}

// close ends both sides; it may be called again.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	close(l.done)
	reset(l.client)
	if l.server != nil {
		reset(l.server)
	}
	l.proxy.mu.Lock()
	defer l.proxy.mu.Unlock()
	delete(l.proxy.links, l)
}

// requests forwards the client's requests.
func (l *link) requests(serving *sync.WaitGroup) {
	p, r := l.proxy, bufio.NewReader(l.client)
	for {
		frame, err := readFrame(r)
		if err != nil {
			return
		}
		words := request(frame)
		p.note(Arrived, words)
		if !p.slow(l) {
			return
		}
		held, there := p.gate(l)
		if !there || held && l.gone(r) {
			return
		}
		server, err := l.connect(serving)
		if err != nil {
			return
		}
		l.expect(words)
		if _, err := server.Write(frame); err != nil {
			return
		}
		p.note(Forwarded, words)
		l.keep(frame, words, serving)
	}
}

// gone reports whether the client has closed a connection that it opened in a black hole. On a
// network without a route, that connection would not exist. Without this check, thousands of
// them could reach the server at the end of a fault, which no network does. What was sent over
// an earlier connection does arrive.
func (l *link) gone(r *bufio.Reader) bool {
	l.mu.Lock()
	reached := l.server != nil
	l.mu.Unlock()
	if reached {
		return false
	}
	l.client.SetReadDeadline(time.Now().Add(time.Millisecond)) //nolint:errcheck // the reading says so
	_, err := r.Peek(1)
	l.client.SetReadDeadline(time.Time{}) //nolint:errcheck // as above
	return errors.Is(err, io.EOF)
}

// connect returns the connection to the server. It is made when it is first needed.
func (l *link) connect(serving *sync.WaitGroup) (net.Conn, error) {
	l.mu.Lock()
	server := l.server
	l.mu.Unlock()
	if server != nil {
		return server, nil
	}
	l.proxy.mu.Lock()
	target := l.proxy.target
	l.proxy.mu.Unlock()
	server, err := connect(target, l.proxy.identity != nil)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		reset(server)
		return nil, net.ErrClosed
	}
	l.server = server
	serving.Go(func() {
		l.replies(server)
		l.close()
	})
	return server, nil
}

// reply is an answer, or a push if request is nil, on its way to the client.
type reply struct {
	frame   []byte
	request []string
	due     time.Time
}

// replies forwards what the server sends. Reading goes on while an answer is delayed, so a
// delay adds latency and does not limit bandwidth.
func (l *link) replies(server net.Conn) {
	p, r := l.proxy, bufio.NewReader(server)
	queue := make(chan reply, 4096)
	var writing sync.WaitGroup
	writing.Go(func() {
		defer l.close()
		for next := range queue {
			if !l.deliver(next) {
				return
			}
		}
	})
	defer writing.Wait()
	defer close(queue)
	for {
		frame, err := readFrame(r)
		if err != nil {
			return
		}
		words := l.answered(frame)
		p.note(Executed, words)
		if drop, cut := p.swallow(words); drop {
			p.note(Dropped, words)
			if cut {
				return
			}
			continue
		}
		p.mu.Lock()
		due := time.Now().Add(p.worst().delay)
		p.mu.Unlock()
		select {
		case queue <- reply{frame, words, due}:
		case <-l.done:
			return
		}
	}
}

func (l *link) deliver(next reply) bool {
	if wait := time.Until(next.due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.done:
			return false
		}
	}
	if _, there := l.proxy.gate(l); !there {
		return false
	}
	if _, err := l.client.Write(next.frame); err != nil {
		return false
	}
	l.proxy.note(Answered, next.request)
	return true
}

// expect notes that an answer to words will come. A subscription is answered by pushes, which
// count as no answer.
func (l *link) expect(words []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch command := strings.ToUpper(words[0]); {
	case strings.HasSuffix(command, "SUBSCRIBE"):
		l.pushes = !l.resp3
	case command == "HELLO" && len(words) > 1:
		l.resp3 = words[1] == "3"
		fallthrough
	default:
		l.pending = append(l.pending, words)
	}
}

// answered returns the request that frame answers, nil if it is a push.
func (l *link) answered(frame []byte) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if frame[0] == '>' || l.pushes || len(l.pending) == 0 {
		return nil
	}
	words := l.pending[0]
	l.pending = l.pending[1:]
	return words
}
