package goredis_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
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
