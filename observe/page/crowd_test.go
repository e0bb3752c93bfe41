package page

import (
	"fmt"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// The page counts all waiters of a lock, and keeps the first ones.
func TestThePageKeepsTheFirstWaiters(t *testing.T) {
	var state holdfast.LockInfo
	for i := range 5000 {
		state.Waiters = append(state.Waiters, holdfast.Waiter{HolderID: fmt.Sprint(i), Silent: i == 0})
	}
	l := newLock(state, time.Now(), nil)
	kept, listed := len(l.Waiters), len(l.first().Waiters)
	if l.Waiting != 4999 || kept != keptWaiters || l.Waiters[0].ID != "1" || listed != shownWaiters {
		t.Errorf("it counts %d, keeps %d from %s on, and lists %d", l.Waiting, kept, l.Waiters[0].ID, listed)
	}
}
