package page

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
)

// The JSON of the API: a contract, described in docs/page.md. The fields that the command
// holdfast status --json has, too, are named as there. Times are by the server's clock,
// and so they change only if the lock does: age_ms, remaining_ms and waited_ms are in
// answers, and not in the stream.
type (
	lockJSON struct {
		ID           string        `json:"id"` // "lock:NAME" or "job:NAME"
		Name         string        `json:"name"`
		Kind         string        `json:"kind"` // free, exclusive, shared, permits, leader or job
		Held         bool          `json:"held"`
		Fence        string        `json:"fence"`
		Holders      []holderJSON  `json:"holders"`
		Waiting      int           `json:"waiting"`
		Waiters      []waiterJSON  `json:"waiters"` // the first 500; in the list and in the stream, the first 20
		LastEviction *evictionJSON `json:"last_eviction"`
		Limit        int           `json:"limit"`
		Used         int           `json:"used"`
		Leader       *leaderJSON   `json:"leader"`
		Job          *jobJSON      `json:"job"`
		Lost         int           `json:"lost"` // leases lost in the last minutes, as the page saw it
		Deadlock     []waitJSON    `json:"deadlock"`

		read time.Time
	}
	clientJSON struct {
		ClientID string `json:"client_id"`
		App      string `json:"app"`
		Host     string `json:"host"`
		PID      int    `json:"pid"`
		Version  string `json:"version"`
	}
	holderJSON struct {
		Mode string `json:"mode"`
		clientJSON
		Token       string            `json:"token"`
		Since       string            `json:"since"`
		Expires     string            `json:"expires"`
		LeaseMS     int64             `json:"lease_ms"` // the longest time to expiry that the page saw
		AgeMS       *int64            `json:"age_ms,omitempty"`
		RemainingMS *int64            `json:"remaining_ms,omitempty"`
		ID          string            `json:"id"`
		Owner       string            `json:"owner"`
		Permits     int               `json:"permits"`
		Entries     int               `json:"entries"`
		Released    bool              `json:"released"`
		Tags        map[string]string `json:"tags"`

		since, expires time.Time
	}
	waiterJSON struct {
		Position int    `json:"position"`
		Mode     string `json:"mode"`
		clientJSON
		Since    string            `json:"since"`
		WaitedMS *int64            `json:"waited_ms,omitempty"`
		ID       string            `json:"id"`
		Owner    string            `json:"owner"`
		Tags     map[string]string `json:"tags"`
		Holds    []string          `json:"holds"` // locks that the code of the waiter holds

		since time.Time
	}
	evictionJSON struct {
		At     string `json:"at"`
		By     string `json:"by"`
		Reason string `json:"reason"`
	}
	leaderJSON struct {
		Value string `json:"value"`
		Term  string `json:"term"`
	}
	jobJSON struct {
		PeriodMS int64  `json:"period_ms"`
		Aligned  bool   `json:"aligned"`
		OffsetMS int64  `json:"offset_ms"`
		Next     string `json:"next"`
		LastRun  string `json:"last_run"`
	}
)

// shownWaiters is how many waiters of a lock the list and the stream name, and keptWaiters how many
// the page keeps: the memory of the page does not grow with a queue.
const shownWaiters, keptWaiters = 20, 500

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

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
		Holders: []holderJSON{}, Waiters: []waiterJSON{}, Limit: s.Limit, read: now,
	}
	if before == nil {
		before = new(lockJSON)
	}
	for _, h := range s.Holders {
		l.Holders = append(l.Holders, newHolder(h, now, before))
		if h.Mode == "permits" {
			l.Used += h.Permits
		}
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
	if e := s.LastEviction; e != nil {
		l.LastEviction = &evictionJSON{stamp(e.At), e.By, e.Reason}
	}
	if v := s.Leader; v != nil {
		l.Leader = &leaderJSON{v.Value, strconv.FormatUint(v.Term, 10)}
	}
	if j := s.Job; j != nil {
		l.Job = &jobJSON{
			PeriodMS: j.Schedule.Period.Milliseconds(), Aligned: j.Schedule.Aligned,
			OffsetMS: j.Schedule.Offset.Milliseconds(), Next: stamp(j.Next), LastRun: j.HolderID,
		}
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
		Mode: h.Mode, clientJSON: newClient(h.Client, h.ClientID), Token: strconv.FormatUint(h.Token, 10),
		ID: h.HolderID, Owner: h.Owner, Permits: h.Permits, Entries: h.Entries, Released: h.Released,
		Tags: someTags(h.Tags), since: h.Since, expires: now.Add(h.Remaining), LeaseMS: h.Remaining.Milliseconds(),
	}
	j.Since, j.Expires = stamp(j.since), stamp(j.expires)
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
	j := waiterJSON{
		Position: w.Position, Mode: w.Mode, clientJSON: newClient(w.Client, w.ClientID), ID: w.HolderID,
		Owner: w.Owner, Tags: someTags(w.Tags), since: now.Add(-w.Waited),
	}
	if since, ok := waited[j.ID]; ok && since.Sub(j.since).Abs() < time.Second {
		j.since = since
	}
	j.Since = stamp(j.since)
	return j
}

// someTags are tags as JSON: never null.
func someTags(tags map[string]string) map[string]string {
	if tags == nil {
		return map[string]string{}
	}
	return tags
}

func newClient(info *holdfast.ClientInfo, id string) clientJSON {
	j := clientJSON{ClientID: id}
	if info != nil {
		j.App, j.Host, j.PID, j.Version = info.App, info.Host, info.PID, info.Version
	}
	return j
}

// who names a holder or a waiter.
func (c clientJSON) who() string {
	if c.App == "" && c.Host == "" {
		return "client " + c.ClientID
	}
	return fmt.Sprintf("%s@%s:%d", c.App, c.Host, c.PID)
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
