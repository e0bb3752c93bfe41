package check_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/verify/history"
)

// queued is a record with a wait queue: how many wait, the first and the last position,
// and the attempt at the last one.
func queued(record string, waiting, first, last int, attempt string) string {
	if !strings.HasSuffix(record, " -") && strings.Count(record, " ") == 0 {
		record += " 0 -"
	}
	return fmt.Sprintf("%s +\tqueue %d %d %d %s", record, waiting, first, last, attempt)
}

// heard is a record with the first waiter that listens.
func heard(record string, position int, attempt string) string {
	return fmt.Sprintf("%s\tnext %d %s", record, position, attempt)
}

// in is a record with entries of an owner, and its lease from the instant of its
// token.
func in(n float64, owner string, entries ...string) string {
	return fmt.Sprintf("%d %d @%s\tentries %s", token(n), ttl.Milliseconds(), owner, strings.Join(entries, " "))
}

// keptBy is a record that is kept after the hold of the token from n on, for ms.
func keptBy(n float64, attempt string, ms int) string {
	return fmt.Sprintf("%d %d @%%kept\tentries %s", token(n), ms, attempt)
}

// entry is a hold in an owner's name.
func (s *story) entry(h hold, name string) *story {
	s.hold(h)
	for i := len(s.events) - 2; i < len(s.events); i++ {
		s.events[i].Name = name
	}
	return s
}

// twoWait is a lock with a holder and two waiters.
func twoWait() *story {
	return newStory().
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		note(2, "acquire", "l", "c2/1", queued(held(1, "c1/1"), 1, 1, 1, "c2/1")).
		note(3, "acquire", "l", "c3/1", queued(held(1, "c1/1"), 2, 1, 2, "c3/1"))
}

// least is a hold that is to last 50 ms at least.
func least() *story {
	s := newStory().note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0.5, got: 1.5, over: 5})
	s.events[len(s.events)-2].Least = 50 * time.Millisecond
	return s
}

// evicted is a hold that an operator means to end, and whose client says when it
// last trusted it.
func evicted(trusted float64) *story {
	return newStory().
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		add(history.Event{Kind: history.Evict, Lock: "l", Token: uint64(token(1)) * 1024}).
		hold(hold{
			client: 1, lock: "l", owner: "c1/1", token: token(1), asked: 0.5, got: 1.5,
			over: trusted + 1, trusted: trusted, how: history.NotHeld,
		})
}

var illegalKinds = []illegalStory{
	{"a grant that skips a waiter that listens", "order", twoWait().
		note(4, "release", "l", "c1/1", heard(queued(held(4, "c3/1"), 1, 1, 2, "-"), 1, "c2/1"))},
	{"a newcomer before a waiter", "order", twoWait().
		note(4, "acquire", "l", "c1/2", heard(queued(held(4, "c1/2"), 2, 1, 2, "c3/1"), 1, "c2/1"))},
	{"a goroutine that another of its process overtakes", "order", newStory().
		hold(hold{client: 1, lock: "l", owner: "c1/1", token: token(5000), asked: 3000, got: 5000, over: 5001}).
		hold(hold{client: 1, lock: "l", owner: "c1/2", token: token(5002), asked: 1000, got: 5002, over: 5003})},
	{"two owners at once", "server-exclusion", newStory().
		note(1, "acquire", "l", "c1/1", in(1, "a", "c1/1")).
		note(2, "acquire", "l", "c2/1", in(2, "b", "c2/1"))},
	{"an entry with a token of its own", "server-exclusion", newStory().
		note(1, "acquire", "l", "c1/1", in(1, "a", "c1/1")).
		note(2, "acquire", "l", "c2/1", in(2, "a", "c1/1", "c2/1"))},
	{"two owners at once for clients", "client-exclusion", newStory().
		entry(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), got: 1, over: 5}, "a").
		entry(hold{client: 2, lock: "l", owner: "c2/1", token: token(2), got: 2, over: 6}, "b")},
	{"an entry beside one without a name", "client-exclusion", newStory().
		entry(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), got: 1, over: 5}, "a").
		hold(hold{client: 2, lock: "l", owner: "c2/1", token: token(2), got: 2, over: 6})},
	{"an entry that takes another along", "owners", newStory().
		note(1, "acquire", "l", "c1/1", in(1, "a", "c1/1")).
		note(2, "acquire", "l", "c2/1", in(1, "a", "c1/1", "c2/1")).
		entry(hold{client: 2, lock: "l", owner: "c2/1", token: token(1), got: 2.5, over: 9}, "a").
		note(3, "release", "l", "c1/1", free(1))},
	{"an entry that is nobody's", "owners", newStory().
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		entry(hold{client: 1, lock: "l", owner: "c1/1", token: token(1), got: 1.5, over: 5}, "a")},
	{"a grant while the lock is kept", "server-exclusion", newStory().
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		note(5, "release_after", "l", "c1/1", keptBy(1, "c1/1", 50)).
		note(30, "acquire", "l", "c2/1", held(30, "c2/1"))},
	{"a lock that is kept for too long", "least", least().
		note(5, "release_after", "l", "c1/1", keptBy(1, "c1/1", 70))},
	{"a least time that is cut short", "least", least().
		note(5, "release_after", "l", "c1/1", keptBy(1, "c1/1", 50)).
		note(6, "release", "l", "c1/1", free(1)).
		note(7, "acquire", "l", "c2/1", held(7, "c2/1"))},
	{"a lock nobody gets after its least time", "least", least().
		note(2, "acquire", "l", "c2/1", queued(held(1, "c1/1"), 1, 1, 1, "c2/1")).
		note(5, "release_after", "l", "c1/1", fmt.Sprintf(
			"%d 50 @%%kept +\tentries c1/1\tqueue 1 1 1 c2/1", token(1))).
		note(60_000, "poll", "l", "c2/1", held(60_000, "c2/1"))},
	{"an eviction of somebody else", "evictions", evicted(5).
		note(3, "release", "l", "c1/1", free(1)).
		note(4, "acquire", "l", "c2/1", held(4, "c2/1")).
		note(6, "evict", "l", "-", free(6))},
	{"an eviction that leaves the fence", "evictions", evicted(5).
		note(6, "evict", "l", "-", free(1))},
	{"an eviction that is learned late", "evictions", evicted(150).
		note(20, "evict", "l", "-", free(20))},
	{"a stranger who changes a record", "refused", newStory().
		add(history.Event{Kind: history.Try, Lock: "l", Owner: "c2/9", How: history.NotHeld}).
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		note(2, "release", "l", "c2/9", free(1))},
	{"a stranger who extends a lease", "refused", newStory().
		add(history.Event{Kind: history.Try, Lock: "l", Owner: "c2/9", How: history.NotHeld}).
		note(1, "acquire", "l", "c1/1", held(1, "c1/1")).
		note(2, "renew", "l", "c2/9", fmt.Sprintf("%d 200 c1/1", token(1)))},
	{"a second release that is taken for one", "refused", newStory().
		add(history.Event{Kind: history.Try, Lock: "l", Owner: "c1/1", How: history.Released})},
}

