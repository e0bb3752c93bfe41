package goredis_test

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
	s, _ := open(b, redistest.Start(b, storetestenv.Free).Addr(), nil)
	b.ReportAllocs()
	for b.Loop() {
		ctx := &storetestenv.Limit{Context: context.Background(), At: time.Now().Add(time.Minute)}
		if _, err := s.Run(ctx, storetestenv.Echo, benchKeys, benchArgs); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRunCancellable(b *testing.B) {
	s, _ := open(b, redistest.Start(b, storetestenv.Free).Addr(), nil)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		ctx := &storetestenv.Limit{Context: ctx, At: time.Now().Add(time.Minute)}
		if _, err := s.Run(ctx, storetestenv.Echo, benchKeys, benchArgs); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEvalSha is the same request by go-redis alone.
func BenchmarkEvalSha(b *testing.B) {
	_, rdb := open(b, redistest.Start(b, storetestenv.Free).Addr(), nil)
	ctx := b.Context()
	rdb.ScriptLoad(ctx, storetestenv.Echo.Text)
	b.ReportAllocs()
	for b.Loop() {
		args := make([]any, len(benchArgs))
		for i, arg := range benchArgs {
			args[i] = arg
		}
		if err := rdb.EvalSha(ctx, storetestenv.Echo.SHA1, benchKeys, args...).Err(); err != nil {
			b.Fatal(err)
		}
	}
}
