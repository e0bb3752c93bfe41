package operate

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/say"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fence/sqlfence"
)

const fenceLong = `fence sql prints a migration: a trigger with which PostgreSQL, MySQL or MariaDB refuses
every write to a table whose fencing token is lower than the highest one that the row was
shown. --down prints what undoes it. It needs no lock server, and connects to no database.

A transaction has its token from its beginning on: Go programs begin it with Do or Begin
of the package sqlfence. Others begin it, and set the token of HOLDFAST_LOCK_TOKEN:

  PostgreSQL       SET LOCAL holdfast.token = '...'
  MySQL, MariaDB   SET @holdfast_token = ..., and = NULL after the commit

The value 'off' in place of a token lets every write pass. It is for whoever restores data
or resets a token. SQLite is refused: it has no variable that ends with a transaction.

With --resource, one token is kept for the whole table, or with --key for each value of a
column of integers or texts, in the table holdfast_fence, also after a row is deleted. If
TABLE has a schema, --tokens must name one, too: the one where the tokens are, if a guard or
a trigger wrote some. That table needs the rights SELECT, INSERT and UPDATE: in PostgreSQL
for all writers, in MySQL and MariaDB for the account that ran the migration, which must
stay. With a binary log, that account needs SUPER, or the server
log_bin_trust_function_creators = 1.

When all programs have tokens, end --allow-missing and keep the rows' tokens: run what --down
prints except DROP COLUMN, and then what the command prints without --allow-missing except
ADD COLUMN. In MySQL and MariaDB stop the writers meanwhile; PostgreSQL needs one psql -1.

The text is for psql, mysql and mariadb. --json prints one object for migration tools
that know no DELIMITER: up and down, each a list of statements.`

// fenceJSON is what fence sql --json prints: a contract.
type fenceJSON struct {
	Up   []string `json:"up"`
	Down []string `json:"down"`
}

// NewFence makes holdfast fence sql.
func NewFence() *cobra.Command {
	var t sqlfence.Trigger
	var dialect string
	var down, asJSON bool
	cmd := &cobra.Command{
		Use:   "fence sql --dialect DIALECT --table TABLE [flags]",
		Short: "Print a trigger that refuses writes of old holders",
		Long:  fenceLong,
		Example: `  holdfast fence sql --dialect postgres --table invoice |
    psql -1v ON_ERROR_STOP=1 shop
  holdfast fence sql --dialect postgres --table invoice --down
  holdfast fence sql --dialect mariadb --table bill --resource bill`,
		ValidArgs: []string{"sql"},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] != "sql" {
				return exit.Usage("fence takes one word, sql",
					"write holdfast fence sql --dialect postgres --table TABLE")
			}
			t.Dialect = fenceDialects[dialect]
			switch {
			case t.Dialect == 0:
				return exit.Usage(fmt.Sprintf("--dialect: fence sql knows no %q", dialect),
					"write --dialect postgres, mysql or mariadb")
			case t.Table == "":
				return exit.Usage("fence sql needs a table", "write --table TABLE, or --table SCHEMA.TABLE")
			case t.Resource == "" && t.Key+t.Tokens != "":
				return exit.Usage("--key and --tokens need --resource", "write --resource NAME, too")
			case t.Resource != "" && t.Column != "":
				return exit.Usage("--column and --resource contradict each other", cli.LeaveOut)
			}
			return printFence(say.Stdout, t, down, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&dialect, "dialect", "", "postgres, mysql or mariadb")
	flags.StringVar(&t.Table, "table", "", "the guarded table; with a schema: SCHEMA.TABLE")
	flags.StringVar(&t.Column, "column", "", "the column of the tokens, which is added (default fence_token)")
	flags.BoolVar(&t.AllowMissing, "allow-missing", false, "let writes pass that have no token")
	flags.StringVar(&t.Resource, "resource", "", "keep one token for the whole table, under this name")
	flags.StringVar(&t.Key, "key", "", "with --resource: keep a token for each value of this column")
	flags.StringVar(&t.Tokens, "tokens", "", "with --resource: the table of the tokens (default holdfast_fence)")
	flags.BoolVar(&down, "down", false, "print what undoes the migration")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object")
	cli.Rename(flags, map[string]string{
		"dialect": "DIALECT", "table": "TABLE", "tokens": "TABLE",
		"column": "COLUMN", "key": "COLUMN", "resource": "NAME",
	})
	values := cobra.FixedCompletions([]string{"postgres", "mysql", "mariadb"}, cobra.ShellCompDirectiveNoFileComp)
	if err := cmd.RegisterFlagCompletionFunc("dialect", values); err != nil {
		panic("BUG: " + err.Error())
	}
	return cmd
}

var fenceDialects = map[string]sqlfence.Dialect{
	"postgres": sqlfence.PostgreSQL, "postgresql": sqlfence.PostgreSQL,
	"mysql": sqlfence.MySQL, "mariadb": sqlfence.MySQL,
	"sqlite": sqlfence.SQLite, // it is refused with the reason
}

func printFence(w io.Writer, t sqlfence.Trigger, down, asJSON bool) error {
	up, err := t.Up()
	if err != nil {
		return exit.Usage(strings.TrimPrefix(err.Error(), fence.ErrInvalid.Error()+": "),
			"holdfast fence --help describes the flags")
	}
	undo, err := t.Down()
	if err != nil {
		return err
	}
	if asJSON {
		return screen.WriteJSON(w, fenceJSON{up, undo})
	}
	statements := up
	if down {
		statements = undo
	}
	var b strings.Builder
	for _, s := range statements {
		end := ";\n"
		if strings.Contains(s, "\n") && t.Dialect == sqlfence.MySQL {
			// The client would end the statement at the first semicolon in it.
			s, end = "DELIMITER $$\n"+s, "$$\nDELIMITER ;\n"
		}
		b.WriteString(s + end)
	}
	_, err = io.WriteString(w, b.String())
	return err
}
