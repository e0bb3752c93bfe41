package sqlbench

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/servertest"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// turn is one turn of one client.
type turn func(ctx context.Context) error

// side is one way to be alone. open makes a client.
type side struct {
	name string
	open func(t testing.TB) turn
}

// sides starts the servers and returns all ways.
func sides(t testing.TB) []side {
	t.Helper()
	list := []side{{"holdfast-mutex", mutex(redistest.Start(t).Addr())}}
	for _, d := range []struct {
		kind   servertest.Kind
		driver string
		source string
		ways   map[string]func(conn *sql.Conn) turn
	}{
		{servertest.PostgreSQL, "pgx", "postgres://postgres@%s/postgres", map[string]func(*sql.Conn) turn{
			"postgres-advisory-lock": pair("SELECT pg_advisory_lock(42)", "SELECT pg_advisory_unlock(42)"),
			"postgres-row-lock":      row("SELECT paid FROM invoice WHERE id = 42 FOR UPDATE"),
			"postgres-unique-key":    unique("INSERT INTO job VALUES ($1, $2) ON CONFLICT DO NOTHING"),
			"postgres-queue": take("DELETE FROM task WHERE id = (SELECT id FROM task ORDER BY id LIMIT 1 " +
				"FOR UPDATE SKIP LOCKED)"),
		}},
		{servertest.MariaDB, "mysql", "root@tcp(%s)/test", map[string]func(*sql.Conn) turn{
			"mariadb-get-lock":   pair("DO GET_LOCK('invoice/42', 60)", "DO RELEASE_LOCK('invoice/42')"),
			"mariadb-row-lock":   row("SELECT paid FROM invoice WHERE id = 42 FOR UPDATE"),
			"mariadb-unique-key": unique("INSERT IGNORE INTO job VALUES (?, ?)"),
		}},
	} {
		server, err := servertest.Start(d.kind.Durable())
		assert.Must(t, err)
		t.Cleanup(func() { _ = server.Stop() })
		if d.driver == "mysql" {
			empty := strings.TrimSuffix(fmt.Sprintf(d.source, server.Addr), "test")
			run(t, server, d.driver, empty, "CREATE DATABASE test")
		}
		source := fmt.Sprintf(d.source, server.Addr)
		run(t, server, d.driver, source,
			"CREATE TABLE invoice (id INT PRIMARY KEY, paid INT)", "INSERT INTO invoice VALUES (42, 0)",
			"CREATE TABLE job (name VARCHAR(50), day BIGINT, PRIMARY KEY (name, day))",
			"CREATE TABLE task (id INT PRIMARY KEY)")
		for name, way := range d.ways {
			if strings.HasSuffix(name, "queue") {
				run(t, server, d.driver, source, "INSERT INTO task SELECT id FROM generate_series(1, 200000) AS id")
			}
			list = append(list, side{name, func(t testing.TB) turn {
				db, err := sql.Open(d.driver, source)
				assert.Must(t, err)
				t.Cleanup(func() { _ = db.Close() })
				conn, err := db.Conn(context.Background())
				assert.Must(t, err)
				t.Cleanup(func() { _ = conn.Close() })
				return way(conn)
			}})
		}
	}
	return list
}

// run runs statements.
func run(t testing.TB, server *servertest.Server, driver, source string, statements ...string) {
	t.Helper()
	db, err := sql.Open(driver, source)
	assert.Must(t, err)
	defer db.Close()
	assert.Must(t, server.Ready(t.Context(), db.PingContext))
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

// mutex is Holdfast's, with a fencing token and a position in the queue.
func mutex(addr string) func(testing.TB) turn {
	return func(t testing.TB) turn {
		rdb := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = rdb.Close() })
		client, err := holdfast.New(goredis.New(rdb), holdfast.Config{})
		assert.Must(t, err)
		t.Cleanup(func() { _ = client.Close(context.Background()) })
		m := client.Mutex("invoice/42")
		return func(ctx context.Context) error {
			lease, err := m.Lock(ctx)
			if err != nil {
				return err
			}
			return lease.Release(ctx)
		}
	}
}

// pair is a lock of the session: one statement acquires, one releases.
func pair(lock, unlock string) func(*sql.Conn) turn {
	return func(conn *sql.Conn) turn {
		return func(ctx context.Context) error {
			if _, err := conn.ExecContext(ctx, lock); err != nil {
				return err
			}
			_, err := conn.ExecContext(ctx, unlock)
			return err
		}
	}
}

// row locks a row until the commit of the work's own transaction, which also changes the row.
func row(lock string) func(*sql.Conn) turn {
	return func(conn *sql.Conn) turn {
		return func(ctx context.Context) error {
			tx, err := conn.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			var paid int
			if err := tx.QueryRowContext(ctx, lock).Scan(&paid); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "UPDATE invoice SET paid = paid + 1 WHERE id = 42"); err != nil {
				return err
			}
			return tx.Commit()
		}
	}
}

var day atomic.Int64

// unique is a job that runs once: who writes its key runs it.
func unique(insert string) func(*sql.Conn) turn {
	return func(conn *sql.Conn) turn {
		return func(ctx context.Context) error {
			_, err := conn.ExecContext(ctx, insert, "nightly", day.Add(1))
			return err
		}
	}
}

// take takes one task off a queue.
func take(statement string) func(*sql.Conn) turn {
	return func(conn *sql.Conn) turn {
		return func(ctx context.Context) error {
			result, err := conn.ExecContext(ctx, statement)
			if err != nil {
				return err
			}
			if n, err := result.RowsAffected(); n != 1 || err != nil {
				return fmt.Errorf("%d tasks taken: %w", n, err)
			}
			return nil
		}
	}
}

func BenchmarkAlone(b *testing.B) {
	for _, s := range sides(b) {
		b.Run(s.name, func(b *testing.B) {
			turn := s.open(b)
			for b.Loop() {
				assert.Must(b, turn(b.Context()))
			}
		})
	}
}

func BenchmarkCrowd(b *testing.B) {
	const clients = 8
	for _, s := range sides(b) {
		b.Run(s.name, func(b *testing.B) {
			var turns []turn
			for range clients {
				turns = append(turns, s.open(b))
			}
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ResetTimer()
			var all sync.WaitGroup
			for _, turn := range turns {
				all.Go(func() {
					for left.Add(-1) >= 0 {
						if err := turn(b.Context()); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
		})
	}
}

// Each way works: the benchmarks measure no errors, and those that exclude do.
func TestEachWayTakesTurns(t *testing.T) {
	for _, s := range sides(t) {
		one, two := s.open(t), s.open(t)
		for i, turn := range []turn{one, two, one} {
			err := turn(t.Context())
			assert.True(t, err == nil, "%s: turn %d: %v", s.name, i, err)
		}
	}
}
