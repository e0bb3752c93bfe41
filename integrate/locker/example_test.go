package locker_test

import (
	"fmt"
	"log"
	"sync"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/integrate/locker"
	"github.com/holdfast-go/holdfast/memstore"
)

// appendLine is code that knows sync.Locker only.
func appendLine(l sync.Locker, line string) {
	l.Lock()
	defer l.Unlock()
	fmt.Println(line)
}

// A program that cannot stop the code under the lock ends when it loses the lock.
func ExampleNew() {
	client, _ := holdfast.New(memstore.New(), holdfast.Config{})
	l := locker.New(client.Mutex("journal"), func(err error) { log.Fatal(err) })
	appendLine(l, "one")
	appendLine(l, "two")
	// Output:
	// one
	// two
}

func ExampleLocker_Lock() {
	client, _ := holdfast.New(memstore.New(), holdfast.Config{})
	l := locker.New(client.Mutex("journal"), func(err error) { log.Fatal(err) })
	l.Lock()
	fmt.Println("no other process is here")
	l.Unlock()
	// Output: no other process is here
}

func ExampleLocker_Unlock() {
	client, _ := holdfast.New(memstore.New(), holdfast.Config{})
	l := locker.New(client.Mutex("journal"), func(err error) { log.Fatal(err) })
	l.Lock()
	defer l.Unlock()
	fmt.Println("released when the function returns")
	// Output: released when the function returns
}
