package examples_test

import "testing"

func TestRedlock(t *testing.T) {
	t.Parallel()
	out := run(t, "redlock")
	says(t, out,
		`^the lock is held on a majority of 5 servers$`, `^two servers are dead$`,
		`^the lease was renewed on the others$`, `^the lock was released and taken again$`,
		`^a third server is dead$`, `^the lock cannot be acquired: .*2 of 5 nodes`)
}
