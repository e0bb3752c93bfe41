package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// EnvServers names the environment variable that says how servers are started. By default they
// are open. "secured" starts them as docs/server.md recommends: with TLS only, and with a
// default user who has only the permissions that the page lists, for the keys and channels of
// one tenant. The harness has its own user.
//
// Tests do not ask how servers are started. They open their clients with [TLS] and put [Prefix]
// before their keys. Where a test is no ordinary client, it says so with [Tenant] and [Allow].
const EnvServers = "HOLDFAST_TEST_SERVERS"

// envCertificate passes the certificate of the servers to child processes.
const envCertificate = "HOLDFAST_TEST_CERTIFICATE"

// The harness's user of a secured server.
const (
	adminName     = "harness"
	adminPassword = "harness-password"
)

// Secured reports whether servers are started secured.
func Secured() bool { return os.Getenv(EnvServers) == "secured" }

// Prefix returns what clients put before their keys: the library's default, or the prefix of a
// tenant if servers are secured.
func Prefix() string {
	if Secured() {
		return "tenant-7"
	}
	return "holdfast"
}

// Tenant lets clients with this prefix use the server, instead of [Prefix]. If the prefix is
// empty, its clients may use every key and channel.
func Tenant(prefix string) Option { return func(s *Server) { s.tenant = prefix } }

// Allow gives the clients of a secured server permissions that no ordinary client needs, as
// arguments of ACL SETUSER.
func Allow(rules ...string) Option {
	return func(s *Server) { s.more = append(s.more, rules...) }
}

// AllowAll gives the clients of a secured server every permission. It is for tests with keys and commands
// that are not Holdfast's own, such as those of another library.
func AllowAll() Option { return Allow("~*", "&*", "+@all") }

// TLS returns the TLS configuration of clients, or nil if servers are open.
func TLS() *tls.Config {
	if !Secured() {
		return nil
	}
	pool := x509.NewCertPool()
	// A child process uses the servers of its parent.
	pool.AppendCertsFromPEM([]byte(os.Getenv(envCertificate)))
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// CAFile returns the name of the file with the certificate to trust. It is empty if the server
// is open.
func (s *Server) CAFile() string {
	if !s.secured {
		return ""
	}
	return filepath.Join(s.dir, "server.crt")
}

// Harness gives an open server the harness's user of a secured server. So a test may take
// permissions from the default user and keep its own.
func Harness() Option { return func(s *Server) { s.harness = true } }

// harnessUser returns the arguments that make this user.
func harnessUser() []string {
	return []string{"--user", adminName, "on", ">" + adminPassword, "~*", "&*", "+@all"}
}

// Admin returns a user who may do everything on the server. Empty strings stand for the
// default user.
func (s *Server) Admin() (user, password string) {
	if s.secured || s.harness {
		return adminName, adminPassword
	}
	return "", s.password
}

// identity is the certificate that all servers and proxies of this process share. It exists
// only while the process runs.
type identity struct {
	certificate, key []byte // PEM
	server           *tls.Config
}

var newIdentity = sync.OnceValues(func() (*identity, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: "holdfast tests"},
		// A year earlier, because tests move the clocks of servers.
		NotBefore:             time.Now().AddDate(-1, 0, 0),
		NotAfter:              time.Now().AddDate(1, 0, 0),
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	id := &identity{
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}
	pair, err := tls.X509KeyPair(id.certificate, id.key)
	if err != nil {
		return nil, err
	}
	id.server = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return id, os.Setenv(envCertificate, string(id.certificate))
})

// secure prepares the files of a secured server.
func (s *Server) secure() error {
	s.secured = true
	id, err := newIdentity()
	if err != nil {
		return err
	}
	if s.rules, err = s.rights(); err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(filepath.Join(s.dir, "server.crt"), id.certificate, 0o600),
		os.WriteFile(filepath.Join(s.dir, "server.key"), id.key, 0o600))
}

// securedArgs returns the additional arguments of a secured server.
func (s *Server) securedArgs() []string {
	args := []string{
		"--tls-port", fmt.Sprint(s.port),
		"--tls-cert-file", filepath.Join(s.dir, "server.crt"), "--tls-key-file", filepath.Join(s.dir, "server.key"),
		"--tls-ca-cert-file", filepath.Join(s.dir, "server.crt"), "--tls-auth-clients", "no",
		"--tls-replication", "yes",
	}
	args = append(args, harnessUser()...)
	args = append(args, "--user", "default")
	if s.keepsLog() {
		args = append(args, "on", "nopass", "~*", "&*", "+@all") // until limitClients
	} else {
		args = append(args, s.clientRules()...)
	}
	if s.cluster {
		args = append(args, "--tls-cluster", "yes")
	}
	if s.primary != nil {
		args = append(args, "--masteruser", adminName, "--masterauth", adminPassword)
	}
	return args
}

// clientRules returns what makes the default user the user of the clients.
func (s *Server) clientRules() []string {
	login := "nopass"
	if s.password != "" {
		login = ">" + s.password
	}
	return slices.Concat([]string{"on", login}, s.rules, s.more)
}

// limitClients gives the clients of a secured server that has loaded its log their permissions. Before
// Redis 8.6.2 and Valkey 9.1.2, a server loads each transaction of its log with the permissions of the default
// user. It drops those that this user may not do (redis/redis#14541).
func (s *Server) limitClients() error {
	if !s.secured || !s.keepsLog() {
		return nil
	}
	set := []any{"ACL", "SETUSER", "default", "reset"}
	for _, rule := range s.clientRules() {
		set = append(set, rule)
	}
	_, err := s.ask(set...)
	return err
}

// Listen returns a listener for a test that is the server itself, for clients with [TLS].
func Listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.MustTrue(t, err == nil, "redistest: %v", err)
	if !Secured() {
		return l
	}
	id, err := newIdentity()
	assert.MustTrue(t, err == nil, "redistest: %v", err)
	return tls.NewListener(l, id.server)
}

// connect opens a connection to a server or proxy, secured or not.
func connect(addr string, secured bool) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: Patience}
	if !secured {
		return dialer.Dial("tcp", addr)
	}
	return tls.DialWithDialer(dialer, "tcp", addr, TLS())
}

// reset closes a connection as a crash does, without the end of TLS, because that could wait
// for a peer that does not read.
func reset(c net.Conn) {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	c.Close() //nolint:errcheck // there is nothing left to do with the error
}
