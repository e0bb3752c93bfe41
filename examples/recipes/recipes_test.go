package recipes_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/examples/recipes"
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

// TestTheReportIsSkipped is the test of a program's own code, as docs/go.md shows it.
func TestTheReportIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // an hour of waiting takes no time
		st := memstore.New() // the clients of one store are like processes at one server
		ours, theirs := newClient(t, st), newClient(t, st)
		lease, err := theirs.Mutex("report").Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ran := false
		report := func(context.Context) error { ran = true; return nil }
		if err := recipes.Skip(t.Context(), ours, report); err != nil || ran {
			t.Errorf("another process has the lock: ran is %v, the error %v", ran, err)
		}
		st.Advance(time.Hour) // their process is paused for longer than its lease
		if err := recipes.Skip(t.Context(), ours, report); err != nil || !ran {
			t.Errorf("their lease is over: ran is %v, the error %v", ran, err)
		}
		if err := lease.Release(t.Context()); !errors.Is(err, holdfast.ErrNotHeld) {
			t.Errorf("their release returned %v", err)
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
		"Call":    {"api", recipes.Call},
		"Read":    {"catalog", recipes.Read},
		"Write":   {"catalog", recipes.Write},
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

func TestTheHandlerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		ours, theirs := newClient(t, st), newClient(t, st)
		paid := errors.New("not called")
		mux := http.NewServeMux()
		mux.Handle("POST /invoices/{id}", recipes.Handler(ours, func(_ context.Context, id string, token uint64) error {
			if id != "42" || token == 0 {
				t.Errorf("invoice %s is paid under token %d", id, token)
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
		assert.Equal(t, post(), http.StatusNoContent, "after the payment")
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
	assert.True(t, len(blocks) >= 10, "the page has %d recipes", len(blocks))
	for _, m := range blocks {
		for part := range strings.SplitSeq(m[1], "\n\n") {
			assert.True(t, strings.Contains(code.String(), part+"\n"), "no test runs this code of the page:\n%s", part)
		}
	}
}
