package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"

	_ "github.com/go-sql-driver/mysql" // the driver mysql
	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx
	"github.com/ncruces/go-sqlite3"
	_ "github.com/ncruces/go-sqlite3/driver" // the driver sqlite3
	_ "github.com/ncruces/go-sqlite3/embed"  // SQLite itself
	"github.com/tetratelabs/wazero"

	"github.com/holdfast-go/holdfast/fence/sqlfence"
)

// envDB names the database.
const envDB = "LOTTERY_DB"

// today is the day in UTC, by the clock of the database, once a connection is UTC's.
const today = `CAST(CURRENT_DATE AS CHAR(10))`

// database is the one of the lottery, with its guard.
type database struct {
	*sql.DB
	guard sqlfence.Guard
}

// open connects to the database that the environment names.
func open() (*database, error) {
	source := os.Getenv(envDB)
	var driver string
	d := &database{}
	switch {
	case strings.HasPrefix(source, "postgres://"):
		driver, d.guard.Dialect = "pgx", sqlfence.PostgreSQL
		source = with(source, "timezone=UTC", "idle_in_transaction_session_timeout=5000")
	case strings.Contains(source, "@tcp("):
		driver, d.guard.Dialect = "mysql", sqlfence.MySQL
		source = with(source, "time_zone=%27%2B00:00%27")
	default:
		// Compiled, SQLite is faster, but each of the processes would compile it first.
		sqlite3.RuntimeConfig = wazero.NewRuntimeConfigInterpreter()
		driver, d.guard.Dialect = "sqlite3", sqlfence.SQLite
		source = with("file:"+source, "_pragma=busy_timeout(60000)", "_pragma=journal_mode(wal)")
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", envDB, err)
	}
	d.DB = db
	return d, nil
}

// with adds parameters to a data source.
func with(source string, parameters ...string) string {
	for _, p := range parameters {
		separator := "?"
		if strings.Contains(source, "?") {
			separator = "&"
		}
		source += separator + p
	}
	return source
}

// create makes the tables, and 100 users of which 60 are eligible, if they are not there.
func (d *database) create(ctx context.Context) error {
	for _, statement := range []string{
		d.guard.Migration(),
		`CREATE TABLE IF NOT EXISTS users (name VARCHAR(40) PRIMARY KEY, eligible INT NOT NULL)`,
		`CREATE TABLE IF NOT EXISTS draws (day CHAR(10) PRIMARY KEY)`,
		`CREATE TABLE IF NOT EXISTS winners (day CHAR(10) NOT NULL, number INT NOT NULL, name VARCHAR(40) NOT NULL,
			token BIGINT NOT NULL, PRIMARY KEY (day, name))`,
	} {
		if _, err := d.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	if n, err := d.number(ctx, `SELECT count(*) FROM users`); err != nil || n > 0 {
		return err
	}
	var rows []string
	for n := range 100 {
		rows = append(rows, fmt.Sprintf("('user %d', %d)", n+1, min(1, n/40)))
	}
	_, err := d.ExecContext(ctx, `INSERT INTO users VALUES `+strings.Join(rows, ", "))
	return err
}

func (d *database) number(ctx context.Context, query string) (n int, err error) {
	err = d.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}

// state returns the day, how many winners it has, and the eligible users that have not won.
func (d *database) state(ctx context.Context, tx *sql.Tx) (day string, have int, eligible []string, err error) {
	err = tx.QueryRowContext(ctx, `SELECT `+today+`, count(*) FROM winners WHERE day = `+today).Scan(&day, &have)
	if err != nil {
		return "", 0, nil, err
	}
	rows, err := tx.QueryContext(ctx, `SELECT name FROM users WHERE eligible = 1 AND name NOT IN
		(SELECT name FROM winners WHERE day = `+today+`)`)
	if err != nil {
		return "", 0, nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return "", 0, nil, err
		}
		eligible = append(eligible, name)
	}
	return day, have, eligible, rows.Err()
}

// write writes one winner. The last one completes the draw.
func (d *database) write(ctx context.Context, tx *sql.Tx, day, name string, number int, token uint64) error {
	_, err := tx.ExecContext(ctx, d.bind(`INSERT INTO winners (day, number, name, token) VALUES (?, ?, ?, ?)`),
		day, number, name, int64(token))
	if err == nil && number == winners {
		_, err = tx.ExecContext(ctx, d.bind(`INSERT INTO draws (day) VALUES (?)`), day)
	}
	return err
}

// bind gives a query the placeholders of its database.
func (d *database) bind(query string) string {
	if d.guard.Dialect != sqlfence.PostgreSQL {
		return query
	}
	var b strings.Builder
	for n, part := range strings.Split(query, "?") {
		if n > 0 {
			fmt.Fprintf(&b, "$%d", n)
		}
		b.WriteString(part)
	}
	return b.String()
}
