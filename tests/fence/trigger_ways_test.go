package fence_test

import (
	"database/sql"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fence/sqlfence"
	"github.com/holdfast-go/holdfast/internal/assert"
)

// ways are statements that write to account without an UPDATE, a DELETE or an INSERT of values. Row 1 is there, row 9
// is not. MERGE came with PostgreSQL 15.
var ways = map[string][]string{
	"pgx": {
		"COPY account (id, balance) FROM PROGRAM 'echo 9,9' CSV",
		"INSERT INTO account (id, balance) SELECT 9, 9",
		"WITH gone AS (DELETE FROM account WHERE id = 1 RETURNING balance) SELECT balance FROM gone",
		"INSERT INTO account (id, balance) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance",
		"MERGE INTO account a USING (VALUES (1)) v (id) ON a.id = v.id WHEN MATCHED THEN UPDATE SET balance = 1",
		"MERGE INTO account a USING (VALUES (1)) v (id) ON a.id = v.id WHEN MATCHED THEN DELETE",
		"MERGE INTO account a USING (VALUES (9)) v (id) ON a.id = v.id " +
			"WHEN NOT MATCHED THEN INSERT (id, balance) VALUES (9, 9)",
		"DO $$ BEGIN UPDATE account SET balance = 1 WHERE id = 1; EXCEPTION WHEN unique_violation THEN NULL; END $$",
	},
	"mysql": {
		"LOAD DATA LOCAL INFILE 'Reader::9' INTO TABLE account FIELDS TERMINATED BY ',' (id, balance)",
		"LOAD DATA LOCAL INFILE 'Reader::1' REPLACE INTO TABLE account FIELDS TERMINATED BY ',' (id, balance)",
		"INSERT INTO account (id, balance) SELECT 9, 9",
		"REPLACE INTO account (id, balance) SELECT 1, 1",
		"INSERT INTO account (id, balance) SELECT 1, 1 ON DUPLICATE KEY UPDATE balance = 1",
		"DELETE FROM account WHERE id = 1 LIMIT 1",
	},
}

func TestATriggerSeesEveryWayToWrite(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]string{"1": "1,1\n", "9": "9,9\n"} {
		mysql.RegisterReaderHandler(name, func() io.Reader { return strings.NewReader(row) })
	}
	for _, trigger := range []sqlfence.Trigger{{}, {Resource: "all"}, {Resource: "all", Key: "id"}} {
		forTriggered(t, trigger, func(t *testing.T, p place, db *sql.DB) {
			all := ways[p.driver]
			if p.driver == "mysql" {
				must(t, db, "SET GLOBAL local_infile = 1")
			} else if number(t, db, "SELECT current_setting('server_version_num')::int") < 150000 {
				all = all[:4]
			}
			want(t, "the newest", p.under(t, db, 6, "UPDATE account SET balance = 6",
				"INSERT INTO account (id, balance) VALUES (9, 9)", "DELETE FROM account WHERE id = 9"), nil)
			for _, s := range all {
				before := sum(t, db)
				wantRefusal(t, s, without(t, db, s))
				if trigger.Resource != "" || !strings.Contains(s, "9") { // else the row is forgotten
					want(t, s, p.under(t, db, 5, s), fence.ErrStale)
				}
				assert.Equal(t, sum(t, db), before, "after %s the sum", s)
			}
		})
	}
}

