package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/request"
)

// trying says how often, and about how far apart.
type trying struct {
	tries int // 0: wait instead
	pace  time.Duration
}

// tryOften takes the lock by trying. Each try is an acquisition of its own:
// after one that failed nothing is held, and an error that will not pass ends it.
func (t *lock) tryOften(ctx context.Context) (*Lease, error) {
	start := t.client.now()
	for n := 1; ; n++ {
		l, err := t.acquireAs(ctx, ctx, true)
		var held *HeldError
		known := errors.As(err, &held)
		if err == nil || !known && !wavering(err) || request.Ended(ctx) != nil {
			return l, err
		}
		if n == t.tries {
			told := HeldError{Name: t.name, Err: reason(err)}
			if known {
				told = *held
			}
			told.Tries, told.Waited = n, t.client.now()-start
			return nil, &told
		}
		timer := time.NewTimer(t.pace/2 + time.Duration(t.client.chance()*float64(t.pace)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("holdfast: lock %q: %w", t.name, ctx.Err())
		case <-t.client.life.Closing():
			timer.Stop()
			return nil, fmt.Errorf("holdfast: lock %q: %w", t.name, ErrClosed)
		}
	}
}
