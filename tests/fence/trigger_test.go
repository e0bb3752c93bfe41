package fence_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fence/sqlfence"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/internal/servertest"
)

// forTriggered runs a test on each of them, in a new database with a table account, and the trigger.
func forTriggered(t *testing.T, trigger sqlfence.Trigger, test func(t *testing.T, p place, db *sql.DB)) {
	for _, d := range triggered() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			p := d.create(t)
			db := p.open(t, 0)
			must(t, db, "CREATE TABLE account (id INT PRIMARY KEY, balance BIGINT NOT NULL)")
			must(t, db, "INSERT INTO account VALUES (1, 0), (2, 0)")
			trigger := trigger
			trigger.Dialect, trigger.Table = d.dialect, "account"
			install(t, db, trigger)
			test(t, p, db)
		})
	}
}

func install(t *testing.T, db *sql.DB, trigger sqlfence.Trigger) {
	t.Helper()
	up, err := trigger.Up()
	assert.Must(t, err)
	for _, s := range up {
		must(t, db, s)
	}
}

// under runs statements in one transaction with a token.
func (d database) under(t *testing.T, db *sql.DB, token uint64, statements ...string) error {
	t.Helper()
	return d.dialect.Do(within(t), db, token, func(tx *sql.Tx) error { return all(t, tx, statements) })
}

func all(t *testing.T, db sqlfence.Execer, statements []string) error {
	for _, s := range statements {
		if _, err := db.ExecContext(within(t), s); err != nil {
			return err
		}
	}
	return nil
}

// without runs statements without a token.
func without(t *testing.T, db *sql.DB, statements ...string) error {
	t.Helper()
	tx, err := db.BeginTx(within(t), nil)
	assert.Must(t, err)
	defer tx.Rollback()
	if err := all(t, tx, statements); err != nil {
		return err
	}
	return tx.Commit()
}

// wantRefusal checks that a trigger refused for want of a token.
func wantRefusal(t *testing.T, what string, err error) {
	t.Helper()
	assert.True(t, err != nil && strings.Contains(err.Error(), "fence: a write to account has no token"),
		"%s: %v; want a refusal", what, err)
}

func TestATriggerRefusesOlderTokensWhateverTheStatement(t *testing.T) {
	t.Parallel()
	forTriggered(t, sqlfence.Trigger{}, func(t *testing.T, p place, db *sql.DB) {
		insert := map[string]string{
			"pgx":   "INSERT INTO account VALUES (1, %d) ON CONFLICT (id) DO UPDATE SET balance = %d",
			"mysql": "INSERT INTO account VALUES (1, %d) ON DUPLICATE KEY UPDATE balance = %d",
		}[p.driver]
		for i, c := range []struct {
			token     uint64
			statement string
			err       error
		}{
			{5, "UPDATE account SET balance = 1 WHERE id = 1", nil},
			{5, "UPDATE account SET balance = 1 WHERE id = 1", nil},
			{4, "UPDATE account SET balance = 2 WHERE id = 1", fence.ErrStale},
			{4, "UPDATE account SET balance = 2, fence_token = 1 WHERE id = 1", fence.ErrStale},
			{4, "DELETE FROM account WHERE id = 1", fence.ErrStale},
			{4, fmt.Sprintf(insert, 9, 9), fence.ErrStale},
			{4, "UPDATE account SET balance = 3 WHERE id = 2", nil},
			{4, "UPDATE account SET balance = 4", fence.ErrStale}, // all or nothing
			{6, fmt.Sprintf(insert, 9, 9), nil},
			{5, "UPDATE account SET balance = 5 WHERE id = 1", fence.ErrStale},
			{6, "UPDATE account SET fence_token = 1 WHERE id = 1", nil}, // it has no effect
			{5, "UPDATE account SET balance = 5 WHERE id = 1", fence.ErrStale},
			{6, "INSERT INTO account VALUES (3, 3)", nil},
			{5, "DELETE FROM account WHERE id = 3", fence.ErrStale},
			{6, "DELETE FROM account WHERE id = 3", nil},
			{5, "INSERT INTO account VALUES (3, 3)", nil}, // the row is forgotten
			{math.MaxInt64, "UPDATE account SET balance = 7", nil},
			{math.MaxInt64 - 1, "UPDATE account SET balance = 8", fence.ErrStale},
			{0, "UPDATE account SET balance = 8", fence.ErrInvalid},
			{math.MaxInt64 + 1, "UPDATE account SET balance = 8", fence.ErrInvalid},
		} {
			before := sum(t, db)
			err := p.under(t, db, c.token, c.statement)
			want(t, fmt.Sprintf("%d: token %d: %s", i, c.token, c.statement), err, c.err)
			if c.err != nil {
				assert.Equal(t, sum(t, db), before, "after %s the sum", c.statement)
			}
		}
		var stale *fence.StaleError
		last := fence.StaleError{Resource: "account", Token: 9, Seen: math.MaxInt64}
		if err := p.under(t, db, 9, "DELETE FROM account"); !errors.As(err, &stale) || *stale != last {
			t.Errorf("got %v", err)
		}
		for _, s := range []string{
			"UPDATE account SET balance = 1", "INSERT INTO account VALUES (4, 1)", "DELETE FROM account",
		} {
			wantRefusal(t, s, without(t, db, s))
		}
		want(t, "a write of no row", without(t, db, "UPDATE account SET balance = 1 WHERE id = 99"), nil)
	})
}

