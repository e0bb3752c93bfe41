package redsync

import (
	"context"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/bridge"
)

// During holds the lock in both forms, for as long as some instances run Before and others After. old is
// a client on redsync's own keys. The lease of both is renewed, and if either is lost, the context of charge
// ends first. The configuration says the stage: bridge.Native drops the old form.
func During(ctx context.Context, stage bridge.Stage, old, native *holdfast.Client, order string,
	charge func(context.Context) error,
) error {
	lock := bridge.New(stage, old.Mutex("order:"+order), native.Mutex("order/"+order))
	return lock.Do(ctx, charge)
}
