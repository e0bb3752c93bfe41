package redisson

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/neighbour"
	"github.com/holdfast-go/holdfast/internal/neighbour/wiretest"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

var scripts = map[string]*script.Script{
	"acquireLock": acquireLock, "releaseLock": releaseLock, "renewLock": renewLock, "keepLock": keepLock,
	"inspectLock": inspectLock, "evictLock": evictLock,
	"acquireFair": acquireFair, "releaseFair": releaseFair, "inspectFair": inspectFair, "evictFair": evictFair,
	"acquireFenced": acquireFenced, "readToken": readToken, "evictFenced": evictFenced,
	"acquireRead": acquireRead, "acquireWrite": acquireWrite, "releaseReadWrite": releaseReadWrite,
	"renewReadWrite": renewReadWrite, "keepReadWrite": keepReadWrite, "inspectReadWrite": inspectReadWrite,
	"evictReadWrite": evictReadWrite,
	"acquirePermits": acquirePermits, "releasePermits": releasePermits, "renewPermits": renewPermits,
	"inspectPermits": inspectPermits, "evictPermits": evictPermits,
	"probeScript": probeScript,
}

// Every script of every kind, twice and late. No store sends a copy of those with a harm. If an operator's eviction
// has no answer, the outcome is unknown, and only the operator knows whether to evict again.
func TestACopyOfARequestDoesNoHarm(t *testing.T) {
	var wires []wiretest.Wire
	for _, w := range []struct {
		name string
		kind Kind
		mode neighbour.Mode
	}{
		{"lock", Lock, neighbour.Exclusive}, {"fair", Fair, neighbour.Exclusive},
		{"fenced", Fenced, neighbour.Exclusive},
		{"reader", ReadWrite, neighbour.Shared}, {"writer", ReadWrite, neighbour.Exclusive},
		{"permits", Semaphore, neighbour.Permits},
	} {
		wires = append(wires, wiretest.Wire{Name: w.name, Mode: w.mode, Open: func(s store.Store) neighbour.Wire {
			return kinds[w.kind].wire(&base{Store: s, cfg: Config{Kind: w.kind, FairWait: 5 * time.Minute}})
		}, Harm: map[string]string{
			"evict, at once":                                    `answers "0", not "1"`,
			"evict, after a newer holder":                       "frees it",
			"evict, instead of the first, after a newer holder": "frees it",
		}})
		harm := wires[len(wires)-1].Harm
		if w.mode != neighbour.Shared { // a reader gets the lock beside another
			harm["acquire a held lock, after a release"] = "takes it"
		}
		if w.kind == Fair { // the client knows that it has waited
			harm["cancel a wait, at once"] = `answers "gone", not "released"`
		}
		if w.kind == Fenced {
			harm["evict by its token, at once"] = `answers "0", not "1"`
		}
	}
	wiretest.TwiceAndLate(t, wires, scripts, wiretest.Scripts(t, ".", "NewScript"))
}
