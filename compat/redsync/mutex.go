package redsync

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/stringlock"
)

// Mutex is a lock by its name. Goroutines may share one: each Unlock ends the oldest lock that no
// Unlock has ended. So if a lock was lost, and another goroutine has locked since, the Unlock of
// the first one does not end the lock of the second one. A lock whose loss a caller has seen, by
// Extend or Until, is forgotten at the next Lock.
type Mutex struct {
	name          string
	holds         *stringlock.Holds
	expiry        time.Duration
	tries         int
	delay         DelayFunc
	driftFactor   float64
	timeoutFactor float64
	genValue      func() (string, error)
	setsAgain     bool
	failFast      bool
	renews        bool

	mu    sync.Mutex // guards the fields below; under it nothing is sent
	value string     // of the last lock that ended, or of WithValue
	until time.Time
	held  []*held // not unlocked, the oldest first
}

// held is a lock that no Unlock has ended. It may be lost.
type held struct {
	hold  *stringlock.Hold
	value string
	until time.Time
	seen  bool // a caller has seen that it is lost
}

// mostHeld bounds how many lost locks a mutex remembers, if a program never unlocks them.
const mostHeld = 8

// Name returns the name, which is the key.
func (m *Mutex) Name() string { return m.name }

// Value returns the value of the lock, or of the last one. Before that it is the value of
// [WithValue], or empty.
func (m *Mutex) Value() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.held) > 0 {
		return m.held[0].value
	}
	return m.value
}

// Until returns until when the lock is valid if nothing extends it, or was. It is zero before the
// first one.
func (m *Mutex) Until() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.held) == 0 {
		return m.until
	}
	one := m.held[0]
	if m.renews {
		one.until = one.hold.Deadline()
	}
	if !time.Now().Before(one.until) {
		one.seen = true
	}
	return one.until
}

// TryLock is [Mutex.TryLockContext] without a context.
func (m *Mutex) TryLock() error { return m.TryLockContext(context.Background()) }

// TryLockContext tries once. Its errors are those of [Mutex.LockContext].
func (m *Mutex) TryLockContext(ctx context.Context) error { return m.lock(ctx, 1) }

// Lock is [Mutex.LockContext] without a context.
func (m *Mutex) Lock() error { return m.LockContext(context.Background()) }

// LockContext tries to lock m until it succeeds, its tries are used up, or ctx ends. After an
// error the caller holds nothing: what a server may have given, or may yet give, is taken back,
// in the background if the server does not answer.
//
// If the last try failed because others hold the lock, the error is an [*ErrTaken], or one for
// each server. If a server failed, it has a [*RedisError]. If ctx ends between two tries, the
// error is [ErrFailed].
func (m *Mutex) LockContext(ctx context.Context) error { return m.lock(ctx, m.tries) }

func (m *Mutex) lock(ctx context.Context, tries int) error {
	if ctx == nil {
		ctx = context.Background()
	}
	value, err := m.genValue()
	if err != nil {
		return err
	}
	for i := range tries {
		if i > 0 && !sleep(ctx, m.delay(i)) {
			return ErrFailed
		}
		locked, clean, err := m.try(ctx, value)
		switch {
		case locked:
			return nil
		case i == tries-1 && err != nil:
			return err
		case !clean:
			if value, err = m.genValue(); err != nil {
				return err
			}
		}
	}
	return ErrFailed
}

