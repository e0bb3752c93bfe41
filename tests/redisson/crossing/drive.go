package crossing

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/compat/redisson"
	"github.com/holdfast-go/holdfast/observe"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// driven is the argument with which a program that calls [Driven] is this library's side.
const driven = "driven"

// StartGo starts this library, and returns once it is connected. The program that calls it calls
// [Driven] first.
func StartGo(settings Settings) (*Process, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(exec.Command(binary, driven), settings) //nolint:noctx // whoever starts it also ends it
}

// Driven runs this program as this library's side if its arguments say so, and then ends it.
func Driven() {
	if len(os.Args) != 2 || os.Args[1] != driven {
		return
	}
	if err := drive(os.Stdin, os.Stdout); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// library is this library as a process that takes commands.
type library struct {
	clients map[redisson.Kind]*holdfast.Client
	native  *holdfast.Client
	rdb     redis.UniversalClient
	ttl     time.Duration

	mu     sync.Mutex
	limits map[string]int // of semaphores
}

// thread is a thread of a process: what it has acquired, the last at the end.
type thread struct {
	*library

	commands chan func()
	held     map[string][]held
}

// held is a lease of a lock or of several.
type held interface {
	Context() context.Context
	Err() error
	Release(ctx context.Context) error
}

func connect(settings Settings) (*library, error) {
	l := &library{
		clients: make(map[redisson.Kind]*holdfast.Client), limits: make(map[string]int),
		ttl: time.Duration(settings.WatchdogMs) * time.Millisecond,
	}
	if len(settings.Nodes) > 0 {
		l.rdb = redis.NewClusterClient(&redis.ClusterOptions{Addrs: settings.Nodes})
	} else {
		l.rdb = redis.NewClient(&redis.Options{Addr: settings.Address})
	}
	cfg := holdfast.Config{
		TTL: l.ttl, RequestTimeout: time.Duration(settings.TimeoutMs) * time.Millisecond, Observer: waking{},
		MaxLocalHandOvers: settings.HandOvers,
	}
	var err error
	if l.native, err = holdfast.New(goredis.New(l.rdb), cfg); err != nil {
		return nil, err
	}
	modes := map[string]redisson.Sharded{"AUTO": redisson.Auto, "ON": redisson.On, "OFF": redisson.Off}
	for _, kind := range []redisson.Kind{
		redisson.Lock, redisson.Fair, redisson.Fenced, redisson.ReadWrite, redisson.Semaphore,
	} {
		store := redisson.New(goredis.New(l.rdb), redisson.Config{
			Kind: kind, Sharded: modes[settings.Sharded],
			FairWait: time.Duration(settings.FairWaitMs) * time.Millisecond,
		})
		if l.clients[kind], err = holdfast.New(store, cfg); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// drive takes commands until its input ends.
func drive(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("no settings arrived")
	}
	var settings Settings
	if err := json.Unmarshal(lines.Bytes(), &settings); err != nil {
		return err
	}
	l, err := connect(settings)
	if err != nil {
		return err
	}
	if err := l.rdb.Ping(context.Background()).Err(); err != nil {
		return err
	}
	var mu sync.Mutex // guards out
	say := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = io.WriteString(out, line+"\n") // nobody is left to tell
	}
	say("0 ok " + UUID(l.clients[redisson.Lock].ID()))
	threads := make(map[string]*thread)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		th := threads[words[1]]
		if th == nil {
			th = &thread{library: l, commands: make(chan func(), 100), held: make(map[string][]held)}
			threads[words[1]] = th
			go func() {
				for command := range th.commands {
					command()
				}
			}()
		}
		th.commands <- func() {
			answer, err := th.run(context.Background(), words[2:])
			if err != nil {
				answer = "error " + strings.Join(strings.Fields(err.Error()), " ")
			} else {
				answer = "ok " + answer
			}
			say(words[0] + " " + answer)
		}
	}
	return lines.Err()
}

// UUID is the first half of what a client with this ID writes into the locks that it holds.
func UUID(client string) string {
	id, err := base64.RawURLEncoding.DecodeString(client)
	if err != nil || len(id) != 16 {
		return client
	}
	x := hex.EncodeToString(id)
	return strings.Join([]string{x[:8], x[8:12], x[12:16], x[16:20], x[20:]}, "-")
}

// waking notes in the context of a call what has woken it.
type waking struct{}

type wakeKey struct{}

// Observe implements [observe.Observer].
func (waking) Observe(e observe.Event) {
	if e.Context == nil || e.Kind != observe.EventGrant {
		return
	}
	if wake, ok := e.Context.Value(wakeKey{}).(*observe.Wake); ok {
		*wake = e.Wake
	}
}
