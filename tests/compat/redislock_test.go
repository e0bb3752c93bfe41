package compat

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	originalredislock "github.com/bsm/redislock"

	"github.com/holdfast-go/holdfast/compat/redislock"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// backoff is what both packages' strategies are.
type backoff = redislock.RetryStrategy

// choice are the options of both packages.
type choice struct {
	retry           backoff
	metadata, token string
}

// handle has the methods of both packages' locks, without their options.
type handle struct {
	Key, Token, Metadata func() string
	TTL                  func(ctx context.Context) (time.Duration, error)
	Release              func(ctx context.Context) error
	Refresh              func(ctx context.Context, ttl time.Duration, retry backoff) error
}

// obtaining is ObtainMulti of both packages.
type obtaining func(ctx context.Context, keys []string, ttl time.Duration, o *choice) (*handle, error)

// lockSide is a package under test.
type lockSide struct {
	name    string
	connect func(t *testing.T, addr string) obtaining
	limit   func(backoff, int) backoff
	linear  func(time.Duration) backoff
	double  func(low, high time.Duration) backoff

	notObtained, notHeld error
}

var originalLocks = lockSide{
	name: "redislock",
	connect: func(t *testing.T, addr string) obtaining {
		c := originalredislock.New(client(t, addr))
		return func(ctx context.Context, keys []string, ttl time.Duration, o *choice) (*handle, error) {
			var opt *originalredislock.Options
			if o != nil {
				opt = &originalredislock.Options{RetryStrategy: o.retry, Metadata: o.metadata, Token: o.token}
			}
			l, err := c.ObtainMulti(ctx, keys, ttl, opt)
			if err != nil {
				return nil, err
			}
			return &handle{l.Key, l.Token, l.Metadata, l.TTL, l.Release,
				func(ctx context.Context, ttl time.Duration, retry backoff) error {
					return l.Refresh(ctx, ttl, &originalredislock.Options{RetryStrategy: retry})
				}}, nil
		}
	},
	limit:       func(b backoff, n int) backoff { return originalredislock.LimitRetry(b, n) },
	linear:      func(d time.Duration) backoff { return originalredislock.LinearBackoff(d) },
	double:      func(low, high time.Duration) backoff { return originalredislock.ExponentialBackoff(low, high) },
	notObtained: originalredislock.ErrNotObtained, notHeld: originalredislock.ErrLockNotHeld,
}

var ourLocks = lockSide{
	name: "compat/redislock",
	connect: func(t *testing.T, addr string) obtaining {
		c := redislock.New(goredis.New(client(t, addr)))
		t.Cleanup(c.Close)
		return func(ctx context.Context, keys []string, ttl time.Duration, o *choice) (*handle, error) {
			var opt *redislock.Options
			if o != nil {
				opt = &redislock.Options{RetryStrategy: o.retry, Metadata: o.metadata, Token: o.token}
			}
			l, err := c.ObtainMulti(ctx, keys, ttl, opt)
			if err != nil {
				return nil, err
			}
			return &handle{l.Key, l.Token, l.Metadata, l.TTL, l.Release,
				func(ctx context.Context, ttl time.Duration, retry backoff) error {
					return l.Refresh(ctx, ttl, &redislock.Options{RetryStrategy: retry})
				}}, nil
		}
	},
	limit: redislock.LimitRetry, linear: redislock.LinearBackoff, double: redislock.ExponentialBackoff,
	notObtained: redislock.ErrNotObtained, notHeld: redislock.ErrLockNotHeld,
}

// lockScene is what a case of the table has.
type lockScene struct {
	notes

	side   lockSide
	server *redistest.Server
	obtain obtaining
}

// err notes what a call returned.
func (s *lockScene) err(what string, err error) {
	words := matches(err, map[string]error{"ErrNotObtained": s.side.notObtained, "ErrLockNotHeld": s.side.notHeld})
	switch {
	case err == nil:
		words = []string{"nil"}
	case len(words) == 0:
		words = []string{"another error"}
	}
	slices.Sort(words)
	s.sayf("%s: %s", what, strings.Join(words, " "))
}

func (s *lockScene) get(key string) any { return s.server.Do(s.t, "GET", key) }

// take obtains one key.
func (s *lockScene) take(o *choice) *handle {
	l, err := s.obtain(s.t.Context(), []string{"key"}, time.Minute, o)
	s.err("obtain", err)
	return l
}

// counted counts the calls of a strategy.
type counted struct{ calls int }

func (c *counted) NextBackoff() time.Duration {
	c.calls++
	if c.calls > 3 {
		return 0
	}
	return time.Nanosecond
}

