package deferinloop

import (
	"context"

	"github.com/holdfast-go/holdfast"
)

func bad(ctx context.Context, locks []*holdfast.Mutex) error {
	for _, m := range locks {
		lease, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		defer lease.Release(ctx) // want `the lock is acquired in a loop`
	}
	return nil
}

func hidden(ctx context.Context, locks []*holdfast.Mutex) error {
	for _, m := range locks {
		lease, err := m.Lock(ctx)
		if err != nil {
			return err
		}
		if lease.Token() > 1 {
			defer func() { _ = lease.Release(ctx) }() // want `the lock is acquired in a loop`
		}
	}
	return nil
}

// The loop only tries: it does not go on behind the defer.
func tries(ctx context.Context, m *holdfast.Mutex) error {
	for {
		lease, err := m.TryLock(ctx)
		if err != nil {
			continue
		}
		defer lease.Release(ctx)
		return nil
	}
}

func each(ctx context.Context, locks []*holdfast.Mutex) error {
	for _, m := range locks {
		err := func() error {
			lease, err := m.Lock(ctx)
			if err != nil {
				return err
			}
			defer lease.Release(ctx)
			return nil
		}()
		if err != nil {
			return err
		}
	}
	return nil
}

func before(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	for range 3 {
		println(lease.Token())
	}
	return nil
}