// sum changes with every write.
func sum(t *testing.T, db *sql.DB) int64 {
	t.Helper()
	return number(t, db, "SELECT 1000 * count(*) + sum(balance) FROM account WHERE balance < 100")
}

// IGNORE turns some errors into warnings; REPLACE deletes.
func TestATriggerIsNotPassedByWordsOfMySQL(t *testing.T) {
	t.Parallel()
	forTriggered(t, sqlfence.Trigger{}, func(t *testing.T, p place, db *sql.DB) {
		if p.driver != "mysql" {
			return // it has no such words
		}
		want(t, "the newest", p.under(t, db, 6, "UPDATE account SET balance = 6"), nil)
		for _, s := range []string{
			"REPLACE INTO account VALUES (1, 1)", "UPDATE IGNORE account SET balance = 1", "DELETE IGNORE FROM account",
			"UPDATE account a JOIN account b ON a.id = b.id SET a.balance = 1",
			"DELETE a FROM account a JOIN account b",
			"INSERT IGNORE INTO account VALUES (1, 1) ON DUPLICATE KEY UPDATE balance = 1",
		} {
			want(t, s, p.under(t, db, 5, s), fence.ErrStale)
		}
		for _, s := range []string{"REPLACE INTO account VALUES (1, 1)", "INSERT IGNORE INTO account VALUES (7, 7)"} {
			wantRefusal(t, s, without(t, db, s))
		}
		assert.Equal(t, sum(t, db), 2012, "the sum")
	})
}