// sleep reports whether ctx is still alive after the pause.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// try tries once. The lock counts from before the request. clean is false if a server did not
// answer: what it may have given is being taken back in the background, so the next try needs
// another value.
func (m *Mutex) try(ctx context.Context, value string) (locked, clean bool, err error) {
	k := stringlock.Lock{Keys: []string{m.name}, Value: value, TTL: m.expiry}
	limit := m.part(m.timeoutFactor)
	start, sent := time.Now(), clock.Now()
	var decided chan *stringlock.Hold // nil in it: the try failed
	w := stringlock.Wait{Early: m.early()}
	if w.Early != nil {
		decided = make(chan *stringlock.Hold, 1)
		w.Late = func(r stringlock.Reply) {
			hold := <-decided
			decided <- hold
			if hold != nil {
				hold.Set(r)
				return
			}
			m.holds.GiveUp(context.Background(), limit, k, []stringlock.Reply{r})
		}
	}
	replies := m.holds.Acquire(ctx, limit, k, w)
	n, err := verdict(replies, m.holds.Quorum(), nil)
	until := start.Add(m.expiry - m.part(m.driftFactor))
	var hold *stringlock.Hold
	if n >= m.holds.Quorum() && time.Now().Before(until) {
		hold = m.add(ctx, k, replies, sent, until)
	}
	if decided != nil {
		decided <- hold
	}
	if hold != nil {
		return true, true, nil
	}
	m.holds.GiveUp(ctx, limit, k, replies)
	return false, !slices.ContainsFunc(replies, func(r stringlock.Reply) bool { return r.Unknown() || r.Silent() }), err
}

// part returns a part of the expiry.
func (m *Mutex) part(factor float64) time.Duration { return time.Duration(float64(m.expiry) * factor) }

// early ends the wait for replies as soon as a majority has decided, if that is wanted.
func (m *Mutex) early() func([]stringlock.Reply) bool {
	if !m.failFast {
		return nil
	}
	return func(heard []stringlock.Reply) bool {
		quorum := m.holds.Quorum()
		return stringlock.Count(heard, stringlock.Held) >= quorum ||
			stringlock.Count(heard, stringlock.Taken) >= quorum
	}
}

// add remembers a lock. It returns nil if its lease is over already.
func (m *Mutex) add(
	ctx context.Context, k stringlock.Lock, replies []stringlock.Reply, sent time.Duration, until time.Time,
) *stringlock.Hold {
	hold := m.holds.Add(ctx, k, replies, stringlock.Term{Sent: sent, Early: m.extra(), Renews: m.renews})
	if hold == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = slices.DeleteFunc(m.held, func(one *held) bool { return one.seen && one.hold.Lost() })
	if len(m.held) >= mostHeld {
		m.held = m.held[1:]
	}
	m.held = append(m.held, &held{hold: hold, value: k.Value, until: until})
	return hold
}

// extra is how much more of the expiry than usual is not trusted.
func (m *Mutex) extra() time.Duration {
	return max(0, m.part(m.driftFactor)-m.expiry/100)
}

// oldest returns the lock that the next Unlock ends, and its value. If there is none, it is nil
// and the value is that of the last lock.
func (m *Mutex) oldest() (one *held, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.held) == 0 {
		return nil, m.value
	}
	return m.held[0], m.held[0].value
}

// Unlock is [Mutex.UnlockContext] without a context.
func (m *Mutex) Unlock() (bool, error) { return m.UnlockContext(context.Background()) }

// UnlockContext ends the lock. It reports whether a majority of the servers had it until then. It
// sends the requests even if ctx has ended.
//
// If a server does not answer, the request is sent again in the background until the lock's
// expiry. If the lock was not there any more, the error has [ErrLockAlreadyExpired]. If others
// hold it, the error is an [*ErrTaken], or has an [*ErrNodeTaken] for each server.
func (m *Mutex) UnlockContext(ctx context.Context) (bool, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	m.mu.Lock()
	var hold *stringlock.Hold
	if len(m.held) > 0 {
		one := m.held[0]
		hold, m.value, m.until = one.hold, one.value, one.until
		m.held = m.held[1:]
	}
	value := m.value
	m.mu.Unlock()
	var replies []stringlock.Reply
	if hold != nil {
		replies = hold.Release(ctx, stringlock.RequestTimeout, ErrUnlocked, m.early())
	} else {
		k := stringlock.Lock{Keys: []string{m.name}, Value: value, TTL: m.expiry}
		replies = m.holds.Release(ctx, stringlock.RequestTimeout, k, stringlock.Wait{Early: m.early()})
	}
	n, err := verdict(replies, m.holds.Quorum(), ErrLockAlreadyExpired)
	if n < m.holds.Quorum() {
		return false, err
	}
	return true, nil
}

