// Package sqlfence refuses late writers in an SQL database. It works through database/sql with any
// driver for PostgreSQL, MySQL, MariaDB or SQLite.
//
//	guard := sqlfence.Guard{Dialect: sqlfence.PostgreSQL}
//	db.Exec(guard.Migration()) // once: it creates the table of tokens
//	…
//	err = guard.Do(ctx, db, "invoice/42", lease.Token(), func(tx *sql.Tx) error {
//		_, err := tx.Exec(`UPDATE invoice SET paid = true WHERE id = 42`)
//		return err
//	})
//
// The check locks the row with the resource's token until the transaction ends, so check and
// write are one step. Another writer of the resource waits that long. If a process is paused
// inside a transaction, the others wait until the database ends that transaction: set a time
// limit for idle transactions, see docs/fencing.md.
//
// Which of the three:
//   - a [Guard], if a lock protects more than a row. It keeps the tokens in a table of its own, and checks before
//     the reads of a transaction;
//   - a [Row], if one statement writes one row, without a transaction. The token is in a column of the row;
//   - a [Trigger], if programs have many statements, or an ORM. The database checks each write, so none is
//     forgotten. It checks no read.
package sqlfence

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/fence"
)

// Dialect is the SQL that a database understands.
type Dialect int

// The dialects.
const (
	PostgreSQL Dialect = iota + 1
	MySQL              // and MariaDB; the tables must be InnoDB's
	SQLite             // 3.35 or later
)

// ErrCommit says that a transaction failed at its end, or that the answer was lost: the writes
// may be there, with the token, or not. Either all of it is there, or nothing.
var ErrCommit = errors.New("sqlfence: the outcome of the commit is unknown")

// DefaultTable is the table of a [Guard] that names none.
const DefaultTable = "holdfast_fence"

// Guard keeps the highest token of each resource in a table of its own. A resource is whatever
// one lock protects: a row, a table, or all that a transaction changes. The zero value needs a
// Dialect. Its methods may be called from many goroutines.
type Guard struct {
	Dialect Dialect
	// Table goes into the statements as it is: it is a name in your program, and not input.
	// Default: [DefaultTable].
	Table string
}

// Migration is the statement that creates the table if it does not exist. If two programs run it for the first time at
// once, PostgreSQL may refuse one of them, because the table exists: run it again.
func (g Guard) Migration() string {
	name, end := "VARCHAR(255)", ""
	switch g.Dialect {
	case PostgreSQL:
		name = `VARCHAR(255) COLLATE "C"`
	case MySQL:
		// A VARCHAR would ignore case, and spaces at the end, so two resources could be one.
		name, end = "VARBINARY(255)", " ENGINE = InnoDB"
	default:
	}
	return "CREATE TABLE IF NOT EXISTS " + g.table() +
		" (resource " + name + " PRIMARY KEY, token BIGINT NOT NULL)" + end
}

func (g Guard) table() string { return cmp.Or(g.Table, DefaultTable) }

// Check shows token to the resource inside tx. If the resource has seen a higher one, the error is
// a [*fence.StaleError]: roll tx back. Otherwise the resource has seen token once tx is
// committed, and no other transaction can check the resource until tx ends.
//
// Call Check before you read what the write depends on. A value that was read before may be older
// than the last write under a lower token.
//
// Check waits while another transaction has checked the resource and has not ended. After an
// error tx must be rolled back; nothing of it is then in the database.
func (g Guard) Check(ctx context.Context, tx *sql.Tx, resource string, token uint64) error {
	if err := fence.Check(resource, token); err != nil {
		return err
	}
	seen, err := g.raise(ctx, tx, resource, token)
	if err != nil {
		return fmt.Errorf("sqlfence: checking the token of %s: %w", resource, err)
	}
	return fence.Judge(resource, token, seen)
}

// raise stores token unless a higher one is there, locks the row, and returns what is there now.
//
// It is never a plain read followed by a write. In MySQL's default isolation a plain read would
// fix the snapshot of the transaction before the row is locked, and later reads would be old.
func (g Guard) raise(ctx context.Context, tx *sql.Tx, resource string, token uint64) (seen uint64, err error) {
	t := g.table()
	switch g.Dialect {
	case PostgreSQL, SQLite:
		err = tx.QueryRowContext(ctx, g.Dialect.upsert(t, g.Dialect.place(1), g.Dialect.place(2))+" RETURNING token",
			resource, int64(token)).Scan(&seen)
	case MySQL:
		_, err = tx.ExecContext(ctx, g.Dialect.upsert(t, "?", "?"), resource, int64(token), int64(token))
		if err == nil {
			err = tx.QueryRowContext(ctx, "SELECT token FROM "+t+" WHERE resource = ? FOR UPDATE",
				resource).Scan(&seen)
		}
	default:
		err = g.Dialect.unknown()
	}
	return seen, err
}

