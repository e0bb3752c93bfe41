package redsync

import (
	"context"

	"github.com/holdfast-go/holdfast"
)

// After charges an order under Holdfast's lock. It waits until ctx ends, in order of arrival. The
// lease is renewed while charge runs. If it is lost, the context of charge ends first.
func After(ctx context.Context, client *holdfast.Client, order string, charge func(context.Context) error) error {
	return client.Mutex("order/"+order).Do(ctx, charge)
}
