package fence_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/ncruces/go-sqlite3"
	"github.com/redis/go-redis/v9"
	"github.com/tetratelabs/wazero"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/fence/httpfence"
	"github.com/holdfast-go/holdfast/fence/objectfence"
	"github.com/holdfast-go/holdfast/fence/redisfence"
	"github.com/holdfast-go/holdfast/fence/s3fence"
	"github.com/holdfast-go/holdfast/fence/sqlfence"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/childproc"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// envChild turns the test binary into a holder: a process that acquires a lock, reads a number under
// it, and writes the next one.
const envChild = "HOLDFAST_FENCE_CHILD"

// leaseTTL is short, because a test waits for the end of a lease whose holder is paused.
const leaseTTL = 500 * time.Millisecond

// config says where a holder finds everything.
type config struct {
	Lock  string `json:"lock"`  // the lock's server
	Kind  string `json:"kind"`  // the name of the resource
	Where string `json:"where"` // where that is
}

// register is a number that several holders increment. Both calls are made under a lock.
type register interface {
	read(ctx context.Context, token uint64) (int64, error)
	// write calls before when nothing is missing but the last step.
	write(ctx context.Context, token uint64, n int64, before func()) error
}

// child is what a holder does: it obeys the lines of its input.
//
//	lock fenced|plain   acquire the lock, show the token or not, and read: read N
//	write               store N+1: wrote, or refused, or failed and why
//	half                do that but for the last step, and wait to be killed: half
//	release             give up the lock, if it is still held: released
func child(in io.Reader, out io.Writer) error {
	input := bufio.NewScanner(in)
	input.Scan()
	var cfg config
	if err := json.Unmarshal(input.Bytes(), &cfg); err != nil {
		return err
	}
	rdb := redis.NewClient(&redis.Options{Addr: cfg.Lock})
	client, err := holdfast.New(goredis.New(rdb), holdfast.Config{})
	if err != nil {
		return err
	}
	registers, err := connect(cfg)
	if err != nil {
		return err
	}
	var lease *holdfast.Lease
	var reg register
	var n int64
	for input.Scan() {
		order, which, _ := strings.Cut(input.Text(), " ")
		answer := ""
		switch order {
		case "lock":
			reg = registers[which]
			lock := client.Mutex(cfg.Kind+"/"+which, holdfast.TTL(leaseTTL))
			for lease, err = lock.Lock(context.Background()); errors.Is(err, holdfast.ErrLost); {
				lease, err = lock.Lock(context.Background()) // on a busy machine a grant may arrive too late
			}
			if err != nil {
				return err
			}
			if n, err = reg.read(late(lease), lease.Token()); err != nil {
				return err
			}
			answer = fmt.Sprintf("read %d", n)
		case "write":
			answer = "wrote"
			err := reg.write(late(lease), lease.Token(), n+1, func() {})
			if errors.Is(err, fence.ErrStale) {
				answer = "refused"
			} else if err != nil {
				answer = "failed " + err.Error()
			}
		case "half":
			err := reg.write(late(lease), lease.Token(), n+1, func() {
				fmt.Fprintln(out, "half")
				select {} // until the kill
			})
			return fmt.Errorf("the last step failed: %w", err)
		case "release":
			_ = lease.Release(context.Background()) // it may be lost
			answer = "released"
		}
		fmt.Fprintln(out, answer)
	}
	return input.Err()
}

// late is a lease's context that does not end with the lease: it stands for code that was paused
// after its last look at the context.
func late(lease *holdfast.Lease) context.Context { return context.WithoutCancel(lease.Context()) }

// connect opens the two registers of a resource: one that checks tokens, and one that does not.
func connect(cfg config) (map[string]register, error) {
	switch cfg.Kind {
	case "Redis":
		rdb := redis.NewClient(&redis.Options{Addr: cfg.Where})
		return map[string]register{
			"fenced": redisRegister{rdb, "fenced", &redisfence.Guard{Store: goredis.New(rdb)}},
			"plain":  redisRegister{rdb, "plain", nil},
		}, nil
	case "HTTP":
		service := &http.Client{Transport: httpfence.Transport{}}
		return map[string]register{
			"fenced": httpRegister{service, cfg.Where + "/fenced"},
			"plain":  httpRegister{service, cfg.Where + "/plain"},
		}, nil
	case "S3":
		addr, name, _ := strings.Cut(cfg.Where, "/")
		bucket := s3fence.Bucket{Client: s3Client(addr), Name: name}
		return map[string]register{
			"fenced": objectRegister{objectfence.Guard{Bucket: bucket}, "fenced"},
			"plain":  plainObject{bucket, "plain"},
		}, nil
	}
	for _, d := range triggered() {
		if "gorm on "+d.name == cfg.Kind {
			orm, db, err := openORM(d, cfg.Where)
			return map[string]register{
				"fenced": ormRegister{orm, db, d.dialect, "account"}, "plain": ormRegister{orm, db, 0, "plain"},
			}, err
		}
	}
	for _, d := range databases() {
		if d.name == cfg.Kind {
			// Compiled, SQLite is faster, but each process would compile it first.
			sqlite3.RuntimeConfig = wazero.NewRuntimeConfigInterpreter()
			db, err := sql.Open(d.driver, cfg.Where)
			return map[string]register{
				"fenced": sqlRegister{db, 1, &sqlfence.Guard{Dialect: d.dialect}},
				"plain":  sqlRegister{db, 2, nil},
			}, err
		}
	}
	return nil, fmt.Errorf("there is no resource %s", cfg.Kind)
}

