package rules_test

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
	rueidisstore "github.com/holdfast-go/holdfast/store/rueidis"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// No error shows a password: not one of a server that refuses it, nor one of a
// connection that does not come about because nobody vouches for the server, or
// because one side speaks TLS and the other does not.
func TestNoErrorShowsAPassword(t *testing.T) {
	open := redistest.Start(t, redistest.Password("truth"))
	t.Setenv(redistest.EnvServers, "secured")
	secured := redistest.Start(t, redistest.Password("truth"))
	for _, test := range []struct {
		name  string
		addr  string
		trust *tls.Config
	}{
		{"WrongPassword", secured.Addr(), redistest.TLS()},
		{"UnknownAuthority", secured.Addr(), &tls.Config{MinVersion: tls.VersionTLS12}},
		{"PlainToTLS", secured.Addr(), nil},
	} {
		t.Run(test.name, func(t *testing.T) { showsNoPassword(t, test.addr, test.trust) })
	}
	if open.CAFile() != "" {
		return // there is no open one
	}
	t.Run("TLSToPlain", func(t *testing.T) { showsNoPassword(t, open.Addr(), redistest.TLS()) })
}

const guess = "gu3ss"

func showsNoPassword(t *testing.T, addr string, trust *tls.Config) {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{
		Addr: addr, Username: "ann", Password: guess, TLSConfig: trust, MaxRetries: -1, DialerRetries: 1,
	})
	defer rdb.Close()
	secretive(t, "goredis", lockOver(t, goredis.New(rdb)))

	// rueidis fails before the library knows it, or leaves it to the store.
	other, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, Username: "ann", Password: guess, TLSConfig: trust,
		DisableCache: true, ForceSingleClient: true,
	})
	if err == nil {
		defer other.Close()
		err = lockOver(t, rueidisstore.New(other))
	}
	secretive(t, "rueidis", err)
}

func lockOver(t *testing.T, s store.Store) error {
	t.Helper()
	c, _ := harness.Client(t, s, holdfast.Config{})
	_, err := c.Mutex("x").TryLock(harness.Within(t)) // Lock would go on trying, for as long as it may
	return err
}

// secretive checks that there is an error, and that no part of it shows what
// the client was given as a password.
func secretive(t *testing.T, who string, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: it worked", who)
		return
	}
	text := err.Error() + holdfast.Hint(err)
	for e := err; e != nil; e = errors.Unwrap(e) {
		text += e.Error()
	}
	assert.False(t, strings.Contains(text, guess), "%s: the error shows the password: %s", who, text)
}
