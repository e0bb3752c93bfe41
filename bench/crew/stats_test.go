package crew

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
)

func TestPercentile(t *testing.T) {
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	for _, c := range []struct {
		samples []int
		p       float64
		want    int
	}{
		{nil, 50, 0},
		{[]int{7}, 50, 7},
		{[]int{7}, 99, 7},
		{[]int{3, 1, 2}, 50, 2},
		{[]int{4, 3, 1, 2}, 50, 2},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 100, 100},
	} {
		before := slices.Clone(c.samples)
		assert.Equal(t, Percentile(c.samples, c.p), c.want, "Percentile(%v, %v)", c.samples, c.p)
		assert.True(t, slices.Equal(before, c.samples), "Percentile changed its samples: %v", c.samples)
	}
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		shares []int
		want   float64
	}{
		{nil, 1},
		{[]int{0, 0}, 1},
		{[]int{5, 5, 5, 5}, 1},
		{[]int{8, 0, 0, 0}, 0.25},
		{[]int{3, 1}, 0.8},
	} {
		assert.Equal(t, Jain(c.shares), c.want, "Jain(%v)", c.shares)
	}
}

func TestHandOvers(t *testing.T) {
	ms := func(n int64) int64 { return n * int64(time.Millisecond) }
	turns := []Turn{
		{Seq: 5, Proc: 0, Asked: ms(60), Got: ms(85), Left: ms(90)}, // counts
		{Seq: 1, Proc: 0, Asked: 0, Got: 0, Left: ms(20)},           // nobody before it
		{Seq: 2, Proc: 1, Asked: ms(1), Got: ms(21), Left: ms(41)},  // counts
		{Seq: 3, Proc: 1, Asked: ms(1), Got: ms(44), Left: ms(64)},  // same process
		{Seq: 4, Proc: 0, Asked: ms(63), Got: ms(65), Left: ms(85)}, // came just now
		{Seq: 6, Proc: 1, Asked: ms(70), Got: ms(91), Left: ms(99)}, // short hold before it
	}
	turns[0].Proc = 2
	turns[0].Got = ms(87)
	got := HandOvers(turns, 20*time.Millisecond)
	want := []time.Duration{time.Millisecond, 2 * time.Millisecond}
	assert.True(t, slices.Equal(got, want), "HandOvers = %v, want %v", got, want)
}
