package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fence/httpfence"
	"github.com/holdfast-go/holdfast/fence/objectfence"
	"github.com/holdfast-go/holdfast/fence/redisfence"
	"github.com/holdfast-go/holdfast/fence/sqlfence"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// journal is a guarded resource to which writers append words.
type journal struct {
	write func(ctx context.Context, token uint64, word string) error
	read  func() string
}

// journals make them. disturb, if there is one, loses an answer.
func journals() map[string]func(t *testing.T) (j journal, disturb func()) {
	all := map[string]func(t *testing.T) (journal, func()){"Redis": redisJournal, "HTTP": httpJournal, "S3": s3Journal}
	for _, d := range databases() {
		all[d.name] = func(t *testing.T) (journal, func()) {
			guard, _, _, db := guarded(t, d)
			return sqlJournal(t, db, func(ctx context.Context, token uint64, f func(*sql.Tx) error) error {
				return guard.Do(ctx, db, "account/1", token, f)
			}), nil
		}
		all[d.name+", a row"] = func(t *testing.T) (journal, func()) {
			_, row, _, db := guarded(t, d)
			j := sqlJournal(t, db, nil)
			j.write = func(ctx context.Context, token uint64, word string) error {
				return row.Update(ctx, db, 1, token, "words = CONCAT(words, '"+word+" ')")
			}
			return j, nil
		}
	}
	for _, d := range triggered() {
		for what, trigger := range map[string]sqlfence.Trigger{"rows": {}, "a resource": {Resource: "r"}} {
			all[d.name+", a trigger of "+what] = func(t *testing.T) (journal, func()) {
				db := d.create(t).open(t, 0)
				must(t, db, "CREATE TABLE account (id INT PRIMARY KEY, balance BIGINT NOT NULL)")
				must(t, db, "INSERT INTO account VALUES (1, 0)")
				trigger.Dialect, trigger.Table = d.dialect, "account"
				j := sqlJournal(t, db, func(ctx context.Context, token uint64, f func(*sql.Tx) error) error {
					return d.dialect.Do(ctx, db, token, f)
				})
				install(t, db, trigger)
				return j, nil
			}
		}
	}
	return all
}

func sqlJournal(
	t *testing.T, db *sql.DB, do func(ctx context.Context, token uint64, f func(*sql.Tx) error) error,
) journal {
	db.SetMaxOpenConns(10)
	must(t, db, "ALTER TABLE account ADD COLUMN words TEXT")
	must(t, db, "UPDATE account SET words = ''")
	return journal{
		write: func(ctx context.Context, token uint64, word string) error {
			return do(ctx, token, func(tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "UPDATE account SET words = CONCAT(words, '"+word+" ') WHERE id = 1")
				return err
			})
		},
		read: func() (words string) {
			err := db.QueryRowContext(within(t), "SELECT words FROM account WHERE id = 1").Scan(&words)
			want(t, "read", err, nil)
			return words
		},
	}
}

func redisJournal(t *testing.T) (journal, func()) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	guard := redisfence.Guard{Store: adapters["goredis"](t, proxy.Addr())}
	return journal{
		write: func(ctx context.Context, token uint64, word string) error {
			return guard.Do(ctx, "words", token, redisfence.Write("APPEND", "words", word+" "))
		},
		read: func() string { return fmt.Sprint(server.Do(t, "GET", "words")) },
	}, func() { proxy.DropRepliesAndCut(1, "EVALSHA") }
}

func s3Journal(t *testing.T) (journal, func()) {
	_, bucket := newBucket(t)
	guard := objectfence.Guard{Bucket: bucket}
	return journal{
		write: func(ctx context.Context, token uint64, word string) error {
			return guard.Update(ctx, "words", token, func(old []byte) ([]byte, error) {
				return append(old, word+" "...), nil
			})
		},
		read: func() string {
			words, err := guard.Get(within(t), "words")
			want(t, "read", err, nil)
			return string(words)
		},
	}, nil
}

func httpJournal(t *testing.T) (journal, func()) {
	var mu sync.Mutex
	var words strings.Builder
	service := httptest.NewServer((&httpfence.Guard{}).Handler(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			word, err := io.ReadAll(r.Body)
			mu.Lock()
			defer mu.Unlock()
			if err != nil || r.Context().Err() != nil {
				http.Error(w, "the work was cancelled", http.StatusConflict)
				return
			}
			words.WriteString(string(word) + " ")
		})))
	t.Cleanup(service.Close)
	return journal{
		write: func(ctx context.Context, token uint64, word string) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodPut, service.URL+"/words", strings.NewReader(word))
			assert.Must(t, err)
			httpfence.Set(r, token)
			answer, err := service.Client().Do(r)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			return errors.Join(errors.New(answer.Status), httpfence.Refused(answer))
		},
		read: func() string {
			mu.Lock()
			defer mu.Unlock()
			return words.String()
		},
	}, nil
}

// Many writers at random, of which some give up: no write comes after one of a newer token, an accepted one was made
// once, and a refused one was not made.
func TestAGuardDoesWhatItSaysAmongManyWriters(t *testing.T) {
	t.Parallel()
	for name, open := range journals() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, disturb := open(t)
			writers := 50
			if name == "S3" { // each write starts again after another
				writers = 6
			}
			var began atomic.Uint64
			var outcomes sync.Map
			var all sync.WaitGroup
			for range writers {
				all.Go(func() {
					for range 4 {
						n := began.Add(1)
						token := 1 + n/8 + rand.Uint64N(4)
						ctx, cancel := context.WithCancel(within(t))
						if rand.IntN(4) == 0 {
							time.AfterFunc(time.Duration(rand.IntN(int(20*time.Millisecond))), cancel)
						}
						if disturb != nil && rand.IntN(3) == 0 {
							disturb()
						}
						word := fmt.Sprintf("%d/%d", token, n)
						outcomes.Store(word, j.write(ctx, token, word))
						cancel()
					}
				})
			}
			all.Wait()
			judge(t, &outcomes, strings.Fields(j.read()))
		})
	}
}

func judge(t *testing.T, outcomes *sync.Map, words []string) {
	t.Helper()
	times, last := make(map[string]int), uint64(0)
	for _, word := range words {
		var token, n uint64
		_, err := fmt.Sscanf(word, "%d/%d", &token, &n)
		assert.Must(t, err)
		assert.True(t, token >= last, "%s was written after token %d", word, last)
		times[word]++
		last = token
	}
	count := map[string]int{}
	for word, outcome := range outcomes.Range {
		err, _ := outcome.(error)
		switch n := times[word.(string)]; {
		case err == nil:
			count["accepted"]++
			assert.Equal(t, n, 1, "%s was accepted: times that it was written", word)
		case errors.Is(err, fence.ErrStale):
			count["refused"]++
			assert.Equal(t, n, 0, "%s was refused: times that it was written", word)
		default:
			count["unknown"]++
			assert.AtMost(t, n, 1, "%s: %v: times that it was written", word, err)
		}
	}
	assert.True(t, count["accepted"] > 0 && count["refused"] > 0, "too little happened: %v", count)
}
