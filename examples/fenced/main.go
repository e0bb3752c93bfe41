// Fenced shows a write that a database refuses because its writer has lost
// the lock. It writes to SQLite through database/sql; PostgreSQL takes the
// same statements.
//
//	go run ./fenced
//
// One process acquires the lock, writes, and is stopped by SIGSTOP for longer than its
// lease. A second process acquires the lock and writes. The first process goes on, does
// not know that, and writes with its old token. The statement changes no row, because the
// row has a higher token.
//
// No lock can do this alone: a process can be stopped for any time between the question
// "do I still hold it?" and the write. The resource must check.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver"
	_ "github.com/ncruces/go-sqlite3/embed" // the database itself, without a C compiler

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/internal/kit"
)

func main() { kit.Main(parent, child) }

const (
	account = "account/1"
	ttl     = 2 * time.Second // of the process that is stopped
)

func parent(ctx context.Context, _ []string) error {
	dir, err := os.MkdirTemp("", "fenced")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "bank.db")
	db, err := create(ctx, file)
	if err != nil {
		return err
	}
	defer db.Close()

	first, err := kit.Start(ctx, "first", file)
	if err != nil {
		return err
	}
	if err := first.Heard(ctx, "has written"); err != nil {
		return err
	}
	if err := first.Stop(); err != nil {
		return err
	}
	fmt.Println("first is stopped; its lease runs out")

	client, _, done, err := kit.Connect(holdfast.Config{})
	if err != nil {
		return err
	}
	defer done()
	lease, err := client.Mutex(account).Lock(ctx)
	if err != nil {
		return err
	}
	if err := write(ctx, db, 250, lease.Token()); err != nil {
		return err
	}
	fmt.Println("second has the lock, and has written 250")
	if err := lease.Release(ctx); err != nil {
		return err
	}

	if err := errors.Join(first.Tell("write"), first.Continue()); err != nil {
		return err
	}
	if err := first.Wait(); err != nil {
		return err
	}
	var balance int
	if err := db.QueryRowContext(ctx, `SELECT balance FROM account WHERE id = 1`).Scan(&balance); err != nil {
		return err
	}
	fmt.Println("the balance is", balance)
	return nil
}

// child writes, and later writes again, whatever has happened in between.
func child(ctx context.Context, args []string) error {
	db, err := sql.Open("sqlite3", args[1])
	if err != nil {
		return err
	}
	defer db.Close()
	client, _, done, err := kit.Connect(holdfast.Config{})
	if err != nil {
		return err
	}
	defer done()
	lease, err := client.Mutex(account, holdfast.TTL(ttl)).Lock(ctx)
	if err != nil {
		return err
	}
	if err := write(ctx, db, 100, lease.Token()); err != nil {
		return err
	}
	fmt.Println("has the lock, and has written 100")

	// Here the process is stopped. It does not check whether it still has the lock,
	// because it could also be stopped after the check.
	if _, err := kit.Told(ctx); err != nil {
		return err
	}

	err = write(ctx, db, 175, lease.Token())
	if !errors.Is(err, errStale) {
		return fmt.Errorf("the late write was not refused: %w", err)
	}
	fmt.Println("writes 175:", err)
	fmt.Println("releases:", lease.Release(ctx))
	return nil
}

func create(ctx context.Context, file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite3", file)
	if err != nil {
		return nil, err
	}
	_, err = db.ExecContext(ctx, `
		CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL, token BIGINT NOT NULL);
		INSERT INTO account VALUES (1, 0, 0)`)
	if err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

var errStale = errors.New("refused: somebody with a higher token has written since")

// write changes the balance unless a writer had a higher token. Check and change are one
// statement, so nothing can come between them.
func write(ctx context.Context, db *sql.DB, balance int, token uint64) error {
	result, err := db.ExecContext(ctx,
		`UPDATE account SET balance = $1, token = $2 WHERE id = 1 AND token <= $2`, balance, int64(token))
	if err != nil {
		return err
	}
	switch rows, err := result.RowsAffected(); {
	case err != nil:
		return err
	case rows == 0:
		return errStale
	}
	return nil
}
