package rueidislock

import (
	"context"

	"github.com/holdfast-go/holdfast"
)

// After charges an order under Holdfast's lock. The error says if the lease was lost while charge
// ran, or could not be released.
func After(ctx context.Context, client *holdfast.Client, order string, charge func(context.Context) error) error {
	return client.Mutex("order/"+order).Do(ctx, charge)
}
