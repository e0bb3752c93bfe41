package rueidis_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/storetestenv"
)

// The keys and arguments of an acquire, about.
var (
	benchKeys = []string{"holdfast:{invoice/42}"}
	benchArgs = []string{"3f2c9a7e51d04b68/17", "10000", "x", "queue", "1", "600000"}
)

// BenchmarkRun is a request as the library sends it: bounded in time, not
// to be cancelled.
func BenchmarkRun(b *testing.B) {
	s, _ := open(b, redistest.Start(b, storetestenv.Free, caching).Addr(), nil)
	b.ReportAllocs()
	for b.Loop() {
		ctx := &storetestenv.Limit{Context: context.Background(), At: time.Now().Add(time.Minute)}
		if _, err := s.Run(ctx, storetestenv.Echo, benchKeys, benchArgs); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRunCancellable(b *testing.B) {
	s, _ := open(b, redistest.Start(b, storetestenv.Free, caching).Addr(), nil)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		ctx := &storetestenv.Limit{Context: ctx, At: time.Now().Add(time.Minute)}
		if _, err := s.Run(ctx, storetestenv.Echo, benchKeys, benchArgs); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEvalSha is the same request by rueidis alone, with a deadline: then
// it reads the answer on the caller's goroutine, as under BenchmarkRun.
func BenchmarkEvalSha(b *testing.B) {
	_, rdb := open(b, redistest.Start(b, storetestenv.Free, caching).Addr(), nil)
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	rdb.Do(ctx, rdb.B().ScriptLoad().Script(storetestenv.Echo.Text).Build())
	b.ReportAllocs()
	for b.Loop() {
		_, err := rdb.Do(ctx, rdb.B().Evalsha().Sha1(storetestenv.Echo.SHA1).Numkeys(1).
			Key(benchKeys...).Arg(benchArgs...).Build()).ToString()
		if err != nil {
			b.Fatal(err)
		}
	}
}