// What these kinds of locks do is not what a mutex does, and is legal.
func TestLegalWaysOfOtherKindsPass(t *testing.T) {
	s := twoWait().
		// A stranger's request ends what is over.
		add(history.Event{Kind: history.Try, Lock: "s", Owner: "c2/9", How: history.NotHeld}).
		note(1, "acquire", "s", "c1/9", held(1, "c1/9")).
		note(150, "convert", "s", "c2/9", free(1)).
		// An operator who comes when the lease is over evicts nobody.
		note(1, "acquire", "e", "c1/8", held(1, "c1/8")).
		note(150, "evict", "e", "-", free(1)).
		add(history.Event{Kind: history.Evict, Lock: "e", Token: uint64(token(1)) * 1024}).
		// Served in order; the second after one of whom nobody listened.
		note(4, "release", "l", "c1/1", heard(queued(held(4, "c2/1"), 1, 2, 2, "c3/1"), 2, "c3/1")).
		note(5, "acquire", "l", "c1/2", queued(held(4, "c2/1"), 2, 2, 3, "c1/2")).
		note(6, "release", "l", "c2/1", queued(held(6, "c1/2"), 1, 2, 3, "-")).
		note(7, "release", "l", "c1/2", held(7, "c3/1")).
		// An owner's entries come in together and beside one another, and the last
		// one out frees the lock; a shorter lease of one is no shorter lease of all.
		note(1, "acquire", "o", "c1/3", in(1, "a", "c1/3")).
		note(2, "acquire", "o", "c2/3", in(1, "a", "c1/3", "c2/3")).
		note(3, "release", "o", "c1/3", in(1, "a", "c2/3")).
		note(4, "acquire", "o", "c3/3", fmt.Sprintf("%d 100 @a +\tentries c2/3\tqueue 1 1 1 c3/3", token(1))).
		note(5, "acquire", "o", "c1/4", fmt.Sprintf("%d 100 @a +\tentries c2/3\tqueue 2 1 2 c1/4", token(1))).
		note(6, "release", "o", "c2/3", in(6, "b", "c3/3", "c1/4")).
		entry(hold{client: 1, lock: "o", owner: "c1/3", token: token(1), asked: 0.5, got: 1.1, over: 3.1}, "a").
		entry(hold{client: 2, lock: "o", owner: "c2/3", token: token(1), asked: 1.5, got: 2.1, over: 6.1}, "a")
	for name, r := range s.results() {
		assert.True(t, r.Passed() && r.Excused == 0,
			"%s: %+v; want a pass with nothing excused", name, r)
	}
	kept := least().
		note(5, "release_after", "l", "c1/1", keptBy(1, "c1/1", 50)).
		note(51, "acquire", "l", "c2/1", held(51, "c2/1"))
	// Who is evicted believes in its hold until it renews it; the next is in before.
	out := evicted(40).note(20, "evict", "l", "-", held(20, "c2/1")).
		hold(hold{client: 2, lock: "l", owner: "c2/1", token: token(20), asked: 10, got: 21, over: 60}).
		note(59.9, "release", "l", "c2/1", free(20))
	for _, s := range []*story{kept, out} {
		for name, r := range s.results() {
			assert.True(t, r.Passed(), "%s: %+v", name, r)
		}
	}
	for _, name := range []string{"client-exclusion", "trust-is-backed"} {
		r := out.results()[name]
		assert.True(t, r.Excused == 1, "%s does not count the evicted holder: %+v", name, r)
	}
}
