// Package lockjson is the state of a lock as JSON: a contract. The tool prints it (holdfast status
// --json, inspect, list, evict), and the API of the web page has the same holders, waiters and jobs.
// Later versions may add fields. They do not rename or remove any, and do not change a type.
package lockjson

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
)

type (
	// State is a lock, and the job of the same name.
	State struct {
		Name         string    `json:"name"`
		Key          string    `json:"key"`
		Held         bool      `json:"held"`
		Fence        string    `json:"fence"` // tokens are strings: they may be too large for a JSON number
		Holders      []Holder  `json:"holders"`
		Waiting      int       `json:"waiting"` // without those that are silent
		Waiters      []Waiter  `json:"waiters"`
		LastEviction *Eviction `json:"last_eviction"`
		Limit        int       `json:"limit"`
		Used         int       `json:"used"`
		Leader       *Leader   `json:"leader"`
		Job          *Job      `json:"job"`
		Deadlock     []Wait    `json:"deadlock,omitzero"` // nil: nobody has looked; empty: the lock is in none
		Foreign      string    `json:"foreign,omitempty"` // of list --foreign only
		Error        string    `json:"error,omitempty"`   // of list only: why the record cannot be read
	}
	// Client says which process a holder or a waiter is.
	Client struct {
		ClientID string `json:"client_id"`
		App      string `json:"app"`
		Host     string `json:"host"`
		PID      int    `json:"pid"`
		Version  string `json:"version"`
	}
	// Holder is a hold of the lock. Its times are by the server's clock.
	Holder struct {
		Mode string `json:"mode"`
		Client
		Token       string            `json:"token"`
		Since       string            `json:"since"`
		AgeMS       int64             `json:"age_ms"`
		RemainingMS int64             `json:"remaining_ms"`  // of the lease on the server
		LockDelayMS int64             `json:"lock_delay_ms"` // its client trusts it for so much less
		ID          string            `json:"id"`
		Owner       string            `json:"owner"`
		Permits     int               `json:"permits"`
		Entries     int               `json:"entries"`
		Released    bool              `json:"released"`
		Ending      bool              `json:"ending"`
		Tags        map[string]string `json:"tags"`
	}
	// Node is a server of a quorum.
	Node struct {
		Address       string  `json:"address"`
		Answers       bool    `json:"answers"`
		Counts        bool    `json:"counts"`
		Why           string  `json:"why"` // it does not count
		RoundTripMS   float64 `json:"round_trip_ms"`
		ClockOffsetMS float64 `json:"clock_offset_ms"`
		ClockErrorMS  float64 `json:"clock_error_ms"`
	}
	// Waiter has a position in the wait queue.
	Waiter struct {
		Position int    `json:"position"`
		Mode     string `json:"mode"`
		Client
		WaitedMS int64             `json:"waited_ms"`
		ID       string            `json:"id"`
		Owner    string            `json:"owner"`
		Tags     map[string]string `json:"tags"`
		Silent   bool              `json:"silent"`
	}
	// Eviction is the last eviction of the lock.
	Eviction struct {
		At     string `json:"at"`
		By     string `json:"by"`
		Reason string `json:"reason"`
	}
	// Leader is who leads the election of this name.
	Leader struct {
		Value string `json:"value"`
		Term  string `json:"term"`
	}
	// Wait is one of the waits of a deadlock.
	Wait struct {
		Client string `json:"client"`
		Holds  string `json:"holds"` // a lock that the same code holds; empty: it is only in front of another waiter
		Name   string `json:"waits_for"`
		Breaks bool   `json:"breaks"` // it has the option BreakDeadlock
	}
	// Job is the periodic job of this name.
	Job struct {
		PeriodMS int64   `json:"period_ms"`
		Aligned  bool    `json:"aligned"`
		OffsetMS int64   `json:"offset_ms"`
		Next     string  `json:"next"`
		DueMS    int64   `json:"due_ms"`
		LastRun  string  `json:"last_run"`
		Run      *Holder `json:"run"`
		Runs     int     `json:"runs"`  // of this period, none of which has succeeded
		Tries    int     `json:"tries"` // so many there may be; 0: the first run uses its period
	}
)

