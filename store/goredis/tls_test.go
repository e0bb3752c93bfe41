package goredis_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/internal/adaptertest"
)

// A certificate that the client does not trust is a definite refusal: nothing
// was sent.
func TestDistrustIsDefinite(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	t.Cleanup(server.Close)
	s, _ := open(t, server.Listener.Addr().String(), func(o *redis.Options) {
		o.TLSConfig = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
		o.DialerRetries = 1
	})
	_, err := s.Run(t.Context(), adaptertest.Echo, nil, []string{"x"})
	var refusal *store.ServerError
	assert.True(t, errors.As(err, &refusal) && refusal.Code == "TLS" && holdfast.Hint(err) != "", "Run: %v", err)
	_, err = s.Server(t.Context())
	assert.True(t, errors.As(err, &refusal), "Server: %v", err)
}

// A server that refuses the client's certificate, or its lack, refuses definitely, too: it reads no
// request before. With TLS 1.3, the client has sent its first words by then.
func TestARefusedClientCertificateIsDefinite(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		server := httptest.NewUnstartedServer(nil)
		server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, MinVersion: version, MaxVersion: version}
		server.Config.ErrorLog = log.New(io.Discard, "", 0)
		server.StartTLS()
		t.Cleanup(server.Close)
		trusted := x509.NewCertPool()
		trusted.AddCert(server.Certificate())
		s, _ := open(t, server.Listener.Addr().String(), func(o *redis.Options) {
			o.TLSConfig = &tls.Config{RootCAs: trusted, MinVersion: version}
			o.DialerRetries = 1
		})
		var refusal *store.ServerError
		redistest.Await(t, "the refusal arrives before the connection breaks", func() bool {
			_, err := s.Run(t.Context(), adaptertest.Echo, nil, []string{"x"})
			return errors.As(err, &refusal)
		})
		assert.True(t, refusal.Code == "TLS" && strings.Contains(refusal.Message, "the server refuses: tls: "),
			"%s: %v", tls.VersionName(version), refusal)
	}
}
