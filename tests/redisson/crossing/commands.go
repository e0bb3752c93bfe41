package crossing

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/bridge"
	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/observe"
)

// kinds are what the commands call Redisson's kinds of locks.
var kinds = map[string]redisson.Kind{
	"lock": redisson.Lock, "multi": redisson.Lock, "fair": redisson.Fair, "fenced": redisson.Fenced,
	"read": redisson.ReadWrite, "write": redisson.ReadWrite, "bridge": redisson.Lock,
}

// run runs a command: see Commands.java. Two kinds are of this library only: native, which is its own
// lock, and bridge, which is a lock of Redisson and the native one of the same name.
func (t *thread) run(ctx context.Context, words []string) (string, error) {
	args := slices.Concat(words[1:], []string{"", "", ""})
	switch words[0] {
	case "lock":
		return t.acquire(ctx, args[0], args[1], -1, number(args[2]))
	case "try":
		return t.acquire(ctx, args[0], args[1], number(args[2]), number(args[3]))
	case "unlock":
		return t.release(ctx, args[0]+" "+args[1])
	case "force":
		n, err := t.clients[kinds[args[0]]].Evict(ctx, args[1], holdfast.Eviction{
			By: "crossing", Reason: "a test", AtOnce: true,
		})
		return strconv.FormatBool(n > 0), err
	case "held":
		return strconv.FormatBool(t.last(args[0]+" "+args[1]) != nil && t.last(args[0]+" "+args[1]).Err() == nil), nil
	case "locked":
		info, err := t.clients[kinds[args[0]]].Inspect(ctx, args[1])
		return strconv.FormatBool(info.Held()), err
	case "count":
		return strconv.Itoa(len(t.held[args[0]+" "+args[1]])), nil
	case "token", "try-token":
		wait := map[string]int64{"token": -1}[words[0]]
		if answer, err := t.acquire(ctx, "fenced", args[0], wait, 0); err != nil || answer == "busy" {
			return answer, err
		}
		lease, _ := t.last("fenced " + args[0]).(*holdfast.Lease)
		return strconv.FormatUint(lease.Token(), 10), nil
	case "permits":
		t.mu.Lock()
		defer t.mu.Unlock()
		t.limits[args[0]] = int(number(args[1]))
		return "true", nil
	case "acquire":
		return t.permits(ctx, args[0], int(number(args[1])), number(args[2]))
	case "release":
		return t.release(ctx, "permits "+args[0])
	case "available":
		n, err := t.semaphore(args[0]).Available(ctx)
		return strconv.Itoa(n), err
	case "cross":
		return t.cross(ctx, args[0], args[1], int(number(args[2])), args[3])
	case "pairs":
		return t.pairs(ctx, args[0], int(number(args[1])), number(args[2]), args[3] == "own")
	}
	return "", fmt.Errorf("there is no command %q", words[0])
}

func number(word string) int64 {
	n, _ := strconv.ParseInt(word, 10, 64) // what is no number is none
	return n
}

func (t *thread) last(lock string) held {
	if all := t.held[lock]; len(all) > 0 {
		return all[len(all)-1]
	}
	return nil
}

// acquire acquires a lock: with a wait in ms, or without an end if that is negative; with a lease in
// ms, or with renewals if that is 0. If the thread holds it already, it enters again.
func (t *thread) acquire(ctx context.Context, kind, name string, wait, lease int64) (string, error) {
	lock := kind + " " + name
	if all := t.held[lock]; len(all) > 0 {
		ctx = all[0].Context()
	}
	wake := observe.WakeNone
	l, err := t.lock(context.WithValue(ctx, wakeKey{}, &wake), kind, name, wait, lease)
	if errors.Is(err, holdfast.ErrHeld) {
		return "busy", nil
	}
	if err != nil {
		return "", err
	}
	t.held[lock] = append(t.held[lock], l)
	return "locked " + wake.String(), nil
}

