package releasectx

import (
	"context"

	"github.com/holdfast-go/holdfast"
)

func bad(ctx context.Context, l *holdfast.Lease, lead *holdfast.Leadership) {
	l.ReleaseWhenDone(context.Background())          // want `waits for a context that never ends`
	lead.ReleaseWhenDone(context.WithoutCancel(ctx)) // want `waits for a context that never ends`
	l.ReleaseWhenDone(l.Context())                   // want `waits for the lease's own context`
	l.Release(nil)                                   // want `Release without a context releases nothing`
}

func good(ctx context.Context, l, other *holdfast.Lease) {
	l.ReleaseWhenDone(ctx)
	l.ReleaseWhenDone(other.Context())
	<-ctx.Done()
	l.Release(ctx) // it has ended, and the release works
	l.Release(context.Background())
}
