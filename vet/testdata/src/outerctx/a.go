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