// upsert stores a token unless a higher one is there. In MySQL the token is in it twice.
func (d Dialect) upsert(table, resource, token string) string {
	values := " (resource, token) VALUES (" + resource + ", " + token + ") "
	if d == MySQL {
		return "INSERT INTO " + table + values + "ON DUPLICATE KEY UPDATE token = GREATEST(token, " + token + ")"
	}
	return "INSERT INTO " + table + " AS f" + values +
		"ON CONFLICT (resource) DO UPDATE SET token = " + d.greatest() + "(f.token, excluded.token)"
}

func (d Dialect) greatest() string {
	if d == SQLite {
		return "MAX"
	}
	return "GREATEST"
}

func (d Dialect) unknown() error {
	return fmt.Errorf("%w: Dialect is %d: choose PostgreSQL, MySQL or SQLite", fence.ErrInvalid, d)
}

// Do runs f in a transaction of the database's default isolation that begins with [Guard.Check],
// and commits it. If the check or f fails, or if f panics, the transaction is rolled back and Do
// returns that error.
//
// If the commit fails, the error is an [ErrCommit], and the outcome may be unknown. Call Do again
// under the same lease: an equal token is accepted. f runs again then, perhaps after its first
// writes, so f must be safe to repeat.
func (g Guard) Do(
	ctx context.Context, db *sql.DB, resource string, token uint64, f func(tx *sql.Tx) error,
) error {
	return within(ctx, db, func(tx *sql.Tx) error {
		if err := g.Check(ctx, tx, resource, token); err != nil {
			return err
		}
		return f(tx)
	})
}

