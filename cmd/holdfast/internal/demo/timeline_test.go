package demo

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

// Ten columns of one second; a hold covers a column if it covers its middle.
func TestTimelineGolden(t *testing.T) {
	const second = 1_000_000
	rows := []row{
		{Name: "worker 1", Holds: []span{{0, 2 * second}, {5_600_000, 7 * second}}},
		{Name: "worker 2", Holds: []span{{2 * second, 5_400_000}, {8_400_000, 8_600_000}}, Killed: []int64{3_100_000}},
		{
			Name: "worker 10", Holds: []span{{7 * second, 8_100_000}},
			Stopped: []span{{7_200_000, 9 * second}}, Refused: []int64{9_050_000},
		},
	}
	for _, test := range []struct {
		name   string
		glyphs glyphs
		want   string
	}{
		{"unicode", unicodeGlyphs, "" +
			"  worker 1   ██····█···\n" +
			"  worker 2   ··█✗░···█·\n" +
			"  worker 10  ·······‖‖!\n" +
			"             0s\n"},
		{"ascii", asciiGlyphs, "" +
			"  worker 1   ##....#...\n" +
			"  worker 2   ..#X~...#.\n" +
			"  worker 10  .......==!\n" +
			"             0s\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := timeline(rows, 0, 10*second, 10, test.glyphs)
			assert.True(t, got == test.want, "timeline:\n%s\nwant:\n%s", got, test.want)
		})
	}
}

func TestTimelineFitsTheScreen(t *testing.T) {
	rows := make([]row, maxRows+3)
	for i := range rows {
		rows[i].Name = "w"
	}
	want := ""
	for range maxRows {
		want += "  w  ..\n"
	}
	want += "     0s\n  (3 more workers not shown)\n"
	got := timeline(rows, 0, 1000, 2, asciiGlyphs)
	assert.True(t, got == want, "timeline:\n%s\nwant:\n%s", got, want)
}

func TestAxis(t *testing.T) {
	for _, test := range []struct {
		seconds float64
		width   int
		want    string
	}{
		{5, 40, "0s      1s      2s      3s      4s"},
		{20, 40, "0s        5s        10s       15s"},
		{600, 40, "0s      120s    240s    360s    480s"},
		{0.5, 10, "0s"},
	} {
		if got := axis(int64(test.seconds*1e6), test.width); got != test.want {
			t.Errorf("axis of %vs in %d columns:\n%q\nwant\n%q", test.seconds, test.width, got, test.want)
		}
	}
}
