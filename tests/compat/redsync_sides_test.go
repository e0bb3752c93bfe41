package compat

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	originalredsync "github.com/go-redsync/redsync/v4"
	originalpool "github.com/go-redsync/redsync/v4/redis"
	originalgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/compat/redsync"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// settings are the options of a mutex, for both packages. A zero field is not set.
type settings struct {
	expiry  time.Duration
	tries   int
	none    bool // no try at all
	delays  func(tries int) time.Duration
	gen     func() (string, error)
	value   string
	setNX   bool
	fast    bool
	timeout float64
}

// side is a package under test, with its errors.
type side struct {
	name    string
	connect func(t testing.TB, addrs []string) (mutexOf func(name string, s settings) mutex)

	failed, extendFailed, expired error
	taken                         func(error) ([]int, bool)
	nodeTaken, redisError         func(error) (int, bool)
}

func client(t testing.TB, addr string) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: redistest.TLS(),
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// original makes a Redsync of the original.
func original(t testing.TB, addrs ...string) *originalredsync.Redsync {
	var pools []originalpool.Pool
	for _, addr := range addrs {
		pools = append(pools, originalgoredis.NewPool(client(t, addr)))
	}
	return originalredsync.New(pools...)
}

// as finds an error in a tree of errors.
func as[E error, V any](err error, of func(E) V) (v V, ok bool) {
	var found E
	if ok = errors.As(err, &found); ok {
		v = of(found)
	}
	return v, ok
}

// redsyncOption makes the options of a package out of the settings.
func redsyncOption[O any, D ~func(int) time.Duration](s settings, o redsyncOptions[O, D]) (all []O) {
	add := func(set bool, o func() O) {
		if set {
			all = append(all, o())
		}
	}
	add(s.expiry > 0, func() O { return o.expiry(s.expiry) })
	add(s.tries > 0 || s.none, func() O { return o.tries(s.tries) })
	add(s.delays != nil, func() O { return o.delays(s.delays) })
	add(s.gen != nil, func() O { return o.gen(s.gen) })
	add(s.value != "", func() O { return o.value(s.value) })
	add(s.setNX, o.setNX)
	add(s.fast, func() O { return o.fast(true) })
	add(s.timeout > 0, func() O { return o.timeout(s.timeout) })
	return all
}

var originalSide = side{
	name: "redsync",
	connect: func(t testing.TB, addrs []string) func(string, settings) mutex {
		rs := original(t, addrs...)
		return func(name string, s settings) mutex {
			return rs.NewMutex(name, redsyncOption(s, originalOptions)...)
		}
	},
	failed: originalredsync.ErrFailed, extendFailed: originalredsync.ErrExtendFailed,
	expired: originalredsync.ErrLockAlreadyExpired,
	taken: func(err error) ([]int, bool) {
		return as(err, func(e *originalredsync.ErrTaken) []int { return e.Nodes })
	},
	nodeTaken: func(err error) (int, bool) {
		return as(err, func(e *originalredsync.ErrNodeTaken) int { return e.Node })
	},
	redisError: func(err error) (int, bool) {
		return as(err, func(e *originalredsync.RedisError) int { return e.Node })
	},
}

var ourSide = side{
	name: "compat/redsync",
	connect: func(t testing.TB, addrs []string) func(string, settings) mutex {
		rs := ours(t, addrs...)
		return func(name string, s settings) mutex { return rs.NewMutex(name, redsyncOption(s, ourOptions)...) }
	},
	failed: redsync.ErrFailed, extendFailed: redsync.ErrExtendFailed, expired: redsync.ErrLockAlreadyExpired,
	taken: func(err error) ([]int, bool) { return as(err, func(e *redsync.ErrTaken) []int { return e.Nodes }) },
	nodeTaken: func(err error) (int, bool) {
		return as(err, func(e *redsync.ErrNodeTaken) int { return e.Node })
	},
	redisError: func(err error) (int, bool) { return as(err, func(e *redsync.RedisError) int { return e.Node }) },
}

// describe writes what a caller can tell of an error. Servers answer in any order, so lines and
// numbers are sorted. The texts of network errors are those of the stores.
func (s side) describe(err error) string {
	if err == nil {
		return "nil"
	}
	var said []string
	if nodes, ok := s.taken(err); ok {
		nodes = slices.Sorted(slices.Values(nodes))
		said = append(said, fmt.Sprintf("ErrTaken%v", nodes))
	}
	var each func(err error)
	each = func(err error) {
		if joined, ok := err.(interface{ Unwrap() []error }); ok {
			for _, one := range joined.Unwrap() {
				each(one)
			}
			return
		}
		switch node, ok := s.redisError(err); {
		case ok:
			said = append(said, fmt.Sprintf("RedisError%d", node))
		case len(said) == 0 || !strings.HasPrefix(said[0], "ErrTaken"):
			said = append(said, fmt.Sprintf("%q", err.Error()))
		}
	}
	each(err)
	said = append(said, matches(err, map[string]error{
		"ErrFailed": s.failed, "ErrExtendFailed": s.extendFailed, "ErrLockAlreadyExpired": s.expired,
	})...)
	slices.Sort(said)
	return strings.Join(said, " ")
}

// scene is what a case of the table has: servers, and the package under test.
type scene struct {
	notes

	side      side
	servers   []*redistest.Server
	connected func(name string, s settings) mutex
}

func (s *scene) mutex(c settings) told { return s.mutexOf("key", c) }

func (s *scene) mutexOf(name string, c settings) told { return told{s.connected(name, c), s} }

// err notes what a call returned.
func (s *scene) err(what string, err error) { s.sayf("%s: %s", what, s.side.describe(err)) }

// told is a mutex whose calls the scene notes.
type told struct {
	mutex

	scene *scene
}

func (m told) lock() { m.scene.err("lock", m.Lock()) }

func (m told) unlock() { m.ok("unlock", m.Unlock) }

func (m told) extend() { m.ok("extend", m.Extend) }

func (m told) valid() { m.ok("valid", m.Valid) }

func (m told) ok(what string, call func() (bool, error)) {
	ok, err := call()
	m.scene.sayf("%s: %v %s", what, ok, m.scene.side.describe(err))
}

// do sends a command to all servers, or to those with the numbers.
func (s *scene) do(words string, on ...int) {
	for i, server := range s.servers {
		if len(on) == 0 || slices.Contains(on, i) {
			var args []any
			for word := range strings.FieldsSeq(words) {
				args = append(args, word)
			}
			server.Do(s.t, args...)
		}
	}
}

// keys notes on how many servers the key is.
func (s *scene) keys() {
	count := int64(0)
	for _, server := range s.servers {
		if server.Running() {
			count += server.Do(s.t, "EXISTS", "key").(int64)
		}
	}
	s.sayf("keys: %d", count)
}
