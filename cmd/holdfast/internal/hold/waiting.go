package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
)

// showHolder prints the holder of the lock that we wait for.
func (r *run) showHolder(ctx context.Context, name string, position int) {
	text := fmt.Sprintf("waiting for %q", name)
	if position > 0 {
		text += fmt.Sprintf(", position %d", position)
	}
	text += holdersOf(r.server, ctx, name, ", held ")
	if ctx.Err() == nil {
		r.say.Noticef("%s", text)
	}
}

// isAway passes on that a request got no answer. It does not block: one report is enough.
func (r *run) isAway(err error) {
	select {
	case r.away <- err:
	default:
	}
}

// showBusy prints the holder of the lock that we did not get.
func (r *run) showBusy(err error) {
	if r.say.Level < say.Normal {
		return
	}
	name := r.names[0]
	held, ok := errors.AsType[*holdfast.HeldError](err)
	if ok && held.Name != "" {
		name = held.Name // one of several
	}
	text := fmt.Sprintf("%q is held", name)
	ctx, cancel := context.WithTimeout(context.Background(), target.CloseTimeout)
	defer cancel()
	text += holdersOf(r.server, ctx, name, " ")
	if ok && held.Waited > 0 {
		text += fmt.Sprintf("; waited %v", held.Waited.Round(time.Millisecond))
	}
	r.say.Noticef("%s", text)
}
