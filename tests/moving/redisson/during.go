package redisson

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/bridge"
)

// During holds Redisson's RLock and Holdfast's lock, for as long as some instances run Before and others
// After. old is a client on Redisson's own keys. If either lock is lost, the context of charge ends first.
// The configuration says the stage: bridge.Native drops Redisson's lock.
func During(ctx context.Context, stage bridge.Stage, old, native *holdfast.Client, order string,
	charge func(context.Context) error,
) error {
	lock := bridge.New(stage, old.Mutex("order:"+order, holdfast.MaxWait(time.Minute)),
		native.Mutex("order/"+order, holdfast.MaxWait(time.Minute)))
	return lock.Do(ctx, charge)
}
