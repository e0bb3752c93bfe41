package rueidis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/internal/adaptertest"
	holdfastrueidis "github.com/holdfast-go/holdfast/store/rueidis"
)

// dialled is a client of a live server that makes later connections with dial. The first
// connection is cut, so the next request makes another one.
func dialled(t *testing.T, dial func(ctx context.Context) (net.Conn, error)) *holdfastrueidis.Store {
	t.Helper()
	s := redistest.Start(t, adaptertest.Free)
	proxy := redistest.NewProxy(t, s.Addr())
	var dials atomic.Int32
	rdb, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{proxy.Addr()}, DisableCache: true, DisableRetry: true, PipelineMultiplex: -1,
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if dials.Add(1) == 1 {
				if config := redistest.TLS(); config != nil {
					return (&tls.Dialer{NetDialer: d, Config: config}).DialContext(ctx, "tcp", addr)
				}
				return d.DialContext(ctx, "tcp", addr)
			}
			return dial(ctx)
		},
	})
	assert.Must(t, err)
	t.Cleanup(rdb.Close)
	st := holdfastrueidis.New(rdb)
	assert.Must(t, assert.Err(st.Run(t.Context(), adaptertest.Echo, nil, []string{"x"})))
	proxy.Cut()
	return st
}

// refusedDial finds no listener.
func refusedDial(t *testing.T) func(ctx context.Context) (net.Conn, error) {
	t.Helper()
	addr := redistest.ClosedAddr(t)
	return func(ctx context.Context) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, "tcp", addr) }
}

// If a request fails before anything is written, the error says so.
func TestNotSentIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		dial func(ctx context.Context) (net.Conn, error)
		code string // of the refusal; empty: none
	}{
		"refused port": {refusedDial(t), ""},
		"no such host": {func(context.Context) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "nowhere"}}
		}, ""},
		"no TLS": {func(context.Context) (net.Conn, error) {
			return nil, tls.RecordHeaderError{Msg: "what is this"}
		}, "TLS"},
		"not trusted": {func(context.Context) (net.Conn, error) {
			return nil, &tls.CertificateVerificationError{Err: errors.New("by nobody")}
		}, "TLS"},
		"not trusting": {func(context.Context) (net.Conn, error) {
			// The type of an alert that comes over a connection is not exported.
			return nil, &net.OpError{Op: "remote error", Err: errors.New(tls.AlertError(42).Error())}
		}, "TLS"},
	} {
		t.Run(name, func(t *testing.T) {
			st := dialled(t, c.dial)
			var err error
			redistest.Await(t, "the break is noticed", func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				_, err = st.Run(ctx, adaptertest.Echo, nil, []string{"x"})
				return err != nil && !strings.Contains(err.Error(), "after") &&
					!strings.Contains(err.Error(), "earlier")
			})
			var refusal *store.ServerError
			assert.False(t, errors.As(err, &refusal) != (c.code != "") || refusal != nil && refusal.Code != c.code,
				"got %v, want the refusal %q", err, c.code)
			if c.code == "" {
				assert.Is(t, err, store.ErrNotSent)
			}
		})
	}
}

// A request with a closed client gets an error that says so.
func TestAClosedClientIsNamed(t *testing.T) {
	s := redistest.Start(t, adaptertest.Free)
	rdb, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Addr()}, DisableCache: true, TLSConfig: redistest.TLS(),
	})
	assert.Must(t, err)
	st := holdfastrueidis.New(rdb)
	rdb.Close()
	_, _ = st.Run(t.Context(), adaptertest.Echo, nil, []string{"x"}) // the first request may have been under way
	var refusal *store.ServerError
	_, err = st.Run(t.Context(), adaptertest.Echo, nil, []string{"x"})
	assert.True(t, errors.As(err, &refusal) && refusal.Code == "CLIENT",
		"want a refusal with the code CLIENT, got %v", err)
}
