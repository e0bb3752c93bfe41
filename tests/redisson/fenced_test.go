package redisson_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// The token is Redisson's counter as it is, so that it compares with the tokens of Java.
func TestAFencedLockHasRedissonsTokens(t *testing.T) {
	s, c := serve(t, redisson.Config{Kind: redisson.Fenced})
	m := c.Mutex("order", holdfast.TTL(20*time.Second))
	for want := uint64(1); want < 4; want++ {
		l := lock(t, m)
		assert.Equal(t, l.Token(), want, "the token")
		same(t, "the counter", s.Do(t, "GET", "redisson_lock_token:{order}"), want)
		info, err := c.Inspect(t.Context(), "order")
		if err != nil || info.Fence != want || len(info.Holders) != 1 || info.Holders[0].Token != want ||
			info.Holders[0].HolderID != l.HolderID() {
			t.Errorf("Inspect: %+v, %v", info, err)
		}
		release(t, l)
	}
	s.Do(t, "INCR", "redisson_lock_token:{order}") // Java had it meanwhile
	l := lock(t, m)
	same(t, "the token", l.Token(), 5)
	for token, want := range []int{4: 0, 5: 1} {
		if token < 4 {
			continue
		}
		e := holdfast.Eviction{By: "ann", Reason: "test", Token: uint64(token), AtOnce: true}
		n, err := c.Evict(t.Context(), "order", e)
		assert.True(t, n == want && err == nil, "Evict of token %d: %d, %v", token, n, err)
	}
	everyKeyExpires(t, s, "redisson_lock_token:{order}")
}

// Goroutines of one process get a number of their own each: a hold is not handed over.
func TestEachGoroutineHasATokenOfItsOwn(t *testing.T) {
	_, c := serve(t, redisson.Config{Kind: redisson.Fenced})
	first := lock(t, c.Mutex("order"))
	got := locking(t, c.Mutex("order").Lock)
	redistest.Await(t, "the second goroutine waits", func() bool { return c.Stats().Calls == 1 })
	release(t, first)
	same(t, "the second token", redistest.Next(t, "the lock", got).Token(), first.Token()+1)
}

// If the answer with the token is lost, the attempt is cancelled, and the next one has a higher
// token.
func TestATokenOfUnknownOutcomeIsSkipped(t *testing.T) {
	t.Parallel()
	s := start(t)
	p := redistest.NewProxy(t, s.Addr())
	c := connect(t, p.Addr(), redisson.Config{Kind: redisson.Fenced})
	release(t, lock(t, c.Mutex("order")))
	known(t, s, c)
	p.DropReplies(1, "EVALSHA")
	l := lock(t, c.Mutex("order"))
	assert.True(t, l.Token() >= 2, "the token is %d", l.Token())
	same(t, "the counter", s.Do(t, "GET", "redisson_lock_token:{order}"), l.Token())
}

// A counter that is none is refused before anything is written: what it counts would be no token.
func TestACounterThatIsNoneIsLeftAlone(t *testing.T) {
	s, c := serve(t, redisson.Config{Kind: redisson.Fenced})
	for _, value := range []string{"text", "-2", "-1", "1000000000000000", "9223372036854775807"} {
		s.Do(t, "SET", "redisson_lock_token:{order}", value)
		var refused *holdfast.ServerError
		_, err := c.Mutex("order").TryLock(t.Context())
		assert.True(t, errors.As(err, &refused) && refused.Code == "WRONGTYPE", "TryLock with %s: %v", value, err)
		_, err = c.Inspect(t.Context(), "order")
		assert.True(t, errors.As(err, &refused) && refused.Code == "WRONGTYPE", "Inspect with %s: %v", value, err)
		same(t, "the counter", s.Do(t, "GET", "redisson_lock_token:{order}"), value)
		same(t, "the lock", s.Do(t, "EXISTS", "order"), 0)
	}
}