// sqlRegister is the balance of an account. Without a guard it takes everything.
type sqlRegister struct {
	db    *sql.DB
	id    int
	guard *sqlfence.Guard
}

func (r sqlRegister) do(ctx context.Context, token uint64, f func(*sql.Tx) error) error {
	if r.guard != nil {
		return r.guard.Do(ctx, r.db, "account", token, f)
	}
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	return errors.Join(f(tx), tx.Commit())
}

func (r sqlRegister) read(ctx context.Context, token uint64) (n int64, err error) {
	err = r.do(ctx, token, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, fmt.Sprintf("SELECT balance FROM account WHERE id = %d", r.id)).Scan(&n)
	})
	return n, err
}

func (r sqlRegister) write(ctx context.Context, token uint64, n int64, before func()) error {
	return r.do(ctx, token, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE account SET balance = %d WHERE id = %d", n, r.id))
		before()
		return err
	})
}

// redisRegister is a key. Without a guard it takes everything.
type redisRegister struct {
	rdb   *redis.Client
	key   string
	guard *redisfence.Guard
}

func (r redisRegister) read(ctx context.Context, token uint64) (int64, error) {
	if r.guard != nil {
		if err := r.guard.Raise(ctx, r.key, token); err != nil {
			return 0, err
		}
	}
	return r.rdb.Get(ctx, r.key).Int64()
}

func (r redisRegister) write(ctx context.Context, token uint64, n int64, before func()) error {
	before()
	if r.guard == nil {
		return r.rdb.Set(ctx, r.key, n, 0).Err()
	}
	return r.guard.Do(ctx, r.key, token, redisfence.Write("SET", r.key, strconv.FormatInt(n, 10)))
}

// httpRegister is a number behind a URL. The transport sends the token.
type httpRegister struct {
	service *http.Client
	url     string
}

func (r httpRegister) call(ctx context.Context, method, body string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	answer, err := r.service.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s", answer.Status)
	}
	return string(text), errors.Join(httpfence.Refused(answer), err)
}

func (r httpRegister) read(ctx context.Context, _ uint64) (int64, error) {
	text, err := r.call(ctx, http.MethodGet, "")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

func (r httpRegister) write(ctx context.Context, _ uint64, n int64, before func()) error {
	before()
	_, err := r.call(ctx, http.MethodPut, strconv.FormatInt(n, 10))
	return err
}

// objectRegister is an object that is guarded.
type objectRegister struct {
	guard objectfence.Guard
	key   string
}

func (r objectRegister) read(ctx context.Context, token uint64) (int64, error) {
	if err := r.guard.Raise(ctx, r.key, token); err != nil {
		return 0, err
	}
	text, err := r.guard.Get(ctx, r.key)
	if err != nil || len(text) == 0 { // Raise has created it
		return 0, err
	}
	return strconv.ParseInt(string(text), 10, 64)
}

func (r objectRegister) write(ctx context.Context, token uint64, n int64, before func()) error {
	before()
	return r.guard.Put(ctx, r.key, token, []byte(strconv.FormatInt(n, 10)))
}

// plainObject is one that takes everything.
type plainObject struct {
	bucket s3fence.Bucket
	key    string
}

func (r plainObject) read(ctx context.Context, _ uint64) (int64, error) {
	text, _, err := r.bucket.Get(ctx, r.key)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(text), 10, 64)
}

func (r plainObject) write(ctx context.Context, _ uint64, n int64, before func()) error {
	before()
	_, err := r.bucket.Client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &r.bucket.Name, Key: &r.key, Body: strings.NewReader(strconv.FormatInt(n, 10)),
	})
	return err
}

// holder is a child, as the test sees it.
type holder struct {
	t    *testing.T
	p    *childproc.Process
	says chan string
}

// startHolder starts a process that ends with the test.
func startHolder(t *testing.T, cfg config) *holder {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envChild+"=yes")
	h := &holder{t: t, says: make(chan string, 16)}
	var err error
	h.p, err = childproc.Start(cmd, cfg, func(line []byte) { h.says <- string(line) },
		func(err error, stderr string) { h.says <- fmt.Sprintf("ended: %v %s", err, stderr) })
	assert.Must(t, err)
	t.Cleanup(h.p.Destroy)
	return h
}

// do gives an order, and returns the answer.
func (h *holder) do(order string) string {
	h.t.Helper()
	h.p.Tell(order)
	return redistest.Next(h.t, "the answer to "+order, h.says)
}
