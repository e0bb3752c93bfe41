//go:build redisson

package crossing

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// form is a program of a move: the old one is Redisson, the next one holds both forms, and the last
// one holds the native form.
type form struct {
	kind string
	side side
}

// bridged runs a test for each two programs that may be in service together.
func bridged(t *testing.T, settings Settings, test func(t *testing.T, w world, a, b string)) {
	t.Helper()
	old, both := form{"lock", side{"redisson", StartJava}}, form{"bridge", side{"holdfast", StartGo}}
	native := form{"native", side{"holdfast", StartGo}}
	for _, pair := range [][2]form{{old, both}, {both, old}, {both, both}, {both, native}, {native, both}} {
		t.Run(pair[0].kind+" and "+pair[1].kind, func(t *testing.T) {
			test(t, open(t, pair[0].side, pair[1].side, settings), pair[0].kind, pair[1].kind)
		})
	}
}

// waited waits until somebody waits for a lock, in the old form or in the native one.
func (w world) waited(t *testing.T, n string) {
	t.Helper()
	redistest.Await(t, "a waiter", func() bool {
		native := "holdfast:{" + n + "}"
		lock, _ := w.do(t, n, "HGET", native, "lock").(string) // the only waiter is part of it
		return w.subscribed(t, channel(n)) > 0 || w.do(t, n, "HGET", native, "queue") != nil ||
			strings.Contains(lock, " +1 ")
	})
}

func TestTheBridgeIsBesideTheOldAndTheNewPrograms(t *testing.T) {
	bridged(t, Settings{}, func(t *testing.T, w world, a, b string) {
		n := name()
		for range 5 {
			say(t, "locked", w.a, "1", "lock", a, n, long)
			say(t, "busy", w.b, "1", "try", b, n, 0, 0)
			waits := w.b.Begin("1", "lock", b, n, long)
			w.waited(t, n)
			none(t, waits)
			say(t, "unlocked", w.a, "1", "unlock", a, n)
			if answer := is(t, "locked", waits); answer == "locked poll" {
				t.Error("it was woken by its own timer")
			}
			say(t, "busy", w.a, "1", "try", a, n, 0, 0)
			say(t, "unlocked", w.b, "1", "unlock", b, n)
		}
		assert.True(t, w.do(t, n, "EXISTS", n) == int64(0), "the old form is left")
		say(t, "locked", w.a, "1", "try", a, n, 0, 0)
	})
}

func TestTheOtherProgramGetsWhatTheDeadOneHeld(t *testing.T) {
	bridged(t, Settings{WatchdogMs: short}, func(t *testing.T, w world, a, b string) {
		n := name()
		say(t, "locked", w.a, "1", "lock", a, n, 0)
		waits := w.b.Begin("1", "lock", b, n, 0)
		w.waited(t, n)
		none(t, waits)
		assert.Must(t, w.a.Kill())
		is(t, "locked", waits)
		say(t, "true", w.b, "1", "held", b, n)
	})
}

func TestNobodyIsInWithAProgramOfTheBridge(t *testing.T) {
	bridged(t, Settings{}, func(t *testing.T, w world, a, b string) {
		n, file := name(), filepath.Join(t.TempDir(), "in")
		assert.Must(t, NewFile(file))
		entriesOf(t, file, 6*times, func(i int) *Answer {
			p, kind := w.a, a
			if i%2 == 1 {
				p, kind = w.b, b
			}
			return p.Begin(fmt.Sprint(i), "cross", kind, n, times, file)
		})
	})
}
