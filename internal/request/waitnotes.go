package request

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// mostWaits is how many waits of code that holds one lock are shown.
const mostWaits = 8

// WaitNotes are notes on attempts of one client: what the code that holds these locks waits for.
type WaitNotes struct {
	registration *Registration

	mu  lockorder.Mutex[WaitNotes]
	all map[string][]shownWait // by the number of the attempt that holds
}

type shownWait struct {
	by   any
	note wire.WaitNote
}

// NewWaitNotes makes the notes of a client. The registration writes them.
func NewWaitNotes(r *Registration) *WaitNotes {
	return &WaitNotes{registration: r, all: make(map[string][]shownWait)}
}

// Show shows a wait under an attempt of this client, or shows it anew. by tells the waits of one
// attempt apart.
func (w *WaitNotes) Show(attempt string, by any, note wire.WaitNote) {
	w.change(attempt, by, &shownWait{by, note})
}

// Hide ends what Show did.
func (w *WaitNotes) Hide(attempt string, by any) { w.change(attempt, by, nil) }

func (w *WaitNotes) change(attempt string, by any, to *shownWait) {
	number := wire.NumberOf(attempt)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all[number] = slices.DeleteFunc(w.all[number], func(one shownWait) bool { return one.by == by })
	if to != nil {
		w.all[number] = append(w.all[number], *to)
	}
	field := wire.WaitsField(number)
	if len(w.all[number]) == 0 {
		delete(w.all, number)
		w.registration.Unnote(field, w, true)
		return
	}
	w.registration.Note(field, w.word(number), w, func() bool { return true })
}

// word is the note on an attempt; empty if there is none. The caller holds w.mu.
func (w *WaitNotes) word(number string) string {
	var notes []wire.WaitNote
	for _, one := range w.all[number][:min(len(w.all[number]), mostWaits)] {
		notes = append(notes, one.note)
	}
	return wire.Waits(notes)
}

// Current replaces, in notes of the client itself, the waits that the server knows by those that
// there are.
func (w *WaitNotes) Current(notes map[string]string, fields []string) map[string]string {
	own := make(map[string]string)
	maps.Copy(own, notes)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, field := range fields {
		if number, ok := strings.CutPrefix(field, wire.WaitsField("")); ok {
			own[field] = w.word(number)
		}
	}
	return own
}

// AnyFor reports whether code that holds a lock of this client waits for the lock of this name.
func (w *WaitNotes) AnyFor(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, notes := range w.all {
		if slices.ContainsFunc(notes, func(one shownWait) bool { return one.note.Name == name }) {
			return true
		}
	}
	return false
}

// AmendWaitNote replaces the wait of this process under an attempt of another client. nil: there is
// none any more. It changes nothing if that client has no record. If two processes change the
// waits under one attempt at the same time, one of the changes may be lost.
func (r *Registration) AmendWaitNote(ctx context.Context, attempt string, note *wire.WaitNote) error {
	field := wire.InnerField(wire.NumberOf(attempt))
	key := []string{wire.ClientKey(r.sender.Prefix, wire.Client(attempt))}
	answer, err := r.sender.Run(ctx, script.ReadClient, key, []string{field})
	if err != nil {
		return err
	}
	c, known, err := wire.ParseClient(answer)
	if err != nil || !known {
		return err
	}
	list := slices.DeleteFunc(wire.ParseWaits(c.Notes[field]), func(one wire.WaitNote) bool {
		client, _ := wire.LocalClient(one.ID)
		return client == r.id
	})
	if note != nil {
		list = append(list, *note)
	}
	word := wire.Waits(list[max(len(list)-mostWaits, 0):])
	if word == c.Notes[field] {
		return nil
	}
	_, err = r.sender.Run(ctx, script.RegisterClient, key, append(c.Registration(registrationTTL), field, word))
	return err
}