func TestATriggerMayAllowWritesWithoutAToken(t *testing.T) {
	t.Parallel()
	forTriggered(t, sqlfence.Trigger{AllowMissing: true}, func(t *testing.T, p place, db *sql.DB) {
		want(t, "the newest", p.under(t, db, 6, "UPDATE account SET balance = 6 WHERE id = 1"), nil)
		want(t, "no token", without(t, db, "UPDATE account SET balance = 7, fence_token = 0",
			"INSERT INTO account VALUES (3, 3)", "DELETE FROM account WHERE id = 2"), nil)
		want(t, "a late write", p.under(t, db, 5, "UPDATE account SET balance = 5 WHERE id = 1"), fence.ErrStale)
		want(t, "a new row", p.under(t, db, 5, "UPDATE account SET balance = 5 WHERE id = 3"), nil)
		assert.Equal(t, sum(t, db), 2012, "the sum")

		// It becomes strict without forgetting a token.
		strict := sqlfence.Trigger{Dialect: p.dialect, Table: "account"}
		down, err := strict.Down()
		assert.Must(t, err)
		up, err := strict.Up()
		assert.Must(t, err)
		for _, s := range append(down[:len(down)-1], up[1:]...) {
			must(t, db, s)
		}
		wantRefusal(t, "no token", without(t, db, "UPDATE account SET balance = 7"))
		want(t, "a late write", p.under(t, db, 5, "UPDATE account SET balance = 5 WHERE id = 1"), fence.ErrStale)

		// And it goes without a trace.
		if down, err = strict.Down(); err != nil {
			t.Fatal(err)
		}
		for _, s := range down {
			must(t, db, s)
		}
		want(t, "no trigger", without(t, db, "INSERT INTO account VALUES (8, 8)", "DELETE FROM account"), nil)
		install(t, db, strict)
	})
}

func TestATokenOffLetsAnOperatorPass(t *testing.T) {
	t.Parallel()
	off := map[string]string{"pgx": "SET LOCAL holdfast.token = 'off'", "mysql": "SET @holdfast_token = 'off'"}
	zero := map[string]string{"pgx": "SET LOCAL holdfast.token = '0'", "mysql": "SET @holdfast_token = 0"}
	odd := map[string]string{"pgx": "SET LOCAL holdfast.token = 'x'", "mysql": "SET @holdfast_token = 'x'"}
	forTriggered(t, sqlfence.Trigger{}, func(t *testing.T, p place, db *sql.DB) {
		want(t, "the newest", p.under(t, db, 6, "UPDATE account SET balance = 6"), nil)
		db.SetMaxOpenConns(1)
		for _, set := range []string{zero[p.driver], odd[p.driver]} {
			for _, s := range []string{
				"UPDATE account SET balance = 5", "DELETE FROM account", "INSERT INTO account VALUES (9, 9)",
			} {
				assert.True(t, without(t, db, set, s) != nil, "%s: %s passes", set, s)
			}
		}
		want(t, "a reset", without(t, db, off[p.driver], "UPDATE account SET fence_token = 3 WHERE id = 1"), nil)
		want(t, "after it", p.under(t, db, 4, "UPDATE account SET balance = 4 WHERE id = 1"), nil)
		want(t, "the other", p.under(t, db, 4, "UPDATE account SET balance = 4 WHERE id = 2"), fence.ErrStale)
	})
}

var levels = []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable}

// Whatever the isolation, and whatever snapshot the late transaction has: it waits for the newer one, and
// writes nothing after it.
func TestATriggerJudgesByTheLastVersionAtEveryIsolation(t *testing.T) {
	t.Parallel()
	for _, trigger := range []sqlfence.Trigger{{}, {Resource: "all"}, {Resource: "all", Key: "id"}} {
		forTriggered(t, trigger, func(t *testing.T, p place, db *sql.DB) {
			for i, level := range levels {
				for j, s := range []string{"UPDATE account SET balance = 5", "DELETE FROM account"} {
					writeLate(t, p, db, uint64(10*(2*i+j+1)), level, s+" WHERE id = 1")
				}
			}
		})
	}
}