// lock calls the method that belongs to a kind.
func (t *thread) lock(ctx context.Context, kind, name string, wait, lease int64) (held, error) {
	client := t.clients[kinds[kind]]
	if kind == "native" {
		client = t.native
	}
	common := []holdfast.Option{}
	if lease > 0 {
		common = append(common, holdfast.TTL(time.Duration(lease)*time.Millisecond), holdfast.NoRenewal())
	}
	if wait > 0 {
		common = append(common, holdfast.MaxWait(time.Duration(wait)*time.Millisecond))
	}
	switch kind {
	case "bridge":
		options := convert[holdfast.MutexOption](common)
		m := bridge.New(bridge.Both, client.Mutex(name, options...), t.native.Mutex(name, options...))
		if wait == 0 {
			return some(m.TryLock(ctx))
		}
		return some(m.Lock(ctx))
	case "multi":
		m := client.MultiMutex(strings.Split(name, ","), convert[holdfast.LockOption](common)...)
		if wait == 0 {
			return some(m.TryLock(ctx))
		}
		return some(m.Lock(ctx))
	case "read", "write":
		m := client.RWMutex(name, convert[holdfast.RWMutexOption](common)...)
		call := m.Lock
		switch {
		case kind == "write" && wait == 0:
			call = m.TryLock
		case kind == "read" && wait == 0:
			call = m.TryRLock
		case kind == "read":
			call = m.RLock
		}
		return some(call(ctx))
	}
	m := client.Mutex(name, append(convert[holdfast.MutexOption](common), holdfast.Reentrant())...)
	if wait == 0 {
		return some(m.TryLock(ctx))
	}
	return some(m.Lock(ctx))
}

// some makes no interface of a nil pointer.
func some[L held](l L, err error) (held, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

func convert[O any](options []holdfast.Option) (converted []O) {
	for _, option := range options {
		converted = append(converted, option.(O))
	}
	return converted
}

func (t *thread) release(ctx context.Context, lock string) (string, error) {
	l := t.last(lock)
	if l == nil {
		return "not-held", nil
	}
	t.held[lock] = t.held[lock][:len(t.held[lock])-1]
	switch err := l.Release(ctx); {
	case err == nil && strings.HasPrefix(lock, "permits "):
		return "released", nil
	case err == nil:
		return "unlocked", nil
	case errors.Is(err, holdfast.ErrLost), errors.Is(err, holdfast.ErrNotHeld), errors.Is(err, holdfast.ErrHeldByOther):
		return "not-held", nil
	default:
		return "", err
	}
}

func (t *thread) semaphore(name string) *holdfast.Semaphore {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.clients[redisson.Semaphore].Semaphore(name, max(t.limits[name], 1))
}

func (t *thread) permits(ctx context.Context, name string, n int, wait int64) (string, error) {
	s := t.semaphore(name)
	limit := t.limits[name]
	if wait > 0 {
		s = t.clients[redisson.Semaphore].Semaphore(name, limit, holdfast.MaxWait(time.Duration(wait)*time.Millisecond))
	}
	call := s.Acquire
	if wait == 0 {
		call = s.TryAcquire
	}
	wake := observe.WakeNone
	l, err := call(context.WithValue(ctx, wakeKey{}, &wake), n)
	if errors.Is(err, holdfast.ErrHeld) {
		return "busy", nil
	}
	if err != nil {
		return "", err
	}
	t.held["permits "+name] = append(t.held["permits "+name], l)
	return "acquired " + wake.String(), nil
}

func (t *thread) cross(ctx context.Context, kind, name string, times int, file string) (string, error) {
	met, err := cross(ctx, file, times, kind == "read", func(ctx context.Context, in func() error) error {
		l, err := t.lock(ctx, kind, name, -1, 0)
		if err != nil {
			return err
		}
		return errors.Join(in(), l.Release(ctx))
	})
	return strconv.Itoa(met), err
}

// pairs counts how many pairs of Lock and Release some goroutines do in a time.
func (t *thread) pairs(ctx context.Context, name string, threads int, ms int64, own bool) (string, error) {
	var pairs atomic.Int64
	var failed atomic.Value
	var all sync.WaitGroup
	client := t.clients[redisson.Lock]
	till := time.Now().Add(time.Duration(ms) * time.Millisecond)
	for i := range threads {
		key := name
		if own {
			key = fmt.Sprintf("%s:%s:%d", name, client.ID(), i)
		}
		mutex := client.Mutex(key)
		all.Go(func() {
			for time.Now().Before(till) {
				l, err := mutex.Lock(ctx)
				if err == nil {
					if time.Now().Before(till) {
						pairs.Add(1)
					}
					err = l.Release(ctx)
				}
				if err != nil {
					failed.Store(err)
					return
				}
			}
		})
	}
	all.Wait()
	err, _ := failed.Load().(error)
	return strconv.FormatInt(pairs.Load(), 10), err
}