// within runs f in a transaction.
func within(ctx context.Context, db *sql.DB, f func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("sqlfence: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // after the commit it does nothing; before, the cause is returned
	if err := f(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%w: %w", ErrCommit, err)
	}
	return nil
}

// Seen returns the highest token that the resource was shown, or 0.
func (g Guard) Seen(ctx context.Context, db *sql.DB, resource string) (seen uint64, err error) {
	err = db.QueryRowContext(ctx, "SELECT token FROM "+g.table()+" WHERE resource = "+g.Dialect.place(1),
		resource).Scan(&seen)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return seen, err
}

// Reset makes the resource forget its token. It is for an operator, if the lock gives lower tokens
// than before, because its server lost the data and then the clock was set back. Stop all writers
// of the resource first: until the next check, the oldest of them would be accepted.
//
// After an error the outcome is unknown; a repetition is safe.
func (g Guard) Reset(ctx context.Context, db *sql.DB, resource string) error {
	//nolint:gosec // the table is a name in the program
	_, err := db.ExecContext(ctx, "DELETE FROM "+g.table()+" WHERE resource = "+g.Dialect.place(1), resource)
	return err
}

// place is the placeholder of the n-th argument.
func (d Dialect) place(n int) string {
	if d == PostgreSQL {
		return fmt.Sprintf("$%d", n)
	}
	return "?"
}

// Memory makes the guard a [fence.Memory], for a check that is not in a transaction with its
// write, such as that of an HTTP middleware.
func (g Guard) Memory(db *sql.DB) fence.Memory { return memory{g, db} }

type memory struct {
	guard Guard
	db    *sql.DB
}

// Raise implements [fence.Memory].
func (m memory) Raise(ctx context.Context, resource string, token uint64) error {
	return m.guard.Do(ctx, m.db, resource, token, func(*sql.Tx) error { return nil })
}

// Row keeps the highest token of each row in a column of your table, so that one statement can
// check and write. Table, Key and Column go into the statements as they are: they are names in
// your program, and not input.
type Row struct {
	Dialect Dialect
	Table   string
	Key     string // the column that names a row; it is unique
	Column  string // the column of the tokens, BIGINT NOT NULL; default: fence_token
}

// Migration is the statement that adds the column. It fails if the column exists.
func (r Row) Migration() string {
	return "ALTER TABLE " + r.Table + " ADD COLUMN " + r.column() + " BIGINT NOT NULL DEFAULT 0"
}

// defaultColumn is the column of a [Row] or a [Trigger] that names none.
const defaultColumn = "fence_token"

func (r Row) column() string { return cmp.Or(r.Column, defaultColumn) }

func (r Row) name(key any) string { return fmt.Sprintf("%s %v", r.Table, key) }

// where selects the row; n is the number of the argument.
func (r Row) where(n int) string { return " WHERE " + r.Key + " = " + r.Dialect.place(n) }

// Check is [Guard.Check] for a row: it locks the row until tx ends. If there is no such row, the
// error is sql.ErrNoRows: the row must exist before it can be guarded.
func (r Row) Check(ctx context.Context, tx *sql.Tx, key any, token uint64) error {
	if err := r.valid(token); err != nil {
		return err
	}
	c, seen := r.column(), uint64(0)
	//nolint:gosec // they are names in the program
	raise := fmt.Sprintf("UPDATE %s SET %s = %s(%s, %s)%s",
		r.Table, c, r.Dialect.greatest(), c, r.Dialect.place(1), r.where(2))
	var err error
	if r.Dialect == MySQL {
		if _, err = tx.ExecContext(ctx, raise, int64(token), key); err == nil {
			seen, err = r.seen(ctx, tx, key, true)
		}
	} else {
		err = tx.QueryRowContext(ctx, raise+" RETURNING "+c, int64(token), key).Scan(&seen)
	}
	if err != nil {
		return fmt.Errorf("sqlfence: checking the token of %s: %w", r.name(key), err)
	}
	return fence.Judge(r.name(key), token, seen)
}

func (r Row) valid(token uint64) error {
	switch {
	case r.Dialect < PostgreSQL || r.Dialect > SQLite:
		return r.Dialect.unknown()
	case r.Table == "" || r.Key == "":
		return fmt.Errorf("%w: a Row needs a Table and a Key", fence.ErrInvalid)
	}
	return fence.Check(r.Table, token)
}

// Execer is a *sql.DB, a *sql.Conn or a *sql.Tx.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Update changes a row and its token by one statement, without a transaction of its own. set is
// what stands behind SET, with args for its placeholders:
//
//	invoices.Update(ctx, db, 42, lease.Token(), "paid = $1", true)
//
// If the row has seen a higher token, nothing changes, and the error is a [*fence.StaleError]. If
// there is no such row, it is sql.ErrNoRows. After any other error the outcome is unknown; a
// repetition under the same lease is accepted.
//
// Use Update if the new values do not depend on what was read before. Otherwise call [Row.Check]
// and read in a transaction.
func (r Row) Update(ctx context.Context, db Execer, key any, token uint64, set string, args ...any) error {
	if err := r.valid(token); err != nil {
		return err
	}
	if strings.TrimSpace(set) == "" {
		return fmt.Errorf("%w: Update needs the assignments that follow SET", fence.ErrInvalid)
	}
	n, c := len(args), r.column()
	done, err := db.ExecContext(ctx, fmt.Sprintf("UPDATE %s SET %s, %s = %s%s AND %s <= %s",
		r.Table, set, c, r.Dialect.place(n+1), r.where(n+2), c, r.Dialect.place(n+3)),
		append(args[:n:n], int64(token), key, int64(token))...)
	if err != nil {
		return fmt.Errorf("sqlfence: writing %s: %w", r.name(key), err)
	}
	if changed, err := done.RowsAffected(); err != nil || changed > 0 {
		return err
	}
	seen, err := r.seen(ctx, db, key, r.Dialect == MySQL)
	switch {
	case err != nil:
		return err
	case seen > token:
		return fence.Judge(r.name(key), token, seen)
	case seen == token && r.Dialect == MySQL:
		return nil // MySQL does not count a row that already had these values, and this token
	}
	return fmt.Errorf("sqlfence: writing %s: %w", r.name(key), sql.ErrNoRows) // it came after the write
}

// Seen returns the highest token that the row was shown. If there is no such row, the error is
// sql.ErrNoRows.
func (r Row) Seen(ctx context.Context, db Execer, key any) (uint64, error) {
	return r.seen(ctx, db, key, false)
}

// seen reads the token, with a lock if asked: in MySQL only that reads what is committed now, and
// not what the snapshot of a transaction has.
func (r Row) seen(ctx context.Context, db Execer, key any, lock bool) (seen uint64, err error) {
	read := "SELECT " + r.column() + " FROM " + r.Table + r.where(1)
	if lock {
		read += " FOR UPDATE"
	}
	err = db.QueryRowContext(ctx, read, key).Scan(&seen)
	if err != nil {
		return 0, fmt.Errorf("sqlfence: reading the token of %s: %w", r.name(key), err)
	}
	return seen, nil
}

// Reset is [Guard.Reset] for a row.
func (r Row) Reset(ctx context.Context, db Execer, key any) error {
	_, err := db.ExecContext(ctx, "UPDATE "+r.Table+" SET "+r.column()+" = 0"+r.where(1), key)
	return err
}
