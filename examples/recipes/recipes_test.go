package recipes_test

import (
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/ncruces/go-sqlite3/driver" // the driver sqlite3
	_ "github.com/ncruces/go-sqlite3/embed"  // SQLite itself

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/recipes"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fence/sqlfence"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/memstore"
)

func newClient(t *testing.T, st *memstore.Store) *holdfast.Client {
	t.Helper()
	client, err := holdfast.New(st, holdfast.Config{})
	assert.Must(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close(context.Background())) })
	return client
}

// A program's own test, as docs/go.md shows it.
func TestTheReportIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // waiting takes no time
		st := memstore.New() // the clients of one store are like processes at one server
		ours, theirs, runs := newClient(t, st), newClient(t, st), 0
		report := func(context.Context) error { runs++; return nil }
		_, locked := theirs.Mutex("report").Lock(t.Context())
		skipped := recipes.Skip(t.Context(), ours, report)
		beside := runs
		st.Advance(time.Hour) // as if their process were paused for longer than its lease
		ran := recipes.Skip(t.Context(), ours, report)
		if err := errors.Join(locked, skipped, ran); err != nil || beside != 0 || runs != 1 {
			t.Errorf("%d runs beside theirs, %d in all: %v", beside, runs, err)
		}
	})
}

// Each recipe runs its work under the lock that it is about.
func TestTheRecipesRun(t *testing.T) {
	done := errors.New("done")
	work := func(context.Context) error { return done }
	for name, c := range map[string]struct {
		lock   string // which the work has
		recipe func(context.Context, *holdfast.Client, func(context.Context) error) error
	}{
		"Skip":   {"report", recipes.Skip},
		"Charge": {"order/42", recipes.Charge},
		"Transfer": {"account/b", func(ctx context.Context, c *holdfast.Client, f func(context.Context) error) error {
			return recipes.Transfer(ctx, c, "a", "b", f)
		}},
		"Lead": {"scheduler", func(ctx context.Context, c *holdfast.Client, f func(context.Context) error) error {
			return recipes.Lead(ctx, c, "10.0.0.7:80", f)
		}},
		"Nightly": {"backup", recipes.Nightly},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, ran := newClient(t, memstore.New()), false
				err := c.recipe(t.Context(), client, func(ctx context.Context) error {
					lease, ok := holdfast.LeaseOf(ctx, c.lock)
					ran = ok && lease.Token > 0
					return work(ctx)
				})
				assert.True(t, ran, "the work did not have the lock %q", c.lock)
				assert.Is(t, err, done)
			})
		})
	}
}

func TestAProgramThatIsToldToEndReleasesItsLocks(t *testing.T) {
	st := memstore.New()
	client, next := newClient(t, st), newClient(t, st)
	self, err := os.FindProcess(os.Getpid())
	assert.Must(t, err)
	err = recipes.Run(t.Context(), client, func(ctx context.Context) error {
		_, err := client.Mutex("scheduler").Lock(ctx) // Close releases it
		assert.Must(t, err)
		assert.NoError(t, self.Signal(syscall.SIGTERM))
		<-ctx.Done()
		return nil
	})
	assert.NoError(t, err)
	_, err = next.Mutex("scheduler").TryLock(t.Context())
	assert.NoError(t, err)
}

func TestALatePaymentIsRefused(t *testing.T) {
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(t.TempDir(), "invoices"))
	assert.Must(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	guard := sqlfence.Guard{Dialect: sqlfence.SQLite}
	_, err = db.ExecContext(t.Context(), guard.Migration()+
		`; CREATE TABLE invoice (name TEXT, paid BOOL); INSERT INTO invoice VALUES ('invoice/42', false)`)
	assert.Must(t, err)
	client := newClient(t, memstore.New())
	assert.NoError(t, recipes.Pay(t.Context(), client, db, guard, "invoice/42"))
	var paid bool
	assert.Must(t, db.QueryRowContext(t.Context(), `SELECT paid FROM invoice`).Scan(&paid))
	assert.True(t, paid, "the invoice is not paid")
	tx, err := db.BeginTx(t.Context(), nil)
	assert.Must(t, err)
	assert.Must(t, guard.Check(t.Context(), tx, "invoice/42", 1<<62)) // a later holder
	assert.Must(t, tx.Commit())
	assert.Is(t, recipes.Pay(t.Context(), client, db, guard, "invoice/42"), fence.ErrStale)
}

func TestTheHandlerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		ours, theirs := newClient(t, st), newClient(t, st)
		paid := errors.New("not called")
		mux := http.NewServeMux()
		mux.Handle("POST /invoices/{id}", recipes.Handler(ours, func(ctx context.Context, id string) error {
			if _, ok := holdfast.LeaseOf(ctx, "invoice/42"); id != "42" || !ok {
				t.Errorf("invoice %s is paid without its lock", id)
			}
			return paid
		}))
		post := func() int {
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/invoices/42", nil))
			return w.Code
		}
		assert.Equal(t, post(), http.StatusServiceUnavailable, "after an error of the work")
		paid = nil
		assert.Equal(t, post(), http.StatusOK, "after the payment")
		lease, err := theirs.Mutex("invoice/42").Lock(t.Context())
		assert.Must(t, err)
		assert.Equal(t, post(), http.StatusConflict, "while another client holds the lock")
		assert.NoError(t, lease.Release(t.Context()))
	})
}

func TestTheWorkerWorks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		customers := make(chan string, 2)
		customers <- "a"
		customers <- "b"
		close(customers)
		var served []string
		recipes.Work(t.Context(), newClient(t, memstore.New()), customers, func(ctx context.Context, c string) error {
			if _, ok := holdfast.LeaseOf(ctx, "customer/"+c); ok {
				served = append(served, c)
			}
			return nil
		})
		assert.Equal(t, strings.Join(served, " "), "a b", "customers that were served under their locks")
	})
}

var block = regexp.MustCompile("(?s)```go\n(.*?)\n```")

// The code on the page is the code of this directory.
func TestThePageShowsTheRecipes(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "go.md"))
	assert.Must(t, err)
	var code strings.Builder
	for _, file := range []string{"recipes.go", "recipes_test.go"} {
		text, err := os.ReadFile(file)
		assert.Must(t, err)
		code.Write(text)
	}
	blocks := block.FindAllStringSubmatch(string(page), -1)
	assert.Equal(t, len(blocks), 10, "recipes on the page")
	for _, m := range blocks {
		assert.True(t, strings.Count(m[1], "\n") < 15, "a recipe has more than 15 lines:\n%s", m[1])
		for part := range strings.SplitSeq(m[1], "\n\n") {
			assert.True(t, strings.Contains(code.String(), part+"\n"), "no test runs this code of the page:\n%s", part)
		}
	}
}
