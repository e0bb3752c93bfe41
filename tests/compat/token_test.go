package compat

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redislock"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// byToken are the options of locks that share a token.
var byToken = &redislock.Options{Token: "worker"}

// unanswered returns a context that ends when the server has run the next script and its answer is lost.
// From then on nothing passes the proxy.
func unanswered(t *testing.T, proxy *redistest.Proxy) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	proxy.DropReplies(1, "EVALSHA")
	proxy.Hook(func(e redistest.Event) {
		if e.Stage == redistest.Dropped {
			proxy.BlackHole()
			cancel()
		}
	})
	return ctx
}

// behindProxy makes a client that knows that the server has the scripts.
func behindProxy(t *testing.T, server *redistest.Server) (*redislock.Client, *redistest.Proxy) {
	proxy := redistest.NewProxy(t, server.Addr())
	c := redislock.New(goredis.New(client(t, proxy.Addr())))
	t.Cleanup(c.Close)
	return c, proxy
}

// obtain obtains the key by the token for an hour.
func obtain(t *testing.T, c *redislock.Client, keys ...string) *redislock.Lock {
	t.Helper()
	l, err := c.ObtainMulti(t.Context(), keys, time.Hour, byToken)
	must(t, err)
	return l
}

// An acquisition by a token that is held already gets no answer. To take it back would end the lock that
// is held: nobody can tell one from the other.
func TestAnObtainWithoutAnAnswerDoesNotEndTheLockOfItsToken(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AllowAll())
	c, proxy := behindProxy(t, server)
	held := obtain(t, c, "key")
	assert.Is(t, assert.Err(c.Obtain(unanswered(t, proxy), "key", time.Hour, byToken)), context.Canceled)
	// A release that was under way would refuse the token at once.
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	assert.Is(t, assert.Err(c.Obtain(short, "key", time.Hour, byToken)), context.DeadlineExceeded)
	proxy.Pass()
	must(t, held.Refresh(t.Context(), time.Hour, nil))
	must(t, held.Release(t.Context()))
}

// While several keys are released in the background, no lock with one of them and the same token is
// acquired: the release could end it.
func TestARepeatedReleaseOfSeveralKeysEndsNoLaterLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AllowAll())
	c, _ := behindProxy(t, server)
	several := obtain(t, c, "other", "key")
	server.Kill()
	assert.True(t, several.Release(t.Context()) != nil, "a killed server released a lock")
	_, err := c.Obtain(t.Context(), "key", time.Hour, byToken)
	assert.True(t, err != nil && strings.Contains(err.Error(), "under way"), "%v", err)
}

// A request that may have shortened a lock ends it as early as the server may, and with it the others of
// its token.
func TestARequestThatMayHaveShortenedALockIsBelieved(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.AllowAll())
	const short = 50 * time.Millisecond
	for name, shorten := range map[string]func(ctx context.Context, c *redislock.Client, l *redislock.Lock) error{
		"Refresh": func(ctx context.Context, _ *redislock.Client, l *redislock.Lock) error {
			return l.Refresh(ctx, short, nil)
		},
		"Obtain": func(ctx context.Context, c *redislock.Client, _ *redislock.Lock) error {
			return assert.Err(c.Obtain(ctx, "key", short, byToken))
		},
	} {
		c, proxy := behindProxy(t, server)
		one, other := obtain(t, c, "key"), obtain(t, c, "key")
		must(t, one.Refresh(t.Context(), time.Hour, nil)) // the server knows the script
		assert.True(t, shorten(unanswered(t, proxy), c, one) != nil, "%s: no error", name)
		wantLost(one.Context(), t, holdfast.LossExpired)
		wantLost(other.Context(), t, holdfast.LossExpired)
	}
}
