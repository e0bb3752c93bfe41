package compat

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
)

// quick has no pauses.
func quick(int) time.Duration { return 0 }

// redsyncTable has what users of redsync can observe. Each case runs against both packages. want
// is what both say. If ours says something else on purpose, that is in ours, and
// docs/neighbours.md says why.
var redsyncTable = []struct {
	name    string
	servers int
	run     func(s *scene)
	want    string
	ours    string
}{
	{"a free lock", 1, func(s *scene) {
		m := s.mutex(settings{expiry: time.Minute})
		s.sayf("before: %q %v %s", m.Value(), m.Until().IsZero(), m.Name())
		before := time.Now()
		m.lock()
		until := m.Until()
		s.sayf("value: %d %v", len(m.Value()), s.servers[0].Do(s.t, "GET", "key") == m.Value())
		s.sayf("until: %v", until.After(before.Add(58*time.Second)) && until.Before(time.Now().Add(time.Minute)))
		ttl := s.servers[0].Do(s.t, "PTTL", "key").(int64)
		s.sayf("ttl: %v", ttl > 50_000 && ttl <= 60_000)
		m.unlock()
		s.keys()
	}, `before: "" true key; lock: nil; value: 24 true; until: true; ttl: true; unlock: true nil; keys: 0`, ""},
	{"the defaults", 1, func(s *scene) {
		m := s.mutex(settings{})
		m.lock()
		ttl := s.servers[0].Do(s.t, "PTTL", "key").(int64)
		s.sayf("ttl: %v", ttl > 5000 && ttl <= 8000)
	}, `lock: nil; ttl: true`, ""},
	{"taken, with tries", 1, func(s *scene) {
		s.do("SET key other")
		var tries []int
		s.err("lock", s.mutex(settings{tries: 4, delays: func(n int) time.Duration {
			tries = append(tries, n)
			return 0
		}}).Lock())
		s.sayf("delays: %v", tries)
		s.keys()
	}, `lock: ErrTaken[0]; delays: [1 2 3]; keys: 1`, ""},
	{"taken, tries by default", 1, func(s *scene) {
		s.do("SET key other")
		tries := 0
		s.err("lock", s.mutex(settings{delays: func(int) time.Duration { tries++; return 0 }}).Lock())
		s.sayf("delays: %d", tries)
	}, `lock: ErrTaken[0]; delays: 31`, ""},
	{"no try", 1, func(s *scene) { s.err("lock", s.mutex(settings{none: true}).Lock()) },
		`lock: "redsync: failed to acquire lock" ==ErrFailed`, ""},
	{"taken, once", 1, func(s *scene) {
		s.do("SET key other")
		s.err("try", s.mutex(settings{delays: func(int) time.Duration { s.sayf("a delay"); return 0 }}).TryLock())
		s.err("a text", errors.New(strings.TrimSpace(s.mutex(settings{}).TryLock().Error())))
	}, `try: ErrTaken[0]; a text: "lock already taken, locked nodes: [0]"`, ""},
	{"a key of another kind", 1, func(s *scene) {
		s.do("LPUSH key other")
		s.err("try", s.mutex(settings{}).TryLock())
	}, `try: ErrTaken[0]`, ""},
	{"a mutex is locked once", 1, func(s *scene) {
		m := s.mutex(settings{})
		m.lock()
		value := m.Value()
		s.err("again", m.TryLock())
		s.sayf("value: %v", m.Value() == value)
		m.unlock()
	}, `lock: nil; again: ErrTaken[0]; value: true; unlock: true nil`, ""},
	{"a context that has ended", 1, func(s *scene) {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		s.err("lock", s.mutex(settings{delays: func(int) time.Duration { return time.Hour }}).LockContext(ended))
		s.err("try", s.mutex(settings{}).TryLockContext(ended))
		s.keys()
	}, `lock: "redsync: failed to acquire lock" ==ErrFailed; try: RedisError0 is Canceled; keys: 0`, ""},
	{"no context", 1, func(s *scene) {
		m := s.mutex(settings{})
		var none context.Context
		s.err("lock", m.LockContext(none))
		s.keys()
	}, `lock: nil; keys: 1`, ""},
	{"a value that cannot be made", 1, func(s *scene) {
		s.err("lock", s.mutex(settings{gen: func() (string, error) { return "", errors.New("no dice") }}).Lock())
	}, `lock: "no dice"`, ""},
	{"a value of one's own", 1, func(s *scene) {
		calls := 0
		m := s.mutex(settings{gen: func() (string, error) { calls++; return "mine", nil }, delays: quick, tries: 3})
		m.lock()
		s.sayf("calls: %d, value: %s %v", calls, m.Value(), s.servers[0].Do(s.t, "GET", "key"))
		s.do("SET key other")
		calls = 0
		s.err("taken", m.Lock())
		s.sayf("calls: %d", calls)
	}, `lock: nil; calls: 1, value: mine mine; taken: ErrTaken[0]; calls: 1`, ""},
	{"unlocked twice", 1, func(s *scene) {
		m := s.mutex(settings{})
		m.lock()
		for range 2 {
			m.unlock()
		}
	}, `lock: nil; unlock: true nil; unlock: false "redsync: failed to unlock, lock was already expired" ` +
		`is ErrLockAlreadyExpired`, ""},
	{"never locked", 1, func(s *scene) {
		m := s.mutex(settings{})
		m.unlock()
		m.extend()
		m.valid()
	}, `unlock: false "redsync: failed to unlock, lock was already expired" is ErrLockAlreadyExpired; ` +
		`extend: false ErrTaken[0]; valid: false ErrTaken[0]`, ""},
	{"expired", 1, func(s *scene) {
		m := s.mutex(settings{})
		m.lock()
		s.do("DEL key")
		m.valid()
		m.extend()
		m.unlock()
	}, `lock: nil; valid: false ErrTaken[0]; extend: false ErrTaken[0]; ` +
		`unlock: false "redsync: failed to unlock, lock was already expired" is ErrLockAlreadyExpired`, ""},
	{"others have it now", 1, func(s *scene) {
		m := s.mutex(settings{})
		m.lock()
		s.do("SET key other")
		m.valid()
		m.extend()
		m.unlock()
		s.keys()
	}, `lock: nil; valid: false ErrTaken[0]; extend: false ErrTaken[0]; unlock: false ErrTaken[0]; keys: 1`, ""},
	{"extended", 1, func(s *scene) {
		m := s.mutex(settings{expiry: time.Minute})
		m.lock()
		until := m.Until()
		s.do("PEXPIRE key 5000")
		m.extend()
		s.sayf("until: %v, ttl: %v", m.Until().After(until), s.servers[0].Do(s.t, "PTTL", "key").(int64) > 50_000)
		m.valid()
	}, `lock: nil; extend: true nil; until: true, ttl: true; valid: true nil`, ""},
	{"handed to another mutex by its value", 1, func(s *scene) {
		m := s.mutex(settings{expiry: time.Minute})
		m.lock()
		other := s.mutex(settings{value: m.Value()})
		s.sayf("value: %v", other.Value() == m.Value())
		other.valid()
		other.extend()
		other.unlock()
		s.keys()
	}, `lock: nil; value: true; valid: true nil; extend: true nil; unlock: true nil; keys: 0`, ""},
	{"set again by an extension, in time", 1, func(s *scene) {
		m := s.mutex(settings{setNX: true, expiry: time.Minute})
		m.lock()
		s.do("DEL key")
		m.extend()
		s.keys()
		s.do("SET key other")
		m.extend()
	}, `lock: nil; extend: true nil; keys: 1; extend: false ErrTaken[0]`, ""},
	{"set again by an extension, after it was unlocked", 1, func(s *scene) {
		m := s.mutex(settings{setNX: true, expiry: time.Minute})
		m.lock()
		m.unlock()
		m.extend()
		s.keys()
	}, `lock: nil; unlock: true nil; extend: true nil; keys: 1`,
		`lock: nil; unlock: true nil; extend: false ErrTaken[0]; keys: 0`},
	{"unlocked with a context that has ended", 1, func(s *scene) {
		ended, cancel := context.WithCancel(context.Background())
		m := s.mutex(settings{})
		s.err("lock", m.LockContext(ended))
		cancel()
		m.ok("unlock", func() (bool, error) { return m.UnlockContext(ended) })
		s.keys()
	}, `lock: nil; unlock: false RedisError0 is Canceled; keys: 1`, `lock: nil; unlock: true nil; keys: 0`},
	{"no server", 1, func(s *scene) {
		s.servers[0].Kill()
		s.err("lock", s.mutex(settings{tries: 2, delays: quick, timeout: 0.9}).Lock())
		s.mutex(settings{}).unlock()
	}, `lock: RedisError0; unlock: false RedisError0`, ""},
	{"one of three is taken", 3, func(s *scene) {
		s.do("SET key other", 1)
		m := s.mutex(settings{timeout: 0.9})
		m.lock()
		s.keys()
		m.extend()
		m.unlock()
		s.keys()
	}, `lock: nil; keys: 3; extend: true nil; unlock: true nil; keys: 1`, ""},
	{"two of three are taken", 3, func(s *scene) {
		s.do("SET key other", 0, 2)
		s.err("lock", s.mutex(settings{tries: 2, delays: quick, timeout: 0.9}).Lock())
		s.keys()
	}, `lock: ErrTaken[0 2]; keys: 2`, ""},
	{"one of three is down", 3, func(s *scene) {
		s.servers[1].Kill()
		m := s.mutex(settings{timeout: 0.9})
		m.lock()
		m.extend()
		m.valid()
		m.unlock()
		s.keys()
	}, `lock: nil; extend: true nil; valid: true RedisError1; unlock: true nil; keys: 0`, ""},
	{"one of three is down, and one taken", 3, func(s *scene) {
		s.servers[1].Kill()
		s.do("SET key other", 2)
		s.err("lock", s.mutex(settings{tries: 1, timeout: 0.9}).Lock())
		s.keys()
	}, `lock: "node #2: lock already taken" RedisError1; keys: 1`, ""},
	{"one of three has lost it, one has another", 3, func(s *scene) {
		m := s.mutex(settings{timeout: 0.9})
		m.lock()
		s.do("DEL key", 0)
		s.do("SET key other", 1)
		m.unlock()
		s.keys()
	}, `lock: nil; unlock: false "node #1: lock already taken" "redsync: failed to unlock, lock was already expired" ` +
		`is ErrLockAlreadyExpired; keys: 1`, ""},
	{"fast failure", 3, func(s *scene) {
		s.do("SET key other", 0, 1)
		s.err("lock", s.mutex(settings{tries: 1, fast: true, timeout: 0.9}).Lock())
		m := s.mutexOf("free", settings{fast: true, timeout: 0.9})
		m.lock()
		m.unlock()
	}, `lock: ErrTaken[0 1]; lock: nil; unlock: true nil`, ""},
	{"handed to another mutex on three servers", 3, func(s *scene) {
		m := s.mutex(settings{timeout: 0.9})
		m.lock()
		same := 0
		for _, server := range s.servers {
			if server.Do(s.t, "GET", "key") == m.Value() {
				same++
			}
		}
		s.sayf("same: %d", same)
		s.mutex(settings{value: m.Value()}).unlock()
	}, `lock: nil; same: 3; unlock: true nil`, ""},
}

func TestWhatUsersOfRedsyncObserve(t *testing.T) {
	for _, test := range redsyncTable {
		for _, one := range []side{originalSide, ourSide} {
			t.Run(test.name+"/"+one.name, func(t *testing.T) {
				t.Parallel()
				servers := redistest.Primaries(t, test.servers, redistest.AllowAll())
				s := &scene{
					notes: notes{t: t}, side: one, servers: servers,
					connected: one.connect(t, redistest.Addrs(servers)),
				}
				test.run(s)
				s.check(one.name == ourSide.name, test.want, test.ours)
			})
		}
	}
}
