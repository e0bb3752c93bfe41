package bench

import (
	"context"
	"io"
	"net"
	"sync"
	"time"
)

// relay is a network of constant latency in front of a server: it passes each piece of data
// on when half of a round trip is over. Pieces do not wait for each other, so it does not
// limit the throughput.
type relay struct {
	target   string
	half     time.Duration
	listener net.Listener

	mu    sync.Mutex // guards conns
	conns []net.Conn
	works sync.WaitGroup
}

// startRelay puts a round trip in front of the server at target. When ctx ends, it connects nobody
// any more. The caller stops it.
func startRelay(ctx context.Context, target string, trip time.Duration) (*relay, error) {
	var listen net.ListenConfig
	l, err := listen.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &relay{target: target, half: trip / 2, listener: l}
	r.works.Go(func() { r.accept(ctx) })
	return r, nil
}

func (r *relay) addr() string { return r.listener.Addr().String() }

func (r *relay) accept(ctx context.Context) {
	var dialer net.Dialer
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		server, err := dialer.DialContext(ctx, "tcp", r.target)
		if err != nil {
			client.Close() //nolint:errcheck // the client finds a closed connection
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, client, server)
		r.mu.Unlock()
		r.pass(server, client)
		r.pass(client, server)
	}
}

// piece is data that is to be written at an instant.
type piece struct {
	at   time.Time
	data []byte
}

// pass copies one direction, half a round trip late. When one side ends, so does the other.
func (r *relay) pass(to io.WriteCloser, from io.Reader) {
	pieces := make(chan piece, 1024)
	r.works.Go(func() {
		defer close(pieces)
		for {
			data := make([]byte, 16<<10)
			n, err := from.Read(data)
			if n > 0 {
				pieces <- piece{time.Now().Add(r.half), data[:n]}
			}
			if err != nil {
				return
			}
		}
	})
	r.works.Go(func() {
		for p := range pieces {
			time.Sleep(time.Until(p.at))
			if _, err := to.Write(p.data); err != nil {
				break
			}
		}
		to.Close()         //nolint:errcheck // it ends the other direction, whatever it says
		for range pieces { // the reader must not block
		}
	})
}

// stop ends all connections.
func (r *relay) stop() {
	r.listener.Close() //nolint:errcheck // it ends the accepting
	r.mu.Lock()
	for _, c := range r.conns {
		c.Close() //nolint:errcheck // as above
	}
	r.mu.Unlock()
	r.works.Wait()
}
