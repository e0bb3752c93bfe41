package fence_test

import (
	"database/sql"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fence/httpfence"
	"github.com/holdfast-go/holdfast/fence/objectfence"
	"github.com/holdfast-go/holdfast/fence/redisfence"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// Two instances of a service share a memory, whichever it is. What one of them has seen, the other
// one knows, also after a restart.
func TestInstancesOfAServiceShareAMemory(t *testing.T) {
	t.Parallel()
	memories := map[string]func(t *testing.T) fence.Memory{
		"Redis": func(t *testing.T) fence.Memory {
			return redisfence.Guard{Store: adapters["goredis"](t, redistest.Start(t).Addr())}
		},
		"S3": func(t *testing.T) fence.Memory {
			_, bucket := newBucket(t)
			return objectfence.Guard{Bucket: bucket}
		},
	}
	for _, d := range databases() {
		memories[d.name] = func(t *testing.T) fence.Memory {
			guard, _, _, db := guarded(t, d)
			return guard.Memory(db)
		}
	}
	for name, open := range memories {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory := open(t)
			instance := func() string {
				guard := &httpfence.Guard{Memory: memory}
				nothing := func(http.ResponseWriter, *http.Request) {}
				service := httptest.NewServer(guard.Handler(http.HandlerFunc(nothing)))
				t.Cleanup(service.Close)
				return service.URL
			}
			first, second := instance(), instance()
			for _, c := range []struct {
				url   string
				token uint64
				err   error
			}{
				{first, 5, nil}, {second, 6, nil}, {first, 5, fence.ErrStale}, {first, 6, nil}, {first, 7, nil},
				{second, 6, fence.ErrStale}, {instance(), 6, fence.ErrStale},
			} {
				r, err := http.NewRequestWithContext(within(t), http.MethodPut, c.url+"/invoices/42", nil)
				assert.Must(t, err)
				httpfence.Set(r, c.token)
				answer, err := http.DefaultClient.Do(r)
				assert.Must(t, err)
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				want(t, answer.Status, httpfence.Refused(answer), c.err)
				assert.False(t, c.err == nil && answer.StatusCode != http.StatusOK,
					"token %d: %s", c.token, answer.Status)
			}
		})
	}
}

// A handler that was let in, and then paused, is refused where it writes: its transaction shows the
// token once more.
func TestAHandlerThatIsPausedIsRefusedByTheDatabase(t *testing.T) {
	t.Parallel()
	forEach(t, func(t *testing.T, d database) {
		guard, _, _, db := guarded(t, d)
		in, goOn := make(chan struct{}), make(chan struct{})
		written := make(chan error, 1)
		handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			token, _ := httpfence.Token(r.Context())
			if token == 5 {
				close(in)
				<-goOn
			}
			written <- guard.Do(r.Context(), db, r.URL.Path, token, func(tx *sql.Tx) error {
				_, err := tx.Exec("UPDATE account SET balance = balance + 1")
				return err
			})
		})
		send := func(token uint64) {
			// Each request has an instance of its own, which knows no other one.
			service := (&httpfence.Guard{Memory: guard.Memory(db)}).Handler(handler)
			r := httptest.NewRequestWithContext(within(t), http.MethodPut, "/account/1", nil)
			httpfence.Set(r, token)
			service.ServeHTTP(httptest.NewRecorder(), r)
		}
		go send(5)
		redistest.Next(t, "the first handler", in)
		send(6)
		want(t, "the second", redistest.Next(t, "the second handler", written), nil)
		close(goOn)
		want(t, "the first", redistest.Next(t, "the end of the first handler", written), fence.ErrStale)
		assert.Equal(t, number(t, db, readBalance), 1, "the balance")
	})
}
