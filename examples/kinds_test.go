package examples_test

import (
	"testing"
	"time"
)

func TestLottery(t *testing.T) {
	t.Parallel()
	day := func() int64 { return time.Now().Add(-12*time.Hour).Unix() / (24 * 60 * 60) }
	today := day()
	out := run(t, "lottery")
	if day() != today { // noon came in between: one draw belongs to each day
		out = run(t, "lottery")
	}
	times(t, out, `: draws \d+$`, 1)
	times(t, out, `: is too late: the next draw is in`, 7)
	says(t, out, `^the number of the day is \d+, drawn by shop \d$`)
}

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
