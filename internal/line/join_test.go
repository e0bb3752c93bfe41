package line

import (
	"testing"
	"time"
)

func TestAReaderJoinsWhileTheServersWordThatNobodyWaitsIsFresh(t *testing.T) {
	for _, test := range []struct {
		since     time.Duration
		elsewhere int
		writers   bool
		want      Joining
	}{
		{0, 0, false, Join},
		{joinFor - 1, 0, false, Join},
		{joinFor, 0, false, Look},
		{joinFor, 3, false, Look}, // they may have gone
		{time.Hour, 0, false, Look},
		{0, 1, false, Stand},
		{0, 0, true, Stand},
		{time.Hour, 0, true, Stand},
	} {
		if got := MayJoin(test.since, test.elsewhere, test.writers); got != test.want {
			t.Errorf("%+v: got %d", test, got)
		}
	}
}
