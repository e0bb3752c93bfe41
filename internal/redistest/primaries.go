package redistest

import (
	"sync"
	"testing"
)

// Primaries runs n servers that know nothing of each other, as a quorum has
// them. Each can be paused, killed and restarted on its own.
func Primaries(t testing.TB, n int, opts ...Option) []*Server {
	t.Helper()
	opts = append([]Option{Needs("in a quorum")}, opts...)
	servers := make([]*Server, n)
	together(n, func(i int) { servers[i] = begin(t, opts...) })
	for _, s := range servers {
		s.must(t)
	}
	return servers
}

// together runs f for each of n at the same time: a server takes longer to
// start than a test may wait for six of them one after the other.
func together(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}
