package redistest

import (
	"errors"
	"testing"
)

// forbearance is the silence, in milliseconds, after which a node is replaced once Forbear was
// called. No test keeps a node silent for so long.
const forbearance = 60_000

// attentive is the silence, in milliseconds, after which a killed node is replaced.
const attentive = 1000

// Forbear keeps the Cluster from replacing a node that a test makes silent.
func (c *Cluster) Forbear(t testing.TB) {
	t.Helper()
	c.Each(t, "CONFIG", "SET", "cluster-node-timeout", forbearance)
}

// Lose kills the owner of a slot, and returns it once a replica has taken over. It calls
// Forbear, because a busy machine could cause a second failover, and the writes of the
// successor would be lost.
func (c *Cluster) Lose(t testing.TB, n int) *Server {
	t.Helper()
	old := c.Owner(n)
	c.Each(t, "CONFIG", "SET", "cluster-node-timeout", attentive)
	old.Kill()
	until(t, "a replica takes over", func() error {
		if c.Owner(n) == old {
			return errors.New("it is the old one still")
		}
		return nil
	})
	c.Forbear(t)
	return old
}

// Forbear keeps the Sentinels from replacing a primary that a test makes silent.
func (sen *Sentinel) Forbear(t testing.TB) {
	t.Helper()
	sen.mind(t, forbearance)
}

// Lose kills the primary, and returns it once there is another. It calls Forbear, as
// [Cluster.Lose] does.
func (sen *Sentinel) Lose(t testing.TB) *Server {
	t.Helper()
	old := sen.Primary()
	sen.mind(t, attentive)
	old.Kill()
	sen.AwaitFailOver(old)
	sen.Forbear(t)
	return old
}

// mind sets the silence, in milliseconds, after which the primary is replaced.
func (sen *Sentinel) mind(t testing.TB, silence int) {
	t.Helper()
	for _, s := range sen.Sentinels {
		s.Do(t, "SENTINEL", "SET", SentinelName, "down-after-milliseconds", silence)
	}
}
