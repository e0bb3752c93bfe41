package httpfence

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
)

// Ask makes a [Guard] ask the server of the locks, in place of remembering the tokens: its function is
// [holdfast.Client.Check]. So all instances of a service agree, and none keeps anything. The resource is the name of
// the lock:
//
//	guard := &httpfence.Guard{Memory: httpfence.Ask(client.Check), Resource: lockOf}
//
// Each request with a token costs a request to that server, and if the server cannot be asked, the answer is 503. A
// lease may end while a handler runs, so a resource that can remember the highest token is safer. Callers
// acquire the lock with the option [holdfast.Checked]: the token of another live lease is answered 400.
type Ask func(ctx context.Context, lock string, token uint64) error

// Raise implements [fence.Memory]. If no live lease has the token, the error is a [*fence.StaleError]. Its Seen is the
// token of the present holder, or the caller's own if nobody holds the lock.
func (ask Ask) Raise(ctx context.Context, lock string, token uint64) error {
	err := ask(ctx, lock, token)
	var over *holdfast.NotHeldError
	switch {
	case errors.As(err, &over):
		return &fence.StaleError{Resource: lock, Token: token, Seen: max(over.Now, token)}
	case errors.Is(err, holdfast.ErrInvalid):
		return fmt.Errorf("%w: %w", fence.ErrInvalid, err)
	}
	return err
}
