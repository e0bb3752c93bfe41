package fence_test

import (
	"database/sql"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fence/sqlfence"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// guarded is a new database with the guard's table, and a table with one account.
func guarded(t *testing.T, d database) (sqlfence.Guard, sqlfence.Row, place, *sql.DB) {
	t.Helper()
	guard := sqlfence.Guard{Dialect: d.dialect}
	row := sqlfence.Row{Dialect: d.dialect, Table: "account", Key: "id"}
	p := d.create(t)
	db := p.open(t, 0)
	must(t, db, guard.Migration())
	must(t, db, guard.Migration()) // a second instance may begin, too
	must(t, db, "CREATE TABLE account (id INT PRIMARY KEY, balance BIGINT NOT NULL)")
	must(t, db, row.Migration())
	must(t, db, "INSERT INTO account (id, balance) VALUES (1, 0)")
	return guard, row, p, db
}

const readBalance = "SELECT balance FROM account WHERE id = 1"

func TestAGuardRefusesOlderTokens(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, d database) {
		guard, _, _, db := guarded(t, d)
		write := func(token uint64) error {
			return guard.Do(within(t), db, "account/1", token, func(tx *sql.Tx) error {
				_, err := tx.Exec("UPDATE account SET balance = balance + 1")
				return err
			})
		}
		for _, c := range []struct {
			token uint64
			err   error
		}{
			{5, nil}, {5, nil}, {4, fence.ErrStale}, {7, nil}, {5, fence.ErrStale}, {6, fence.ErrStale},
			{math.MaxInt64, nil}, {math.MaxInt64 - 1, fence.ErrStale}, {math.MaxInt64 + 1, fence.ErrInvalid},
			{0, fence.ErrInvalid},
		} {
			want(t, "write", write(c.token), c.err)
		}
		assert.Equal(t, number(t, db, readBalance), 4, "writes")
		var stale *fence.StaleError
		last := fence.StaleError{Resource: "account/1", Token: 9, Seen: math.MaxInt64}
		if err := write(9); !errors.As(err, &stale) || *stale != last {
			t.Errorf("got %v", err)
		}
		seen, err := guard.Seen(within(t), db, "account/1")
		want(t, "Seen", err, nil)
		assert.True(t, seen == math.MaxInt64, "seen %d", seen)
		want(t, "Reset", guard.Reset(within(t), db, "account/1"), nil)
		want(t, "a low token after a reset", write(1), nil)
		want(t, "the memory", guard.Memory(db).Raise(within(t), "account/1", 2), nil)
		want(t, "the memory", guard.Memory(db).Raise(within(t), "account/1", 1), fence.ErrStale)
	})
}

// The rights in docs/fencing.md are enough, and without one of them nothing is written.
func TestTheRightsOfASQLGuardAreThoseOfThePage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "fencing.md"))
	assert.Must(t, err)
	const rights = "SELECT, INSERT and UPDATE on `holdfast_fence`, and DELETE for `Reset`"
	assert.True(t, strings.Contains(string(page), rights), "docs/fencing.md does not say %s", rights)
	for _, d := range triggered() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			guard, _, p, db := guarded(t, d)
			name := "app" + p.file
			user := map[string]string{"pgx": name, "mysql": name + "@localhost"}[p.driver]
			must(t, db, "CREATE USER "+user)
			grant := func(right string) { must(t, db, "GRANT "+right+" ON holdfast_fence TO "+user) }
			for _, right := range []string{"SELECT", "INSERT", "UPDATE", "DELETE"} {
				grant(right)
			}
			app := p
			app.source = func(addr, file string, idle int) string {
				as := strings.NewReplacer("root@", name+"@", "//postgres@", "//"+name+"@")
				return as.Replace(p.source(addr, file, idle))
			}
			theirs := app.open(t, 0)
			want(t, "Raise", guard.Memory(theirs).Raise(within(t), "a", 5), nil)
			want(t, "Reset", guard.Reset(within(t), theirs, "a"), nil)
			for _, right := range []string{"SELECT", "INSERT", "UPDATE"} {
				must(t, db, "REVOKE "+right+" ON holdfast_fence FROM "+user)
				assert.True(t, guard.Memory(theirs).Raise(within(t), "a", 6) != nil, "it needs no %s", right)
				grant(right)
			}
			must(t, db, "REVOKE DELETE ON holdfast_fence FROM "+user)
			assert.True(t, guard.Reset(within(t), theirs, "a") != nil, "Reset needs no DELETE")
			want(t, "Raise", guard.Memory(theirs).Raise(within(t), "a", 5), nil)
		})
	}
}

