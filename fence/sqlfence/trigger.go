package sqlfence

import "strings"

// Trigger writes a migration. After it the database itself refuses a write to Table whose transaction has a
// lower token than the highest one that the row was shown. The statements of the program stay as they are, and
// no statement can forget the token: transactions begin with [Dialect.Do] or [Dialect.Begin].
//
//	invoices := sqlfence.Trigger{Dialect: sqlfence.PostgreSQL, Table: "invoice"}
//	statements, err := invoices.Up()
//
// A row that is deleted is forgotten: whoever inserts it again, also under a lower token, is accepted. With
// Resource the token outlives the row. In PostgreSQL TRUNCATE is refused, or with a Resource for the whole
// table checked. There a partition has the trigger for its rows, but not that for TRUNCATE: create that on the
// partition, too, with the same function. Nor has it those of a Resource without a Key: a statement that names the
// partition is not checked by them, so give it a Trigger of its own. A table that INHERITS from Table has no trigger
// at all: give it one, by Up without ADD COLUMN.
// In MySQL and MariaDB neither TRUNCATE nor a foreign key's cascade fires a trigger: there, give parent and child
// one Resource. From MySQL 9.7 on cascades do, if enable_cascade_triggers is on.
//
// A Trigger is for programs that forget. A program can evade it: by the token 'off', by ALTER TABLE, and in
// PostgreSQL by session_replication_role, or by a temporary table that has the name of Tokens without a schema.
//
// SQLite is refused: it has no variable that ends with a transaction. PostgreSQL must be 11 or later, MySQL
// 8.0.23, MariaDB 10.3.
type Trigger struct {
	Dialect Dialect
	// Table is spelled as in the database's catalogue: invoice, or with its schema billing.invoice. Put a part
	// with a dot into double quotes. Unlike in a [Guard] and a [Row], every name is quoted in the statements.
	Table string
	// Column keeps the highest token of each row. The migration adds it. Default: fence_token.
	Column string
	// Resource, if set, is what all writes to the table are judged by, in place of each row: a resource of the
	// [Guard] with the table Tokens. A transaction that begins with [Guard.Check] has shown its token before
	// it reads. In MySQL, and with a Key, it can end in a deadlock with one that does not: the database ends one of
	// them.
	Resource string
	// Key is a column, for a table with a lock for each of its values. The resource of a row is then
	// Resource, a slash, and that value: invoice/42. It has integers or texts: the text of a time, for example, would
	// depend on the session, and MySQL refuses bytes that are no text.
	Key string
	// Tokens is the table of the resources. Default: [DefaultTable]. If Table has a schema, Tokens must name one: the
	// schema where the tokens are already, if a Guard or an earlier trigger wrote some. The rights to SELECT, INSERT
	// and UPDATE it are needed by whoever writes to Table, in MySQL by the account that ran the migration: without
	// that account, the database refuses all writes to Table. Without a schema, PostgreSQL finds it by the
	// search_path of whoever runs the migration. If "$user" is in that path, it stands for each writer: name the
	// schema if writers have schemas of their own.
	Tokens string
	// AllowMissing lets writes pass that have no token. Default: they are refused. It is for the time until all
	// programs begin their transactions with a token. To end that time, run the statements of Down except
	// the one with DROP COLUMN, and then those of Up except the one with ADD COLUMN.
	AllowMissing bool
}

// Up returns the statements that install the trigger, in their order. They fail if it exists. MySQL with a binary log
// wants the privilege SUPER for them, or log_bin_trust_function_creators to be on. If a field cannot be
// used, the error is a [fence.ErrInvalid].
func (t Trigger) Up() ([]string, error) {
	q, err := t.quote()
	if err != nil {
		return nil, err
	}
	first := "ALTER TABLE " + q.table + " ADD COLUMN " + q.column + " BIGINT NOT NULL DEFAULT 0"
	switch {
	case t.Resource != "":
		first = Guard{Dialect: t.Dialect, Table: q.tokens}.Migration()
	case t.Dialect == MySQL:
		first += " INVISIBLE" // so SELECT *, and INSERT without a list of columns, are as before
	}
	if t.Dialect == MySQL {
		return append([]string{first}, t.mysql(q)...), nil
	}
	return append([]string{first}, t.postgres(q)...), nil
}

