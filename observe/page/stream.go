package page

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"
)

const (
	// tickEvery is how often a viewer hears that all is well, if nothing changes.
	tickEvery = 5 * time.Second
	// writeTimeout ends the stream of a viewer that does not read it.
	writeTimeout = 30 * time.Second
)

// getEvents streams the locks as server-sent events: first "snapshot", with all locks, then
// "change" with those that differ. The ID of an event is its seq, and no seq is left out: a
// viewer that is too far behind gets another snapshot. So does one that connects again,
// because this may be another process by now. "tick" says that nothing has changed.
func (p *Page) getEvents(w http.ResponseWriter, r *http.Request) {
	from := p.cfg.clientOf(r)
	if !p.streams.begin(from) {
		answerError(w, http.StatusTooManyRequests, "too many streams are open", "close other windows of the page")
		return
	}
	defer p.streams.end(from)
	var over <-chan time.Time // the end of the session
	if until := accessOf(r).until; !until.IsZero() {
		over = time.After(time.Until(until))
	}
	v := &viewer{page: p, out: http.NewResponseController(w), w: w, about: p.about(r)}
	leave := p.watcher.join()
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return // a connection that a proxy keeps would carry no other request
	}
	w.Header().Set("X-Accel-Buffering", "no") // a proxy in between must pass on each event
	if err := v.send("", 0, nil); err != nil {
		return
	}
	p.watcher.fresh(r.Context())
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		news, err := v.update()
		if err != nil {
			return
		}
		select {
		case <-news:
		case <-tick.C:
			if text := v.unchanged(); text != nil && v.send("tick", 0, text) != nil {
				return
			}
		case <-over:
			return
		case <-r.Context().Done():
			return
		case <-p.ended.Done():
			return
		}
	}
}

// viewer is one stream.
type viewer struct {
	page  *Page
	about aboutJSON
	w     http.ResponseWriter
	out   *http.ResponseController
	begun bool
	sent  uint64 // the seq of the last event
}

// update sends what the viewer does not know. news is closed after the next read.
func (v *viewer) update() (news <-chan struct{}, err error) {
	first := v.sent
	news, name, parts := v.missing()
	for i, text := range parts {
		seq := v.sent
		if name == "change" {
			seq = first + uint64(i) + 1
		}
		if err := v.send(name, seq, text); err != nil {
			return news, err
		}
	}
	return news, nil
}

// missing returns what the viewer does not know: changes, or a snapshot if these are not
// kept.
func (v *viewer) missing() (news <-chan struct{}, name string, parts [][]byte) {
	w := v.page.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.seq - v.sent
	whole := !v.begun || n > uint64(len(w.changes))
	v.begun, v.sent = true, w.seq
	if whole {
		return w.news, "snapshot", [][]byte{w.snapshot(v.about)}
	}
	return w.news, "change", slices.Clone(w.changes[uint64(len(w.changes))-n:])
}

// unchanged returns the text of a tick, or nil if there is a change to send: the totals of a tick must not be ahead of
// the locks that the viewer knows.
func (v *viewer) unchanged() []byte {
	w := v.page.watcher
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.seq != v.sent {
		return nil
	}
	return encode(w.heading())
}

// send writes one event. Without a name, it writes a comment.
func (v *viewer) send(name string, seq uint64, data []byte) error {
	var b bytes.Buffer
	switch name {
	case "":
		b.WriteString(": hello\n")
	case "tick":
		fmt.Fprintf(&b, "event: tick\ndata: %s\n", data)
	default:
		fmt.Fprintf(&b, "event: %s\nid: %d\ndata: %s\n", name, seq, data)
	}
	b.WriteString("\n")
	// Writers that cannot have a deadline, as in tests, are not slow.
	_ = v.out.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := v.w.Write(b.Bytes()); err != nil {
		return err
	}
	return v.out.Flush()
}

// snapshot encodes all locks. The caller has the mutex.
func (w *watcher) snapshot(about aboutJSON) []byte {
	locks := make([][]byte, 0, len(w.locks))
	for _, id := range slices.Sorted(maps.Keys(w.locks)) {
		locks = append(locks, w.locks[id].text)
	}
	return withLocks(locks, w.heading(), about)
}