// Of is the state of a lock whose record has this key. The job is Job's.
func Of(s holdfast.LockInfo, key string) State {
	j := State{
		Name: s.Name, Key: key, Held: s.Held(), Fence: strconv.FormatUint(s.Fence, 10),
		Holders: []Holder{}, Waiters: []Waiter{}, LastEviction: OfEviction(s.LastEviction), Limit: s.Limit,
		Used: Used(s), Leader: OfLeader(s.Leader),
	}
	for _, h := range s.Holders {
		j.Holders = append(j.Holders, OfHolder(h))
	}
	for _, w := range s.Waiters {
		j.Waiters = append(j.Waiters, OfWaiter(w))
		if !w.Silent {
			j.Waiting++
		}
	}
	return j
}

// WithJob is a lock together with the job of the same name: the run is one of the holders.
func WithJob(s holdfast.LockInfo, job holdfast.JobInfo) holdfast.LockInfo {
	if s.Fence == 0 { // the lock has no record
		s.Fence = job.Fence
	}
	if job.Run != nil {
		s.Holders = append(slices.Clip(s.Holders), *job.Run)
	}
	if e := job.LastEviction; e != nil && (s.LastEviction == nil || e.At.After(s.LastEviction.At)) {
		s.LastEviction = e
	}
	return s
}

// Used is how many permits of a semaphore are held.
func Used(s holdfast.LockInfo) (used int) {
	for _, h := range s.Holders {
		if h.Mode == "permits" {
			used += h.Permits
		}
	}
	return used
}

// OfHolder converts a holder.
func OfHolder(h holdfast.Holder) Holder {
	return Holder{
		Mode: h.Mode, Client: OfClient(h.Client, h.ClientID), Token: strconv.FormatUint(h.Token, 10),
		Since: Stamp(h.Since), AgeMS: h.Age.Milliseconds(), RemainingMS: h.Remaining.Milliseconds(),
		LockDelayMS: h.LockDelay.Milliseconds(), ID: h.HolderID, Owner: h.Owner, Permits: h.Permits,
		Entries: h.Entries, Released: h.Released, Ending: h.Ending, Tags: Tags(h.Tags),
	}
}

// OfWaiter converts a waiter.
func OfWaiter(w holdfast.Waiter) Waiter {
	return Waiter{
		Position: w.Position, Mode: w.Mode, Client: OfClient(w.Client, w.ClientID),
		WaitedMS: w.Waited.Milliseconds(), ID: w.HolderID, Owner: w.Owner, Tags: Tags(w.Tags), Silent: w.Silent,
	}
}

// OfEviction converts an eviction; nil if there was none.
func OfEviction(e *holdfast.EvictionInfo) *Eviction {
	if e == nil {
		return nil
	}
	return &Eviction{Stamp(e.At), e.By, e.Reason}
}

// OfLeader converts a leader; nil if nobody leads.
func OfLeader(l *holdfast.Leader) *Leader {
	if l == nil {
		return nil
	}
	return &Leader{l.Value, strconv.FormatUint(l.Token, 10)}
}

// OfDeadlock converts the waits of a deadlock: never null.
func OfDeadlock(waits []holdfast.WaitInfo) []Wait {
	list := []Wait{}
	for _, w := range waits {
		list = append(list, Wait{OfClient(w.Client, w.ClientID).Who(), w.Holds, w.Name, w.Breaks})
	}
	return list
}

// OfJob converts a job; nil if the server does not know one of this name.
func OfJob(j holdfast.JobInfo) *Job {
	if j.Schedule.Period == 0 {
		return nil
	}
	job := &Job{
		PeriodMS: j.Schedule.Period.Milliseconds(), Aligned: j.Schedule.Aligned,
		OffsetMS: j.Schedule.Offset.Milliseconds(), Next: Stamp(j.Next), DueMS: j.Due.Milliseconds(),
		LastRun: j.HolderID, Runs: j.Runs, Tries: j.Tries,
	}
	if j.Run != nil {
		run := OfHolder(*j.Run)
		job.Run = &run
	}
	return job
}

// OfClient converts what a client says of itself. The server may know its ID only.
func OfClient(info *holdfast.ClientInfo, id string) Client {
	j := Client{ClientID: id}
	if info != nil {
		j.App, j.Host, j.PID, j.Version = info.App, info.Host, info.PID, info.Version
	}
	return j
}

// Who names a client for people.
func (c Client) Who() string {
	if c.App == "" && c.Host == "" {
		return "client " + c.ClientID
	}
	return fmt.Sprintf("%s@%s:%d", c.App, c.Host, c.PID)
}

// Stamp is an instant in UTC, with milliseconds.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Millis is a duration in milliseconds, with three digits after the point.
func Millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// Tags are tags as JSON: never null.
func Tags(tags map[string]string) map[string]string {
	if tags == nil {
		return map[string]string{}
	}
	return tags
}