// Down returns the statements that undo those of Up. The table of the resources stays, because other guards may
// use it.
func (t Trigger) Down() ([]string, error) {
	q, err := t.quote()
	if err != nil {
		return nil, err
	}
	var down []string
	if t.Dialect == MySQL {
		for _, event := range mysqlEvents {
			down = append(down, "DROP TRIGGER "+q.object("_fence_"+strings.ToLower(event)))
		}
	} else {
		down = []string{
			"DROP TRIGGER holdfast_fence ON " + q.table,
			"DROP TRIGGER holdfast_fence_truncate ON " + q.table,
			"DROP FUNCTION " + q.object("_fence") + "()",
		}
	}
	if t.Resource == "" {
		down = append(down, "ALTER TABLE "+q.table+" DROP COLUMN "+q.column)
	}
	return down, nil
}

// when is the time of the check. A key is final only when its row is written: AUTO_INCREMENT, generated columns and
// other triggers change it.
func (t Trigger) when() string {
	if t.Key != "" {
		return "AFTER"
	}
	return "BEFORE"
}

// postgres is the function with its triggers. The token is a setting: it ends with the transaction, and is an
// empty text from then on. A trigger of an update finds the row locked, in its last version, at every isolation
// level: if that is newer than the snapshot, READ COMMITTED looks again, and the others fail.
func (t Trigger) postgres(q quoted) []string {
	missing := "RAISE EXCEPTION USING ERRCODE = 'HF002', MESSAGE = " + q.missing +
		",\n      HINT = 'begin the transaction with sqlfence, or with SET LOCAL holdfast.token';"
	switch {
	case t.AllowMissing && t.Resource == "": // a program that writes all columns must not lower the token
		missing = "IF TG_OP = 'UPDATE' THEN\n      NEW." + q.column + " := OLD." + q.column + ";\n" +
			"    ELSIF TG_OP = 'INSERT' THEN\n      NEW." + q.column + " := 0;\n    END IF;"
	case t.AllowMissing:
		missing = "NULL;"
	}
	check, level := t.postgresCheck(q), "ROW"
	if t.Resource != "" && t.Key == "" {
		level = "STATEMENT"
	} else {
		check = "IF TG_OP = 'TRUNCATE' THEN\n      RAISE EXCEPTION USING ERRCODE = 'HF003', HINT = 'use DELETE',\n" +
			"        MESSAGE = 'fence: TRUNCATE shows no row its token';\n    END IF;\n    " + check
	}
	body := `
DECLARE
  given text := nullif(current_setting('holdfast.token', true), '');
  which text := ` + q.which + `;
  shown bigint;
  seen bigint := 0;
BEGIN
  IF given IS NULL THEN
    ` + missing + `
  ELSIF given <> 'off' THEN
    shown := given::bigint;
    ` + check + `
  END IF;
  IF TG_OP = 'DELETE' THEN
    RETURN OLD;
  END IF;
  RETURN NEW;
END
`
	end := "$holdfast$" // a name may have that, too
	for strings.Contains(body, end) {
		end = strings.TrimSuffix(end, "$") + "_$"
	}
	function, language := q.object("_fence")+"()", "plpgsql"
	if q.byPath { // else each writer's path decides, and a resource may have several tokens
		language += " SET search_path FROM CURRENT"
	}
	return []string{
		"CREATE FUNCTION " + function + " RETURNS trigger LANGUAGE " + language + " AS " + end + body + end,
		"CREATE TRIGGER holdfast_fence " + t.when() + " INSERT OR UPDATE OR DELETE ON " + q.table +
			" FOR EACH " + level + " EXECUTE FUNCTION " + function,
		"CREATE TRIGGER holdfast_fence_truncate BEFORE TRUNCATE ON " + q.table +
			" FOR EACH STATEMENT EXECUTE FUNCTION " + function,
	}
}

// A token of 0 or less, which no lease has, is older than all.
const postgresJudge = `
    IF greatest(seen, 1) > shown THEN
      RAISE EXCEPTION USING ERRCODE = 'HF001',
        MESSAGE = 'fence: token ' || shown || ' of ' || which || ' is stale, ' || seen || ' was seen';
    END IF;`

