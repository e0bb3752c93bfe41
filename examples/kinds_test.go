package examples_test

import "testing"

func TestNightly(t *testing.T) {
	t.Parallel()
	out := run(t, "nightly")
	says(t, out, `is killed in its run$`, `: run 2 ends$`, `: run 3 begins$`, `: run 3 ends$`)
	times(t, out, `: run 1 begins$`, 1)
	times(t, out, `: run 2 begins$`, 1)
	times(t, out, `: run 3 begins$`, 1)
}

func TestCache(t *testing.T) {
	t.Parallel()
	out := run(t, "cache")
	says(t, out, `^the writer has made 10 updates$`)
	times(t, out, `^reader \d: torn reads: 0 of [1-9]\d*$`, 4)
}

func TestPool(t *testing.T) {
	t.Parallel()
	out := run(t, "pool")
	says(t, out, `^a process has died with 2 permits$`,
		`^at most [1-8] of 8 permits were used at a time$`, `^all permits have come back$`)
	times(t, out, `^process \d: is done$`, 5)
}

func TestLeader(t *testing.T) {
	t.Parallel()
	out := run(t, "leader")
	says(t, out, `^the leader is (anna|ben|cleo)$`, `^(anna|ben|cleo) is killed$`,
		`^the leader is (anna|ben|cleo)$`, `: resigns$`, `^the leader is (anna|ben|cleo)$`)
	times(t, out, `: leads$`, 3)
}
