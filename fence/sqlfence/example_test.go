package sqlfence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fence/sqlfence"
)

// Of the program: a database, a lease, and the guards.
var (
	ctx      = context.Background()
	db       *sql.DB
	lease    *holdfast.Lease
	guard    = sqlfence.Guard{Dialect: sqlfence.PostgreSQL}
	invoices = sqlfence.Row{Dialect: sqlfence.PostgreSQL, Table: "invoice", Key: "id"}
	trigger  = sqlfence.Trigger{Dialect: sqlfence.PostgreSQL, Table: "invoice"}
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

func ExampleTrigger_Up() {
	up, err := trigger.Up()
	if err != nil {
		log.Fatal(err)
	}
	for _, statement := range up { // once; or print them: holdfast fence sql
		if _, err := db.ExecContext(ctx, statement); err != nil {
			log.Fatal(err)
		}
	}
}

func ExampleTrigger_Down() {
	down, err := sqlfence.Trigger{Dialect: sqlfence.MySQL, Table: "shop.invoice"}.Down()
	fmt.Println(strings.Join(down, "\n"), err)
	// Output:
	// DROP TRIGGER `shop`.`invoice_fence_insert`
	// DROP TRIGGER `shop`.`invoice_fence_update`
	// DROP TRIGGER `shop`.`invoice_fence_delete`
	// ALTER TABLE `shop`.`invoice` DROP COLUMN `fence_token` <nil>
}

func ExampleDialect_Do() {
	err := sqlfence.PostgreSQL.Do(ctx, db, lease.Token(), func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE invoice SET paid = true WHERE id = 42`) // or an ORM with tx
		return err
	})
	if errors.Is(err, fence.ErrStale) {
		log.Print("another client has acquired the lock: ", err)
	}
}

func ExampleDialect_Begin() {
	tx, err := sqlfence.PostgreSQL.Begin(ctx, db, lease.Token(), &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.ExecContext(ctx, `UPDATE invoice SET paid = true WHERE id = 42`); err != nil {
		log.Fatal(sqlfence.Refused(err))
	}
	log.Print(tx.Commit())
}

func ExampleTx_Commit() {
	tx, err := sqlfence.MySQL.Begin(ctx, db, lease.Token(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback()
	if err := tx.Commit(); errors.Is(err, sqlfence.ErrCommit) {
		log.Print("look what is there: ", err)
	}
}

func ExampleTx_Rollback() {
	tx, err := sqlfence.MySQL.Begin(ctx, db, lease.Token(), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback() // also if tx.Tx, which an ORM has, was committed
}

func ExampleRefused() {
	err := sqlfence.Refused(errors.New("saving the invoice: ERROR: fence: token 5 of invoice is stale, 6 was seen"))
	fmt.Println(errors.Is(err, fence.ErrStale), err)
	// Output: true fence: invoice has seen token 6: token 5 is stale
}
