package page

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockjson"
)

// The bounds of what the page remembers. What is older, or too much, goes: the oldest first.
const (
	window    = 10 * time.Minute
	perLock   = 100
	inTotal   = 50_000
	pruneEach = 10 * time.Second
)

// history is what happened to the locks in the last minutes, as far as the reads tell. It
// computes from values, and its times are by the server's clock. A hold that began and ended
// between two reads left no trace but its token.
type history struct {
	locks   map[string]*timeline // by ID
	watched []span               // when the locks were read
	pruned  time.Time
}

type span struct{ from, to time.Time }

// timeline is the past of one lock.
type timeline struct {
	holds   []*hold // in the order in which the page learned of them
	waiting []count
}

// How a hold ended.
const (
	endReleased = "released"
	endExpired  = "expired" // the lease ended before anybody released it
	endEvicted  = "evicted"
	endGone     = "gone"   // the record is gone, though the lease had time left
	endUnseen   = "unseen" // between two reads, longer apart than the lease
)

type hold struct {
	token, mode, who string
	start, end       time.Time // end is zero while the hold lasts
	how              string    // empty while the hold lasts
	note             string    // of an eviction: who and why
}

func (h *hold) lost() bool { return h.how == endExpired || h.how == endEvicted || h.how == endGone }

// count is how many clients waited from a moment on.
type count struct {
	at time.Time
	n  int
}

func newHistory() *history { return &history{locks: map[string]*timeline{}} }

// watch says that the locks were read at now.
func (h *history) watch(now time.Time) {
	if n := len(h.watched); n > 0 && h.watched[n-1].to.IsZero() {
		return
	}
	h.watched = append(h.watched, span{from: now})
}

// pause says that nobody reads the locks from now on.
func (h *history) pause(now time.Time) {
	if n := len(h.watched); n > 0 && h.watched[n-1].to.IsZero() {
		h.watched[n-1].to = now
	}
}

// note compares two states of a lock, and returns how many leases were lost in between. If
// the lock was not known, was is nil. If it has no record any more, the state is nil.
func (h *history) note(was, is *lockJSON, now time.Time) (lost uint64) {
	known := is
	if known == nil {
		known = was
	}
	t := h.locks[known.ID]
	if t == nil {
		if !known.used() {
			return 0 // most locks are free, and stay so
		}
		t = new(timeline)
		h.locks[known.ID] = t
	}
	for _, o := range t.holds {
		if o.how == "" && !holds(is, o.token) {
			o.end, o.how, o.note = ending(o, was, is, now)
			if o.lost() {
				lost++
			}
		}
	}
	if is == nil {
		t.wait(now, 0)
		return lost
	}
	for _, holder := range is.Holders {
		if !t.has(holder.Token) {
			t.holds = append(t.holds, &hold{
				token: holder.Token, mode: holder.Mode, who: holder.Who(), start: holder.since,
			})
		}
	}
	t.wait(now, is.Waiting)
	t.holds = t.holds[max(len(t.holds)-perLock, 0):]
	t.waiting = t.waiting[max(len(t.waiting)-perLock, 0):]
	return lost
}

func holds(l *lockJSON, token string) bool {
	return l != nil && slices.ContainsFunc(l.Holders, func(h holderJSON) bool { return h.Token == token })
}

func (t *timeline) has(token string) bool {
	return slices.ContainsFunc(t.holds, func(o *hold) bool { return o.token == token && o.how == "" })
}

func (t *timeline) wait(now time.Time, n int) {
	last := 0
	if k := len(t.waiting); k > 0 {
		last = t.waiting[k-1].n
	}
	if n != last {
		t.waiting = append(t.waiting, count{now, n})
	}
}

// ending says when and how a hold ended, if the hold is no longer there.
func ending(o *hold, was, is *lockJSON, now time.Time) (end time.Time, how, note string) {
	last := holderJSON{}
	if was != nil {
		for _, h := range was.Holders {
			if h.Token == o.token {
				last = h
			}
		}
	}
	end = now
	if is != nil {
		for _, h := range is.Holders { // a hand-over: the next hold began when this one ended
			if tokenOf(h.Token) > tokenOf(o.token) && h.since.After(o.start) && h.since.Before(end) {
				end = h.since
			}
		}
	}
	expired := !last.expires.IsZero() && !end.Before(last.expires)
	if expired {
		end = last.expires
	}
	// A holder that renews has most of its lease left, apart from the lock-delay. If the last read found that, and
	// came long before this one, nobody knows what happened in between.
	length := time.Duration(last.LeaseMS-last.LockDelayMS) * time.Millisecond
	renewed := was != nil && last.trusted.Sub(was.read) >= length/2
	switch {
	case is != nil && evictedSince(was, is):
		return end, endEvicted, is.LastEviction.By + ": " + is.LastEviction.Reason
	case last.Ending && was.LastEviction != nil: // it was asked to end before
		return end, endEvicted, was.LastEviction.By + ": " + was.LastEviction.Reason
	case last.Released: // kept for its minimum time, and that is over
		return end, endReleased, ""
	case expired && renewed:
		return end, endUnseen, ""
	case expired:
		return end, endExpired, ""
	case is == nil:
		return end, endGone, ""
	}
	return end, endReleased, ""
}

