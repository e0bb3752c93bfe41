package objectfence_test

import (
	"bytes"
	"context"
	"crypto/md5" // a version is named like the ETags of S3
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fence/objectfence"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// bucket is a store whose versions are named by their content, as those of S3 are.
type bucket struct {
	mu        sync.Mutex
	objects   map[string]string
	puts      int
	between   func()       // runs between a read and its write, once
	lose      func() error // what becomes of an answer to a Put that has succeeded
	versioned bool
}

func newBucket() *bucket { return &bucket{objects: map[string]string{}, versioned: true} }

func etag(body string) string {
	sum := md5.Sum([]byte(body))
	return hex.EncodeToString(sum[:])
}

func (b *bucket) Get(_ context.Context, key string) ([]byte, string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	body, ok := b.objects[key]
	switch {
	case !ok:
		return nil, "", objectfence.ErrNotFound
	case !b.versioned:
		return []byte(body), "", nil
	}
	return []byte(body), etag(body), nil
}

func (b *bucket) Put(_ context.Context, key string, body []byte, version string) error {
	if f := b.between; f != nil {
		b.between = nil
		f()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	was, ok := b.objects[key]
	if ok != (version != "") || ok && etag(was) != version {
		return objectfence.ErrChanged
	}
	b.objects[key] = string(body)
	b.puts++
	if f := b.lose; f != nil {
		b.lose = nil
		return f()
	}
	return nil
}

// want checks an error; nil is success.
func want(t *testing.T, what string, err, target error) {
	t.Helper()
	assert.False(t, !errors.Is(err, target) || target == nil && err != nil, "%s: %v; want %v", what, err, target)
}

func content(t *testing.T, g objectfence.Guard, text string) {
	t.Helper()
	got, err := g.Get(t.Context(), "a")
	assert.True(t, err == nil && string(got) == text, "the content is %q, %v; want %q", got, err, text)
}

func TestAnObjectRefusesOlderTokens(t *testing.T) {
	b := newBucket()
	guard := objectfence.Guard{Bucket: b}
	_, err := guard.Get(t.Context(), "a")
	want(t, "an object that is not there", err, objectfence.ErrNotFound)
	for _, c := range []struct {
		token uint64
		text  string
		err   error
	}{
		{5, "first", nil}, {5, "", nil}, {4, "late", fence.ErrStale}, {7, "a line\nand more\n", nil},
		{6, "late", fence.ErrStale}, {math.MaxInt64, "last", nil}, {7, "late", fence.ErrStale},
		{math.MaxInt64 + 1, "", fence.ErrInvalid}, {0, "", fence.ErrInvalid},
	} {
		want(t, c.text, guard.Put(t.Context(), "a", c.token, []byte(c.text)), c.err)
		if c.err == nil {
			content(t, guard, c.text)
		}
	}
	content(t, guard, "last")
	seen, err := guard.Seen(t.Context(), "a")
	assert.True(t, seen == math.MaxInt64 && err == nil, "seen %d, %v", seen, err)
	want(t, "Reset", guard.Reset(t.Context(), "a"), nil)
	content(t, guard, "last")
	want(t, "Raise", guard.Raise(t.Context(), "a", 3), nil)
	content(t, guard, "last")
	want(t, "a write below what was only shown", guard.Put(t.Context(), "a", 2, nil), fence.ErrStale)
	want(t, "a guard without a bucket", objectfence.Guard{}.Put(t.Context(), "a", 2, nil), fence.ErrInvalid)
}

// A late writer read a version. Its successor wrote another one, and then the old content again. The
// late writer must not take that for what it has read.
func TestTheSameContentIsAnotherVersion(t *testing.T) {
	b := newBucket()
	guard := objectfence.Guard{Bucket: b}
	want(t, "the first", guard.Put(t.Context(), "a", 5, []byte("idle")), nil)
	b.between = func() {
		want(t, "the successor", guard.Put(t.Context(), "a", 6, []byte("busy")), nil)
		want(t, "the successor", guard.Put(t.Context(), "a", 6, []byte("idle")), nil)
	}
	want(t, "the late writer", guard.Put(t.Context(), "a", 5, []byte("late")), fence.ErrStale)
	content(t, guard, "idle")
}

// If another write of the same token comes between, an update is made from its content.
func TestAnUpdateIsMadeFromTheNewestContent(t *testing.T) {
	b := newBucket()
	guard := objectfence.Guard{Bucket: b}
	add := func(text string) error {
		return guard.Update(t.Context(), "a", 5, func(old []byte) ([]byte, error) {
			return append(old, text...), nil
		})
	}
	b.between = func() { want(t, "between", add("b"), nil) } // it also creates the object
	want(t, "around", add("a"), nil)
	content(t, guard, "ba")
	errWork := errors.New("the work failed")
	err := guard.Update(t.Context(), "a", 9, func([]byte) ([]byte, error) { return nil, errWork })
	want(t, "a function that fails", err, errWork)
	seen, err := guard.Seen(t.Context(), "a")
	assert.True(t, seen == 5 && err == nil, "a function that failed has left token %d, %v", seen, err)
}

// A client library sends a write twice, because the answer was lost: the second time the condition
// does not hold any more. That is a success, and the write is not made again.
func TestAWriteThatIsSentTwiceSucceedsOnce(t *testing.T) {
	b := newBucket()
	guard := objectfence.Guard{Bucket: b}
	b.lose = func() error { return objectfence.ErrChanged }
	err := guard.Update(t.Context(), "a", 5, func(old []byte) ([]byte, error) { return append(old, 'x'), nil })
	want(t, "Update", err, nil)
	content(t, guard, "x")
	assert.Equal(t, b.puts, 1, "writes")
	errLost := errors.New("the connection broke")
	b.lose = func() error { return errLost }
	want(t, "a lost answer", guard.Put(t.Context(), "a", 5, []byte("y")), errLost)
	content(t, guard, "y")
}

// The answer is lost, others write with the same token or a higher one, and the second copy is refused. The
// first copy took effect, so the call has succeeded, and f runs once.
func TestAWriteWhoseAnswerIsLostTakesEffectOnceThoughOthersFollow(t *testing.T) {
	for _, c := range []struct {
		name   string
		others int
		token  uint64
		want   error
	}{
		{"the same token", 1, 5, nil},
		{"the next holder", 1, 6, nil},
		{"as many as are remembered", 63, 5, nil},
		{"too many", 64, 5, errors.ErrUnsupported},
	} {
		b := newBucket()
		guard := objectfence.Guard{Bucket: b}
		want(t, "the first", guard.Put(t.Context(), "a", 5, nil), nil)
		add := func(token uint64, text string) error {
			return guard.Update(t.Context(), "a", token, func(old []byte) ([]byte, error) {
				return append(old, text...), nil
			})
		}
		b.lose = func() error {
			b.mu.Unlock()
			defer b.mu.Lock()
			for range c.others {
				want(t, "another", add(c.token, "o"), nil)
			}
			return objectfence.ErrChanged
		}
		err := add(5, "x")
		assert.Equal(t, err == nil, c.want == nil, "%s: %v", c.name, err)
		content(t, guard, "x"+strings.Repeat("o", c.others))
	}
}

// A store whose conditions never hold is told apart from one in which others write.
func TestAStoreWhoseConditionsNeverHoldIsRefused(t *testing.T) {
	for _, named := range []string{"the same version", "always another version"} {
		b := newBucket()
		guard := objectfence.Guard{Bucket: b}
		want(t, "the first", guard.Put(t.Context(), "a", 5, nil), nil)
		reads := 0
		broken := objectfence.Guard{Bucket: bucketOf{
			get: func(ctx context.Context, key string) ([]byte, string, error) {
				body, version, err := b.Get(ctx, key)
				if reads++; named != "the same version" {
					version = strings.Repeat("w", reads)
				}
				return body, version, err
			},
			put: func() error { return objectfence.ErrChanged },
		}}
		err := broken.Put(t.Context(), "a", 5, []byte("x"))
		assert.True(t, err != nil && strings.Contains(err.Error(), "cannot guard") && reads < 10,
			"%s: %d reads, %v", named, reads, err)
	}
}

// bucketOf is a store that answers by functions.
type bucketOf struct {
	get func(ctx context.Context, key string) ([]byte, string, error)
	put func() error
}

func (b bucketOf) Get(ctx context.Context, key string) ([]byte, string, error) {
	return b.get(ctx, key)
}

func (b bucketOf) Put(context.Context, string, []byte, string) error { return b.put() }

func TestAnObjectThatWasNeverGuardedIsAllContent(t *testing.T) {
	b := newBucket()
	guard := objectfence.Guard{Bucket: b}
	for _, text := range []string{
		"", "plain", "holdfast-fence ", "holdfast-fence 7\n", "holdfast-fence x y\n", "holdfast-fence 7 word",
	} {
		b.objects["a"] = text
		content(t, guard, text)
		want(t, "the first guarded write", guard.Put(t.Context(), "a", 1, []byte("new")), nil)
		content(t, guard, "new")
	}
	b.versioned = false
	assert.True(t, guard.Put(t.Context(), "a", 2, nil) != nil, "a store without versions is accepted")
}

func TestConcurrentUpdatesLoseNothing(t *testing.T) {
	guard := objectfence.Guard{Bucket: newBucket()}
	const writers, each = 4, 25
	var lost atomic.Int64 // those that were told so
	var wg sync.WaitGroup
	for writer := range writers {
		wg.Go(func() {
			for n := range each {
				mark := []byte{byte(1 + writer*each + n)}
				err := guard.Update(t.Context(), "a", 5, func(old []byte) ([]byte, error) {
					return append(old, mark...), nil
				})
				if err != nil && strings.Contains(err.Error(), "it is not known whether") { // it stood still for long
					got, err := guard.Get(t.Context(), "a")
					assert.NoError(t, err)
					assert.AtMost(t, bytes.Count(got, mark), 1, "times that one update took effect")
					lost.Add(int64(1 - bytes.Count(got, mark)))
					continue
				}
				want(t, "Update", err, nil)
			}
		})
	}
	wg.Wait()
	got, err := guard.Get(t.Context(), "a")
	assert.True(t, len(got) == writers*each-int(lost.Load()) && err == nil, "%d updates, %v", len(got), err)
}