var redislockTable = []struct {
	name string
	run  func(s *lockScene)
	want string
	ours string
}{
	{"a free lock", func(s *lockScene) {
		l := s.take(nil)
		ttl := s.server.Do(s.t, "PTTL", "key").(int64)
		s.sayf("%s %d %q %v ttl %v", l.Key(), len(l.Token()), l.Metadata(), s.get("key") == l.Token(), ttl > 50_000)
		left, err := l.TTL(s.t.Context())
		s.err("ttl", err)
		s.sayf("left: %v", left > 50*time.Second && left <= time.Minute)
		s.err("release", l.Release(s.t.Context()))
		s.err("again", l.Release(s.t.Context()))
		left, err = l.TTL(s.t.Context())
		s.err("ttl", err)
		s.sayf("left: %v, %v", left, s.get("key"))
	}, `obtain: nil; key 22 "" true ttl true; ttl: nil; left: true; release: nil; again: ==ErrLockNotHeld; ` +
		`ttl: nil; left: 0s, <nil>`, ""},
	{"taken", func(s *lockScene) {
		s.server.Do(s.t, "SET", "key", "other")
		s.take(nil)
		c := &counted{}
		s.take(&choice{retry: c})
		s.sayf("calls: %d", c.calls)
		limit := s.side.limit(s.side.linear(time.Nanosecond), 2)
		s.take(&choice{retry: limit})
		s.sayf("next: %v", limit.NextBackoff())
	}, `obtain: ==ErrNotObtained; obtain: ==ErrNotObtained; calls: 4; obtain: ==ErrNotObtained; next: 0s`, ""},
	{"strategies", func(s *lockScene) {
		double := s.side.double(0, 20*time.Millisecond)
		for range 4 {
			s.sayf("%v", double.NextBackoff())
		}
		low := s.side.double(time.Second, 0)
		s.sayf("%v", low.NextBackoff())
		var last time.Duration
		for open, n := s.side.double(0, 0), 0; n < 40; n++ {
			last = open.NextBackoff()
		}
		limit := s.side.limit(s.side.linear(time.Second), 1)
		s.sayf("%v, %v %v %v", last, limit.NextBackoff(), limit.NextBackoff(), limit.NextBackoff())
	}, `4ms; 8ms; 16ms; 20ms; 1s; 18h38m28.864s, 1s 0s 0s`, ""},
	{"metadata and a token of one's own", func(s *lockScene) {
		l := s.take(&choice{token: "foo", metadata: "bar"})
		s.sayf("%s %s %v", l.Token(), l.Metadata(), s.get("key"))
		s.take(nil)
		second := s.take(&choice{token: "foo", metadata: "baz"})
		s.sayf("%s %s %v", second.Token(), second.Metadata(), s.get("key"))
		s.err("release", l.Release(s.t.Context()))
		s.err("release", second.Release(s.t.Context()))
	}, `obtain: nil; foo bar foobar; obtain: ==ErrNotObtained; obtain: nil; foo baz foobaz; ` +
		`release: ==ErrLockNotHeld; release: nil`, ""},
	{"the same token and metadata, elsewhere", func(s *lockScene) {
		s.server.Do(s.t, "SET", "key", "foobar")
		l := s.take(&choice{token: "foo", metadata: "bar"})
		s.err("release", l.Release(s.t.Context()))
	}, `obtain: nil; release: nil`, ""},
	{"the beginning of another token", func(s *lockScene) {
		holder := s.take(&choice{token: "worker-10"})
		s.take(&choice{token: "worker-1"})
		s.err("release", holder.Release(s.t.Context()))
	}, `obtain: nil; obtain: nil; release: ==ErrLockNotHeld`, `obtain: nil; obtain: ==ErrNotObtained; release: nil`},
	{"refreshed", func(s *lockScene) {
		l := s.take(nil)
		for _, ttl := range []time.Duration{time.Second * 20, time.Hour} {
			s.err("refresh", l.Refresh(s.t.Context(), ttl, nil))
			left := s.server.Do(s.t, "PTTL", "key").(int64)
			s.sayf("left: %v", left > (ttl-10*time.Second).Milliseconds() && left <= ttl.Milliseconds())
		}
		s.server.Do(s.t, "DEL", "key")
		s.err("refresh", l.Refresh(s.t.Context(), time.Minute, nil))
		s.server.Do(s.t, "SET", "key", "other")
		s.err("refresh", l.Refresh(s.t.Context(), time.Minute, s.side.linear(time.Second)))
		s.err("release", l.Release(s.t.Context()))
		left, err := l.TTL(s.t.Context())
		s.err("ttl", err)
		s.sayf("left: %v", left)
	}, `obtain: nil; refresh: nil; left: true; refresh: nil; left: true; refresh: ==ErrNotObtained; ` +
		`refresh: ==ErrNotObtained; release: ==ErrLockNotHeld; ttl: nil; left: 0s`, ""},
	{"the context ends between two tries", func(s *lockScene) {
		s.server.Do(s.t, "SET", "key", "other")
		ctx, cancel := context.WithCancel(s.t.Context())
		retry := endless{cancel}
		_, err := s.obtain(ctx, []string{"key"}, time.Minute, &choice{retry: retry})
		s.err("obtain", err)
		_, err = s.obtain(ctx, []string{"key"}, time.Minute, nil)
		s.err("obtain", err)
	}, `obtain: is Canceled is ErrNotObtained; obtain: ==Canceled`, ""},
	{"without a deadline it waits for its TTL", func(s *lockScene) {
		s.server.Do(s.t, "SET", "key", "other")
		slow := &choice{retry: s.side.linear(time.Hour)}
		_, err := s.obtain(context.Background(), []string{"key"}, 500*time.Millisecond, slow)
		s.err("obtain", err)
	}, `obtain: is DeadlineExceeded is ErrNotObtained`, ""},
	{"several keys", func(s *lockScene) {
		l, err := s.obtain(s.t.Context(), []string{"a", "b"}, time.Minute, nil)
		s.err("obtain", err)
		s.sayf("%s %v", l.Key(), s.get("a") == l.Token() && s.get("b") == l.Token())
		_, err = s.obtain(s.t.Context(), []string{"c", "b"}, time.Minute, nil)
		s.err("obtain", err)
		s.sayf("c: %v", s.get("c"))
		s.err("refresh", l.Refresh(s.t.Context(), time.Hour, nil))
		s.server.Do(s.t, "PEXPIRE", "b", 20_000)
		left, err := l.TTL(s.t.Context())
		s.err("ttl", err)
		s.sayf("left: %v", left > 0 && left <= 20*time.Second)
		s.err("release", l.Release(s.t.Context()))
		s.sayf("%v %v", s.get("a"), s.get("b"))
	}, `obtain: nil; a true; obtain: ==ErrNotObtained; c: <nil>; refresh: nil; ttl: nil; left: true; release: nil; ` +
		`<nil> <nil>`, ""},
	{"one of several keys is lost", func(s *lockScene) {
		l, err := s.obtain(s.t.Context(), []string{"a", "b"}, time.Minute, nil)
		s.err("obtain", err)
		s.server.Do(s.t, "DEL", "b")
		s.err("refresh", l.Refresh(s.t.Context(), time.Hour, nil))
		left, err := l.TTL(s.t.Context())
		s.err("ttl", err)
		s.err("release", l.Release(s.t.Context()))
		s.sayf("left: %v, a is there: %v", left, s.get("a") != nil)
	}, `obtain: nil; refresh: ==ErrNotObtained; ttl: nil; release: ==ErrLockNotHeld; left: 0s, a is there: true`,
		`obtain: nil; refresh: ==ErrNotObtained; ttl: nil; release: ==ErrLockNotHeld; left: 0s, a is there: false`},
	{"a key of another kind", func(s *lockScene) {
		s.server.Do(s.t, "LPUSH", "key", "other")
		s.take(nil)
	}, `obtain: another error`, `obtain: ==ErrNotObtained`},
	{"released with a context that has ended", func(s *lockScene) {
		l := s.take(nil)
		ctx, cancel := context.WithCancel(s.t.Context())
		cancel()
		s.err("release", l.Release(ctx))
		s.sayf("held: %v", s.get("key") != nil)
	}, `obtain: nil; release: ==Canceled; held: true`, `obtain: nil; release: nil; held: false`},
	{"no server", func(s *lockScene) {
		l := s.take(nil)
		s.server.Kill()
		s.take(nil)
		s.err("refresh", l.Refresh(s.t.Context(), time.Minute, nil))
		s.err("release", l.Release(s.t.Context()))
	}, `obtain: nil; obtain: another error; refresh: another error; release: another error`, ""},
}

