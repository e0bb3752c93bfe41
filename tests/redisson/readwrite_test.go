package redisson_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

var readWrite = redisson.Config{Kind: redisson.ReadWrite}

func rlock(t testing.TB, m *holdfast.RWMutex) *holdfast.Lease {
	t.Helper()
	l, err := m.RLock(t.Context())
	assert.Must(t, err)
	return l
}

// A reader has its field, and a key of its own with the TTL.
func TestAReaderIsOneOfRedisson(t *testing.T) {
	s, c := serve(t, readWrite)
	conn := listen(t, s, "redisson_rwlock:{book}")
	l := rlock(t, c.RWMutex("book", holdfast.TTL(20*time.Second)))
	record := hash(t, s, "book")
	if len(record) != 2 || !strings.HasSuffix(record[0], "=1") && !strings.HasSuffix(record[1], "=1") {
		t.Fatalf("the hash is %v", record)
	}
	same(t, "the mode", s.Do(t, "HGET", "book", "mode"), "read")
	field := fieldOf(record)
	own := "{book}:" + field + ":rwlock_timeout:1"
	same(t, "keys", keysOf(t, s), []string{"book", own})
	same(t, "the reader's key", s.Do(t, "GET", own), "1")
	within(t, "the hash", s.Do(t, "PTTL", "book"), 20*time.Second)
	within(t, "the reader's key", s.Do(t, "PTTL", own), 20*time.Second)
	release(t, l)
	same(t, "message", message(t, conn), "0")
	for _, key := range keysOf(t, s) {
		assert.True(t, strings.HasPrefix(key, "redisson_unlock_latch:{book}:"), "after the release: %s", key)
	}
}

// fieldOf is the holder's field in a hash of a mode and one holder.
func fieldOf(record []string) string {
	for _, pair := range record {
		if !strings.HasPrefix(pair, "mode=") {
			return strings.TrimSuffix(pair, "=1")
		}
	}
	return ""
}

// A writer has the field with its suffix, and its release says 1.
func TestAWriterIsOneOfRedisson(t *testing.T) {
	s, c := serve(t, readWrite)
	conn := listen(t, s, "redisson_rwlock:{book}")
	l, err := c.RWMutex("book", holdfast.TTL(20*time.Second)).Lock(t.Context())
	assert.Must(t, err)
	record := hash(t, s, "book")
	same(t, "the mode", s.Do(t, "HGET", "book", "mode"), "write")
	assert.True(t, len(record) == 2 && strings.HasSuffix(fieldOf(record), ":write"), "the hash is %v", record)
	within(t, "the hash", s.Do(t, "PTTL", "book"), 20*time.Second)
	_, err = connect(t, s.Addr(), readWrite).RWMutex("book").TryRLock(t.Context())
	held(t, err)
	release(t, l)
	same(t, "message", message(t, conn), "1")
	same(t, "the lock", s.Do(t, "EXISTS", "book"), 0)
}

// plantReader writes a reader of Java, as Redisson does.
func plantReader(t testing.TB, s *redistest.Server, key, reader, ttl string) {
	t.Helper()
	s.Do(t, "HSET", key, "mode", "read", reader, "1")
	s.Do(t, "SET", "{"+key+"}:"+reader+":rwlock_timeout:1", "1", "PX", ttl)
	s.Do(t, "PEXPIRE", key, ttl)
}

// Readers of both sides are in together. The release of one leaves the other's hold, for as long
// as that one's own key lives.
func TestTheReadersOfBothSidesAreInTogether(t *testing.T) {
	s, c := serve(t, readWrite)
	plantReader(t, s, "book", java, "10000")
	m := c.RWMutex("book", holdfast.TTL(time.Hour))
	l := rlock(t, m)
	within(t, "the hash has the longest lease", s.Do(t, "PTTL", "book"), time.Hour)
	left := s.Do(t, "PTTL", "book").(int64)
	assert.True(t, left > 10_000, "the hash has %d ms left", left)
	_, err := m.TryLock(t.Context())
	assert.True(t, err != nil, "a writer is in beside readers")
	release(t, l)
	same(t, "the hash", hash(t, s, "book"), []string{java + "=1", "mode=read"})
	within(t, "the hash", s.Do(t, "PTTL", "book"), 10*time.Second)
	same(t, "Java's key", s.Do(t, "GET", "{book}:"+java+":rwlock_timeout:1"), "1")
}

