package target

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// authority signs certificates of one generation.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.cert, a.key, a.pem = a.sign(&x509.Certificate{IsCA: true, BasicConstraintsValid: true})
	return a
}

// sign makes a certificate: of the authority itself if there is none yet.
func (a *authority) sign(c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	assert.Must(a.t, err)
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: "holdfast test"}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	assert.Must(a.t, err)
	cert, err := x509.ParseCertificate(der)
	assert.Must(a.t, err)
	return cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// pair is a certificate for an address, and its key.
func (a *authority) pair(address string) (cert, key []byte) {
	a.t.Helper()
	_, private, cert := a.sign(&x509.Certificate{
		IPAddresses: []net.IP{net.ParseIP(address)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	der, err := x509.MarshalECPrivateKey(private)
	assert.Must(a.t, err)
	return cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
}

// listen serves TLS with a certificate for an address, and asks for one of the same authority.
func (a *authority) listen(address string) string {
	a.t.Helper()
	pair, err := tls.X509KeyPair(a.pair(address))
	assert.Must(a.t, err)
	clients := x509.NewCertPool()
	clients.AddCert(a.cert)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert,
	})
	assert.Must(a.t, err)
	a.t.Cleanup(func() { l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			if c.(*tls.Conn).Handshake() == nil {
				_, _ = c.Write([]byte("+"))
			}
			c.Close()
		}
	}()
	return l.Addr().String()
}

// Each new connection has the certificates that the files have then: those of the authority, and our own. A file
// that is half written changes nothing.
func TestCertificatesAreReadForEachConnection(t *testing.T) {
	dir := t.TempDir()
	s := &Flags{
		caFile: filepath.Join(dir, "ca"), certFile: filepath.Join(dir, "cert"), keyFile: filepath.Join(dir, "key"),
	}
	write := func(a *authority) {
		cert, key := a.pair("127.0.0.1")
		for file, text := range map[string][]byte{s.caFile: a.pem, s.certFile: cert, s.keyFile: key} {
			assert.Must(t, os.WriteFile(file, text, 0o600))
		}
	}
	first, second := newAuthority(t), newAuthority(t)
	write(first)
	at := &Target{Options: &redis.Options{Addr: "x", DialTimeout: 5 * time.Second, TLSConfig: &tls.Config{}}}
	assert.Must(t, at.trust(s))
	dial := func(address string) error {
		c, err := at.Options.Dialer(t.Context(), "tcp", address)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Read(make([]byte, 1)) // with TLS 1.3, a client learns only then that its certificate is refused
		return err
	}
	before, after, other := first.listen("127.0.0.1"), second.listen("127.0.0.1"), second.listen("192.0.2.7")
	assert.NoError(t, dial(before))
	assert.True(t, dial(after) != nil, "an authority of later is trusted")
	write(second)
	assert.NoError(t, dial(after))
	assert.True(t, dial(before) != nil, "the authority of before is trusted")
	assert.True(t, dial(other) != nil, "a certificate for another address is accepted")
	assert.Must(t, os.WriteFile(s.caFile, []byte("half"), 0o600))
	assert.Must(t, os.WriteFile(s.keyFile, nil, 0o600))
	assert.NoError(t, dial(after))
}

// Each new connection logs in with what the file has then. A file that is empty or gone changes nothing.
func TestThePasswordIsReadForEachConnection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	login := loginOf("ann", file, "first")
	for _, c := range []struct {
		text string
		want string
	}{{"first\n", "first"}, {"second\n", "second"}, {"", "second"}, {"third", "third"}} {
		assert.Must(t, os.WriteFile(file, []byte(c.text), 0o600))
		user, password, err := login(t.Context())
		assert.True(t, user == "ann" && password == c.want && err == nil, "%q: %s %s, %v", c.text, user, password, err)
	}
	assert.Must(t, os.Remove(file))
	_, password, err := login(t.Context())
	assert.True(t, password == "third" && err == nil, "without the file: %s, %v", password, err)
}

// The Sentinels may have a password of their own, and it may change, too.
func TestTheSentinelsPasswordIsReadForEachConnection(t *testing.T) {
	t.Parallel()
	sen := redistest.StartSentinel(t)
	primary := sen.Primary()
	scheme, _, _ := strings.Cut(primary.URL(), "://")
	at, err := Parse(scheme + "+sentinel://" + strings.Join(sen.Addrs(), ",") + "/" +
		redistest.SentinelName)
	assert.Must(t, err)
	at.Options.TLSConfig = redistest.TLS()
	a := &App{}
	a.Server.sentinelFile = filepath.Join(t.TempDir(), "password")
	var admins []*redistest.Conn
	for _, s := range sen.Sentinels {
		admins = append(admins, s.Dial(t))
	}
	change := func(password string) {
		for _, admin := range admins {
			admin.Do(t, "ACL", "SETUSER", "default", "resetpass", ">"+password)
			admin.Do(t, "CLIENT", "KILL", "USER", "default", "SKIPME", "yes")
		}
		primary.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		assert.Must(t, os.WriteFile(a.Server.sentinelFile, []byte(password+"\n"), 0o600))
	}
	change("first")
	login, err := a.sentinel(func(string) (string, bool) { return "", false })
	assert.Must(t, err)
	rdb := at.client(t.Context(), login)
	defer rdb.Close()
	assert.NoError(t, rdb.Ping(t.Context()).Err())
	change("second")
	assert.NoError(t, rdb.Ping(t.Context()).Err())
	_, err = at.askSentinel(t.Context(), sen.Addrs()[0], login)
	assert.NoError(t, err)
	assert.Must(t, os.WriteFile(a.Server.sentinelFile, []byte("wrong"), 0o600))
	_, err = at.askSentinel(t.Context(), sen.Addrs()[0], login)
	assert.True(t, redis.HasErrorPrefix(err, "WRONGPASS"), "the wrong password: %v", err)
}