// Extend is [Mutex.ExtendContext] without a context.
func (m *Mutex) Extend() (bool, error) { return m.ExtendContext(context.Background()) }

// ExtendContext makes the lock last for its expiry from now on. It reports whether a majority of
// the servers had it and extended it. Otherwise the lock keeps its old end, or is lost: then the
// errors are those of [Mutex.UnlockContext], and a key that is not there counts as taken.
func (m *Mutex) ExtendContext(ctx context.Context) (bool, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	one, value := m.oldest()
	k := stringlock.Lock{Keys: []string{m.name}, Value: value, TTL: m.expiry}
	how := stringlock.How{Again: m.setsAgain && one != nil && !one.hold.Lost()}
	start, sent := time.Now(), clock.Now()
	w := stringlock.Wait{Early: m.early()}
	if how.Again {
		w.Late = one.hold.Set
	}
	replies := m.holds.Extend(ctx, stringlock.RequestTimeout, k, how, w)
	if how.Again {
		for _, r := range replies {
			one.hold.Set(r)
		}
	}
	n, err := verdict(replies, m.holds.Quorum(), nil)
	if n < m.holds.Quorum() {
		m.saw(one)
		return false, err
	}
	until := start.Add(m.expiry - m.part(m.driftFactor))
	if !time.Now().Before(until) || !m.extended(ctx, one, k, replies, sent, until) {
		return false, ErrExtendFailed
	}
	return true, nil
}

// saw notes that a caller has seen whether the lock is lost.
func (m *Mutex) saw(one *held) {
	if one == nil || !one.hold.Lost() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	one.seen = true
}

// extended notes an extension. A lock that this mutex has not acquired, or does not trust any
// more, is held from now on: its value never left the servers.
func (m *Mutex) extended(ctx context.Context, one *held, k stringlock.Lock, replies []stringlock.Reply,
	sent time.Duration, until time.Time,
) bool {
	if one != nil && one.hold.Restart(sent, m.extra(), m.expiry) {
		m.mu.Lock()
		defer m.mu.Unlock()
		one.until = until
		return true
	}
	hold := m.holds.Add(ctx, k, replies, stringlock.Term{Sent: sent, Early: m.extra(), Renews: m.renews})
	if hold == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.Index(m.held, one)
	switch {
	case i >= 0:
		m.held[i] = &held{hold: hold, value: k.Value, until: until}
	case one == nil && len(m.held) == 0 && m.value == k.Value:
		m.held = []*held{{hold: hold, value: k.Value, until: until}}
	default:
		hold.End(ErrUnlocked) // another goroutine has unlocked it meanwhile
	}
	return true
}

// Valid is [Mutex.ValidContext] without a context.
//
// Deprecated: use [Mutex.Until], or [Mutex.Context].
func (m *Mutex) Valid() (bool, error) { return m.ValidContext(context.Background()) }

// ValidContext asks the servers whether a majority has the value of the lock.
//
// Deprecated: use [Mutex.Until], or [Mutex.Context]. When the answer arrives, it may be out of
// date.
func (m *Mutex) ValidContext(ctx context.Context) (bool, error) {
	if ctx == nil {
		ctx = context.Background()
	}
	one, value := m.oldest()
	k := stringlock.Lock{Keys: []string{m.name}, Value: value}
	replies := m.holds.Left(ctx, stringlock.RequestTimeout, k)
	n, err := verdict(replies, m.holds.Quorum(), nil)
	if n < m.holds.Quorum() {
		m.saw(one)
	}
	return n >= m.holds.Quorum(), err
}

// genValue makes a value as redsync does: 16 random bytes in base64.
func genValue() (string, error) {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails: it would end the program
	return base64.StdEncoding.EncodeToString(b), nil
}
