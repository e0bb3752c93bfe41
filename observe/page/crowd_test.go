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
	if l.Waiting != 4999 || len(l.Waiters) != keptWaiters || l.Waiters[0].ID != "1" || len(l.first().Waiters) != shownWaiters {
		t.Errorf("it counts %d, keeps %d from %s on, and shows %d", l.Waiting, len(l.Waiters), l.Waiters[0].ID,
			len(l.first().Waiters))
	}
}
