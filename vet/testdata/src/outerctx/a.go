package outerctx

import (
	"context"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast"
)

func work(ctx context.Context) error { return nil }

func other(ctx context.Context, m *holdfast.Mutex) error {
	return m.Do(ctx, func(held context.Context) error {
		return work(ctx) // want `ctx is the context from outside of Do`
	})
}

func derived(ctx context.Context, m *holdfast.Mutex) error {
	return m.Do(ctx, func(held context.Context) error {
		limited, cancel := context.WithTimeout(ctx, time.Second) // want `ctx is the context from outside of Do`
		defer cancel()
		return work(limited)
	})
}

func unnamed(ctx context.Context, m *holdfast.Mutex) error {
	return m.Do(ctx, func(context.Context) error {
		return work(ctx) // want `ctx is the context from outside of Do`
	})
}

func leads(ctx context.Context, e *holdfast.Election) error {
	return e.Do(ctx, "here", func(held context.Context, lead *holdfast.Leadership) error {
		return work(ctx) // want `ctx is the context from outside of Do`
	})
}

// The name of the context that Do gives means something else there, so there is no fix.
func shadowed(ctx context.Context, m *holdfast.Mutex) error {
	return m.Do(ctx, func(held context.Context) error {
		{
			held := context.Background()
			_ = held
			return work(ctx) // want `ctx is the context from outside of Do`
		}
	})
}

// From here on, all is well.

func same(ctx context.Context, m *holdfast.Mutex) error {
	return m.Do(ctx, func(ctx context.Context) error { return work(ctx) })
}

func onPurpose(ctx context.Context, m *holdfast.Mutex) error {
	return m.Do(ctx, func(held context.Context) error {
		slog.InfoContext(ctx, "at work")
		if ctx.Err() != nil {
			return work(context.WithoutCancel(ctx))
		}
		return work(held)
	})
}

func locks(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return work(ctx) // want `this context does not end when the lease lease is lost`
}

// From here on, all is well, or may be.

func binds(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	context.AfterFunc(lease.Context(), func() {})
	return work(ctx)
}

func shows(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	println(lease.Token())
	return work(ctx)
}

func passesOn(ctx context.Context, m *holdfast.Mutex, with func(*holdfast.Lease)) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	with(lease)
	return work(ctx)
}

func nests(ctx context.Context, m, other *holdfast.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return other.Do(ctx, func(ctx context.Context) error { return work(ctx) })
}