func (t Trigger) postgresCheck(q quoted) string {
	raise := PostgreSQL.upsert(q.tokens, "which", "shown") + "\n      RETURNING token INTO seen;" + postgresJudge
	keyed := func(row string) string {
		return "\n    which := " + q.which + " || '/' || " + row + "." + q.key + ";\n    " + raise
	}
	text := func(row string) string { return row + "." + q.key + `::text COLLATE "C"` } // not as the type compares
	switch {
	case t.Resource == "":
		return "IF TG_OP <> 'INSERT' THEN\n      seen := OLD." + q.column + ";\n    END IF;" + postgresJudge +
			"\n    IF TG_OP <> 'DELETE' THEN\n      NEW." + q.column + " := shown;\n    END IF;"
	case t.Key == "":
		return raise
	}
	return "IF TG_OP <> 'INSERT' THEN" + keyed("OLD") + "\n    END IF;\n" +
		"    IF TG_OP = 'INSERT' OR TG_OP = 'UPDATE' AND " + text("NEW") + " IS DISTINCT FROM " + text("OLD") +
		" THEN" + keyed("NEW") + "\n    END IF;"
}

var mysqlEvents = []string{"INSERT", "UPDATE", "DELETE"}

// mysql is a trigger for each event. The token is a variable of the session, which [Tx] resets. A trigger of an
// update finds the row locked, in its last version, at every isolation level.
func (t Trigger) mysql(q quoted) []string {
	var up []string
	for _, event := range mysqlEvents {
		missing := "SET refusal = " + q.missing + ";\n    SIGNAL SQLSTATE 'HF002' SET MESSAGE_TEXT = refusal;"
		switch {
		case t.AllowMissing && t.Resource == "" && event == "UPDATE": // as in PostgreSQL
			missing = "SET NEW." + q.column + " = OLD." + q.column + ";"
		case t.AllowMissing && t.Resource == "" && event == "INSERT":
			missing = "SET NEW." + q.column + " = 0;"
		case t.AllowMissing:
			missing = "DO 0;"
		}
		name := q.object("_fence_" + strings.ToLower(event))
		up = append(up, "CREATE TRIGGER "+name+" "+t.when()+" "+event+" ON "+q.table+` FOR EACH ROW
BEGIN
  DECLARE which VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT `+q.which+`;
  DECLARE shown BIGINT;
  DECLARE seen BIGINT DEFAULT 0;
  DECLARE refusal VARCHAR(255) CHARACTER SET utf8mb4;
  IF @holdfast_token IS NULL THEN
    `+missing+`
  ELSEIF CAST(@holdfast_token AS CHAR) <> 'off' THEN
    SET shown = CAST(@holdfast_token AS SIGNED);
    `+t.mysqlCheck(q, event)+`
  END IF;
END`)
	}
	return up
}

// The longest message has 128 characters.
const mysqlJudge = `
    IF GREATEST(seen, 1) > shown THEN
      SET refusal = CONCAT('fence: token ', shown, ' of ', LEFT(which, 51), ' is stale, ', seen, ' was seen');
      SIGNAL SQLSTATE 'HF001' SET MESSAGE_TEXT = refusal;
    END IF;`

// A lenient sql_mode in the migration shortens a name that does not fit, and makes an empty one of NULL. The name in
// the trigger has one character more than fits, so a shortened one is never found.
const mysqlLost = `
    IF seen IS NULL THEN
      SIGNAL SQLSTATE 'HF003' SET MESSAGE_TEXT = 'fence: the key is NULL, or too long for the name of a resource';
    END IF;`

func (t Trigger) mysqlCheck(q quoted, event string) string {
	// A comparison of bytes with a text may use no index, and then locks every row of the table.
	raise := MySQL.upsert(q.tokens, "which", "shown") + ";\n    SET seen = NULL;\n    SELECT f.token INTO seen FROM " +
		q.tokens + " f WHERE f.resource = CAST(which AS BINARY) FOR UPDATE;" + mysqlLost + mysqlJudge
	keyed := func(row string) string {
		return "SET which = CONCAT(" + q.which + ", '/', " + row + "." + q.key + ");\n    " + raise
	}
	switch {
	case t.Resource != "" && t.Key == "":
		return raise
	case t.Resource != "" && event == "INSERT":
		return keyed("NEW")
	case t.Resource != "" && event == "DELETE":
		return keyed("OLD")
	case t.Resource != "":
		same := "CAST(NEW." + q.key + " AS BINARY) <=> CAST(OLD." + q.key + " AS BINARY)" // not as the column compares
		return keyed("OLD") + "\n    IF NOT (" + same + ") THEN\n    " + keyed("NEW") + "\n    END IF;"
	case event == "INSERT":
		return mysqlJudge[1:] + "\n    SET NEW." + q.column + " = shown;"
	case event == "DELETE":
		return "SET seen = OLD." + q.column + ";" + mysqlJudge
	}
	return "SET seen = OLD." + q.column + ";" + mysqlJudge + "\n    SET NEW." + q.column + " = shown;"
}