// writeLate begins a transaction, carries out a newer one, and then writes in the first one.
func writeLate(t *testing.T, p place, db *sql.DB, base uint64, level sql.IsolationLevel, statement string) {
	t.Helper()
	late, err := p.dialect.Begin(within(t), db, base+5, &sql.TxOptions{Isolation: level})
	assert.Must(t, err)
	if level != sql.LevelSerializable || p.driver == "pgx" { // else its read stops the newer one
		_ = number(t, late, readBalance) // the snapshot
	}
	newer, err := p.dialect.Begin(within(t), db, base+6, nil)
	assert.Must(t, err)
	must(t, newer, "UPDATE account SET balance = 60 WHERE id = 1")
	next := make(chan error, 1)
	go func() { next <- all(t, late, []string{statement}) }()
	p.waits(t, db, next)
	want(t, "commit", newer.Commit(), nil)
	err = redistest.Next(t, "the late write", next)
	if p.driver == "pgx" && level != sql.LevelReadCommitted {
		assert.True(t, err != nil && strings.Contains(err.Error(), "40001"), "%v: %s: %v", level, statement, err)
	} else {
		want(t, fmt.Sprint(level, statement), sqlfence.Refused(err), fence.ErrStale)
	}
	want(t, "rollback", late.Rollback(), nil)
	assert.Equal(t, number(t, db, readBalance), 60, "the balance")
	want(t, "the same again", p.under(t, db, base+5, statement), fence.ErrStale)
	want(t, "the newer again", p.under(t, db, base+6, "UPDATE account SET balance = 0 WHERE id = 1"), nil)
}

// A holder that reads with FOR UPDATE has shown nothing, but keeps an older one from writing until it has.
func TestAReadForUpdateKeepsALateWriteAway(t *testing.T) {
	t.Parallel()
	forTriggered(t, sqlfence.Trigger{}, func(t *testing.T, p place, db *sql.DB) {
		for i, level := range levels {
			base := uint64(10 * (i + 1))
			newer, err := p.dialect.Begin(within(t), db, base+6, &sql.TxOptions{Isolation: level})
			assert.Must(t, err)
			n := number(t, newer, readBalance+" FOR UPDATE")
			next := make(chan error, 1)
			go func() { next <- p.under(t, db, base+5, "UPDATE account SET balance = 1000 WHERE id = 1") }()
			p.waits(t, db, next)
			must(t, newer, fmt.Sprintf("UPDATE account SET balance = %d WHERE id = 1", n+1))
			want(t, "commit", newer.Commit(), nil)
			want(t, "the late write", redistest.Next(t, "the late write", next), fence.ErrStale)
			assert.Equal(t, number(t, db, readBalance), n+1, "the balance")
		}
	})
}

// However a transaction ends, its connection has no token afterwards.
func TestATokenEndsWithItsTransaction(t *testing.T) {
	t.Parallel()
	forTriggered(t, sqlfence.Trigger{}, func(t *testing.T, p place, db *sql.DB) {
		db.SetMaxOpenConns(1) // so that the next transaction has the same connection
		write := "UPDATE account SET balance = balance + 1 WHERE id = 1"
		id := map[string]string{"pgx": "SELECT pg_backend_pid()", "mysql": "SELECT connection_id()"}[p.driver]
		for what, end := range map[string]func(cancel func(), tx *sqlfence.Tx) error{
			"commit":         func(_ func(), tx *sqlfence.Tx) error { return tx.Commit() },
			"rollback":       func(_ func(), tx *sqlfence.Tx) error { return tx.Rollback() },
			"inner commit":   func(_ func(), tx *sqlfence.Tx) error { return tx.Tx.Commit() },
			"inner rollback": func(_ func(), tx *sqlfence.Tx) error { return tx.Tx.Rollback() },
			"context":        func(cancel func(), _ *sqlfence.Tx) error { cancel(); return nil },
		} {
			ctx, cancel := context.WithCancel(within(t))
			tx, err := p.dialect.Begin(ctx, db, 5, nil)
			assert.Must(t, err)
			before := number(t, tx, id)
			must(t, tx, write)
			want(t, what, end(cancel, tx), nil)
			_ = tx.Rollback() // deferred, in a program
			cancel()
			wantRefusal(t, what, without(t, db, write))
			if what != "context" { // a driver may close it then
				assert.Equal(t, number(t, db, id), before, "%s: the connection", what)
			}
		}
		func() {
			defer func() { assert.Equal(t, recover(), "the work panics", "the panic") }()
			_ = p.dialect.Do(within(t), db, 5, func(tx *sql.Tx) error { must(t, tx, write); panic("the work panics") })
		}()
		wantRefusal(t, "panic", without(t, db, write))
	})
}

