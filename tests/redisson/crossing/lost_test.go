//go:build redisson

package crossing

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// An answer is lost after its script ran. The lock is then neither held by two, nor held by nobody for
// longer than a TTL. If our process lives, the other gets the lock at once, although the lease is long.

// behind starts a process of this library that talks through a proxy, and a Redisson beside it.
func behind(t *testing.T, settings Settings) (w world, ours, java *Process, p *redistest.Proxy) {
	t.Helper()
	s := redistest.Start(t, redistest.Tenant(""))
	p = redistest.NewProxy(t, s.Addr())
	settings.TimeoutMs = 500
	settings.Address = p.Addr()
	ours = run(t, side{"holdfast", StartGo}, settings)
	settings.Address = s.Addr()
	java = run(t, side{"redisson", StartJava}, settings)
	return world{server: s}, ours, java, p
}

// lose loses the answer to the next script that is run on a lock, and tells when.
func lose(p *redistest.Proxy, n string, drop func(times int, commands ...string)) <-chan struct{} {
	lost := make(chan struct{})
	var once, told sync.Once
	p.Hook(func(e redistest.Event) {
		of := slices.ContainsFunc(e.Request, func(word string) bool { return strings.Contains(word, n) })
		switch {
		case e.Stage == redistest.Executed && of && strings.EqualFold(e.Request[0], "EVALSHA"):
			once.Do(func() { drop(1, "EVALSHA") })
		case e.Stage == redistest.Dropped:
			told.Do(func() { close(lost) })
		}
	})
	return lost
}

// commands are the words that acquire a lock, and those that release it.
func commands(kind, n string, wait int64) (acquire, release []any, acquired string) {
	if kind == "permits" {
		return []any{"acquire", n, 1, wait}, []any{"release", n, 1}, "acquired"
	}
	if wait == 0 {
		return []any{"try", kind, n, 0, long}, []any{"unlock", kind, n}, "locked"
	}
	return []any{"lock", kind, n, long}, []any{"unlock", kind, n}, "locked"
}

var lossy = []string{"lock", "fair", "fenced", "write", "read", "permits"}

// prepare gives a lock of a kind a name, and tries it once, so that its scripts are loaded.
func prepare(t *testing.T, kind string, ours, java *Process) (n string) {
	t.Helper()
	n = name()
	if kind == "permits" {
		say(t, "true", java, "0", "permits", n, 1)
		say(t, "true", ours, "0", "permits", n, 1)
	}
	acquire, release, acquired := commands(kind, n, -1)
	say(t, acquired, ours, "1", acquire...)
	if answer, err := wait(t, ours.Begin("1", release...)); err != nil {
		t.Fatal(answer, err)
	}
	return n
}

func TestALostAnswerToAnAcquireGivesTheLockToTheOther(t *testing.T) {
	w, ours, java, p := behind(t, Settings{})
	for _, kind := range lossy {
		t.Run(kind, func(t *testing.T) {
			n := prepare(t, kind, ours, java)
			try, _, _ := commands(kind, n, 0)
			lost := lose(p, n, p.DropReplies)
			fails := ours.Begin("1", try...)
			redistest.Next(t, "the lost answer", lost)
			acquire, release, acquired := commands(opposite(kind), n, -1)
			waits := java.Begin("1", acquire...) // our attempt may still have the lock
			if answer, err := wait(t, fails); err == nil {
				t.Errorf("a try without an answer: %s", answer)
			}
			is(t, acquired, waits)
			again, _, _ := commands(opposite(kind), n, 0)
			say(t, "busy", ours, "1", again...)
			if answer, err := wait(t, java.Begin("1", release...)); err != nil {
				t.Error(answer, err)
			}
			w.isFree(t, n, kind)
		})
	}
}

// opposite is the kind that a hold of a kind keeps out.
func opposite(kind string) string {
	if kind == "read" {
		return "write"
	}
	return kind
}

// isFree waits until nothing of a lock is left, but for the permits.
func (w world) isFree(t *testing.T, n, kind string) {
	t.Helper()
	redistest.Await(t, "the lock is free", func() bool {
		if kind == "permits" {
			return w.do(t, n, "GET", n) == "1"
		}
		return w.do(t, n, "EXISTS", n, tagged("redisson_lock_queue", n)) == int64(0)
	})
}

func TestALostAnswerToAReleaseEndsNothingOfTheOther(t *testing.T) {
	w, ours, java, p := behind(t, Settings{})
	for _, kind := range lossy {
		t.Run(kind, func(t *testing.T) {
			n := prepare(t, kind, ours, java)
			acquire, release, acquired := commands(kind, n, -1)
			say(t, acquired, ours, "1", acquire...)
			theirs, theirRelease, _ := commands(opposite(kind), n, -1)
			waits := java.Begin("1", theirs...)
			w.heardOf(t, kind, n)
			none(t, waits)
			lost := lose(p, n, p.DropReplies)
			released := ours.Begin("1", release...)
			is(t, acquired, waits)
			redistest.Next(t, "the lost answer", lost)
			if answer, err := wait(t, released); err != nil || answer == "not-held" {
				t.Errorf("the repeated release: %s, %v", answer, err)
			}
			again, _, _ := commands(opposite(kind), n, 0)
			say(t, "busy", ours, "1", again...)
			if answer, err := wait(t, java.Begin("1", theirRelease...)); err != nil || answer == "not-held" {
				t.Error(answer, err)
			}
			w.isFree(t, n, kind)
		})
	}
}

