package redistest

import (
	"sync"
	"testing"
)

// Primaries runs n independent servers, for a quorum. Each can be paused, killed and restarted
// by itself.
func Primaries(t testing.TB, n int, opts ...Option) []*Server {
	t.Helper()
	opts = append([]Option{Needs("in a quorum")}, opts...)
	servers := make([]*Server, n)
	inParallel(n, func(i int) { servers[i] = begin(t, opts...) })
	for _, s := range servers {
		s.must(t)
	}
	return servers
}

// Addrs returns the addresses of servers.
func Addrs(servers []*Server) []string {
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr())
	}
	return addrs
}

// inParallel runs f for each of n at the same time. To start six servers one after the other
// would take too long for a test.
func inParallel(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}
