package goredis_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/quorum"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// Each layer of an error adds only what the layers below do not know. So its text says the library's name, the
// lock and each address once, on every topology.
func TestAnErrorSaysEachThingOnce(t *testing.T) {
	const dial = 100 * time.Millisecond
	one := func() store.Store {
		return goredis.New(redis.NewClient(&redis.Options{
			Addr: redistest.ClosedAddr(t), DialTimeout: dial, DialerRetries: 1,
		}))
	}
	three, err := quorum.New([]store.Store{one(), one(), one()}, quorum.Config{})
	assert.Must(t, err)
	addr := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	for name, s := range map[string]store.Store{
		"one server": one(),
		"a Cluster": goredis.New(redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: []string{redistest.ClosedAddr(t), redistest.ClosedAddr(t)}, MaxRedirects: -1,
			DialTimeout: dial, DialerRetries: 1,
		})),
		"a primary behind Sentinel": goredis.New(redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: "m", SentinelAddrs: []string{redistest.ClosedAddr(t)}, DialTimeout: dial, DialerRetries: 1,
		})),
		"three independent servers": three,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := holdfast.New(s, holdfast.Config{TTL: time.Second})
			assert.Must(t, err)
			t.Cleanup(func() { _ = c.Close(context.Background()) })
			_, tried := c.Mutex("x").TryLock(t.Context())
			_, waited := c.Mutex("x", holdfast.MaxWait(dial)).Lock(t.Context())
			_, read := c.Inspect(t.Context(), "x")
			for _, err := range []error{tried, waited, read} {
				assert.MustTrue(t, err != nil, "no error without a server")
				said := map[string]int{}
				facts := append(addr.FindAllString(err.Error(), -1), "holdfast:", `"x"`, "cannot be reached")
				for _, fact := range facts {
					said[fact] = strings.Count(err.Error(), fact)
				}
				for fact, n := range said {
					assert.True(t, n <= 1, "says %s %d times: %v", fact, n, err)
				}
				assert.True(t, said["holdfast:"] == 1, "got %v", err)
			}
		})
	}
}
