package adaptertest

import (
	"context"
	"testing"
	"time"
)

// Keys and arguments like those of an acquire.
var (
	BenchKeys = []string{"holdfast:{invoice/42}"}
	BenchArgs = []string{"3f2c9a7e51d04b68/17", "10000", "x", "queue", "1", "600000"}
)

// BenchmarkRun measures a request as the library sends it: with a deadline, and without a
// way to cancel it.
func (l Library) BenchmarkRun(b *testing.B) { l.benchmarkRun(context.Background(), b) }

// BenchmarkRunCancellable measures a request with a context that can be cancelled.
func (l Library) BenchmarkRunCancellable(b *testing.B) { l.benchmarkRun(b.Context(), b) }

func (l Library) benchmarkRun(parent context.Context, b *testing.B) {
	s := l.store(b, l.start(b).Addr(), Client{})
	b.ReportAllocs()
	for b.Loop() {
		ctx := &Limit{Context: parent, At: time.Now().Add(time.Minute)}
		if _, err := s.Run(ctx, Echo, BenchKeys, BenchArgs); err != nil {
			b.Fatal(err)
		}
	}
}
