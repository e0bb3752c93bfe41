package moving

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/tests/moving/setnx"
)

// The number of renewals keeps its meaning.
func TestTheRenewalsOfALockByHandAreUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lost *holdfast.LostError
		err := setnx.AfterSetPX(t.Context(), clientOf(t, memstore.New()), "renewals", time.Minute, 1,
			func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		assert.True(t, errors.As(err, &lost) && lost.Reason == holdfast.LossLimit, "the renewals are used up: %v", err)
	})
}
