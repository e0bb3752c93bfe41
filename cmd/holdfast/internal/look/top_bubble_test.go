package look

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/target"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
)

// slowScan is a store whose pages each come after a while, and which falls silent after the last.
type slowScan struct {
	*memstore.Store
	s     *target.Server
	pages int
}

func (l slowScan) Scan(ctx context.Context, prefix string, visit func(keys []string) error) error {
	for i := range l.pages {
		time.Sleep(maxSilence * 9 / 10)
		l.s.Looked.Add(1)
		if err := visit([]string{fmt.Sprintf("%s%d}", prefix, i)}); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// A reading takes as long as it must, and ends when nothing arrives any more.
func TestAReadingOfTopEndsBySilenceOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &target.Server{}
		began := time.Now()
		c, err := holdfast.New(slowScan{memstore.New(), s, 20}, holdfast.Config{})
		assert.Must(t, err)
		defer c.Close(context.Background())
		s.Client = c
		_, err = topReading(t.Context(), s, "")
		assert.True(t, errors.Is(err, context.DeadlineExceeded) && exit.Of(err) == exit.CodeUnreachable, "%v", err)
		assert.AtLeast(t, time.Since(began), 18*maxSilence, "the time of the reading")
		assert.AtMost(t, time.Since(began), 20*maxSilence, "the time of the reading")
	})
}