// heardOf waits until a waiter hears the messages of a lock of a kind.
func (w world) heardOf(t *testing.T, kind, n string) {
	t.Helper()
	switch kind {
	case "fair":
		w.heardAll(t, channel(n)+":*", 1)
	case "read", "write":
		w.heard(t, tagged("redisson_rwlock", n), 1)
	case "permits":
		w.heard(t, tagged("redisson_sc", n), 1)
	default:
		w.heard(t, channel(n), 1)
	}
}

// The answer to the poll that got the lock is lost. The next one finds the grant, and Java waits.
func TestALostAnswerToAPollIsFoundAgain(t *testing.T) {
	w, ours, java, p := behind(t, Settings{})
	for _, kind := range lossy {
		t.Run(kind, func(t *testing.T) {
			n := prepare(t, kind, ours, java)
			theirs, theirRelease, acquired := commands(opposite(kind), n, -1)
			say(t, acquired, java, "1", theirs...)
			acquire, release, _ := commands(kind, n, -1)
			waits := ours.Begin("1", acquire...)
			w.heardOf(t, kind, n)
			none(t, waits)
			lost := lose(p, n, p.DropReplies)
			if answer, err := wait(t, java.Begin("1", theirRelease...)); err != nil {
				t.Fatal(answer, err)
			}
			redistest.Next(t, "the lost answer", lost)
			is(t, acquired, waits)
			next := java.Begin("1", theirs...)
			w.heardOf(t, kind, n)
			none(t, next)
			if answer, err := wait(t, ours.Begin("1", release...)); err != nil || answer == "not-held" {
				t.Errorf("the release: %s, %v", answer, err)
			}
			is(t, acquired, next)
			if answer, err := wait(t, java.Begin("1", theirRelease...)); err != nil || answer == "not-held" {
				t.Error(answer, err)
			}
			w.isFree(t, n, kind)
		})
	}
}

// If the process dies, too, what its attempt got ends with its TTL.
func TestALostAnswerToADeadProcessCostsATTL(t *testing.T) {
	for _, kind := range lossy {
		t.Run(kind, func(t *testing.T) {
			_, ours, java, p := behind(t, Settings{WatchdogMs: short})
			n := prepare(t, kind, ours, java)
			_, _, acquired := commands(kind, n, 0)
			lost := lose(p, n, p.DropReplies)
			if kind == "permits" {
				_ = ours.Begin("1", "acquire", n, 1, 0)
			} else {
				_ = ours.Begin("1", "try", kind, n, 0, 0)
			}
			redistest.Next(t, "the lost answer", lost)
			assert.Must(t, ours.Kill())
			if kind == "permits" { // Redisson gives nobody's permits back: another process of ours does
				next := run(t, side{"holdfast", StartGo}, Settings{Address: p.Addr(), WatchdogMs: short})
				say(t, "true", next, "0", "permits", n, 1)
				say(t, acquired, next, "1", "acquire", n, 1, -1)
				return
			}
			say(t, acquired, java, "1", "lock", opposite(kind), n, 0)
		})
	}
}

// Redisson's own lost answer: its attempt keeps the lock for one TTL, and then we have it.
func TestALostAnswerToRedissonCostsATTL(t *testing.T) {
	s := redistest.Start(t, redistest.Tenant(""))
	p := redistest.NewProxy(t, s.Addr())
	settings := Settings{Address: s.Addr(), WatchdogMs: short, TimeoutMs: 500}
	ours := run(t, side{"holdfast", StartGo}, settings)
	settings.Address = p.Addr()
	java := run(t, side{"redisson", StartJava}, settings)
	for _, kind := range []string{"lock", "fair", "fenced", "write", "read"} {
		t.Run(kind, func(t *testing.T) {
			n := name()
			say(t, "locked", java, "1", "lock", kind, n, 0)
			say(t, "unlocked", java, "1", "unlock", kind, n)
			lost := lose(p, n, p.DropRepliesAndCut)
			fails := java.Begin("1", "try", kind, n, 0, 0)
			redistest.Next(t, "the lost answer", lost)
			waits := ours.Begin("1", "lock", opposite(kind), n, 0)
			if answer, err := wait(t, fails); err == nil {
				t.Errorf("a try without an answer: %s", answer)
			}
			is(t, "locked", waits)
			say(t, "not-held", java, "1", "unlock", kind, n)
			say(t, "true", ours, "1", "held", opposite(kind), n)
			say(t, "unlocked", ours, "1", "unlock", opposite(kind), n)
		})
	}
}
