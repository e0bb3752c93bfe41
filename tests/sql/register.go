// Package sql has the clients of the fault suite share rows of a real SQL
// database, in place of files. The fault suite itself needs none.
//
// What it shows needs no feature of one database: the fence is the condition
//
//	UPDATE register SET value = ?, token = ? WHERE id = ? AND token <= ?
//
// and a row that was not changed is a holder that came too late.
package sql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/ncruces/go-sqlite3"
	_ "github.com/ncruces/go-sqlite3/driver" // the driver sqlite3
	_ "github.com/ncruces/go-sqlite3/embed"  // the database itself
	"github.com/tetratelabs/wazero"

	"github.com/holdfast-go/holdfast/verify/workload"
)

// schema is the table, as any database has it. A token fits a BIGINT.
const schema = `CREATE TABLE IF NOT EXISTS register (
	id    VARCHAR(16) PRIMARY KEY,
	value BIGINT NOT NULL,
	token BIGINT NOT NULL
);
INSERT INTO register VALUES ('fenced', 0, 0), ('plain', 0, 0) ON CONFLICT DO NOTHING;`

// patience is for how long a statement waits for another process. One that was
// stopped in the middle of a statement goes on within seconds.
const patience = time.Minute

// Registers opens the database in dir, which the processes of a run share.
func Registers(dir string) (workload.Registers, error) {
	// Interpreted, a statement takes 10 ms under the race detector. Compiled, it takes
	// less, but every process spends a quarter of a minute on compiling first.
	sqlite3.RuntimeConfig = wazero.NewRuntimeConfigInterpreter()
	name := fmt.Sprintf("file:%s?_pragma=busy_timeout(%d)&_pragma=journal_mode(wal)&_txlock=immediate",
		filepath.ToSlash(filepath.Join(dir, "registers.db")), patience.Milliseconds())
	db, err := sql.Open("sqlite3", name)
	if err != nil {
		return workload.Registers{}, err
	}
	db.SetMaxOpenConns(1)
	for begun := time.Now(); ; {
		// Several processes that open a new database at once may turn one another
		// away without waiting.
		_, err = db.ExecContext(context.Background(), schema)
		if !errors.Is(err, sqlite3.BUSY) || time.Since(begun) > patience {
			break
		}
	}
	if err != nil {
		return workload.Registers{}, errors.Join(fmt.Errorf("opening the registers: %w", err), db.Close())
	}
	return workload.Registers{Fenced: fenced{db}, Plain: plain{db}, Close: db.Close}, nil
}

// fenced is a row that remembers the highest token that it was shown.
type fenced struct{ db *sql.DB }

// Read implements [workload.Register].
func (f fenced) Read(token uint64) (value int64, err error) {
	err = f.db.QueryRowContext(context.Background(),
		"UPDATE register SET token = ? WHERE id = 'fenced' AND token <= ? RETURNING value", token, token).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, workload.ErrStale
	}
	return value, err
}

// Write implements [workload.Register].
func (f fenced) Write(token uint64, value int64) error {
	done, err := f.db.ExecContext(context.Background(),
		"UPDATE register SET value = ?, token = ? WHERE id = 'fenced' AND token <= ?", value, token, token)
	if err != nil {
		return err
	}
	switch changed, err := done.RowsAffected(); {
	case err != nil:
		return err
	case changed == 0:
		return workload.ErrStale
	}
	return nil
}

// plain is a row that takes everything.
type plain struct{ db *sql.DB }

// Read implements [workload.Register].
func (p plain) Read(uint64) (value int64, err error) {
	err = p.db.QueryRowContext(context.Background(), "SELECT value FROM register WHERE id = 'plain'").Scan(&value)
	return value, err
}

// Write implements [workload.Register].
func (p plain) Write(_ uint64, value int64) error {
	_, err := p.db.ExecContext(context.Background(), "UPDATE register SET value = ? WHERE id = 'plain'", value)
	return err
}
