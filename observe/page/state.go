package page

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

// The JSON of the API: a contract, described in docs/page.md. Holders, waiters and jobs have the
// fields of holdfast status --json. Times are by the server's clock, and so they change only if the
// lock does: age_ms, remaining_ms and waited_ms are in answers, and not in the stream. The fields of
// those names here hide the embedded ones.
type (
	lockJSON struct {
		ID           string             `json:"id"` // "lock:NAME" or "job:NAME"
		Name         string             `json:"name"`
		Kind         string             `json:"kind"` // free, exclusive, shared, permits, leader or job
		Held         bool               `json:"held"`
		Fence        string             `json:"fence"`
		Holders      []holderJSON       `json:"holders"`
		Waiting      int                `json:"waiting"`
		Waiters      []waiterJSON       `json:"waiters"` // the first 500; in the list and in the stream, the first 20
		LastEviction *lockjson.Eviction `json:"last_eviction"`
		Limit        int                `json:"limit"`
		Used         int                `json:"used"`
		Leader       *lockjson.Leader   `json:"leader"`
		Job          *jobJSON           `json:"job"`
		Lost         int                `json:"lost"` // leases lost in the last minutes, as the page saw it
		Deadlock     []lockjson.Wait    `json:"deadlock"`

		read time.Time
	}
	holderJSON struct {
		lockjson.Holder
		Expires     string `json:"expires"`
		Trusted     string `json:"trusted_until"` // from then to expires is the lock-delay: nobody has the lock
		LeaseMS     int64  `json:"lease_ms"`      // the longest time to expiry that the page saw
		AgeMS       *int64 `json:"age_ms,omitempty"`
		RemainingMS *int64 `json:"remaining_ms,omitempty"`

		since, trusted, expires time.Time
	}
	waiterJSON struct {
		lockjson.Waiter
		Since    string   `json:"since"`
		WaitedMS *int64   `json:"waited_ms,omitempty"`
		Silent   *bool    `json:"silent,omitempty"` // never: a silent waiter is left out
		Holds    []string `json:"holds"`            // locks that the code of the waiter holds

		since time.Time
	}
	jobJSON struct {
		lockjson.Job
		DueMS *int64           `json:"due_ms,omitempty"` // never: next tells it
		Run   *lockjson.Holder `json:"run,omitempty"`    // never: the run is the lock's holder
	}
)

// shownWaiters is how many waiters of a lock the list and the stream name, and keptWaiters how many
// the page keeps: the memory of the page does not grow with a queue.
const shownWaiters, keptWaiters = 20, 500

func idOf(s holdfast.LockInfo) string {
	if s.Job != nil {
		return "job:" + s.Name
	}
	return "lock:" + s.Name
}

// clockOf is when the server read the state, by its clock. A state without a holder does not
// tell.
func clockOf(s holdfast.LockInfo) (now time.Time, ok bool) {
	if len(s.Holders) == 0 {
		return time.Time{}, false
	}
	return s.Holders[0].Since.Add(s.Holders[0].Age), true
}

// newLock converts a state that was read at now. before is what was known of the lock, or
// nil. It leaves out waiters that are silent: the next request about the lock removes them.
func newLock(s holdfast.LockInfo, now time.Time, before *lockJSON) *lockJSON {
	l := &lockJSON{
		ID: idOf(s), Name: s.Name, Kind: kindOf(s), Held: s.Held(), Fence: strconv.FormatUint(s.Fence, 10),
		Holders: []holderJSON{}, Waiters: []waiterJSON{}, Limit: s.Limit,
		Used: lockjson.Used(s), LastEviction: lockjson.OfEviction(s.LastEviction), Leader: lockjson.OfLeader(s.Leader),
		read: now,
	}
	if before == nil {
		before = new(lockJSON)
	}
	for _, h := range s.Holders {
		l.Holders = append(l.Holders, newHolder(h, now, before))
	}
	waited := map[string]time.Time{}
	for _, w := range before.Waiters {
		waited[w.ID] = w.since
	}
	for _, w := range s.Waiters {
		if w.Silent {
			continue
		}
		if l.Waiting++; l.Waiting <= keptWaiters {
			l.Waiters = append(l.Waiters, newWaiter(w, now, waited))
		}
	}
	if s.Job != nil && s.Job.Schedule.Period > 0 {
		l.Job = &jobJSON{Job: *lockjson.OfJob(*s.Job)}
	}
	return l
}

func kindOf(s holdfast.LockInfo) string {
	switch {
	case s.Job != nil:
		return "job"
	case s.Leader != nil:
		return "leader"
	case s.Held():
		return s.Holders[0].Mode
	}
	return "free"
}

func newHolder(h holdfast.Holder, now time.Time, before *lockJSON) holderJSON {
	if at := h.Since.Add(h.Age); !h.Since.IsZero() {
		now = at
	}
	j := holderJSON{
		Holder: lockjson.OfHolder(h), LeaseMS: h.Remaining.Milliseconds(),
		since: h.Since, expires: now.Add(h.Remaining),
	}
	j.trusted = j.expires
	if !h.Released { // what is left then is its minimum time
		j.trusted = j.expires.Add(-h.LockDelay)
	}
	j.Expires, j.Trusted = lockjson.Stamp(j.expires), lockjson.Stamp(j.trusted)
	for _, b := range before.Holders {
		if b.Token == j.Token {
			j.LeaseMS = max(j.LeaseMS, b.LeaseMS)
		}
	}
	return j
}

// newWaiter converts a waiter. Since when it waits is computed from two clocks if no holder
// tells the server's. What was computed first is kept, so that a lock does not seem to
// change because these differ.
func newWaiter(w holdfast.Waiter, now time.Time, waited map[string]time.Time) waiterJSON {
	j := waiterJSON{Waiter: lockjson.OfWaiter(w), since: now.Add(-w.Waited)}
	if since, ok := waited[j.ID]; ok && since.Sub(j.since).Abs() < time.Second {
		j.since = since
	}
	j.Since = lockjson.Stamp(j.since)
	return j
}

// used reports whether a client holds the lock or waits for it.
func (l *lockJSON) used() bool { return l.Held || l.Waiting > 0 }

// at is the lock with what depends on the time, now by the server's clock.
func (l *lockJSON) at(now time.Time) *lockJSON {
	c := *l
	c.Holders, c.Waiters = []holderJSON{}, []waiterJSON{}
	for _, h := range l.Holders {
		age, left := max(now.Sub(h.since), 0).Milliseconds(), max(h.expires.Sub(now), 0).Milliseconds()
		h.AgeMS, h.RemainingMS = &age, &left
		c.Holders = append(c.Holders, h)
	}
	for _, w := range l.Waiters {
		waited := max(now.Sub(w.since), 0).Milliseconds()
		w.WaitedMS = &waited
		c.Waiters = append(c.Waiters, w)
	}
	return &c
}

// first is the lock with its first waiters only.
func (l *lockJSON) first() *lockJSON {
	if len(l.Waiters) <= shownWaiters {
		return l
	}
	c := *l
	c.Waiters = l.Waiters[:shownWaiters]
	return &c
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic("BUG: the page's own types have a form in JSON: " + err.Error())
	}
	return b
}
