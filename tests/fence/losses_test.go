package fence_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast/fence/httpfence"
	"github.com/holdfast-go/holdfast/fence/objectfence"
	"github.com/holdfast-go/holdfast/fence/sqlfence"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/redistest"
)

// resource is what holders write to: where it is, and what its two registers have at the end.
type resource struct {
	kind  string
	place func(t *testing.T) (where string, final func(which string) int64)
}

// others are the resources that are no databases.
var others = []resource{
	{"Redis", func(t *testing.T) (string, func(string) int64) {
		server := redistest.Start(t)
		server.Do(t, "MSET", "fenced", "0", "plain", "0")
		return server.Addr(), func(which string) int64 { return parse(t, server.Do(t, "GET", which)) }
	}},
	{"HTTP", serve},
	{"S3", func(t *testing.T) (string, func(string) int64) {
		addr, bucket := newBucket(t)
		want(t, "the plain object", bucket.Put(within(t), "plain", []byte("0"), ""), nil)
		return addr + "/" + bucket.Name, func(which string) int64 {
			text, err := objectfence.Guard{Bucket: bucket}.Get(within(t), which)
			want(t, "read", err, nil)
			return parse(t, string(text))
		}
	}},
}

func resources() []resource {
	all := others
	for _, d := range databases() {
		all = append(all, resource{d.name, accounts(d)})
	}
	for _, d := range triggered() {
		all = append(all, resource{"gorm on " + d.name, models(d)})
	}
	return all
}

// accounts makes two accounts in a database: the first one is guarded.
func accounts(d database) func(t *testing.T) (string, func(string) int64) {
	return func(t *testing.T) (string, func(string) int64) {
		_, _, p, db := guarded(t, d)
		must(t, db, "INSERT INTO account (id, balance) VALUES (2, 0)")
		return p.source(p.addr, p.file, 0), func(which string) int64 {
			id := map[string]int{"fenced": 1, "plain": 2}[which]
			return number(t, db, fmt.Sprintf("SELECT balance FROM account WHERE id = %d", id))
		}
	}
}

// models makes two tables with an account: the first one has a trigger.
func models(d database) func(t *testing.T) (string, func(string) int64) {
	return func(t *testing.T) (string, func(string) int64) {
		p := d.create(t)
		db := p.open(t, 0)
		for _, table := range []string{"account", "plain"} {
			must(t, db, "CREATE TABLE "+table+" (id INT PRIMARY KEY, balance BIGINT NOT NULL)")
			must(t, db, "INSERT INTO "+table+" VALUES (1, 0)")
		}
		install(t, db, sqlfence.Trigger{Dialect: d.dialect, Table: "account"})
		return p.source(p.addr, p.file, 0), func(which string) int64 {
			table := map[string]string{"fenced": "account", "plain": "plain"}[which]
			return number(t, db, "SELECT balance FROM "+table)
		}
	}
}

// serve runs a service with two numbers: the first one is guarded.
func serve(t *testing.T) (string, func(string) int64) {
	var mu sync.Mutex
	numbers := map[string]string{"/fenced": "0", "/plain": "0"}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodPut {
			text, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			numbers[r.URL.Path] = string(text)
		}
		_, _ = io.WriteString(w, numbers[r.URL.Path])
	})
	mux := http.NewServeMux()
	mux.Handle("/fenced", (&httpfence.Guard{}).Handler(handler))
	mux.Handle("/plain", handler)
	service := httptest.NewServer(mux)
	t.Cleanup(service.Close)
	return service.URL, func(which string) int64 {
		mu.Lock()
		defer mu.Unlock()
		return parse(t, numbers["/"+which])
	}
}

func parse(t *testing.T, text any) int64 {
	t.Helper()
	n, err := strconv.ParseInt(fmt.Sprint(text), 10, 64)
	assert.Must(t, err)
	return n
}

// Holders in processes of their own increment a number under a lock. One is paused between its read
// and its write until another one has had the lock, and goes on; one is killed. A resource that
// checks tokens loses no increment. One that does not loses some.
func TestPausedAndKilledHoldersLoseNothingWhereTokensAreChecked(t *testing.T) {
	t.Parallel()
	locks := redistest.Start(t)
	for _, r := range resources() {
		t.Run(r.kind, func(t *testing.T) {
			t.Parallel()
			where, final := r.place(t)
			cfg := config{Lock: locks.Addr(), Kind: r.kind, Where: where}
			first, second := startHolder(t, cfg), startHolder(t, cfg)
			for _, which := range []string{"plain", "fenced"} {
				written, refused := int64(0), 0
				write := func(h *holder) {
					switch answer := h.do("write"); answer {
					case "wrote":
						written++
					case "refused":
						refused++
					default:
						t.Fatalf("%s: %s", which, answer)
					}
				}
				whole := func(h *holder) { // one increment, from the lock to the release
					locked(t, h, which)
					write(h)
					h.do("release")
				}
				const pauses = 2
				for range pauses {
					locked(t, first, which)
					want(t, "the pause", first.p.Stop(), nil)
					whole(second) // once the lease of the first is over
					want(t, "the end of the pause", first.p.Continue(), nil)
					write(first)
					first.do("release")
				}
				whole(first)
				lost := written - final(which)
				t.Logf("%s, %s: %d written, %d refused, %d lost", r.kind, which, written, refused, lost)
				assert.False(t, which == "fenced" && (lost != 0 || refused != pauses),
					"%d are lost and %d refused; want 0 and %d", lost, refused, pauses)
				assert.False(t, which == "plain" && (lost != pauses || refused != 0),
					"without fencing %d are lost and %d refused; want %d and 0", lost, refused, pauses)
			}

			// What a killed holder has not finished is not there, and stops nobody.
			before := final("fenced")
			locked(t, second, "fenced")
			assert.MustEqual(t, second.do("half"), "half", "second.do")
			want(t, "the kill", second.p.Kill(), nil)
			assert.Equal(t, locked(t, first, "fenced"), before, "after the kill there")
			assert.Equal(t, first.do("write"), "wrote", "after the kill")
			assert.Equal(t, final("fenced"), before+1, "at the end there")
		})
	}
}

// locked has a holder acquire the lock and read, and returns what it read.
func locked(t *testing.T, h *holder, which string) int64 {
	t.Helper()
	answer, found := strings.CutPrefix(h.do("lock "+which), "read ")
	assert.MustTrue(t, found, "%v", answer)
	return parse(t, answer)
}
