package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fence/sqlfence"
)

// Of the program: a database, a lease, and the two guards.
var (
	ctx      = context.Background()
	db       *sql.DB
	lease    *holdfast.Lease
	guard    = sqlfence.Guard{Dialect: sqlfence.PostgreSQL}
	invoices = sqlfence.Row{Dialect: sqlfence.PostgreSQL, Table: "invoice", Key: "id"}
)

func ExampleGuard_Do() {
	err := guard.Do(ctx, db, "invoice/42", lease.Token(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE invoice SET paid = true WHERE id = 42`)
		return err
	})
	var stale *fence.StaleError
	switch {
	case errors.As(err, &stale):
		log.Printf("another client has the lock since token %d", stale.Seen)
	case errors.Is(err, sqlfence.ErrCommit):
		log.Print("call it again under the same lease, or look what is there")
	}
}

func ExampleGuard_Check() {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	// First the check, then what is read, then what is written.
	if err := guard.Check(ctx, tx, "invoice/42", lease.Token()); err != nil {
		log.Fatal(err)
	}
	var sum int
	if err := tx.QueryRowContext(ctx, `SELECT sum FROM invoice WHERE id = 42`).Scan(&sum); err != nil {
		log.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, `UPDATE invoice SET sum = $1 WHERE id = 42`, sum+5); err != nil {
		log.Fatal(err)
	}
	log.Print(tx.Commit())
}

func ExampleGuard_Migration() {
	fmt.Println(guard.Migration())
	fmt.Println(sqlfence.Guard{Dialect: sqlfence.MySQL, Table: "tokens"}.Migration())
	fmt.Println(sqlfence.Guard{Dialect: sqlfence.SQLite, Table: "tokens"}.Migration())
	// Output:
	// CREATE TABLE IF NOT EXISTS holdfast_fence (resource VARCHAR(255) COLLATE "C" PRIMARY KEY, token BIGINT NOT NULL)
	// CREATE TABLE IF NOT EXISTS tokens (resource VARBINARY(255) PRIMARY KEY, token BIGINT NOT NULL) ENGINE = InnoDB
	// CREATE TABLE IF NOT EXISTS tokens (resource VARCHAR(255) PRIMARY KEY, token BIGINT NOT NULL)
}

func ExampleGuard_Seen() {
	seen, err := guard.Seen(ctx, db, "invoice/42")
	log.Print(seen, err)
}

func ExampleGuard_Reset() {
	// All writers of the resource are stopped.
	if err := guard.Reset(ctx, db, "invoice/42"); err != nil {
		log.Fatal(err)
	}
}

func ExampleGuard_Memory() {
	memory := guard.Memory(db)
	if err := memory.Raise(ctx, "printer", lease.Token()); err != nil {
		log.Fatal(err)
	}
}

func ExampleRow_Migration() {
	fmt.Println(invoices.Migration())
	// Output: ALTER TABLE invoice ADD COLUMN fence_token BIGINT NOT NULL DEFAULT 0
}

func ExampleRow_Update() {
	err := invoices.Update(ctx, db, 42, lease.Token(), "paid = $1", true)
	if errors.Is(err, fence.ErrStale) {
		log.Print("another client has acquired the lock: ", err)
	}
}

func ExampleRow_Check() {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if err := invoices.Check(ctx, tx, 42, lease.Token()); err != nil {
		log.Fatal(err)
	}
	if _, err := tx.ExecContext(ctx, `UPDATE invoice SET sum = sum + 5 WHERE id = 42`); err != nil {
		log.Fatal(err)
	}
	log.Print(tx.Commit())
}

func ExampleRow_Seen() {
	seen, err := invoices.Seen(ctx, db, 42)
	log.Print(seen, err)
}

func ExampleRow_Reset() {
	// All writers of the row are stopped.
	if err := invoices.Reset(ctx, db, 42); err != nil {
		log.Fatal(err)
	}
}
