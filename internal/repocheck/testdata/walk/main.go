// Command walk makes one call of the library and writes the coverage counters of
// just that call: TestTheWalkIsShort counts by them what a reader has to follow.
//
//	walk lock DIR      Mutex.Lock on a free lock, by a client that has locked before
//	walk release DIR   Lease.Release with a waiter in another process
package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/coverage"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/store"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "walk: want lock or release, and a directory")
		os.Exit(2)
	}
	if err := walk(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "walk:", err)
		os.Exit(1)
	}
}

func walk(call, dir string) error {
	ctx := context.Background()
	server := memstore.New()
	client, err := holdfast.New(server, holdfast.Config{})
	if err != nil {
		return err
	}
	if err := warm(ctx, server, client); err != nil {
		return err
	}
	mutex := client.Mutex("walk")
	if call == "lock" {
		return counted(dir, func() error {
			_, err := mutex.Lock(ctx)
			return err
		})
	}
	lease, err := mutex.Lock(ctx)
	if err != nil {
		return err
	}
	if err := elsewhere(ctx, server, client); err != nil {
		return err
	}
	return counted(dir, func() error { return lease.Release(ctx) })
}

// warm makes the client's first acquisition, and waits until the client has registered:
// that happens once, in the background.
func warm(ctx context.Context, server *memstore.Store, client *holdfast.Client) error {
	lease, err := client.Mutex("warm").Lock(ctx)
	if err != nil {
		return err
	}
	if err := lease.Release(ctx); err != nil {
		return err
	}
	known := func(key string) bool { return strings.Contains(key, client.ID()) }
	for !slices.ContainsFunc(server.Keys(), known) {
		runtime.Gosched()
	}
	return nil
}

// elsewhere lets another client wait for the lock. Pushes do not reach that client, as if
// it were another process, because its work is no part of the release.
func elsewhere(ctx context.Context, server *memstore.Store, client *holdfast.Client) error {
	other, err := holdfast.New(far{server}, holdfast.Config{})
	if err != nil {
		return err
	}
	go other.Mutex("walk").Lock(ctx) //nolint:errcheck // it waits when the program ends
	for {
		state, err := client.Inspect(ctx, "walk")
		if err != nil || len(state.Waiters) > 0 {
			return err
		}
		runtime.Gosched()
	}
}

// far is a server whose pushes do not arrive.
type far struct{ *memstore.Store }

func (f far) Listen(ctx context.Context, channel string, l store.Listener) (func(), error) {
	l.Message = func(string) {}
	return f.Store.Listen(ctx, channel, l)
}

// counted writes the coverage counters of call.
func counted(dir string, call func() error) error {
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	if err := call(); err != nil {
		return err
	}
	if err := coverage.WriteCountersDir(dir); err != nil {
		return err
	}
	return coverage.WriteMetaDir(dir)
}
