package goredis_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store/internal/adaptertest"
)

func BenchmarkRun(b *testing.B)            { library.BenchmarkRun(b) }
func BenchmarkRunCancellable(b *testing.B) { library.BenchmarkRunCancellable(b) }

// BenchmarkEvalSha is the same request with go-redis alone.
func BenchmarkEvalSha(b *testing.B) {
	_, rdb := open(b, redistest.Start(b, adaptertest.Free).Addr(), nil)
	ctx := b.Context()
	rdb.ScriptLoad(ctx, adaptertest.Echo.Text)
	b.ReportAllocs()
	for b.Loop() {
		args := make([]any, len(adaptertest.BenchArgs))
		for i, arg := range adaptertest.BenchArgs {
			args[i] = arg
		}
		assert.Must(b, rdb.EvalSha(ctx, adaptertest.Echo.SHA1, adaptertest.BenchKeys, args...).Err())
	}
}
