package redisson_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/observe"
)

// work acquires and releases the lock so often, and fails if somebody else is inside.
func work(ctx context.Context, m *holdfast.Mutex, rounds int, inside chan struct{}) error {
	for range rounds {
		err := m.Do(ctx, func(context.Context) error {
			select {
			case inside <- struct{}{}:
			default:
				return errors.New("somebody else is inside")
			}
			<-inside
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// A MultiMutex holds the RLocks of all its names, or none of them.
func TestAMultiMutexHoldsSeveralRLocks(t *testing.T) {
	s, c := serve(t, redisson.Config{})
	m := c.MultiMutex([]string{"a", "b", "c"}, holdfast.TTL(20*time.Second))
	l, err := m.TryLock(t.Context())
	assert.Must(t, err)
	same(t, "keys", keysOf(t, s), []string{"a", "b", "c"})
	for _, key := range []string{"a", "b", "c"} {
		same(t, key, len(hash(t, s, key)), 1)
	}
	release(t, l)

	plant(t, s, "c", "3600000")
	_, err = m.TryLock(t.Context())
	var busy *holdfast.HeldError
	assert.True(t, errors.As(err, &busy) && busy.Name == "c" && busy.HeldBy == java, "TryLock: %v", err)
	for _, key := range []string{"a", "b"} {
		same(t, key, s.Do(t, "EXISTS", key), 0)
	}
}

// A MultiMutex waits for the one that is held, and hears its message.
func TestAMultiMutexWaitsForTheHeldOne(t *testing.T) {
	s, c := serve(t, redisson.Config{})
	m := c.MultiMutex([]string{"a", "b"})
	wakes(t, s, "b", func(ctx context.Context) error { _, err := m.Lock(ctx); return err })
	for _, key := range []string{"a", "b"} {
		same(t, key, len(hash(t, s, key)), 1)
	}
}

// In a Cluster, messages use sharded pub/sub, as those of Redisson since 3.22, and every key and
// channel of a lock is in one slot.
func TestAClusterUsesShardedMessages(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.AllowAll())
	for _, kind := range []redisson.Kind{redisson.Lock, redisson.Fenced, redisson.Fair, redisson.ReadWrite} {
		t.Run(kind.String(), func(t *testing.T) {
			both := openCluster(t, cluster)
			a := clientOf(t, both, redisson.Config{Kind: kind})
			b := clientOf(t, both, redisson.Config{Kind: kind})
			name := "order/" + kind.String()
			l := lock(t, a.Mutex(name, holdfast.TTL(time.Hour)))
			got := locking(t, b.Mutex(name, holdfast.TTL(time.Hour)).Lock)
			home := cluster.Home(name)
			redistest.Await(t, "the waiter hears", func() bool {
				return len(home.Do(t, "PUBSUB", "SHARDCHANNELS", "redisson_*"+name+"*").([]any)) == 1
			})
			release(t, l)
			release(t, redistest.Next(t, "the lock", got))
			same(t, "the lock", cluster.Do(t, name, "EXISTS", name), 0)
		})
	}
}

// Without sharded pub/sub, as Redisson before 3.22, the messages go to all nodes.
func TestAClusterCanDoWithoutShardedMessages(t *testing.T) {
	cluster := redistest.StartCluster(t, redistest.AllowAll())
	both := openCluster(t, cluster)
	a := clientOf(t, both, redisson.Config{Sharded: redisson.Off})
	b := clientOf(t, both, redisson.Config{Sharded: redisson.Off})
	for _, name := range []string{"a", "b", "c"} { // on several nodes
		l := lock(t, a.Mutex(name, holdfast.TTL(time.Hour)))
		got := locking(t, b.Mutex(name, holdfast.TTL(time.Hour)).Lock)
		redistest.Await(t, "the waiter hears", func() bool {
			var n int64
			for _, node := range cluster.Nodes {
				n += subscribers(t, node, "redisson_lock__channel:{"+name+"}")
			}
			return n == 1
		})
		release(t, l)
		release(t, redistest.Next(t, "the lock", got))
	}
}

// The user needs the permissions of the wire, and is told which are missing before anything is
// written.
func TestMissingPermissionsAreNamed(t *testing.T) {
	s := start(t)
	for i, user := range []struct {
		rules       string // besides all commands
		says, hints string // empty: the lock is acquired
	}{
		{"~* &* -hdel -zadd -incrby -pexpire", "may not run", "+pexpire"},
		{"~* &redisson_*", "", ""},
		{"~* resetchannels", "publish to redisson_", "+publish"}, // Java would wait for a lease that is over
		{"~holdfast:* &*", "keys", "the keys and the channels of Redisson's"},
	} {
		name := fmt.Sprint("user", i)
		rules := []any{"ACL", "SETUSER", name, "on", ">secret", "+@all"}
		for _, rule := range strings.Fields(user.rules) {
			rules = append(rules, rule)
		}
		s.Do(t, rules...)
		for _, kind := range everyKind {
			app := open(t, &redis.Options{Addr: s.Addr(), Username: name, Password: "secret"})
			l, err := acquirer(clientOf(t, app, redisson.Config{Kind: kind}), kind)(t.Context())
			if user.says == "" {
				assert.Must(t, err)
				release(t, l)
				continue
			}
			var refused *holdfast.ServerError
			hint := holdfast.Hint(err)
			assert.True(t, errors.As(err, &refused) && refused.Code == "NOPERM" &&
				strings.Contains(err.Error(), user.says) && strings.Contains(hint, user.hints),
				"%s, %s: %v; %s", user.rules, kind, err, hint)
			same(t, "the lock", s.Do(t, "EXISTS", "order"), 0)
		}
		s.Do(t, "FLUSHALL")
	}
}

// Waiters of Java are not counted, so a grant passes on inside a process less often than a native one.
func TestAGrantPassesOnAtMost64TimesInItsProcess(t *testing.T) {
	s := start(t)
	var longest, passes int // the observer is called while the lock is held
	c := connect(t, s.Addr(), redisson.Config{}, func(c *holdfast.Config) {
		c.Observer = observer(func(e observe.Event) {
			switch {
			case e.Kind == observe.EventGrant && e.Local:
				passes++
				longest = max(longest, passes)
			case e.Kind == observe.EventGrant:
				passes = 0
			}
		})
	})
	inside, done := make(chan struct{}, 1), make(chan error, 4)
	for range cap(done) {
		go func() { done <- work(t.Context(), c.Mutex("order"), 500, inside) }()
	}
	for range cap(done) {
		assert.NoError(t, redistest.Next(t, "a worker", done))
	}
	assert.True(t, longest >= 1 && longest <= 64, "a grant passed on %d times", longest)
}

type observer func(observe.Event)

// Observe implements [observe.Observer].
func (o observer) Observe(e observe.Event) { o(e) }
