package outerctx

import (
	"context"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast"
)

type span struct{}

func (span) AddEvent(name string) {}

type user struct{ name string }

func spanFromContext(ctx context.Context) span        { return span{} }
func userOf(ctx context.Context) (user, bool)         { return user{}, true }
func withSpan(ctx context.Context) context.Context    { return ctx }
func query(ctx context.Context, text string) []string { return nil }
func process(ctx context.Context)                     {}

// Functions as people write them. First those whose work goes on after the loss of the lease.

func queries(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	query(ctx, "update") // want `does not end when the lease lease is lost`
	return nil
}

func processes(ctx context.Context, m *holdfast.Mutex) error {
	return m.Do(ctx, func(context.Context) error {
		process(ctx) // want `ctx is the context from outside of Do`
		return nil
	})
}

func derives(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return work(withSpan(ctx)) // want `does not end when the lease lease is lost`
}

func requests(ctx context.Context, m *holdfast.Mutex) error {
	return m.Do(ctx, func(held context.Context) error {
		r, err := http.NewRequestWithContext(ctx, "PUT", "http://a", nil) // want `ctx is the context from outside of Do`
		if err != nil {
			return err
		}
		_, err = http.DefaultClient.Do(r)
		return err
	})
}

func handler(m *holdfast.Mutex) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		lease, err := m.Lock(ctx)
		if err != nil {
			return
		}
		defer lease.Release(ctx)
		work(ctx) // want `does not end when the lease lease is lost`
	}
}

// From here on, all is well, or may be.

func traces(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	spanFromContext(ctx).AddEvent("locked")
	return nil
}

func tracesInDo(ctx context.Context, m *holdfast.Mutex) error {
	return m.Do(ctx, func(held context.Context) error {
		spanFromContext(ctx).AddEvent("locked")
		if u, ok := userOf(ctx); ok {
			println(u.name)
		}
		return work(held)
	})
}

func readsUser(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	u, _ := userOf(ctx)
	println(u.name)
	return nil
}

func readsValue(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	println(ctx.Value("name"))
	return nil
}

func usesTheLeases(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	return work(withSpan(lease.Context()))
}

func replacesIt(ctx context.Context, m *holdfast.Mutex) error {
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	defer lease.Release(ctx)
	ctx = lease.Context()
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return work(limited)
}

func outlives(ctx context.Context, m *holdfast.Mutex) error {
	return m.Do(ctx, func(held context.Context) error {
		defer work(context.WithoutCancel(ctx))
		return work(held)
	})
}
