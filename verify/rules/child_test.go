package rules_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/store"
	"github.com/holdfast-go/holdfast/store/goredis"
	rueidisstore "github.com/holdfast-go/holdfast/store/rueidis"
	"github.com/holdfast-go/holdfast/verify/internal/harness"
)

// The environment that turns the test binary into a process of its own that
// wants one lock.
const (
	envRole = "HOLDFAST_RULES_CHILD" // the lock's name; behind "read:" the child is a reader
	envAddr = "HOLDFAST_RULES_ADDR"
	envTTL  = "HOLDFAST_RULES_TTL"
	envKind = "HOLDFAST_RULES_KIND" // lead, every, readers or crowd; else it wants a lock
	envUses = "HOLDFAST_RULES_USES" // rueidis; else go-redis
	envWait = "HOLDFAST_RULES_WAIT" // the lock-delay; else none
)

// obey is the child: it locks, says so, and obeys its standard input until that ends.
// It says:
//
//	client ID       before it asks for the lock
//	held TOKEN      when it has it
//	ended CAUSE     when its lease is over
//	write TOKEN     asked to "write": it goes on as if it held the lock
//	released ERROR  asked to "release"
func obey() error {
	name := os.Getenv(envRole)
	ttl, err := time.ParseDuration(os.Getenv(envTTL))
	if err != nil {
		return err
	}
	s, err := childStore(os.Getenv(envAddr))
	if err != nil {
		return err
	}
	cfg := holdfast.Config{TTL: ttl, Prefix: redistest.Prefix()}
	if os.Getenv(envKind) == "crowd" {
		cfg.MaxLocalHandOvers = -1 // each of them asks the server
	}
	c, err := holdfast.New(s, cfg)
	if err != nil {
		return err
	}
	fmt.Println("client", c.ID())
	switch os.Getenv(envKind) {
	case "lead":
		return leadingChild(c, name)
	case "every":
		return jobChild(c, name)
	case "readers":
		return readingChild(c, name)
	case "crowd":
		for range crowd {
			go func() { _, _ = c.Mutex(name).Lock(context.Background()) }()
		}
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		}
		return nil
	}
	delay, _ := time.ParseDuration(os.Getenv(envWait))
	take := c.Mutex(name, holdfast.LockDelay(delay)).Lock
	if lock, reads := strings.CutPrefix(name, "read:"); reads {
		take = c.RWMutex(lock).RLock
	}
	l, err := take(context.Background())
	if err != nil {
		return err
	}
	fmt.Println("held", l.Token())
	context.AfterFunc(l.Context(), func() { fmt.Println("ended", context.Cause(l.Context())) })
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "write":
			fmt.Println("write", l.Token())
		case "release":
			fmt.Println("released", l.Release(context.Background()))
		}
	}
	return nil
}

// crowd is how many of one process wait for one lock.
const crowd = 4

// childStore connects to the server with the client that the test is about.
func childStore(addr string) (store.Store, error) {
	if os.Getenv(envUses) != "rueidis" {
		return goredis.New(redis.NewClient(&redis.Options{Addr: addr, TLSConfig: redistest.TLS()})), nil
	}
	rdb, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, TLSConfig: redistest.TLS(), DisableCache: true,
	})
	if err != nil {
		return nil, err
	}
	return rueidisstore.New(rdb), nil
}

// leadingChild leads until its standard input ends.
func leadingChild(c *holdfast.Client, name string) error {
	lead, err := c.Election(name).Campaign(context.Background(), "the child")
	if err != nil {
		return err
	}
	fmt.Println("held", lead.Token())
	fmt.Println("holder", lead.HolderID())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
	}
	return nil
}

// jobChild runs a job of one hour until its standard input ends.
func jobChild(c *holdfast.Client, name string) error {
	_, err := c.Periodic(name, time.Hour).Do(context.Background(), func(context.Context) error {
		fmt.Println("held 1")
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		}
		return nil
	})
	fmt.Println("failed", err)
	return nil
}

// start runs a child that wants the named lock. It ends with the test, and
// with this process.
func start(t *testing.T, addr, name string, ttl time.Duration) *harness.Child {
	t.Helper()
	return startKind(t, addr, "", name, ttl)
}

func startKind(t *testing.T, addr, kind, name string, ttl time.Duration, env ...string) *harness.Child {
	t.Helper()
	return harness.StartChild(t, append(env,
		envRole+"="+name, envAddr+"="+addr, envTTL+"="+ttl.String(), envKind+"="+kind)...)
}