func TestResourcesAreToldApartByEveryByte(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, d database) {
		guard, _, _, db := guarded(t, d)
		memory := guard.Memory(db)
		for i, name := range []string{"a", "A", "a ", " a", "ä", "a\u0308", "ss", "ß"} {
			want(t, name, memory.Raise(within(t), name, uint64(100-i)), nil)
		}
		seen, err := guard.Seen(within(t), db, "b")
		assert.True(t, seen == 0 && err == nil, "a resource without a token: %d, %v", seen, err)
	})
}

func TestWhatFailsLeavesNoTokenAndNoWrite(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, d database) {
		guard, _, _, db := guarded(t, d)
		errWork := errors.New("the work failed")
		fails := func(tx *sql.Tx) error {
			must(t, tx, "UPDATE account SET balance = 1")
			return errWork
		}
		want(t, "Do", guard.Do(within(t), db, "a", 5, fails), errWork)
		func() {
			defer func() { _ = recover() }()
			_ = guard.Do(within(t), db, "a", 6, func(tx *sql.Tx) error {
				must(t, tx, "UPDATE account SET balance = 1")
				panic("the work panics")
			})
		}()
		seen, err := guard.Seen(within(t), db, "a")
		assert.True(t, seen == 0 && err == nil, "seen %d, %v", seen, err)
		assert.Equal(t, number(t, db, readBalance), 0, "the balance")
		want(t, "a guard without a dialect", sqlfence.Guard{}.Do(within(t), db, "a", 5, fails), fence.ErrInvalid)
	})
}

// Between a check and the commit of its transaction no other writer of the resource gets in, and
// what it reads after its own check is new.
func TestACheckHoldsUntilTheCommit(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, d database) {
		guard, row, p, db := guarded(t, d)
		for name, check := range map[string]func(*sql.Tx, uint64) error{
			"guard": func(tx *sql.Tx, token uint64) error { return guard.Check(within(t), tx, "account/1", token) },
			"row":   func(tx *sql.Tx, token uint64) error { return row.Check(within(t), tx, 1, token) },
		} {
			t.Run(name, func(t *testing.T) {
				must(t, db, "UPDATE account SET balance = 0")
				first, err := db.BeginTx(within(t), nil)
				want(t, "begin", err, nil)
				want(t, "the first check", check(first, 5), nil)
				must(t, first, "UPDATE account SET balance = 10")

				next, other := make(chan error, 1), p.open(t, 0)
				go func() {
					tx, err := other.BeginTx(within(t), nil)
					if err == nil {
						defer tx.Rollback()
						err = check(tx, 6)
					}
					if err == nil {
						assert.Equal(t, number(t, tx, readBalance), 10, "after its check the second reads")
						err = tx.Commit()
					}
					next <- err
				}()
				p.waits(t, db, next)
				want(t, "commit", first.Commit(), nil)
				want(t, "the second", redistest.Next(t, "the second transaction", next), nil)

				late, err := db.BeginTx(within(t), nil)
				want(t, "begin", err, nil)
				want(t, "a late check", check(late, 5), fence.ErrStale)
				want(t, "rollback", late.Rollback(), nil)
			})
		}
	})
}

// waits returns once a transaction waits for another one.
func (p place) waits(t *testing.T, db *sql.DB, next <-chan error) {
	t.Helper()
	if p.busy { // it tries again and again, which the database does not show: another one may not write
		other := p.open(t, 0)
		must(t, other, "PRAGMA busy_timeout = 0")
		assert.True(t, assert.Err(other.ExecContext(within(t), "UPDATE account SET balance = 11")) != nil,
			"another connection could write")
		return
	}
	for ctx := within(t); number(t, db, p.waiting) == 0; {
		select {
		case err := <-next:
			t.Fatalf("the second transaction did not wait: %v", err)
		case <-ctx.Done():
			t.Fatal("the second transaction does not wait")
		default:
		}
	}
}

