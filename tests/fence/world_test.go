package fence_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"       // the driver pgx
	_ "github.com/ncruces/go-sqlite3/driver" // the driver sqlite3
	_ "github.com/ncruces/go-sqlite3/embed"  // SQLite itself

	"github.com/holdfast-go/holdfast/fence/sqlfence"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/servertest"
)

func TestMain(m *testing.M) {
	_ = mysql.SetLogger(quiet{}) // connections are cut on purpose
	if os.Getenv(envChild) != "" {
		if err := child(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	status := m.Run()
	for _, s := range started {
		_ = s.Stop()
	}
	os.Exit(status)
}

type quiet struct{}

func (quiet) Print(...any) {}

// database is a product, and how to reach it.
type database struct {
	name    string
	dialect sqlfence.Dialect
	driver  string
	server  func() (*servertest.Server, error) // nil: no server
	// source is the data source of a database at addr, which may be that of a proxy. Transactions
	// that are idle for so many milliseconds are ended, if it can; 0: never.
	source func(addr, name string, idle int) string
	// waiting counts the transactions that wait for another one.
	waiting string
	// dump and load are the programs that write and read a dump, if they have the dialect of MySQL.
	dump, load []string
	// busy: writers do not wait for each other in the server, but try again in the client.
	busy bool
}

// started are the servers that run until the end of all tests.
var (
	startMutex sync.Mutex
	started    []*servertest.Server
)

// start makes a function that starts a server when it is called first.
func start(kind servertest.Kind) func() (*servertest.Server, error) {
	return sync.OnceValues(func() (*servertest.Server, error) {
		s, err := servertest.Start(kind)
		if err == nil {
			startMutex.Lock()
			defer startMutex.Unlock()
			started = append(started, s)
		}
		return s, err
	})
}

var postgres = database{
	name: "PostgreSQL", dialect: sqlfence.PostgreSQL, driver: "pgx", server: start(servertest.PostgreSQL),
	source: func(addr, name string, idle int) string {
		return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable&idle_in_transaction_session_timeout=%d",
			addr, name, idle)
	},
	waiting: `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
}

var mariadb = database{
	name: "MariaDB", dialect: sqlfence.MySQL, driver: "mysql", server: start(servertest.MariaDB),
	source: func(addr, name string, idle int) string {
		return fmt.Sprintf("root@tcp(%s)/%s?idle_transaction_timeout=%d", addr, name, (idle+999)/1000)
	},
	// The table innodb_trx is only brought up to date if nobody has read it for 100 ms.
	waiting: `SELECT count(*) FROM information_schema.processlist
		WHERE db = DATABASE() AND id <> CONNECTION_ID() AND command IN ('Query', 'Execute') AND 0 <
		(SELECT variable_value FROM information_schema.global_status
		WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS')`,
	dump: []string{"mariadb-dump"}, load: []string{"mariadb"},
}

// mysqld is MySQL itself. A process of a test knows it, too: it has the same environment.
var mysqld = database{
	name: "MySQL", dialect: sqlfence.MySQL, driver: "mysql", server: start(servertest.MySQL),
	source: func(addr, name string, idle int) string { // it has no limit for idle transactions alone
		return fmt.Sprintf("root@tcp(%s)/%s?wait_timeout=%d", addr, name, cmp.Or((idle+999)/1000, 28800))
	},
	waiting: `SELECT count(*) FROM performance_schema.data_lock_waits w JOIN performance_schema.threads t
		ON t.thread_id = w.requesting_thread_id WHERE t.processlist_db = DATABASE()`,
	dump: []string{"mysqldump", "--set-gtid-purged=OFF"}, load: []string{"mysql"},
}

var sqlite = database{
	name: "SQLite", dialect: sqlfence.SQLite, driver: "sqlite3", busy: true,
	source: func(_, file string, _ int) string {
		return (&url.URL{
			Scheme: "file", Opaque: filepath.ToSlash(file),
			RawQuery: "_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)",
		}).String()
	},
}

// mysqls are the databases with the dialect of MySQL. The variable is read while a test runs: so go test does not
// answer with a result from its cache that has no MySQL.
func mysqls() []database {
	if os.Getenv(servertest.EnvMySQL) == "" {
		return []database{mariadb}
	}
	return []database{mariadb, mysqld}
}

// triggered are the databases that have triggers for tokens.
func triggered() []database { return append([]database{postgres}, mysqls()...) }

func databases() []database { return append([]database{sqlite}, triggered()...) }

// forEach runs a test on every database.
func forEach(t *testing.T, test func(t *testing.T, d database)) {
	for _, d := range databases() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			test(t, d)
		})
	}
}

var created atomic.Int64

// place is a new, empty database: its server, and its name there.
type place struct {
	database
	addr, file string
}

// create makes an empty database.
func (d database) create(t testing.TB) place {
	t.Helper()
	if d.server == nil {
		return place{d, "", filepath.Join(t.TempDir(), "test.db")}
	}
	s, err := d.server()
	assert.Must(t, err)
	admin := place{d, s.Addr, map[string]string{"pgx": "postgres"}[d.driver]}.open(t, 0)
	assert.Must(t, s.Ready(t.Context(), admin.PingContext))
	name := fmt.Sprintf("test%d", created.Add(1))
	must(t, admin, "CREATE DATABASE "+name)
	return place{d, s.Addr, name}
}

// open connects to it; idle is for [database.source].
func (p place) open(t testing.TB, idle int) *sql.DB {
	t.Helper()
	db, err := sql.Open(p.driver, p.source(p.addr, p.file, idle))
	assert.Must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func must(t testing.TB, db sqlfence.Execer, query string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(within(t), query, args...)
	assert.MustTrue(t, err == nil, "%s: %v", query, err)
}

// number reads one number.
func number(t testing.TB, db sqlfence.Execer, query string) (n int64) {
	t.Helper()
	err := db.QueryRowContext(within(t), query).Scan(&n)
	assert.MustTrue(t, err == nil, "%s: %v", query, err)
	return n
}

// within is a context that ends with the patience of the tests.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), redistest.Patience)
	t.Cleanup(cancel)
	return ctx
}

// want checks an error; nil is success.
func want(t testing.TB, what string, err, target error) {
	t.Helper()
	assert.True(t, errors.Is(err, target), "%s: %v; want %v", what, err, target)
}
