package target

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// Files with secrets are read again for each new connection, because a run may hold a lock for longer than a
// password or a certificate lasts. While a file cannot be read, or is half written, what it had before counts. A pipe
// is read once: to open it again may wait for ever.

// mayChange reports whether all of these are files that can be read again. An empty name is no file.
func mayChange(files ...string) bool {
	for _, file := range files {
		if info, err := os.Stat(file); file != "" && err == nil && !info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// loginOf is the login of each new connection: a user, and what the file has then.
func loginOf(user, file, password string) func(context.Context) (string, string, error) {
	var mu sync.Mutex
	return func(context.Context) (string, string, error) {
		mu.Lock()
		defer mu.Unlock()
		if !mayChange(file) {
			return user, password, nil
		}
		if now, err := Secret("--password-file", file, "", nil); err == nil && now != "" {
			password = now
		}
		return user, password, nil
	}
}

// readTrust is base with the certificates that --cacert, --cert and --key have now.
func (s *Flags) readTrust(base *tls.Config) (*tls.Config, error) {
	cfg := base.Clone()
	if s.caFile != "" {
		pem, err := os.ReadFile(s.caFile)
		if err == nil {
			cfg.RootCAs = x509.NewCertPool()
			if !cfg.RootCAs.AppendCertsFromPEM(pem) {
				err = fmt.Errorf("%s has no certificate", s.caFile)
			}
		}
		if err != nil {
			return nil, exit.Usage(fmt.Sprintf("--cacert: %v", err), "name a file with certificates in PEM form")
		}
	}
	if s.certFile != "" {
		pair, err := tls.LoadX509KeyPair(s.certFile, s.keyFile)
		if err != nil {
			return nil, exit.Usage(fmt.Sprintf("--cert and --key: %v", err), "name both files, in PEM form")
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// dialer makes the connections with TLS, as go-redis does, but with the certificates of that moment.
func (s *Flags) dialer(o *redis.Options) func(ctx context.Context, network, addr string) (net.Conn, error) {
	var mu sync.Mutex
	cfg := o.TLSConfig
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		mu.Lock()
		if mayChange(s.caFile, s.certFile, s.keyFile) {
			if fresh, err := s.readTrust(cfg); err == nil {
				cfg = fresh
			}
		}
		d := tls.Dialer{Config: cfg, NetDialer: &net.Dialer{Timeout: o.DialTimeout, KeepAliveConfig: keepAlive}}
		mu.Unlock()
		return d.DialContext(ctx, network, addr)
	}
}

// keepAlive is that of go-redis' own connections.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3}
