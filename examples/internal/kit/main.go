package kit

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/store/goredis"
)

// Body is what a process of an example does. The arguments of a child are its name and
// the further arguments of [Start].
type Body func(ctx context.Context, args []string) error

// Main runs parent, or child in a process that [Start] has started. If that fails, Main
// ends the program with status 1 and says what to do about it.
func Main(parent, child Body) {
	logging.Disable() // an error is printed once, at the end
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	body, args := parent, os.Args[1:]
	if len(args) > 1 && args[0] == "child" && child != nil {
		body, args = child, args[1:]
		go listen(stop)
	}
	err := body(ctx, args)
	asked := ctx.Err() != nil // to end: then an interrupt is no error
	stop()
	if err == nil || asked && errors.Is(err, context.Canceled) {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	if hint := holdfast.Hint(err); hint != "" {
		fmt.Fprintln(os.Stderr, hint)
	}
	os.Exit(1)
}

var orders = make(chan string, 16)

// listen reads commands from the parent. The child ends with its parent.
func listen(stop func()) {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		orders <- in.Text()
	}
	stop()
}

// Told waits, in a child, for the next command that the parent sends with [Child.Tell].
func Told(ctx context.Context) (string, error) {
	select {
	case order := <-orders:
		return order, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// URL is the address of the server that the examples use.
func URL() string {
	return cmp.Or(os.Getenv("HOLDFAST_REDIS"), os.Getenv("REDIS_URL"), "redis://127.0.0.1:6379")
}

// Connect connects to the server at [URL], and to Holdfast on it. done closes
// both.
func Connect(cfg holdfast.Config) (client *holdfast.Client, rdb *redis.Client, done func(), err error) {
	options, err := redis.ParseURL(URL())
	if err != nil {
		return nil, nil, nil, fmt.Errorf("HOLDFAST_REDIS or REDIS_URL: %w", err)
	}
	rdb = redis.NewClient(options)
	client, err = holdfast.New(goredis.New(rdb), cfg)
	if err != nil {
		return nil, nil, nil, err
	}
	return client, rdb, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		client.Close(ctx)
		rdb.Close()
	}, nil
}

// Pause waits for d, in place of work, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
