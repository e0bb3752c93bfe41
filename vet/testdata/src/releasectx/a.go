package releasectx

import (
	"context"

	"github.com/holdfast-go/holdfast"
)

func bad(l *holdfast.Lease, lead *holdfast.Leadership) {
	l.Release(nil)    // want `Release without a context releases nothing`
	lead.Release(nil) // want `Release without a context releases nothing`
}

func good(ctx context.Context, l *holdfast.Lease) {
	<-ctx.Done()
	l.Release(ctx) // it has ended, and the release works
	l.Release(context.Background())
}
