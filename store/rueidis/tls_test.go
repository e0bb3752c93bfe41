package rueidis_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/internal/adaptertest"
	holdfastrueidis "github.com/holdfast-go/holdfast/store/rueidis"
)

// A certificate that the client does not trust is a definite refusal: nothing was sent.
// rueidis connects when it is made, so the certificate becomes untrusted later.
func TestDistrustIsDefinite(t *testing.T) {
	server := redistest.Start(t, adaptertest.Free)
	foreign := httptest.NewTLSServer(nil)
	t.Cleanup(foreign.Close)
	var distrusted atomic.Bool
	proxy := redistest.NewProxy(t, server.Addr())
	rdb, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{proxy.Addr()}, ForceSingleClient: true, DisableCache: true,
		DialFn: func(addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if distrusted.Load() {
				strict := &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
				return tls.DialWithDialer(d, "tcp", foreign.Listener.Addr().String(), strict)
			}
			if trusting := redistest.TLS(); trusting != nil {
				return tls.DialWithDialer(d, "tcp", addr, trusting)
			}
			return d.Dial("tcp", addr)
		},
	})
	assert.Must(t, err)
	t.Cleanup(rdb.Close)
	s := holdfastrueidis.New(rdb)
	distrusted.Store(true)
	proxy.Cut()
	var refusal *store.ServerError
	redistest.Await(t, "the connection is made anew", func() bool {
		_, err := s.Run(t.Context(), adaptertest.Echo, nil, []string{"x"})
		return errors.As(err, &refusal)
	})
	assert.True(t, refusal.Code == "TLS" && holdfast.Hint(refusal) != "",
		"want a refusal with the code TLS and a hint, got %v", refusal)
}