// endless ends a context when it is asked for a pause.
type endless struct{ end context.CancelFunc }

func (e endless) NextBackoff() time.Duration {
	e.end()
	return time.Hour
}

func TestWhatUsersOfRedislockObserve(t *testing.T) {
	for _, test := range redislockTable {
		for _, one := range []lockSide{originalLocks, ourLocks} {
			t.Run(test.name+"/"+one.name, func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, redistest.AllowAll())
				s := &lockScene{notes: notes{t: t}, side: one, server: server, obtain: one.connect(t, server.Addr())}
				test.run(s)
				s.check(one.name == ourLocks.name, test.want, test.ours)
			})
		}
	}
}

// A nil lock answers as redislock's does.
func TestANilLock(t *testing.T) {
	var theirs *originalredislock.Lock
	var ours *redislock.Lock
	ctx := t.Context()
	_, their := theirs.TTL(ctx)
	_, our := ours.TTL(ctx)
	if their != originalredislock.ErrLockNotHeld || our != redislock.ErrLockNotHeld { //nolint:errorlint // users do
		t.Errorf("TTL: %v, %v", their, our)
	}
	a, b := theirs.Release(ctx), ours.Release(ctx)
	assert.True(t, a.Error() == b.Error(), "Release: %v, %v", a, b)
	a, b = theirs.Refresh(ctx, time.Second, nil), ours.Refresh(ctx, time.Second, nil)
	assert.True(t, a.Error() == b.Error(), "Refresh: %v, %v", a, b)
}
