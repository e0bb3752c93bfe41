package redistest

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/slot"
)

func TestASlotThatIsNobodysIsAdopted(t *testing.T) {
	c := StartCluster(t)
	n := slot.Of("key")
	owner := c.Owner(n)
	for _, s := range c.Nodes {
		s.Do(t, "CLUSTER", "DELSLOTS", n)
	}
	assert.MustTrue(t, assert.Err(owner.ask("GET", "key")) != nil, "the slot still is somebody's")
	assert.Must(t, owner.adopt())
	c.AwaitReady()
	if got := c.Owner(n); got != owner {
		t.Errorf("it is %s's", got.Addr())
	}
}
