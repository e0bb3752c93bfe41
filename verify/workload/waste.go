package workload

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/verify/history"
)

// waste makes garbage until ctx ends, as the rest of a program does: with the
// little memory that the process is then given the collector runs all the time.
func waste(ctx context.Context) {
	const blocks, size = 64, 256 << 10
	go func() {
		kept := make([][]byte, blocks) // 16 MB
		for i := 0; history.Sleep(ctx, time.Millisecond); i++ {
			b := make([]byte, size)
			for at := 0; at < size; at += 4096 {
				b[at] = 1
			}
			kept[i%blocks] = b
		}
	}()
}
