package goredis_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/storetestenv"
)

func BenchmarkRun(b *testing.B)            { library.BenchmarkRun(b) }
func BenchmarkRunCancellable(b *testing.B) { library.BenchmarkRunCancellable(b) }

// BenchmarkEvalSha is the same request with go-redis alone.
func BenchmarkEvalSha(b *testing.B) {
	_, rdb := open(b, redistest.Start(b, storetestenv.Free).Addr(), nil)
	ctx := b.Context()
	rdb.ScriptLoad(ctx, storetestenv.Echo.Text)
	b.ReportAllocs()
	for b.Loop() {
		args := make([]any, len(storetestenv.BenchArgs))
		for i, arg := range storetestenv.BenchArgs {
			args[i] = arg
		}
		if err := rdb.EvalSha(ctx, storetestenv.Echo.SHA1, storetestenv.BenchKeys, args...).Err(); err != nil {
			b.Fatal(err)
		}
	}
}