func TestARowRefusesOlderTokens(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, d database) {
		_, row, _, db := guarded(t, d)
		set := map[string]string{"pgx": "balance = $1"}[d.driver]
		if set == "" {
			set = "balance = ?"
		}
		write := func(id int, token uint64, balance int) error {
			return row.Update(within(t), db, id, token, set, balance)
		}
		for _, c := range []struct {
			id      int
			token   uint64
			balance int
			err     error
		}{
			{1, 5, 50, nil},
			{1, 5, 50, nil}, // MySQL counts no row for this
			{1, 5, 51, nil},
			{1, 4, 51, fence.ErrStale}, // nor for this
			{1, 6, 51, nil},
			{1, 5, 60, fence.ErrStale},
			{2, 7, 70, sql.ErrNoRows},
			{1, 0, 80, fence.ErrInvalid},
		} {
			before := number(t, db, readBalance)
			want(t, "write", write(c.id, c.token, c.balance), c.err)
			if n := number(t, db, readBalance); n != before && c.err != nil || n != int64(c.balance) && c.err == nil {
				t.Errorf("token %d writes %d: the balance was %d, and is %d", c.token, c.balance, before, n)
			}
		}
		must(t, db, "INSERT INTO account (id, balance) VALUES (3, 0)")
		want(t, "another row", write(3, 1, 10), nil)

		tx, err := db.BeginTx(within(t), nil)
		want(t, "begin", err, nil)
		want(t, "a missing row", row.Check(within(t), tx, 2, 9), sql.ErrNoRows)
		want(t, "a late check", row.Check(within(t), tx, 1, 5), fence.ErrStale)
		want(t, "rollback", tx.Rollback(), nil)

		want(t, "Reset", row.Reset(within(t), db, 1), nil)
		want(t, "a low token after a reset", write(1, 1, 90), nil)
		seen, err := row.Seen(within(t), db, 1)
		assert.True(t, seen == 1 && err == nil, "seen %d, %v", seen, err)
		for what, wrong := range map[string]sqlfence.Row{
			"no dialect": {Table: "account", Key: "id"},
			"no table":   {Dialect: d.dialect, Key: "id"},
			"no key":     {Dialect: d.dialect, Table: "account"},
		} {
			want(t, what, wrong.Update(within(t), db, 1, 9, set, 1), fence.ErrInvalid)
		}
		want(t, "nothing to set", row.Update(within(t), db, 1, 9, " "), fence.ErrInvalid)
	})
}

// A transaction that has read before its check has a snapshot. The check judges by what is committed
// now, and a refused Update still says why.
func TestAnOldSnapshotHidesNoToken(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, d database) {
		if d.busy {
			return // its writers exclude each other, so no other one comes after the snapshot
		}
		guard, row, _, db := guarded(t, d)
		memory := guard.Memory(db)
		want(t, "the first", memory.Raise(within(t), "account/1", 4), nil)
		for what, late := range map[string]func(*sql.Tx) error{
			"Guard.Check": func(tx *sql.Tx) error { return guard.Check(within(t), tx, "account/1", 5) },
			"Row.Check":   func(tx *sql.Tx) error { return row.Check(within(t), tx, 1, 5) },
			"Row.Update":  func(tx *sql.Tx) error { return row.Update(within(t), tx, 1, 5, "balance = 50") },
		} {
			tx, err := db.BeginTx(within(t), nil)
			want(t, "begin", err, nil)
			_ = number(t, tx, readBalance) // the snapshot
			want(t, "a newer writer", row.Update(within(t), db, 1, 6, "balance = 60"), nil)
			want(t, "a newer writer", memory.Raise(within(t), "account/1", 6), nil)
			want(t, what, late(tx), fence.ErrStale)
			want(t, "rollback", tx.Rollback(), nil)
			want(t, "Reset", row.Reset(within(t), db, 1), nil)
			want(t, "Reset", guard.Reset(within(t), db, "account/1"), nil)
			want(t, "the next", memory.Raise(within(t), "account/1", 4), nil)
		}
	})
}

// A holder that is paused inside its transaction delays the next one only until the database ends
// that transaction. When it goes on, it cannot commit.
func TestAnIdleTransactionIsEndedByTheDatabase(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, d database) {
		if d.busy {
			return // SQLite has no such limit: docs/fencing.md says what follows
		}
		guard, _, p, db := guarded(t, d)
		limited := p.open(t, 2000)
		tx, err := limited.BeginTx(within(t), nil)
		want(t, "begin", err, nil)
		want(t, "the first check", guard.Check(within(t), tx, "account/1", 5), nil)
		must(t, tx, "UPDATE account SET balance = 10")
		// From here the first does nothing.
		err = guard.Do(within(t), db, "account/1", 6, func(tx *sql.Tx) error {
			assert.Equal(t, number(t, tx, readBalance), 0, "it reads from a transaction that is not committed")
			_, err := tx.Exec("UPDATE account SET balance = 20")
			return err
		})
		want(t, "the next", err, nil)
		assert.True(t, tx.Commit() != nil, "the transaction that was idle was committed")
		assert.Equal(t, number(t, db, readBalance), 20, "the balance")
	})
}
