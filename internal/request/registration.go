package request

import (
	"context"
	"os"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// The record of a client outlives three refreshes. So a short failure does not hide who a
// holder is, and the record ends soon after its process.
const (
	registrationTTL = 15 * time.Minute
	refreshEvery    = 5 * time.Minute
)

// started is when this process began to use the library. Only people read it.
var started = time.Now()

// Registration registers a client at the server, so that people see which process holds a
// lock. Nothing depends on it, and no call waits for it.
type Registration struct {
	sender  *Sender
	id      string
	key     string
	app     string
	version string
	failed  func(err error)
	// Pause returns the longest pause of this process so far. It is told with each refresh, and never by a
	// request of its own. nil: it is not known.
	Pause func() time.Duration

	begun atomic.Bool
	mu    lockorder.Mutex[Registration] // guards the fields below
	timer *time.Timer                   // nil before the first refresh
	notes notes
}

// notes are what the client says about its attempts. Each is a field of its record. A note is
// written in the background, and may be lost: then the next refresh writes it again.
type notes struct {
	all    map[string]*note
	dirty  []string    // fields to write
	gone   []string    // fields to remove from the record
	timer  *time.Timer // of the next write; nil: none is due
	sweep  int         // with so many notes, forget those that are over
	flush  bool        // remove fields although there is no note to write
	closed bool
}

type note struct {
	value   string
	about   any         // who set it
	live    func() bool // reports whether it is still true
	written bool        // the record may have it
}

const (
	// noteDelay is how long the first note waits for others. A lock that is held for less
	// costs no request.
	noteDelay = 20 * time.Millisecond
	// noteBatch is the most notes to write in a request, and the most to remove.
	noteBatch = 64
	// leastPause is the shortest pause that is told.
	leastPause = 100 * time.Millisecond
)

// NewRegistration makes the registration of a client. It calls failed when a refresh fails;
// the next refresh tries again.
func NewRegistration(s *Sender, id, app, version string, failed func(err error)) *Registration {
	return &Registration{
		sender: s, id: id, key: wire.ClientKey(s.Prefix, id), app: app, version: version, failed: failed,
	}
}

// args are what the client says of itself. They contain no secret.
func (r *Registration) args(ttl time.Duration) []string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	said := wire.ClientLine{App: r.app, Host: host, PID: os.Getpid(), Version: r.version, Started: started}
	return said.Registration(ttl)
}

// Start registers the client with its first acquisition, and keeps it registered.
func (r *Registration) Start() {
	if !r.begun.Load() && !r.begun.Swap(true) {
		r.refresh()
	}
}

// refresh registers the client again, in the background.
func (r *Registration) refresh() {
	life := r.sender.Life
	life.Go(registrationLabel, func() {
		args := r.args(registrationTTL)
		if r.Pause != nil {
			if pause := r.Pause(); pause >= leastPause {
				args = append(args, wire.PauseField, wire.Millis(pause))
			}
		}
		_, err := r.sender.Run(life.Context(), script.RegisterClient, []string{r.key}, args)
		if err != nil && !life.IsClosing() {
			r.failed(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if !life.IsClosing() { // else the timer would outlive Stop
			r.timer = time.AfterFunc(refreshEvery, r.refresh)
			r.notes.again()
			r.writeSoon()
		}
	})
}

// Note makes the record say value about an attempt, from a moment after now until live
// reports false. about tells the notes apart that have one field: the last one counts.
func (r *Registration) Note(field, value string, about any, live func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := &r.notes
	old := n.all[field]
	if old != nil && old.value == value {
		old.about, old.live = about, live
		return
	}
	if n.all == nil {
		n.all = make(map[string]*note)
	}
	n.all[field] = &note{value: value, about: about, live: live, written: old != nil && old.written}
	n.dirty = append(n.dirty, field)
	if len(n.all) > n.sweep {
		n.forget()
	}
	r.writeSoon()
}

// Unnote ends a note that about has set. If soon is false, nothing is sent for that: the next
// write removes the note from the record.
func (r *Registration) Unnote(field string, about any, soon bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := &r.notes
	one := n.all[field]
	if one == nil || one.about != about {
		return
	}
	if n.end(field, one); soon && one.written {
		n.flush = true
		r.writeSoon()
	}
}

// end forgets a note.
func (n *notes) end(field string, one *note) {
	delete(n.all, field)
	if one.written {
		n.gone = append(n.gone, field)
	}
}

// forget ends the notes that are over. It costs a constant for each note that was set.
func (n *notes) forget() {
	for field, one := range n.all {
		if !one.live() {
			n.end(field, one)
		}
	}
	n.sweep = 2*len(n.all) + noteBatch
}

// again makes all notes be written once more, because the server may have lost the record.
func (n *notes) again() {
	n.forget()
	n.dirty = n.dirty[:0]
	for field := range n.all {
		n.dirty = append(n.dirty, field)
	}
	n.flush = len(n.gone) > 0
}

// batch returns the fields and values of the next write. It is empty if nothing new is to be
// said: fields to remove wait for a note to write.
func (n *notes) batch() (args []string) {
	count := 0
	for count < noteBatch && len(n.dirty) > 0 {
		field := n.dirty[0]
		n.dirty = n.dirty[1:]
		switch one := n.all[field]; {
		case one == nil: // it ended in the meantime
		case !one.live():
			n.end(field, one)
		default:
			one.written = true
			args = append(args, field, one.value)
			count++
		}
	}
	if count == 0 && !n.flush {
		n.dirty = nil
		return nil
	}
	for _, field := range n.gone[:min(len(n.gone), noteBatch)] {
		if n.all[field] == nil {
			args = append(args, field, "")
		}
	}
	if n.gone = n.gone[min(len(n.gone), noteBatch):]; len(n.gone) == 0 {
		n.gone, n.flush = nil, false
	}
	return args
}

// writeSoon arranges that the notes are written. The caller holds r.mu.
func (r *Registration) writeSoon() {
	if n := &r.notes; n.timer == nil && !n.closed && (n.flush || len(n.dirty) > 0) {
		n.timer = time.AfterFunc(noteDelay, r.write)
	}
}

// write sends a batch of notes. There is one such request at a time.
func (r *Registration) write() {
	life := r.sender.Life
	sent := life.Go(registrationLabel, func() {
		r.mu.Lock()
		args := r.notes.batch()
		r.mu.Unlock()
		if args != nil {
			args = append(r.args(registrationTTL), args...)
			_, err := r.sender.Run(life.Context(), script.RegisterClient, []string{r.key}, args)
			if err != nil && !life.IsClosing() {
				r.failed(err)
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.notes.timer = nil
		r.writeSoon()
	})
	if !sent {
		r.Stop()
	}
}

// Stop ends the refreshes of a client that is closing.
func (r *Registration) Stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.timer != nil {
		r.timer.Stop()
	}
	if r.notes.closed = true; r.notes.timer != nil {
		r.notes.timer.Stop()
	}
}

// End removes the client's record now instead of in a quarter of an hour. Nothing depends on
// it.
func (r *Registration) End(ctx context.Context) {
	if r.begun.Load() {
		_, _ = r.sender.Run(ctx, script.RegisterClient, []string{r.key}, r.args(0))
	}
}
