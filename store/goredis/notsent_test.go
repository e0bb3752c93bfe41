package goredis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
	"github.com/holdfast-go/holdfast/store/internal/adaptertest"
)

func dialling(t *testing.T, options *redis.Options) *redis.Client {
	options.DialerRetries = 1
	if options.TLSConfig == nil {
		options.TLSConfig = redistest.TLS()
	}
	rdb := redis.NewClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// If a request fails before anything is written, the error says so. A definite answer of the
// server or the client is a refusal.
func TestNotSentIsReported(t *testing.T) {
	s := redistest.Start(t, adaptertest.Free)
	dns := func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "nowhere"}}
	}
	named := &tls.Config{ServerName: "x"} // the server speaks no TLS version
	stranger := &redis.Options{Addr: s.Addr(), Username: "nobody", Password: "x"}
	hangUp, full, denied := saying(t, ""), "MAXCLIENTS", "DENIED"
	if redistest.Secured() {
		full, denied = "TLS", "TLS"
	}
	for name, c := range map[string]struct {
		rdb  *redis.Client
		code string // of the refusal; empty: none
	}{
		"refused port":    {dialling(t, &redis.Options{Addr: redistest.ClosedAddr(t)}), ""},
		"no such host":    {dialling(t, &redis.Options{Addr: "nowhere:1", Dialer: dns}), ""},
		"hangs up":        {dialling(t, &redis.Options{Addr: hangUp}), ""},
		"hangs up on TLS": {dialling(t, &redis.Options{Addr: hangUp, TLSConfig: named}), ""},
		"no TLS":          {dialling(t, &redis.Options{Addr: saying(t, "-ERR no\r\n"), TLSConfig: named}), "TLS"},
		"wrong password":  {dialling(t, stranger), "WRONGPASS"},
		"no place": {
			dialling(t, &redis.Options{Addr: saying(t, "-ERR max number of clients reached\r\n")}), full,
		},
		"protected": {
			dialling(t, &redis.Options{Addr: saying(t, "-DENIED Redis is in protected mode. More.\r\n")}), denied,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			_, err := goredis.New(c.rdb).Run(ctx, adaptertest.Echo, nil, []string{"x"})
			var refusal *store.ServerError
			if c.code != "" {
				assert.True(t, errors.As(err, &refusal) && refusal.Code == c.code,
					"got %v, want the refusal %s", err, c.code)
				return
			}
			assert.True(t, errors.Is(err, store.ErrNotSent) && !errors.As(err, &refusal),
				"want ErrNotSent and no refusal, got %v", err)
			addr := c.rdb.Options().Addr
			assert.True(t, strings.Contains(err.Error(), addr), "%q does not name %s", err, addr)
		})
	}
}

// The store's own connections do not end with the client's. A holder can still release its lock.
func TestAClosedClientIsServedOn(t *testing.T) {
	s := redistest.Start(t, adaptertest.Free)
	rdb := dialling(t, &redis.Options{Addr: s.Addr()})
	st := goredis.New(rdb)
	assert.Must(t, rdb.Close())
	assert.Must(t, assert.Err(st.Run(t.Context(), adaptertest.Echo, nil, []string{"x"})))
	st.CloseIdleConnections()
	assert.False(t, st.Reserved(), "connections that nothing uses are kept")
}

// saying is the address of a server that accepts, sends the text, and hangs up.
func saying(t *testing.T, what string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(what))
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}
