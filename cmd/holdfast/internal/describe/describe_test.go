package describe

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// A lease that its holder trusts no more is not said to be renewed: only the lock-delay is left.
func TestALeaseSaysWhatIsLeftOfIt(t *testing.T) {
	for text, h := range map[string]holdfast.Holder{
		"expires in 40s unless renewed": {Remaining: 40 * time.Second},
		"expires in 1m40s unless renewed, trusted for 40s": {
			Remaining: 100 * time.Second, LockDelay: time.Minute,
		},
		"not renewed in time: others get the lock in 1m0s": {Remaining: time.Minute, LockDelay: time.Minute},
		"not renewed in time: others get the lock in 40s":  {Remaining: 40 * time.Second, LockDelay: time.Minute},
		"ends in 40s at the latest, because an operator has asked for that": {
			Remaining: 40 * time.Second, LockDelay: time.Minute, Ending: true,
		},
	} {
		assert.Equal(t, Lease(h), text, "%+v", h)
	}
}
