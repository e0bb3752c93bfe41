package pushes

import (
	"maps"
	"slices"

	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/store"
)

// Listener calls the functions of a [store.Listener] as that promises: one at a time, and none
// after End. They run under mu, so they must not block.
type Listener struct {
	to store.Listener

	mu    lockorder.Mutex[Listener]
	ended bool
}

// NewListener makes one.
func NewListener(to store.Listener) *Listener { return &Listener{to: to} }

// Message passes a message on.
func (l *Listener) Message(payload string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended && l.to.Message != nil {
		l.to.Message(payload)
	}
}

// Look says that messages may have been lost, see [store.Listener].
func (l *Listener) Look(restored bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.ended && l.to.Look != nil {
		l.to.Look(restored)
	}
}

// End waits for a function that runs just now. None runs later.
func (l *Listener) End() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
}

// Listeners are the listeners of a store that makes its pushes itself, by channel.
type Listeners struct {
	mu  lockorder.Mutex[Listeners] // guards all; nothing else is locked under it
	all map[string][]*Listener     // replaced, never changed in place
}

// Add adds a listener. remove ends it.
func (ls *Listeners) Add(channel string, to store.Listener) (l *Listener, remove func()) {
	l = NewListener(to)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.all == nil {
		ls.all = make(map[string][]*Listener)
	}
	ls.all[channel] = append(slices.Clip(ls.all[channel]), l)
	return l, func() {
		ls.mu.Lock()
		rest := slices.DeleteFunc(slices.Clone(ls.all[channel]), func(other *Listener) bool { return other == l })
		if ls.all[channel] = rest; len(rest) == 0 {
			delete(ls.all, channel)
		}
		ls.mu.Unlock()
		l.End()
	}
}

// On returns the listeners of a channel.
func (ls *Listeners) On(channel string) []*Listener {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.all[channel]
}

// All returns all of them.
func (ls *Listeners) All() []*Listener {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return slices.Concat(slices.Collect(maps.Values(ls.all))...)
}