// When the last living reader leaves, the hash goes with the fields of the dead ones.
func TestTheLastReaderTakesTheDeadOnesAlong(t *testing.T) {
	s, c := serve(t, readWrite)
	plantReader(t, s, "book", java, "60000")
	l := rlock(t, c.RWMutex("book"))
	s.Do(t, "DEL", "{book}:"+java+":rwlock_timeout:1") // its lease has ended
	conn := listen(t, s, "redisson_rwlock:{book}")
	release(t, l)
	same(t, "message", message(t, conn), "0")
	same(t, "the lock", s.Do(t, "EXISTS", "book"), 0)
}

// A renewal extends the hash and the reader's own key. Without that key Redisson deletes the hash.
func TestARenewalExtendsBothKeysOfAReader(t *testing.T) {
	t.Parallel()
	s, c := serve(t, readWrite)
	l := rlock(t, c.RWMutex("book", holdfast.TTL(6*time.Second)))
	own := "{book}:" + fieldOf(hash(t, s, "book")) + ":rwlock_timeout:1"
	awaitRenewal(t, l)
	const apart = "return redis.call('PTTL', KEYS[1]) - redis.call('PTTL', KEYS[2])"
	if ms := s.Do(t, "EVAL", apart, "2", "book", own).(int64); ms > 500 || ms < -500 {
		t.Errorf("the hash has %d ms more than the reader's key: one of them was not renewed", ms)
	}

	s.Do(t, "DEL", own)
	redistest.Await(t, "the loss of a reader without its key", func() bool { return l.Err() != nil })
	assert.Is(t, context.Cause(l.Context()), holdfast.ErrLost)
}

// The messages of Java wake a writer behind readers, and a reader behind a writer.
func TestTheMessagesWakeReadersAndWriters(t *testing.T) {
	s, c := serve(t, readWrite)
	const channel = "redisson_rwlock:{book}"
	got := make(chan error, 1)
	plantReader(t, s, "book", java, "3600000")
	go func() { got <- c.RWMutex("book").Do(context.Background(), func(context.Context) error { return nil }) }()
	redistest.Await(t, "the writer has subscribed", func() bool { return subscribers(t, s, channel) == 1 })
	s.Do(t, "DEL", "book")
	s.Do(t, "PUBLISH", channel, "0")
	assert.NoError(t, redistest.Next(t, "the writer", got))
	s.Do(t, "HSET", "book", "mode", "write", java+":write", "1")
	s.Do(t, "PEXPIRE", "book", "3600000")
	go func() { _, err := c.RWMutex("book").RLock(context.Background()); got <- err }()
	redistest.Await(t, "the reader waits", func() bool { return c.Stats().Waiters == 1 })
	s.Do(t, "DEL", "book")
	s.Do(t, "PUBLISH", channel, "1")
	assert.NoError(t, redistest.Next(t, "the reader", got))
}

// A Java writer may read under its own lock. When only the readers of a writer remain, everybody
// hears that reading is possible.
func TestAWriterWithReadersOfJavaBesideItIsHeard(t *testing.T) {
	s, c := serve(t, readWrite)
	l, err := c.RWMutex("book").Lock(t.Context())
	assert.Must(t, err)
	s.Do(t, "HSET", "book", java, "1")
	conn := listen(t, s, "redisson_rwlock:{book}")
	release(t, l)
	same(t, "message", message(t, conn), "1")
	same(t, "the message that is kept", message(t, conn), "0")
	same(t, "the hash", hash(t, s, "book"), []string{java + "=1", "mode=read"})
}

