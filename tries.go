package holdfast

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// trying says how often, and about how far apart.
type trying struct {
	tries int // 0: wait instead
	pace  time.Duration
}

// noTries refuses Tries where an acquisition is more than one lock call.
func (t *terms) noTries() {
	if t.tries > 0 {
		t.fail(invalid("Tries is for one lock: use Wait"))
	}
}

// Tries makes Lock and Do try n times, about interval apart (half to one and a
// half of it, by chance), and then give up with an [ErrHeld] that says so.
// Nothing is kept on the server between two tries: no place in the line, no
// subscription. So who tries has no order among those who try, and stands
// behind everybody who waits.
//
// It is for those who want to bound the requests. To wait where subscriptions
// are not permitted it is not needed: Lock finds that out, and looks by itself.
func Tries(n int, interval time.Duration) Option {
	return func(t *terms) error {
		switch {
		case n < 1:
			return invalid("%d tries were asked for: at least one is needed", n)
		case interval < time.Millisecond || interval > maxTTL:
			return invalid("the interval between tries is %v: it must be from 1ms to %v", interval, maxTTL)
		}
		t.tries, t.pace = n, interval
		return nil
	}
}

// tryOften takes the lock by trying. Each try is an acquisition of its own:
// after one that failed nothing is held, and an error that will not pass ends it.
func (t *terms) tryOften(ctx context.Context) (*Lease, error) {
	start := t.client.now()
	for n := 1; ; n++ {
		l, err := t.client.lock(ctx, ctx, &t.spec, true)
		var held *HeldError
		known := errors.As(err, &held)
		if err == nil || !known && !wavering(err) || ended(ctx) != nil {
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
		case <-t.client.closing:
			timer.Stop()
			return nil, fmt.Errorf("holdfast: lock %q: %w", t.name, ErrClosed)
		}
	}
}
