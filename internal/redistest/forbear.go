package redistest

import "testing"

// forbearance is the silence, in milliseconds, after which nodes that forbear
// are replaced: no test keeps them silent for so long.
const forbearance = 60_000

// Forbear keeps the Cluster from replacing a node that a test makes silent.
func (c *Cluster) Forbear(t testing.TB) {
	t.Helper()
	c.Each(t, "CONFIG", "SET", "cluster-node-timeout", forbearance)
}

// Forbear keeps the Sentinels from replacing a primary that a test makes
// silent.
func (g *Sentinel) Forbear(t testing.TB) {
	t.Helper()
	for _, s := range g.Sentinels {
		s.Do(t, "SENTINEL", "SET", SentinelName, "down-after-milliseconds", forbearance)
	}
}
