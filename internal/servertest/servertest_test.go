package servertest_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/servertest"
)

func TestAServerAnswersUntilItIsStopped(t *testing.T) {
	for _, kind := range []servertest.Kind{
		servertest.PostgreSQL, servertest.PgBouncer("127.0.0.1:1"), servertest.MariaDB, servertest.VersityGW,
	} {
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

func TestAServerLeavesTheTemporaryFilesOfAnotherAlone(t *testing.T) {
	dir, err := os.MkdirTemp("", "temporary") //nolint:usetesting // the server's user must get into it
	assert.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	assert.Must(t, os.Chmod(dir, 0o777)) // everybody writes where temporary files are
	t.Setenv("TMPDIR", dir)
	file := filepath.Join(dir, "#sql-temptable-1-1-1.MAI") // a table of a MariaDB that runs
	assert.Must(t, os.WriteFile(file, nil, 0o666))         // as MariaDB does
	s, err := servertest.Start(servertest.MariaDB)
	assert.Must(t, err)
	assert.NoError(t, s.Stop())
	_, err = os.Stat(file)
	assert.NoError(t, err)
}
