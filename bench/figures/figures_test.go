package figures

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
)

const printed = `Unit x-rate better=higher
goos: linux
load: 1.5
cpu: some
BenchmarkPair/goredis/holdfast-2   	  100	  50 ns/op	 1.5 x-raw-p50	 900 p50-ns
BenchmarkPair/goredis/holdfast-2   	  100	  70 ns/op	 1.7 x-raw-p50
load: 2.5
BenchmarkPair/goredis/holdfast-2   	  100	  60 ns/op	 1.1 x-raw-p50	 +Inf x-rate
PASS
`

func TestReadSaveLoad(t *testing.T) {
	f := New()
	assert.Must(t, f.Read(strings.NewReader(printed), "printed"))
	want := map[string][]float64{"ns/op": {50, 70, 60}, "x-raw-p50": {1.5, 1.7, 1.1}, "p50-ns": {900}}
	if got := f.Samples["Pair/goredis/holdfast"]; !reflect.DeepEqual(got, want) {
		t.Errorf("samples: %v, want %v", f.Samples, want)
	}
	if got := f.About["load"]; !reflect.DeepEqual(got, []string{"1.5", "2.5"}) {
		t.Errorf("load: %v", got)
	}
	m, ok := f.Median("Pair/goredis/holdfast", "x-raw-p50")
	assert.False(t, m != 1.5 || !ok, "median: %v, %v", m, ok)
	_, ok = f.Median("Pair/goredis/holdfast", "jain")
	assert.True(t, !ok, "a metric that nobody reported has a median")
	file := filepath.Join(t.TempDir(), "figures.json")
	assert.Must(t, f.Save(file))
	got, err := Load(file)
	assert.True(t, err == nil && reflect.DeepEqual(got, f),
		"loaded %v, %v; want what was saved", got, err)
}

func TestReadRefusesHalfALine(t *testing.T) {
	assert.True(t, New().Read(strings.NewReader("BenchmarkPair-2 100 5x ns/op\n"), "half") != nil,
		"a line that is no result was read")
}