// A key may be known only when the row is stored: from AUTO_INCREMENT, a generated column, or another trigger.
func TestAKeyIsTheOneThatIsStored(t *testing.T) {
	t.Parallel()
	columns := map[string]string{
		"pgx":   "(id INT GENERATED ALWAYS AS IDENTITY, name TEXT, made TEXT GENERATED ALWAYS AS ('m' || name) STORED)",
		"mysql": "(id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(9), made VARCHAR(10) AS (CONCAT('m', name)) STORED)",
	}
	lower := map[string][]string{
		"pgx": {
			"CREATE FUNCTION low() RETURNS trigger LANGUAGE plpgsql AS " +
				"$$ BEGIN NEW.name := lower(NEW.name); RETURN NEW; END $$",
			"CREATE TRIGGER low BEFORE INSERT OR UPDATE ON %[1]s FOR EACH ROW EXECUTE FUNCTION low()",
		},
		"mysql": {
			"CREATE TRIGGER %[1]s_i BEFORE INSERT ON %[1]s FOR EACH ROW SET NEW.name = LOWER(NEW.name)",
			"CREATE TRIGGER %[1]s_u BEFORE UPDATE ON %[1]s FOR EACH ROW SET NEW.name = LOWER(NEW.name)",
		},
	}
	forTriggered(t, sqlfence.Trigger{}, func(t *testing.T, p place, db *sql.DB) {
		guard := sqlfence.Guard{Dialect: p.dialect}
		for _, key := range []string{"id", "name", "made"} {
			table := "by_" + key
			must(t, db, "CREATE TABLE "+table+" "+columns[p.driver])
			install(t, db, sqlfence.Trigger{Dialect: p.dialect, Table: table, Resource: table, Key: key})
			for _, s := range lower[p.driver] {
				if !strings.HasPrefix(s, "CREATE FUNCTION") || key == "id" {
					must(t, db, strings.ReplaceAll(s, "%[1]s", table))
				}
			}
			insert := "INSERT INTO " + table + " (name) VALUES "
			want(t, table, p.under(t, db, 6, insert+"('A')"), nil)
			value := map[string]string{"id": "1", "name": "a", "made": "ma"}[key]
			seen, err := guard.Seen(within(t), db, table+"/"+value)
			assert.True(t, err == nil && seen == 6, "%s: seen %d, %v", table, seen, err)
			want(t, table, p.under(t, db, 5, insert+"('B')"), nil) // another lock's
			want(t, table, p.under(t, db, 6, "DELETE FROM "+table+" WHERE name = 'a'"), nil)
			if key != "id" {
				want(t, table, p.under(t, db, 5, insert+"('A')"), fence.ErrStale)
				want(t, table, p.under(t, db, 5, "UPDATE "+table+" SET name = 'A' WHERE name = 'b'"), fence.ErrStale)
			}
		}
	})
}

// Locks are told apart by every byte of their names, also where a column's equality does not.
func TestAKeyThatOnlyLooksEqualIsAnother(t *testing.T) {
	t.Parallel()
	kind := map[string]string{"pgx": "NUMERIC", "mysql": "VARCHAR(400) COLLATE utf8mb4_general_ci"}
	one, two := map[string]string{"pgx": "1.0", "mysql": "'a'"}, map[string]string{"pgx": "1.00", "mysql": "'A'"}
	forTriggered(t, sqlfence.Trigger{}, func(t *testing.T, p place, db *sql.DB) {
		must(t, db, "CREATE TABLE bill (name "+kind[p.driver]+", paid INT)")
		if p.driver == "mysql" { // the trigger keeps the mode: it is not strict, and NOT binds before a comparison
			db.SetMaxOpenConns(1)
			must(t, db, "SET sql_mode = 'HIGH_NOT_PRECEDENCE'")
		}
		install(t, db, sqlfence.Trigger{Dialect: p.dialect, Table: "bill", Resource: "bill", Key: "name"})
		a, b := one[p.driver], two[p.driver]
		want(t, "the newest", p.under(t, db, 6, "INSERT INTO bill VALUES ("+b+", 0)", "DELETE FROM bill"), nil)
		want(t, "another", p.under(t, db, 5, "INSERT INTO bill VALUES ("+a+", 0)"), nil)
		want(t, "a late change", p.under(t, db, 5, "UPDATE bill SET name = "+b), fence.ErrStale)
		want(t, "no change", p.under(t, db, 5, "UPDATE bill SET name = "+a), nil)

		// A key without a resource's name is refused, also where errors are warnings.
		if p.driver == "pgx" {
			assert.True(t, p.under(t, db, 9, "INSERT INTO bill VALUES (NULL, 0)") != nil, "no key")
			return
		}
		for _, name := range []string{"NULL", "REPEAT('x', 300)", "REPEAT('ä', 200)"} {
			for _, s := range []string{
				"INSERT INTO bill VALUES (%s, 0)", "INSERT IGNORE INTO bill VALUES (%s, 0)",
				"UPDATE bill SET name = %s", "UPDATE IGNORE bill SET name = %s",
			} {
				s = fmt.Sprintf(s, name)
				assert.True(t, p.under(t, db, 9, s) != nil, "%s passes", s)
			}
		}
		assert.Equal(t, number(t, db, "SELECT count(*) FROM bill"), 1, "the rows")
	})
}

