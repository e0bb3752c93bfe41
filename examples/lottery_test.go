package examples_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the driver mysql
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/servertest"
)

// Whatever database there is, the day gets its ten winners once, under three leases: of the shop that
// is killed, of the one that is paused, and of the last one.
func TestLottery(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]func(*testing.T) string{
		"SQLite": func(t *testing.T) string { return filepath.Join(t.TempDir(), "lottery.db") },
		"PostgreSQL": func(t *testing.T) string {
			return server(t, servertest.PostgreSQL, "pgx", func(addr, name string) string {
				return "postgres://postgres@" + addr + "/" + name + "?sslmode=disable"
			}, "postgres")
		},
		"MariaDB": func(t *testing.T) string {
			return server(t, servertest.MariaDB, "mysql", func(addr, name string) string {
				return "root@tcp(" + addr + ")/" + name
			}, "")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := "LOTTERY_DB=" + source(t)
			day := func() string { return time.Now().UTC().Format(time.DateOnly) }
			today := day()
			out := run(t, "lottery", env)
			again := run(t, "lottery", env)
			if day() != today { // midnight came in between: the second run was another day's
				env = "LOTTERY_DB=" + source(t)
				out, again = run(t, "lottery", env), run(t, "lottery", env)
			}
			const result = `^the day has 10 winners: 10 different users, all eligible, drawn under 3 leases$`
			says(t, out, `^shop 1: has drawn 4 of 10$`, `^shop 1 is killed`, `^shop \d: has drawn 6 of 10$`,
				`^shop \d is paused`, `^shop \d: has drawn 10 of 10$`, `^shop \d goes on$`)
			says(t, out, `^shop \d: is refused: winner 7: fence: example/lottery has seen token \d+: .* is stale$`)
			says(t, out, result)
			times(t, out, `: has drawn \d+ of 10$`, 10)
			times(t, out, `: is too late: the day has its winners$`, 3)
			times(t, again, `: has drawn `, 0)
			times(t, again, `: is too late: the day has its winners$`, 6)
			says(t, again, result)
		})
	}
}

// server starts a database server with an empty database, and returns its data source.
func server(
	t *testing.T, kind servertest.Kind, driver string, source func(addr, name string) string, first string,
) string {
	t.Helper()
	s, err := servertest.Start(kind)
	assert.Must(t, err)
	t.Cleanup(func() {
		assert.NoError(t, s.Stop())
	})
	db, err := sql.Open(driver, source(s.Addr, first))
	assert.Must(t, err)
	defer db.Close()
	assert.Must(t, s.Ready(t.Context(), db.PingContext))
	assert.Must(t, assert.Err(db.ExecContext(t.Context(), "CREATE DATABASE lottery")))
	return source(s.Addr, "lottery")
}