func tokenOf(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		panic("BUG: a token of ours is a number: " + err.Error())
	}
	return n
}

func evictedSince(was, is *lockJSON) bool {
	return is.LastEviction != nil && was != nil && (was.LastEviction == nil || *was.LastEviction != *is.LastEviction)
}

// lost is how many leases of a lock were lost in the window.
func (h *history) lost(id string, now time.Time) (n int) {
	if t := h.locks[id]; t != nil {
		for _, o := range t.holds {
			if o.lost() && now.Sub(o.end) < window {
				n++
			}
		}
	}
	return n
}

// lostInAll is how many leases of all locks were lost in the window.
func (h *history) lostInAll(now time.Time) (n int) {
	for id := range h.locks {
		n += h.lost(id, now)
	}
	return n
}

// prune forgets what is too old or too much.
func (h *history) prune(now time.Time) {
	size := h.size()
	if now.Sub(h.pruned).Abs() < pruneEach && size <= inTotal {
		return
	}
	h.pruned = now
	from := now.Add(-window)
	if size > inTotal {
		from = h.cutoff(from)
	}
	for id, t := range h.locks {
		t.holds = slices.DeleteFunc(t.holds, func(o *hold) bool { return o.how != "" && o.end.Before(from) })
		// The last count from before tells how many waited at the beginning.
		first := 0
		for i, c := range t.waiting {
			if c.at.Before(from) {
				first = i
			}
		}
		t.waiting = slices.Clone(t.waiting[first:])
		if len(t.holds) == 0 && (len(t.waiting) == 0 || len(t.waiting) == 1 && t.waiting[0].n == 0) {
			delete(h.locks, id)
		}
	}
	h.watched = slices.DeleteFunc(h.watched, func(s span) bool { return !s.to.IsZero() && s.to.Before(from) })
}

func (h *history) size() (n int) {
	for _, t := range h.locks {
		n += len(t.holds) + len(t.waiting)
	}
	return n
}

// cutoff is a time after from, so that about nine tenths of what is allowed is younger.
func (h *history) cutoff(from time.Time) time.Time {
	var times []time.Time
	for _, t := range h.locks {
		for _, o := range t.holds {
			if o.how != "" {
				times = append(times, o.end)
			}
		}
		for _, c := range t.waiting {
			times = append(times, c.at)
		}
	}
	slices.SortFunc(times, time.Time.Compare)
	extra := min(h.size()-inTotal*9/10, len(times)-1)
	if extra < 0 || times[extra].Before(from) {
		return from
	}
	return times[extra]
}

// The timeline in the JSON of one lock.
type (
	timelineJSON struct {
		From    string      `json:"from"` // ten minutes ago, or the first read
		To      string      `json:"to"`
		Holds   []holdJSON  `json:"holds"`   // by start
		Waiting []countJSON `json:"waiting"` // how many wait, from a moment on
		Watched []spanJSON  `json:"watched"` // when the page read the locks; it knows little of other times
	}
	holdJSON struct {
		Token string `json:"token"`
		Mode  string `json:"mode"`
		Who   string `json:"who"`
		Start string `json:"start"`
		End   string `json:"end"` // empty while the hold lasts
		How   string `json:"how"` // empty, released, expired, evicted, gone or unseen
		Note  string `json:"note"`
	}
	countJSON struct {
		At string `json:"at"`
		N  int    `json:"n"`
	}
	spanJSON struct {
		From string `json:"from"`
		To   string `json:"to"` // empty: until now
	}
)

func stampOrEmpty(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return lockjson.Stamp(t)
}

func (h *history) json(id string, now time.Time) timelineJSON {
	from := now.Add(-window)
	if len(h.watched) > 0 && h.watched[0].from.After(from) {
		from = h.watched[0].from
	}
	j := timelineJSON{
		From: lockjson.Stamp(from), To: lockjson.Stamp(now),
		Holds: []holdJSON{}, Waiting: []countJSON{}, Watched: []spanJSON{},
	}
	for _, s := range h.watched {
		j.Watched = append(j.Watched, spanJSON{lockjson.Stamp(s.from), stampOrEmpty(s.to)})
	}
	t := h.locks[id]
	if t == nil {
		return j
	}
	byStart := slices.Clone(t.holds)
	slices.SortStableFunc(byStart, func(a, b *hold) int {
		return cmp.Or(a.start.Compare(b.start), cmp.Compare(a.token, b.token))
	})
	for _, o := range byStart {
		end := stampOrEmpty(o.end)
		j.Holds = append(j.Holds, holdJSON{o.token, o.mode, o.who, lockjson.Stamp(o.start), end, o.how, o.note})
	}
	for _, c := range t.waiting {
		j.Waiting = append(j.Waiting, countJSON{lockjson.Stamp(c.at), c.n})
	}
	return j
}