// A partition has the trigger of its table for each row, but none of those for statements.
func TestAPartitionOfPostgreSQLNeedsATriggerOfItsOwn(t *testing.T) {
	t.Parallel()
	p := postgres.create(t)
	db := p.open(t, 0)
	for table, trigger := range map[string]sqlfence.Trigger{
		"rows": {}, "whole": {Resource: "whole"}, "keyed": {Resource: "keyed", Key: "id"},
	} {
		must(t, db, "CREATE TABLE "+table+" (id INT, n INT) PARTITION BY LIST (id)")
		part := table + "_1"
		must(t, db, "CREATE TABLE "+part+" PARTITION OF "+table+" FOR VALUES IN (1)")
		trigger.Dialect, trigger.Table = p.dialect, table
		install(t, db, trigger)
		want(t, table, p.under(t, db, 6, "INSERT INTO "+table+" VALUES (1, 6)"), nil)
		late := "UPDATE " + part + " SET n = 5"
		if table == "whole" {
			want(t, "seen by no trigger", p.under(t, db, 5, late), nil)
			trigger.Table = part
			install(t, db, trigger)
			want(t, "a late TRUNCATE", p.under(t, db, 5, "TRUNCATE "+part), fence.ErrStale)
		}
		want(t, table, p.under(t, db, 5, late), fence.ErrStale)
		want(t, table, p.under(t, db, 6, late), nil)
	}
	want(t, "seen by no trigger", p.under(t, db, 5, "TRUNCATE rows_1"), nil)
	must(t, db, "CREATE TRIGGER holdfast_fence_truncate BEFORE TRUNCATE ON rows_1 "+
		"FOR EACH STATEMENT EXECUTE FUNCTION rows_fence()")
	assert.True(t, p.under(t, db, 9, "TRUNCATE rows_1") != nil, "TRUNCATE of a partition passes its trigger")
}

// Nor does PostgreSQL pass a row's trigger on to a table that inherits. It passes on the column.
func TestATableThatInheritsNeedsATriggerOfItsOwn(t *testing.T) {
	t.Parallel()
	p := postgres.create(t)
	db := p.open(t, 0)
	must(t, db, "CREATE TABLE account (id INT PRIMARY KEY, balance BIGINT NOT NULL)")
	must(t, db, "CREATE TABLE child () INHERITS (account)")
	must(t, db, "INSERT INTO child VALUES (1, 0)")
	install(t, db, sqlfence.Trigger{Dialect: p.dialect, Table: "account"})
	const write = "UPDATE account SET balance = balance + 1" // rows of both tables
	want(t, "seen by no trigger", without(t, db, write), nil)
	up, err := sqlfence.Trigger{Dialect: p.dialect, Table: "child"}.Up()
	assert.Must(t, err)
	want(t, "what Up says without ADD COLUMN", all(t, db, up[1:]), nil)
	want(t, "the newest", p.under(t, db, 6, write), nil)
	want(t, "a late write", p.under(t, db, 5, write), fence.ErrStale)
}
