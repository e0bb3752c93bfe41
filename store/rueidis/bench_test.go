package rueidis_test

import (
	"context"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store/internal/adaptertest"
)

func BenchmarkRun(b *testing.B)            { library.BenchmarkRun(b) }
func BenchmarkRunCancellable(b *testing.B) { library.BenchmarkRunCancellable(b) }

// BenchmarkEvalSha is the same request with rueidis alone, with a deadline: then it reads the
// answer on the caller's goroutine, as in BenchmarkRun.
func BenchmarkEvalSha(b *testing.B) {
	_, rdb := open(b, redistest.Start(b, adaptertest.Free, caching).Addr(), nil)
	ctx, cancel := context.WithTimeout(b.Context(), time.Hour)
	defer cancel()
	rdb.Do(ctx, rdb.B().ScriptLoad().Script(adaptertest.Echo.Text).Build())
	b.ReportAllocs()
	for b.Loop() {
		_, err := rdb.Do(ctx, rdb.B().Evalsha().Sha1(adaptertest.Echo.SHA1).Numkeys(1).
			Key(adaptertest.BenchKeys...).Arg(adaptertest.BenchArgs...).Build()).ToString()
		assert.Must(b, err)
	}
}
