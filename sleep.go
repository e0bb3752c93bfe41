package holdfast

import (
	"context"
	"time"
)

// sleep waits for d. It reports false if ctx ended or the client closes before.
func (c *Client) sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-c.closing:
	}
	return false
}