// If the reset is refused, or is not answered, no other transaction gets the connection.
func TestABrokenConnectionTakesItsTokenAlong(t *testing.T) {
	t.Parallel()
	for _, d := range mysqls() {
		for what, instead := range map[string]string{"refused": "SET @holdfast_token = LULL", "not answered": ""} {
			t.Run(d.name+" "+what, func(t *testing.T) {
				t.Parallel()
				breakConnection(t, d, instead)
			})
		}
	}
}

// breakConnection spoils the reset on its way to the server.
func breakConnection(t *testing.T, d database, instead string) {
	t.Helper()
	reset := []byte("SET @holdfast_token = NULL")
	p := d.create(t)
	db := p.open(t, 0)
	must(t, db, "CREATE TABLE account (id INT PRIMARY KEY, balance BIGINT NOT NULL)")
	must(t, db, "INSERT INTO account VALUES (1, 0)")
	install(t, db, sqlfence.Trigger{Dialect: p.dialect, Table: "account"})
	var spoiled atomic.Int64
	proxy := newEditor(t, p.addr, func(sent []byte) []byte {
		if !bytes.Contains(sent, reset) {
			return sent
		}
		spoiled.Add(1)
		if instead == "" {
			return nil
		}
		return bytes.Replace(sent, reset, []byte(instead), 1) // as long, because a packet has its length
	})
	far := place{p.database, proxy.addr, p.file}.open(t, 0)
	far.SetMaxOpenConns(1)
	want(t, "a write", p.under(t, far, 5, "UPDATE account SET balance = 5"), nil)
	assert.Equal(t, spoiled.Load(), 1, "resets that failed")
	wantRefusal(t, "after it", without(t, far, "UPDATE account SET balance = 1"))
	assert.Equal(t, number(t, db, readBalance), 5, "the balance")
}

// Behind PgBouncer, programs share a connection: one transaction has a token, and the next one has not.
func TestATokenEndsWithItsTransactionBehindPgBouncer(t *testing.T) {
	t.Parallel()
	p := postgres.create(t)
	db := p.open(t, 0)
	must(t, db, "CREATE TABLE account (id INT PRIMARY KEY, balance BIGINT NOT NULL)")
	must(t, db, "INSERT INTO account VALUES (1, 0)")
	install(t, db, sqlfence.Trigger{Dialect: p.dialect, Table: "account"})
	bouncer, err := servertest.Start(servertest.PgBouncer(p.addr))
	assert.Must(t, err)
	t.Cleanup(func() { assert.NoError(t, bouncer.Stop()) })
	open := func() *sql.DB {
		db, err := sql.Open("pgx", fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable&default_query_exec_mode=exec",
			bouncer.Addr, p.file))
		assert.Must(t, err)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	one, two := open(), open()
	const id, write = "SELECT pg_backend_pid()", "UPDATE account SET balance = balance + 1"
	server := number(t, one, id)
	for _, end := range []func(*sqlfence.Tx) error{(*sqlfence.Tx).Commit, (*sqlfence.Tx).Rollback} {
		tx, err := p.dialect.Begin(within(t), one, 5, nil)
		assert.Must(t, err)
		must(t, tx, write)
		want(t, "end", end(tx), nil)
		assert.Equal(t, number(t, two, id), server, "the connection")
		wantRefusal(t, "another program", without(t, two, write))
	}
	want(t, "a newer write", p.under(t, two, 6, write), nil)
	want(t, "a late write", p.under(t, one, 5, write), fence.ErrStale)
	assert.Equal(t, number(t, two, readBalance), 2, "the balance")
}