// The eviction of a writer says both: 1 wakes the threads of Java that wait, and 0 is kept for one
// that is about to. The eviction of readers says 0 alone.
func TestAnEvictionOfAWriterAndOfReadersIsHeard(t *testing.T) {
	s, c := serve(t, readWrite)
	for _, kind := range []struct {
		name  string
		lock  func(*holdfast.RWMutex) (*holdfast.Lease, error)
		heard []any
	}{
		{"writer", func(m *holdfast.RWMutex) (*holdfast.Lease, error) { return m.Lock(t.Context()) }, []any{"1", "0"}},
		{"reader", func(m *holdfast.RWMutex) (*holdfast.Lease, error) { return m.RLock(t.Context()) }, []any{"0"}},
	} {
		l, err := kind.lock(c.RWMutex(kind.name))
		assert.Must(t, err)
		conn := listen(t, s, "redisson_rwlock:{"+kind.name+"}")
		n, err := c.Evict(t.Context(), kind.name, holdfast.Eviction{By: "ann", Reason: "test", AtOnce: true})
		assert.Must(t, err)
		same(t, "evicted", n, 1)
		s.Do(t, "PUBLISH", "redisson_rwlock:{"+kind.name+"}", "end")
		for _, want := range append(kind.heard, "end") {
			same(t, kind.name+": message", message(t, conn), want)
		}
		assert.Is(t, l.Release(t.Context()), holdfast.ErrNotHeld)
	}
}

// A hash without a mode, or without a holder, is no lock of this kind. It is reported and left alone.
func TestAHashWithoutAModeIsLeftAlone(t *testing.T) {
	s, c := serve(t, readWrite)
	plant(t, s, "book", "3600000")
	s.Do(t, "HSET", "page", "mode", "write")
	for _, name := range []string{"book", "page"} {
		for what, call := range map[string]func() error{
			"TryRLock": func() error { _, err := c.RWMutex(name).TryRLock(t.Context()); return err },
			"TryLock":  func() error { _, err := c.RWMutex(name).TryLock(t.Context()); return err },
			"Inspect":  func() error { _, err := c.Inspect(t.Context(), name); return err },
		} {
			var refused *holdfast.ServerError
			err := call()
			assert.True(t, errors.As(err, &refused) && refused.Code == "WRONGTYPE", "%s of %s: %v", what, name, err)
		}
	}
	same(t, "the hash", hash(t, s, "book"), []string{java + "=1"})
}

// No count in a hash keeps the server busy when a reader leaves. The newest entries of a reader count.
func TestAReaderWithAnyNumberOfEntriesIsPassed(t *testing.T) {
	s, c := serve(t, readWrite)
	for _, entries := range []string{"2000", "1000000000000000", "inf", "nan", "-5", "many"} {
		s.Do(t, "HSET", "book", "mode", "read", java, entries)
		s.Do(t, "PEXPIRE", "book", "3600000")
		s.Do(t, "SET", "{book}:"+java+":rwlock_timeout:2000", "1", "PX", "1800000")
		l, err := c.RWMutex("book", holdfast.TTL(time.Minute)).TryRLock(t.Context())
		assert.Must(t, err)
		release(t, l)
		exists := int64(0) // none of its keys is found, so it is dead
		if entries == "2000" {
			exists = 1
			within(t, "the hash", s.Do(t, "PTTL", "book"), 30*time.Minute)
		}
		same(t, "the hash, with "+entries, s.Do(t, "EXISTS", "book"), exists)
		s.Do(t, "DEL", "book")
	}
}

// A conversion would need more than the format has.
func TestAConversionIsRefusedAndTheLeaseStays(t *testing.T) {
	_, c := serve(t, readWrite)
	l, err := c.RWMutex("book").Lock(t.Context())
	assert.Must(t, err)
	assert.Is(t, l.Downgrade(t.Context()), redisson.ErrUnsupported)
	assert.True(t, l.Err() == nil, "the lease: %v", l.Err())
	release(t, l)
}
