package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// around is the program around the README's code: what the code needs, and a check of
// what it has done.
const around = `package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"

	_ "github.com/ncruces/go-sqlite3/driver"
	_ "github.com/ncruces/go-sqlite3/embed"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store/goredis"
)

func main() {
	ctx := context.Background()
	db, err := sql.Open("sqlite3", os.Args[1])
	if err == nil {
		_, err = db.Exec("CREATE TABLE invoice (id INTEGER, paid BOOLEAN, token BIGINT); " +
			"INSERT INTO invoice VALUES (42, false, 0)")
	}
	if err == nil {
		err = readme(ctx, db)
	}
	var paid bool
	if err == nil {
		err = db.QueryRow("SELECT paid FROM invoice WHERE token > 0").Scan(&paid)
	}
	fmt.Println("paid:", paid, err)
}

func work(ctx context.Context) error {
	fmt.Println("working:", ctx.Err() == nil)
	return ctx.Err()
}

func readme(ctx context.Context, db *sql.DB) error {
	CODE
	return nil
}
`

// Readers copy the code at the top of the README before they read on. So it must run.
func TestTheReadmesCodeRuns(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "README.md"))
	assert.Must(t, err)
	top, _, _ := strings.Cut(string(page), "\n## ")
	var code string
	blocks := strings.Split(top, "```")
	for i := 1; i < len(blocks); i += 2 {
		code += strings.TrimPrefix(blocks[i], "go\n")
	}
	const address = "127.0.0.1:6379"
	for _, part := range []string{address, ".Do(", ".Lock("} {
		assert.Contains(t, code, part)
	}
	code = strings.Replace(code, address, redistest.Start(t).Addr(), 1)
	dir := t.TempDir()
	program := filepath.Join(dir, "main.go")
	assert.Must(t, os.WriteFile(program, []byte(strings.Replace(around, "CODE", code, 1)), 0o600))
	run := exec.CommandContext(t.Context(), "go", "run", "-ldflags=-s -w", program, filepath.Join(dir, "bank.db"))
	out, err := run.CombinedOutput()
	assert.MustTrue(t, err == nil, "%v\n%s", err, out)
	says(t, string(out), `^working: true$`, `^working: true$`, `^paid: true <nil>$`)
}
