package servertest_test

import (
	"context"
	"net"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/servertest"
)

func TestAServerAnswersUntilItIsStopped(t *testing.T) {
	for _, kind := range []servertest.Kind{servertest.PostgreSQL, servertest.MariaDB, servertest.VersityGW} {
		t.Run(kind.Name, func(t *testing.T) {
			s, err := servertest.Start(kind)
			assert.Must(t, err)
			dial := func(ctx context.Context) error {
				conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr)
				if err == nil {
					err = conn.Close()
				}
				return err
			}
			assert.NoError(t, s.Ready(t.Context(), dial))
			assert.NoError(t, s.Stop())
			assert.True(t, dial(t.Context()) != nil, "it answers after it was stopped")
		})
	}
}
