package localqueue

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestAReaderSharesWhileTheAnswerThatNobodyWaitsIsFresh(t *testing.T) {
	for _, test := range []struct {
		age        time.Duration
		waiters    int
		writerHere bool
		want       Decision
	}{
		{0, 0, false, Share},
		{shareFor - 1, 0, false, Share},
		{shareFor, 0, false, Check},
		{shareFor, 3, false, Check}, // the waiters may have gone
		{time.Hour, 0, false, Check},
		{0, 1, false, Wait},
		{0, 0, true, Wait},
		{time.Hour, 0, true, Wait},
	} {
		assert.Equal(t, Join(test.age, test.waiters, test.writerHere), test.want, "%+v", test)
	}
}

func TestHandOversAreBoundedByCountAndTime(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		handOvers int
		age       time.Duration
		waiters   int
		limit     int
		want      bool
	}{
		{0, 0, 0, 1023, true},
		{1022, 9 * ms, 0, 1023, true},
		{1023, 0, 0, 1023, false}, // a token has no room for more
		{1023, 0, 0, 5000, false},
		{0, 10 * ms, 0, 1023, false}, // another process may have a waiter by now
		{127, ms, 1, 1023, true}, {128, ms, 1, 1023, false},
		{0, 2 * ms, 1, 1023, false},
		{0, 2 * ms, 0, 1023, true},
		{2, 0, 0, 3, true},
		{3, 0, 0, 3, false},
		{3, 0, 9, 3, false},
		{0, 0, 0, -1, false},
		{0, 0, 0, 0, false},
	} {
		if got := MayHandOver(test.handOvers, test.age, test.waiters, test.limit); got != test.want {
			t.Errorf("%+v: got %v", test, got)
		}
	}
}
