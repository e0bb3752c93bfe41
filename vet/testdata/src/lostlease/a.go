package lostlease

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast"
)

func work(ctx context.Context) error { return nil }

func never(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx) // want `the lease lease is never released: defer lease.Release`
	if err != nil {
		return err
	}
	return work(lease.Context())
}

func leads(ctx context.Context, e *holdfast.Election) error {
	lead, err := e.Campaign(ctx, "here") // want `the lease lead is never released: defer lead.Release`
	if err != nil {
		return err
	}
	println(lead.Token())
	return nil
}

func onePath(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx) // want `the lease lease is not released on all paths`
	if err != nil {
		return err
	}
	err = work(lease.Context())
	if err != nil {
		return err
	}
	return lease.Release(ctx)
}

func inIf(ctx context.Context, m *holdfast.Mutex) {
	if lease, err := m.TryLock(ctx); err == nil { // want `never released`
		println(lease.Token())
	}
}

func drops(ctx context.Context, m *holdfast.Mutex) error {
	m.Lock(ctx)              // want `the lease is dropped`
	_, err := m.TryLock(ctx) // want `the lease is dropped`
	return err
}

func loops(ctx context.Context, m *holdfast.Mutex) error {
	for {
		lease, err := m.Lock(ctx) // want `never released`
		if err != nil {
			return err
		}
		println(lease.Token())
	}
}

// From here on, all is well, or may be.

func deferred(ctx context.Context, m *holdfast.Mutex) (err error) {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lease.Release(ctx)) }()
	return work(lease.Context())
}

func known(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.TryLock(ctx)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	switch {
	case err != nil:
		return err
	}
	return lease.Release(ctx)
}

func byNil(ctx context.Context, m *holdfast.Mutex) {
	lease, _ := m.TryLock(ctx)
	if lease == nil {
		return
	}
	lease.Release(ctx)
}

func whenDone(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { lease.Release(ctx) })
	return nil
}

type box struct{ lease *holdfast.Lease }

func stored(ctx context.Context, m *holdfast.Mutex, b *box) (err error) {
	b.lease, err = m.Lock(ctx)
	return err
}

func passedOn(ctx context.Context, m *holdfast.Mutex, to chan<- *holdfast.Lease) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	to <- lease
	return nil
}

func returned(ctx context.Context, m *holdfast.Mutex) (*holdfast.Lease, error) {
	lease, err := m.Lock(ctx)
	if err != nil {
		return nil, err
	}
	return lease, nil
}

func asValue(ctx context.Context, m *holdfast.Mutex) (func(context.Context) error, error) {
	lease, err := m.Lock(ctx)
	if err != nil {
		return nil, err
	}
	return lease.Release, nil
}

func closes(ctx context.Context, c *holdfast.Client) error {
	defer c.Close(ctx)
	lease, err := c.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	return work(lease.Context())
}

func ends(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	if lease.Token() == 0 {
		panic("no token")
	}
	return lease.Release(ctx)
}

func closesByFunction(ctx context.Context, connect func() (*holdfast.Client, func())) error {
	client, done := connect()
	defer done()
	lease, err := client.Mutex("a").Lock(ctx)
	if err != nil {
		return err
	}
	return work(lease.Context())
}

func probes(ctx context.Context, c *holdfast.Client) error {
	defer c.Close(ctx)
	free := func() bool {
		_, err := c.Mutex("a").TryLock(ctx)
		return err == nil
	}
	println(free())
	return nil
}
