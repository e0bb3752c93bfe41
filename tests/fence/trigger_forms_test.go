package fence_test

import (
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fence/sqlfence"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

func TestATriggerKeepsOneTokenForAWholeTable(t *testing.T) {
	t.Parallel()
	forTriggered(t, sqlfence.Trigger{Resource: "it's all"}, func(t *testing.T, p place, db *sql.DB) {
		want(t, "one row", p.under(t, db, 6, "UPDATE account SET balance = 6 WHERE id = 1"), nil)
		want(t, "another row", p.under(t, db, 5, "UPDATE account SET balance = 5 WHERE id = 2"), fence.ErrStale)
		want(t, "a deletion", p.under(t, db, 6, "DELETE FROM account WHERE id = 1"), nil)
		want(t, "the row again", p.under(t, db, 5, "INSERT INTO account VALUES (1, 5)"), fence.ErrStale)
		wantRefusal(t, "no token", without(t, db, "INSERT INTO account VALUES (1, 5)"))

		// What is shown before a read counts at once.
		guard := sqlfence.Guard{Dialect: p.dialect}
		newer, err := p.dialect.Begin(within(t), db, 7, nil)
		assert.Must(t, err)
		want(t, "check", guard.Check(within(t), newer.Tx, "it's all", 7), nil)
		n := number(t, newer, "SELECT balance FROM account WHERE id = 2")
		next := make(chan error, 1)
		go func() { next <- p.under(t, db, 6, "INSERT INTO account VALUES (1, 66)") }()
		p.waits(t, db, next)
		must(t, newer, fmt.Sprintf("UPDATE account SET balance = %d WHERE id = 2", n+1))
		want(t, "commit", newer.Commit(), nil)
		want(t, "the late write", redistest.Next(t, "the late write", next), fence.ErrStale)

		if p.driver == "pgx" {
			want(t, "a late TRUNCATE", p.under(t, db, 6, "TRUNCATE account"), fence.ErrStale)
			wantRefusal(t, "TRUNCATE", without(t, db, "TRUNCATE account"))
			want(t, "TRUNCATE", p.under(t, db, 7, "TRUNCATE account"), nil)
		}
	})
}

func TestATriggerKeepsATokenForEachValueOfAColumn(t *testing.T) {
	t.Parallel()
	forTriggered(t, sqlfence.Trigger{Resource: "account", Key: "id"}, func(t *testing.T, p place, db *sql.DB) {
		for i, c := range []struct {
			token     uint64
			statement string
			err       error
		}{
			{6, "DELETE FROM account WHERE id = 1", nil},
			{5, "INSERT INTO account VALUES (1, 5)", fence.ErrStale}, // the row is gone, and its token is not
			{5, "UPDATE account SET balance = 5 WHERE id = 2", nil},
			{5, "UPDATE account SET id = 1 WHERE id = 2", fence.ErrStale},
			{6, "UPDATE account SET id = 1 WHERE id = 2", nil},
			{5, "INSERT INTO account VALUES (2, 5)", fence.ErrStale},
			{6, "INSERT INTO account VALUES (2, 6)", nil},
			{7, "UPDATE account SET balance = 7 WHERE id = 2", nil},
			{6, "UPDATE account SET balance = 6", fence.ErrStale}, // all or nothing
		} {
			want(t, fmt.Sprint(i, " ", c.statement), p.under(t, db, c.token, c.statement), c.err)
		}
		seen, err := sqlfence.Guard{Dialect: p.dialect}.Seen(within(t), db, "account/1")
		assert.True(t, err == nil && seen == 6, "seen %d, %v", seen, err)
		wantRefusal(t, "no token", without(t, db, "UPDATE account SET balance = 5"))

		// A row that another transaction has written stops nobody at another row.
		one, err := p.dialect.Begin(within(t), db, 8, nil)
		assert.Must(t, err)
		must(t, one, "UPDATE account SET balance = 8 WHERE id = 1")
		must(t, one, "INSERT INTO account VALUES (9, 8)")
		want(t, "the other row", p.under(t, db, 8, "UPDATE account SET balance = 8 WHERE id = 2"), nil)
		want(t, "commit", one.Commit(), nil)
	})
}

func TestARowsTriggerRefusesTruncate(t *testing.T) {
	t.Parallel()
	forTriggered(t, sqlfence.Trigger{}, func(t *testing.T, p place, db *sql.DB) {
		if p.driver != "pgx" {
			return // there it fires no trigger: docs/fencing.md says so
		}
		err := p.under(t, db, 9, "TRUNCATE account")
		assert.True(t, err != nil && strings.Contains(err.Error(), "HF003"), "with a token: %v", err)
		wantRefusal(t, "without one", without(t, db, "TRUNCATE account"))
		want(t, "off", without(t, db, "SET LOCAL holdfast.token = 'off'", "TRUNCATE account"), nil)
	})
}

// PostgreSQL's triggers see what a foreign key changes. Those of MySQL and MariaDB do not: there a resource that
// parent and child share refuses the change of the parent.
func TestACascadeOfAForeignKeyIsRefused(t *testing.T) {
	t.Parallel()
	forTriggered(t, sqlfence.Trigger{Resource: "bank"}, func(t *testing.T, p place, db *sql.DB) {
		must(t, db, "CREATE TABLE customer (id INT PRIMARY KEY)")
		must(t, db, "CREATE TABLE card (id INT PRIMARY KEY, customer INT, "+
			"FOREIGN KEY (customer) REFERENCES customer (id) ON DELETE CASCADE ON UPDATE CASCADE)")
		must(t, db, "INSERT INTO customer VALUES (1), (2)")
		must(t, db, "INSERT INTO card VALUES (1, 1), (2, 2)")
		install(t, db, sqlfence.Trigger{Dialect: p.dialect, Table: "card"})
		want(t, "the newest", p.under(t, db, 6, "UPDATE card SET id = 11 WHERE id = 1"), nil)
		late := []string{"DELETE FROM customer WHERE id = 1", "UPDATE customer SET id = 3 WHERE id = 1"}
		for _, s := range late {
			tx, err := p.dialect.Begin(within(t), db, 5, nil)
			assert.Must(t, err)
			err = all(t, tx, []string{s})
			if p.driver == "mysql" {
				want(t, "seen by no trigger: "+s, err, nil)
			} else {
				want(t, s, sqlfence.Refused(err), fence.ErrStale)
			}
			want(t, "rollback", tx.Rollback(), nil)
		}
		if p.name == mysqld.name && 0 < number(t, db, "SELECT count(*) FROM performance_schema.global_variables "+
			"WHERE variable_name = 'enable_cascade_triggers'") { // since MySQL 9.7
			told, err := sql.Open(p.driver, p.source(p.addr, p.file, 0)+"&enable_cascade_triggers=1")
			assert.Must(t, err)
			defer told.Close()
			for _, s := range late {
				want(t, s, p.under(t, told, 5, s), fence.ErrStale)
			}
		}
		install(t, db, sqlfence.Trigger{Dialect: p.dialect, Table: "customer", Resource: "bank"})
		want(t, "the newest", p.under(t, db, 6, "UPDATE account SET balance = 6"), nil)
		for _, s := range late {
			want(t, s, p.under(t, db, 5, s), fence.ErrStale)
		}
		want(t, "the newest", p.under(t, db, 6, late...), nil)
	})
}

func TestAStatementOfManyRowsIsRefusedWhole(t *testing.T) {
	t.Parallel()
	forTriggered(t, sqlfence.Trigger{}, func(t *testing.T, p place, db *sql.DB) {
		rows := make([]string, 1000)
		for i := range rows {
			rows[i] = fmt.Sprintf("(%d, 0)", i+10)
		}
		want(t, "an import", p.under(t, db, 4, "INSERT INTO account VALUES "+strings.Join(rows, ", ")), nil)
		want(t, "a newer write", p.under(t, db, 6, "UPDATE account SET balance = 6 WHERE id = 700"), nil)
		for _, s := range []string{
			"UPDATE account SET balance = balance + 1 ORDER BY id", "UPDATE account SET balance = balance + 1",
			"UPDATE account SET balance = 1 WHERE id IN (SELECT id FROM (SELECT id FROM account) AS x)",
			"DELETE FROM account",
		} {
			if p.driver == "pgx" && strings.Contains(s, "ORDER") {
				continue
			}
			want(t, s, p.under(t, db, 5, s), fence.ErrStale)
		}
		assert.Equal(t, number(t, db, "SELECT count(*) + sum(balance) FROM account"), 1002+6, "the rows and their sum")
		assert.Equal(t, number(t, db, "SELECT count(*) FROM account WHERE fence_token = 4"), 999, "the tokens")
	})
}

// Names with everything in them that ends a name, a text or a comment elsewhere. MySQL 9.7 itself takes no name with a
// backtick if it ends with a letter beyond ASCII.
func TestATriggerTakesOddNames(t *testing.T) {
	t.Parallel()
	const odd = `Od"d.n'a;m--é` + "`$holdfast$ \\$$"
	forTriggered(t, sqlfence.Trigger{}, func(t *testing.T, p place, db *sql.DB) {
		ident := func(name string) string {
			q := map[string]string{"pgx": `"`, "mysql": "`"}[p.driver]
			return q + strings.ReplaceAll(name, q, q+q) + q
		}
		schema := p.file + odd
		table := ident(schema) + "." + ident(odd)
		must(t, db, "CREATE SCHEMA "+ident(schema))
		must(t, db, "CREATE TABLE "+table+" ("+ident(odd+"k")+" INT PRIMARY KEY)")
		name := func(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
		full := name(schema) + "." + name(odd)
		for _, trigger := range []sqlfence.Trigger{
			{Column: odd}, {Resource: odd, Tokens: name(schema) + "." + name("tokens"+odd)},
			{Resource: odd, Key: odd + "k", Tokens: name(schema) + "." + name("tokens"+odd), AllowMissing: true},
		} {
			trigger.Dialect, trigger.Table = p.dialect, full
			install(t, db, trigger)
			want(t, "the newest", p.under(t, db, 60, "INSERT INTO "+table+" VALUES (1)"), nil)
			var stale *fence.StaleError
			err := p.under(t, db, 5, "DELETE FROM "+table)
			want(t, "a late write", err, fence.ErrStale)
			assert.True(t, errors.As(err, &stale) && strings.HasPrefix(stale.Resource, odd), "%v", err)
			want(t, "a deletion", p.under(t, db, 60, "DELETE FROM "+table), nil)
			down, err := trigger.Down()
			assert.Must(t, err)
			for _, s := range down {
				must(t, db, s)
			}
		}
	})
}

// A dump of a database creates the triggers after the rows, so it needs no token. Rows alone need the word off.
func TestADumpIsRestoredWithItsTokens(t *testing.T) {
	t.Parallel()
	forTriggered(t, sqlfence.Trigger{}, func(t *testing.T, p place, db *sql.DB) {
		want(t, "the newest", p.under(t, db, 6, "UPDATE account SET balance = 6"), nil)
		host, port, err := net.SplitHostPort(p.addr)
		assert.Must(t, err)
		run := func(input, program string, args ...string) (string, error) {
			at := []string{"--host=" + host, "--port=" + port, "--user=root"}
			if p.driver == "pgx" {
				at[2] = "--username=postgres"
			}
			cmd := exec.CommandContext(within(t), program, append(at, args...)...)
			cmd.Stdin = strings.NewReader(input)
			out, err := cmd.CombinedOutput()
			return string(out), err
		}
		dump, load := []string{"pg_dump"}, []string{"psql", "-q", "-v", "ON_ERROR_STOP=1"}
		only, off := []string{"--data-only"}, "SET holdfast.token = 'off';\n"
		if p.driver == "mysql" {
			dump, load = p.dump, p.load
			only, off = []string{"--no-create-info", "--skip-triggers"}, "SET @holdfast_token = 'off';\n"
		}
		whole, err := run("", dump[0], slices.Concat(dump[1:], []string{p.file})...)
		assert.MustTrue(t, err == nil, "%v %s", err, whole)
		rows, err := run("", dump[0], slices.Concat(dump[1:], only, []string{p.file})...)
		assert.MustTrue(t, err == nil, "%v %s", err, rows)

		copied := p
		copied.file += "copy"
		must(t, db, "CREATE DATABASE "+copied.file)
		out, err := run(whole, load[0], slices.Concat(load[1:], []string{copied.file})...)
		assert.MustTrue(t, err == nil, "%v %s", err, out)
		restored := copied.open(t, 0)
		want(t, "a late write", p.under(t, restored, 5, "UPDATE account SET balance = 5"), fence.ErrStale)
		wantRefusal(t, "no token", without(t, restored, "UPDATE account SET balance = 5"))

		want(t, "the deletion", p.under(t, restored, 6, "DELETE FROM account"), nil)
		out, err = run(rows, load[0], slices.Concat(load[1:], []string{copied.file})...)
		assert.True(t, err != nil && strings.Contains(out, "has no token"), "%v %s", err, out)
		out, err = run(off+rows, load[0], slices.Concat(load[1:], []string{copied.file})...)
		assert.MustTrue(t, err == nil, "%v %s", err, out)
		want(t, "a late write", p.under(t, restored, 5, "UPDATE account SET balance = 5"), fence.ErrStale)
		if p.driver == "pgx" {
			want(t, "the replica's role", without(t, restored, "SET LOCAL session_replication_role = replica",
				"UPDATE account SET balance = 5"), nil)
		}
	})
}

// Whatever database or search_path a migration and its writers have, a resource has one token.
func TestATriggerFindsItsTokensFromEverywhere(t *testing.T) {
	t.Parallel()
	for _, d := range triggered() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			p := d.create(t)
			db, schema, table, tokens := p.open(t, 0), p.file+"_other", "account", ""
			db.SetMaxOpenConns(1) // so that USE and SET hold
			turn := map[string]string{"pgx": "SET search_path = %s", "mysql": "USE %s"}[p.driver]
			must(t, db, "CREATE SCHEMA "+schema)
			if p.driver == "mysql" { // each statement that names no database is of the present one
				table, tokens = schema+".account", schema+".holdfast_fence"
			}
			must(t, db, "CREATE TABLE "+table+" (id INT PRIMARY KEY, balance BIGINT NOT NULL)")
			must(t, db, "INSERT INTO "+table+" VALUES (1, 0)")
			install(t, db, sqlfence.Trigger{Dialect: p.dialect, Table: table, Resource: "all", Tokens: tokens})
			if p.driver == "pgx" {
				table = "public.account"
				must(t, db, sqlfence.Guard{Dialect: p.dialect, Table: schema + ".holdfast_fence"}.Migration())
			}
			write := "UPDATE " + table + " SET balance = balance + 1"
			want(t, "the newest", p.under(t, db, 6, write), nil)
			must(t, db, fmt.Sprintf(turn, schema))
			want(t, "a late write from elsewhere", p.under(t, db, 5, write), fence.ErrStale)
		})
	}
}
