package unusedtoken

import (
	"context"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence/objectfence"
)

func bad(ctx context.Context, l *holdfast.Lease, lead *holdfast.Leadership, g objectfence.Guard) error {
	l.Token()        // want `the token is read and not used`
	_ = lead.Token() // want `the token is read and not used`
	const now = 7
	return g.Put(ctx, "report", now, nil) // want `Put gets a constant as the token`
}

func good(ctx context.Context, l *holdfast.Lease, g objectfence.Guard) error {
	println(l.Token())
	return g.Put(ctx, "report", l.Token(), nil)
}
