package lineage_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// The environment that turns the test binary into a process that wants the
// lock.
const (
	envRole = "HOLDFAST_LINEAGE_CHILD" // in which way
	envAddr = "HOLDFAST_LINEAGE_ADDR"
	envTTL  = "HOLDFAST_LINEAGE_TTL"
)

// holder is a way to hold the lock, as a child uses it.
type holder interface {
	lock(ctx context.Context) (bool, error)
	unlock(ctx context.Context) error
	// write changes the resource that the lock protects.
	write(ctx context.Context, value string) error
}

func holderOf(role string, rdb *redis.Client, ttl time.Duration) holder {
	switch role {
	case "SETNX EXPIRE":
		return &setnxExpire{rdb: rdb, ttl: ttl}
	case "SET NX PX, DEL":
		return &setDel{rdb: rdb, ttl: ttl}
	case "compare and delete":
		return &compareAndDelete{rdb: rdb, ttl: ttl}
	case "Holdfast":
		return &ours{rdb: rdb, ttl: ttl}
	}
	panic("unknown role " + role)
}

// ours is the way of a program that uses Holdfast.
type ours struct {
	rdb   *redis.Client
	ttl   time.Duration
	lease *holdfast.Lease
}

func (o *ours) lock(ctx context.Context) (bool, error) {
	c, err := holdfast.New(goredis.New(o.rdb), holdfast.Config{TTL: o.ttl})
	if err != nil {
		return false, err
	}
	o.lease, err = c.Mutex(lockName).Lock(ctx)
	return err == nil, err
}

func (o *ours) unlock(ctx context.Context) error { return o.lease.Release(ctx) }

// fencedWrite is a resource that remembers the highest token it has seen.
var fencedWrite = redis.NewScript(`
	if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'token') or 0) then
		return redis.error_reply('STALE token')
	end
	return redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])`)

func (o *ours) write(ctx context.Context, value string) error {
	return writeFenced(ctx, o.rdb, o.lease, value)
}

func writeFenced(ctx context.Context, rdb *redis.Client, l *holdfast.Lease, value string) error {
	// Lua counts in doubles: the last ten bits count passes inside a process,
	// of which there are none here.
	return fencedWrite.Run(ctx, rdb, []string{"resource"}, l.Token()>>10, value).Err()
}

// child takes the lock, says "held", and obeys its standard input: "write
// VALUE" is answered "wrote ERROR", "release" by "released ERROR".
func child(role string) int {
	ttl, err := time.ParseDuration(os.Getenv(envTTL))
	if err != nil {
		return 2
	}
	ctx, h := context.Background(), holderOf(role, redis.NewClient(plain(os.Getenv(envAddr))), ttl)
	if ok, err := h.lock(ctx); !ok || err != nil {
		fmt.Println("failed", ok, err)
		return 1
	}
	fmt.Println("held")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch word, rest, _ := strings.Cut(in.Text(), " "); word {
		case "write":
			fmt.Println("wrote", h.write(ctx, rest))
		case "release":
			fmt.Println("released", h.unlock(ctx))
		}
	}
	return 0
}

// process is a child.
type process struct {
	cmd    *exec.Cmd
	orders *bufio.Writer
	says   chan string
	heard  []string // lines that nobody asked for yet
}

// start runs a child. It ends with the test, and with this process, whose
// pipe it reads.
func start(t *testing.T, role, addr string, ttl time.Duration) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), envRole+"="+role, envAddr+"="+addr, envTTL+"="+ttl.String())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{cmd: cmd, orders: bufio.NewWriter(in), says: make(chan string, 64)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.says <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		cmd.Process.Kill()
		<-read
		cmd.Wait()
	})
	return p
}

// hear waits for the line that begins with the word and answers the rest.
func (p *process) hear(t *testing.T, word string) string {
	t.Helper()
	for i := 0; ; i++ {
		if i == len(p.heard) {
			p.heard = append(p.heard, wait(t, "the child's "+word, p.says))
		}
		if first, rest, _ := strings.Cut(p.heard[i], " "); first == word {
			p.heard = slices.Delete(p.heard, i, i+1)
			return rest
		}
	}
}

func (p *process) order(t *testing.T, line string) {
	t.Helper()
	fmt.Fprintln(p.orders, line)
	if err := p.orders.Flush(); err != nil {
		t.Fatal(err)
	}
}

// die is SIGKILL; it returns when the process is gone.
func (p *process) die(t *testing.T) {
	t.Helper()
	p.cmd.Process.Kill()
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.cmd.Process.Pid, &status, 0, nil); err != nil || !status.Signaled() {
		t.Fatalf("the child did not die: %v, %v", status, err)
	}
}

// stop is SIGSTOP; it returns when the process has stopped: until then it
// might run on.
func (p *process) stop(t *testing.T) {
	t.Helper()
	p.cmd.Process.Signal(syscall.SIGSTOP)
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the child did not stop: %v, %v", status, err)
	}
}

func (p *process) resume() { p.cmd.Process.Signal(syscall.SIGCONT) }
