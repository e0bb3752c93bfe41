//go:build lockorder && amd64

package lockorder

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Mutex is a [sync.Mutex] that records in which order goroutines lock it and others.
type Mutex[Of any] struct{ mu sync.Mutex }

// Lock locks the mutex.
func (m *Mutex[Of]) Lock() {
	all.enter(name[Of](), true)
	m.mu.Lock()
}

// TryLock locks the mutex if it is free. It waits for nobody, so it needs no order.
func (m *Mutex[Of]) TryLock() bool {
	if !m.mu.TryLock() {
		return false
	}
	all.enter(name[Of](), false)
	return true
}

// Unlock unlocks the mutex.
func (m *Mutex[Of]) Unlock() {
	all.leave(name[Of]())
	m.mu.Unlock()
}

// name is the type's, without its parameters.
func name[Of any]() string {
	name, _, _ := strings.Cut(reflect.TypeFor[Of]().String(), "[")
	return name
}

// all is what the goroutines of this process did.
var all = record{held: make(map[uintptr][]string), seen: make(map[Edge]bool)}

type record struct {
	mu   sync.Mutex
	held map[uintptr][]string // by goroutine, in the order of locking
	seen map[Edge]bool
}

// enter says that the caller's goroutine locks a mutex. If it waits for it, the order counts.
func (r *record) enter(name string, waits bool) {
	g := goroutine()
	r.mu.Lock()
	defer r.mu.Unlock()
	if waits {
		for _, under := range r.held[g] {
			r.seen[Edge{under, name}] = true
		}
	}
	r.held[g] = append(r.held[g], name)
}

// leave says that the caller's goroutine unlocks a mutex. No goroutine unlocks what another has locked.
func (r *record) leave(name string) {
	g := goroutine()
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.held[g]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i] == name {
			r.held[g] = slices.Delete(list, i, i+1)
			break
		}
	}
	if len(r.held[g]) == 0 {
		delete(r.held, g)
	}
}

// goroutine identifies the caller's goroutine while that lives: the address that the Go runtime has for it. Go has no
// function for it, and to read the number from runtime.Stack takes a hundred times as long as the tests themselves.
func goroutine() uintptr

// Main runs the tests of a package, and then compares the order in which they locked mutexes with a page. It returns
// the exit code.
func Main(tests interface{ Run() int }, page string) int {
	code := tests.Run()
	text, err := os.ReadFile(page)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	for _, difference := range Differences(string(text), Seen()) {
		fmt.Println(page+", The mutexes:", difference)
		code = 1
	}
	return code
}

// Seen are the edges so far.
func Seen() []Edge {
	all.mu.Lock()
	defer all.mu.Unlock()
	var list []Edge
	for e := range all.seen {
		list = append(list, e)
	}
	return list
}
