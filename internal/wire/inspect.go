package wire

import (
	"strconv"
	"strings"
	"time"
)

// Record is the answer of inspect on one lock. Times since 1970 are by the server's clock.
type Record struct {
	Absent  bool
	Now     time.Time
	Fence   uint64
	Waiting int
	Used    int
	Limit   int
	Holders []HolderLine
	Waiters []WaiterLine
	Leader  *string // what the holder has proclaimed
	Job     *JobLine
	Evicted *EvictedLine
}

// JobLine is when a periodic job runs.
type JobLine struct {
	Next    time.Time // when the next period begins, by the server's clock
	Attempt string    // the run of the present period; empty if none is known
	Plan    Plan
}

// HolderLine is one live hold.
type HolderLine struct {
	Mode, Attempt, Owner string
	Weight, Entries      int
	Token                uint64
	Since                time.Time
	Left                 time.Duration
	Kept                 bool // released, and kept for a while
}

// WaiterLine is one waiter.
type WaiterLine struct {
	Place                int
	Mode, Attempt, Owner string
	Weight               int
	Joined               time.Time
	Left                 time.Duration
}

// EvictedLine is the last eviction.
type EvictedLine struct {
	At         time.Time
	By, Reason string
	Attempts   []string
}

// reader reads the words of a line. After the first bad word everything is zero.
type reader struct {
	words []string
	bad   bool
}

func (s *reader) word() string {
	if len(s.words) == 0 {
		s.bad = true
		return ""
	}
	w := s.words[0]
	s.words = s.words[1:]
	return w
}

func (s *reader) name() string {
	if w := s.word(); w != "-" {
		return Decode(w)
	}
	return ""
}

func (s *reader) count() int {
	n, err := parseCount(s.word())
	s.bad = s.bad || err != nil
	return n
}

func (s *reader) token() uint64 {
	n, err := parseToken(s.word())
	s.bad = s.bad || err != nil
	return n
}

func (s *reader) millis() time.Duration {
	d, err := parseMillis(s.word())
	s.bad = s.bad || err != nil
	return d
}

func (s *reader) instant() time.Time {
	n, err := strconv.ParseInt(s.word(), 10, 64)
	s.bad = s.bad || err != nil
	return time.UnixMilli(n)
}

// ParseRecord reads the answer of inspect. It ignores lines of an
// unknown kind, because a later minor version may add some.
func ParseRecord(answer string) (Record, error) {
	if answer == "absent" {
		return Record{Absent: true}, nil
	}
	var r Record
	for i, line := range strings.Split(answer, "\n") {
		s := reader{words: strings.Split(line, " ")} // a name may have other spaces in it
		kind := s.word()
		if (kind == "lock") != (i == 0) {
			return Record{}, BadAnswer(answer)
		}
		switch kind {
		case "lock":
			r.Now, r.Fence, r.Waiting = s.instant(), s.token(), s.count()
			_ = s.word() // the record's own life, of interest to operators only
			r.Used, r.Limit = s.count(), s.count()
		case "holder":
			kept := len(s.words) > 2 && s.words[2] == KeptHolder
			h := HolderLine{
				Mode: s.word(), Attempt: s.word(), Owner: s.name(), Weight: s.count(),
				Token: s.token(), Since: s.instant(), Left: s.millis(), Entries: s.count(),
			}
			if kept {
				h.Owner, h.Entries, h.Kept = "", 1, true
			}
			r.Holders = append(r.Holders, h)
		case "waiter":
			r.Waiters = append(r.Waiters, WaiterLine{
				Place: s.count(), Mode: s.word(), Attempt: s.word(), Owner: s.name(),
				Weight: s.count(), Joined: s.instant(), Left: s.millis(),
			})
		case "leader":
			value, marked := strings.CutPrefix(s.word(), "=")
			value = Decode(value)
			r.Leader, s.bad = &value, s.bad || !marked
		case "period":
			r.Job = &JobLine{Next: s.instant(), Attempt: s.name(), Plan: s.plan()}
		case "evicted":
			r.Evicted = &EvictedLine{At: s.instant(), By: s.name(), Reason: s.name()}
			r.Evicted.Attempts = s.words
		}
		if s.bad {
			return Record{}, BadAnswer(line)
		}
	}
	return r, nil
}

// ClientLine is what a client has said of itself.
type ClientLine struct {
	App, Host, Version string
	PID                int
	Started            time.Time
	Notes              map[string]string // those on attempts that were asked for, by field; nil if there are none
	Noted              bool              // the client has written notes
}

// ParseClient reads the answer of read_client; known is false for "unknown". It ignores lines
// of an unknown kind, because a later minor version may add some.
func ParseClient(answer string) (c ClientLine, known bool, err error) {
	if answer == "unknown" {
		return ClientLine{}, false, nil
	}
	lines := strings.Split(answer, "\n")
	s := reader{words: strings.Split(lines[0], " ")}
	if s.word() != "client" {
		return ClientLine{}, false, BadAnswer(answer)
	}
	c = ClientLine{App: s.name(), Host: s.name(), PID: s.count(), Version: s.name(), Started: s.instant()}
	for _, line := range lines[1:] {
		switch s.words = strings.Split(line, " "); s.word() {
		case "note":
			if c.Notes == nil {
				c.Notes = make(map[string]string)
			}
			c.Notes[s.word()] = s.word()
		case "noted":
			c.Noted = true
		}
	}
	if s.bad {
		return ClientLine{}, false, BadAnswer(answer)
	}
	return c, true, nil
}
