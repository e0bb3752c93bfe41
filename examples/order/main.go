// Order is a workflow over two processes. They hold one lock in the name of an order, one
// after the other without a gap.
//
//	go run ./order
//
// The payment acquires the lock, and re-enters it in a function that does not know that
// the lock is held. The shipping, another process, also acquires the lock in the name of
// the order. Then the payment releases it. All that time the customer, who wants to
// cancel, waits. When the shipping has released the lock too, the customer gets it.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/kit"
)

func main() { kit.Main(parent, child) }

const name, owner = "example/order/42", "workflow of order 42"

func parent(ctx context.Context, _ []string) error {
	client, _, done, err := kit.Connect(holdfast.Config{})
	if err != nil {
		return err
	}
	defer done()
	customer := client.Mutex(name)
	refused := func() error {
		_, err := customer.TryLock(ctx)
		if !errors.Is(err, holdfast.ErrHeld) {
			return fmt.Errorf("the customer was let in: %w", err)
		}
		fmt.Println("customer: may not cancel now:", err)
		return nil
	}

	payment, err := kit.Start(ctx, "payment")
	if err != nil {
		return err
	}
	if err := errors.Join(payment.Heard(ctx, "is paid"), refused()); err != nil {
		return err
	}
	shipping, err := kit.Start(ctx, "shipping")
	if err != nil {
		return err
	}
	err = errors.Join(shipping.Heard(ctx, "is in"), payment.Tell("leave"), payment.Wait(), refused())
	if err != nil {
		return err
	}
	if err := errors.Join(shipping.Tell("leave"), shipping.Wait()); err != nil {
		return err
	}
	return customer.Do(ctx, func(context.Context) error {
		fmt.Println("customer: is in: too late, it is shipped")
		return nil
	})
}

func child(ctx context.Context, args []string) error {
	client, _, done, err := kit.Connect(holdfast.Config{TTL: 10 * time.Second})
	if err != nil {
		return err
	}
	defer done()
	order := client.Mutex(name, holdfast.Owner(owner))
	lease, err := order.Lock(ctx)
	if err != nil {
		return err
	}
	state, err := client.Holders(ctx, name)
	if err != nil {
		return err
	}
	fmt.Println("is in, entries:", state.Holders[0].Entries)
	if args[0] == "payment" {
		if err := charge(lease.Context(), order); err != nil {
			return err
		}
		fmt.Println("order 42 is paid")
	}
	if _, err := kit.Told(ctx); err != nil {
		return err
	}
	fmt.Println("leaves")
	return lease.Release(ctx)
}

// charge acquires the lock itself, wherever it is called from. If the context already has
// the lease, this costs no request.
func charge(ctx context.Context, order *holdfast.Mutex) error {
	lease, err := order.Lock(ctx)
	if err != nil {
		return err
	}
	fmt.Println("charges the card, entries:", lease.HoldCount())
	return lease.Release(ctx)
}
