package integrate_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integrate/certmagiclock"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func newStorage(client *holdfast.Client, dir string) *certmagiclock.Storage {
	return certmagiclock.New(&certmagic.FileStorage{Path: dir}, client, "certmagic/")
}

// authority issues certificates, and counts them.
type authority struct {
	key    *ecdsa.PrivateKey
	issued atomic.Int64
	inside atomic.Int64
	most   atomic.Int64
}

func (a *authority) IssuerKey() string { return "authority of the test" }

func (a *authority) Issue(_ context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	if now := a.inside.Add(1); now > a.most.Load() {
		a.most.Store(now)
	}
	defer a.inside.Add(-1)
	form := &x509.Certificate{
		SerialNumber: big.NewInt(a.issued.Add(1)), DNSNames: csr.DNSNames,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(90 * 24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, csr.PublicKey, a.key)
	return &certmagic.IssuedCertificate{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
	}, err
}

func TestManyMachinesObtainACertificateOnce(t *testing.T) {
	t.Parallel()
	server, dir := redistest.Start(t), t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.Must(t, err)
	issuer := &authority{key: key}
	ended := make(chan error, 9)
	for range 4 {
		storage := newStorage(newClient(t, server), dir)
		var cfg *certmagic.Config
		cache := certmagic.NewCache(certmagic.CacheOptions{
			Logger:           zap.NewNop(),
			GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return cfg, nil },
		})
		t.Cleanup(cache.Stop)
		cfg = certmagic.New(cache, certmagic.Config{
			Storage: storage, Issuers: []certmagic.Issuer{issuer}, Logger: zap.NewNop(),
		})
		go func() { ended <- cfg.ObtainCertSync(t.Context(), "example.com") }()
	}
	for range 4 {
		assert.NoError(t, redistest.Next(t, "a certificate", ended))
	}
	assert.True(t, issuer.issued.Load() == 1,
		"%d certificates were issued, %d at a time", issuer.issued.Load(), issuer.most.Load())
}

func TestACrashFreesTheLockOfAStorage(t *testing.T) {
	t.Parallel()
	server, dir := redistest.Start(t), t.TempDir()
	storage := newStorage(newClient(t, server), dir)
	other := startChild(t, childConfig{Addr: server.Addr(), Dir: dir, Name: "issue_cert_example.com"})
	ok, err := storage.TryLock(t.Context(), "issue_cert_example.com")
	assert.MustTrue(t, !ok && err == nil, "TryLock beside the other process: %v, %v", ok, err)
	assert.Must(t, other.Kill())
	assert.Must(t, storage.Lock(t.Context(), "issue_cert_example.com"))
	assert.NoError(t, storage.Unlock(t.Context(), "issue_cert_example.com"))
}
