package sqlfence

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/fence"
)

// Tx is a transaction with a token, for the tables of a [Trigger]. A program or an ORM that wants a *sql.Tx gets
// the one in it. End it by Commit or Rollback of Tx, too: in MySQL they remove the token from the connection, which
// the pool does not get before. This is one more round trip, which does not end with the context: if the database
// does not answer, they return a second late, and the connection is closed.
type Tx struct {
	*sql.Tx
	conn *sql.Conn // MySQL: it is given back without the token
}

// Begin begins a transaction whose writes have the token. It can be ended by [Tx.Commit] and [Tx.Rollback]. opts may
// be nil.
//
// A transaction has one token, so the tables of its triggers are guarded by one lock. The token is shown with the
// first write. If a write depends on a read, read with FOR UPDATE, or call [Guard.Check] or [Row.Check] before:
// then no other transaction comes between.
func (d Dialect) Begin(ctx context.Context, db *sql.DB, token uint64, opts *sql.TxOptions) (*Tx, error) {
	if err := fence.Check("transaction", token); err != nil {
		return nil, err
	}
	tx, err := d.begin(ctx, db, strconv.FormatUint(token, 10), opts)
	if err != nil {
		return nil, fmt.Errorf("sqlfence: beginning a transaction with a token: %w", err)
	}
	return tx, nil
}

func (d Dialect) begin(ctx context.Context, db *sql.DB, token string, opts *sql.TxOptions) (*Tx, error) {
	switch d {
	case PostgreSQL:
		tx, err := db.BeginTx(ctx, opts)
		if err != nil {
			return nil, err
		}
		// Unlike SELECT set_config, this takes no snapshot, and ends with the transaction.
		if _, err = tx.ExecContext(ctx, "SET LOCAL holdfast.token = '"+token+"'"); err != nil {
			_ = tx.Rollback() // the cause is returned
			return nil, err
		}
		return &Tx{Tx: tx}, nil
	case MySQL:
		// The connection is kept from others until the token is removed, whoever ends the transaction in between.
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		tx := &Tx{conn: conn}
		if _, err = conn.ExecContext(ctx, "SET @holdfast_token = "+token); err == nil {
			tx.Tx, err = conn.BeginTx(ctx, opts)
		}
		if err != nil {
			tx.giveBack()
			return nil, err
		}
		return tx, nil
	case SQLite:
		return nil, errSQLite
	}
	return nil, d.unknown()
}

// Commit commits the transaction. If that fails, the error is an [ErrCommit], and the outcome may be unknown.
func (tx *Tx) Commit() error {
	defer tx.giveBack()
	if err := tx.Tx.Commit(); err != nil {
		return fmt.Errorf("%w: %w", ErrCommit, err)
	}
	return nil
}

// Rollback rolls the transaction back. After Commit it does nothing, so it can be deferred.
func (tx *Tx) Rollback() error {
	defer tx.giveBack()
	return tx.Tx.Rollback()
}

// resetTime is the longest wait for the end of the token. The connection is closed after it.
const resetTime = time.Second

// giveBack removes the token from a connection of MySQL and gives it back to the pool, or closes it.
func (tx *Tx) giveBack() {
	if tx.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), resetTime)
	defer cancel()
	if _, err := tx.conn.ExecContext(ctx, "SET @holdfast_token = NULL"); err != nil {
		_ = tx.conn.Raw(func(any) error { return driver.ErrBadConn }) // closes it
	}
	_ = tx.conn.Close() // the second time, it does nothing
}

// Do runs f in a transaction that begins as [Dialect.Begin] says, and commits it. If a trigger has refused a write,
// the error is that of [Refused]. If f fails or panics, the transaction is rolled back. f does not end it.
//
// If the commit fails, the error is an [ErrCommit]: see [Guard.Do].
//
// An ORM works with tx. For gorm, for example:
//
//	orm := orm.WithContext(ctx)
//	orm.Statement.ConnPool = tx
func (d Dialect) Do(ctx context.Context, db *sql.DB, token uint64, f func(tx *sql.Tx) error) error {
	tx, err := d.Begin(ctx, db, token, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after the commit it does nothing; before, the cause is returned
	if err := f(tx.Tx); err != nil {
		return Refused(err)
	}
	return tx.Commit()
}

// refusal is what the triggers say. The name of a resource may have lines.
var refusal = regexp.MustCompile(`(?s)fence: token (-?\d+) of (.*) is stale, (\d+) was seen`)

// Refused returns a [*fence.StaleError] if err, of any driver or ORM, says that a [Trigger] has refused the token,
// and else err as it is. Its Resource is the name of the table, or the resource.
func Refused(err error) error {
	if err == nil {
		return nil
	}
	said := refusal.FindStringSubmatch(err.Error())
	if said == nil {
		return err
	}
	token, tokenErr := strconv.ParseUint(said[1], 10, 64)
	seen, seenErr := strconv.ParseUint(said[3], 10, 64)
	if tokenErr != nil || seenErr != nil {
		return err // written by hand
	}
	return &fence.StaleError{Resource: said[2], Token: token, Seen: seen}
}
