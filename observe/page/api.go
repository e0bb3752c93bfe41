package page

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

// maxBody is how long what a viewer sends may be.
const maxBody = 16 << 10

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(encode(v), '\n')) //nolint:errcheck,gosec // the viewer has left; JSON is no HTML
}

func answerError(w http.ResponseWriter, status int, text, hint string) {
	answer(w, status, map[string]string{"error": text, "hint": hint})
}

// fresh waits until the locks have been read, and not long ago. If the server does not answer in time, the viewer gets
// what is known: it is late, and says so. fresh does not keep the reads going: that is for look and join.
func (w *watcher) fresh(ctx context.Context) {
	began := time.Now()
	enough := began.Add(-2*w.cfg.Interval - time.Second)
	for {
		w.mu.Lock()
		news, late, patience := w.news, w.reads.last.Before(enough), lateAfter
		if w.reads.err == "" {
			patience += w.reads.took // many locks take so long
		}
		if late {
			w.startLocked()
		}
		w.mu.Unlock()
		if !late {
			return
		}
		select {
		case <-news:
		case <-time.After(time.Until(began.Add(patience))):
			return
		case <-ctx.Done():
			return
		case <-w.ctx.Done():
			return
		}
	}
}

// aboutJSON says what page this is.
type aboutJSON struct {
	Title      string `json:"title"`
	Version    string `json:"version"`
	AllowEvict bool   `json:"allow_evict"` // for this viewer
	Who        string `json:"who"`         // the viewer, see Config.Who; empty if that is not known
}

func (p *Page) about(r *http.Request) aboutJSON {
	return aboutJSON{p.cfg.Title, holdfast.Version, accessOf(r).role == evictor, p.who(r)}
}

// who is the viewer's name, if somebody has authenticated it.
func (p *Page) who(r *http.Request) string {
	if p.cfg.Who == nil {
		return ""
	}
	return p.cfg.Who(r)
}

// listJSON is the answer of api/locks.
type listJSON struct {
	newsJSON
	aboutJSON
	Locks []*lockJSON `json:"locks"` // by ID
}

func (p *Page) getLocks(w http.ResponseWriter, r *http.Request) {
	p.watcher.look()
	p.watcher.fresh(r.Context())
	answer(w, http.StatusOK, p.watcher.list(p.about(r)))
}

func (w *watcher) list(about aboutJSON) listJSON {
	w.mu.Lock()
	defer w.mu.Unlock()
	list, now := listJSON{w.heading(), about, []*lockJSON{}}, w.now()
	for _, id := range slices.Sorted(maps.Keys(w.locks)) {
		list.Locks = append(list.Locks, w.locks[id].lock.first().at(now))
	}
	return list
}

// detailJSON is the answer of api/lock.
type detailJSON struct {
	Now      string       `json:"now"`
	Lock     *lockJSON    `json:"lock"`
	Timeline timelineJSON `json:"timeline"`
}

// getLock reads one lock, or one job, now. The timeline is what the reads of all locks told.
func (p *Page) getLock(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	kind := r.URL.Query().Get("kind")
	if kind != "" && kind != "lock" && kind != "job" {
		answerError(w, http.StatusBadRequest, fmt.Sprintf("kind is %q", kind), "it must be lock or job")
		return
	}
	p.watcher.look()
	s, err := p.inspect(r.Context(), name, kind == "job")
	if err != nil {
		p.answerFailure(w, err)
		return
	}
	answer(w, http.StatusOK, p.watcher.detail(s))
}

func (w *watcher) detail(s holdfast.LockInfo) detailJSON {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, ok := clockOf(s)
	if !ok {
		now = w.now()
	}
	var was *lockJSON
	if e := w.locks[idOf(s)]; e != nil {
		was = e.lock
	}
	l := newLock(s, now, was)
	l.Lost = w.past.lost(l.ID, now)
	w.waits.mark(l)
	return detailJSON{lockjson.Stamp(now), l.at(now), w.past.json(l.ID, now)}
}

func (p *Page) inspect(ctx context.Context, name string, job bool) (holdfast.LockInfo, error) {
	if !job {
		return p.client.Inspect(ctx, name)
	}
	j, err := p.client.InspectJob(ctx, name)
	s := lockjson.WithJob(holdfast.LockInfo{Name: name}, j)
	s.Job = &j
	return s, err
}

// answerFailure answers that the library failed.
func (p *Page) answerFailure(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	if errors.Is(err, holdfast.ErrInvalid) {
		status = http.StatusBadRequest
	}
	answerError(w, status, plain(err), holdfast.Hint(err))
}

// plain is an error's text for a person at the page, without the words that are for programmers.
func plain(err error) string {
	text := strings.ReplaceAll(": "+err.Error(), ": holdfast: ", ": ")
	text = strings.ReplaceAll(text, "Eviction.By or Reason", "your name or the reason")
	return strings.TrimPrefix(strings.TrimPrefix(text, ": "), "invalid: ")
}
