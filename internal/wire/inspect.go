package wire

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Record is the answer of inspect on one lock. Times since 1970 are by the server's clock.
//
// Of a record with more than some 256 holders and waiters, an answer is a page: it has some of
// the shared holders and of the waiters. [ReadRecord] puts the pages together.
type Record struct {
	Absent  bool
	Now     time.Time
	Fence   uint64
	Waiting int
	Used    int
	Limit   int
	Drained bool // the limit is 0; otherwise a Limit of 0 stands for none
	Holders []HolderLine
	Waiters []WaiterLine
	Leader  *string // what the holder has proclaimed
	Job     *JobLine
	Evicted *EvictedLine
	Silent  []string // servers of a quorum that did not answer, if one more holder may have a majority with them
	next    string   // where the next page begins; "": the answer is no page; lastPage: there is no further one
	run     string   // the run of the server that gave this page
}

const lastPage = "0"

// endingHold is the last word of a holder whose end an operator has asked for.
const endingHold = "ending"

// EndingMark is what follows a holder in the answer of inspect.
func (h *HolderLine) EndingMark() string {
	if h.Ending {
		return " " + endingHold
	}
	return ""
}

// JobLine is when a periodic job runs.
type JobLine struct {
	Next    time.Time // when the next period begins, by the server's clock
	Attempt string    // the run of the present period; empty if none is known
	Plan    Plan
	Runs    int // runs of the present period, none of which has succeeded yet
	Tries   int // how many there may be; 0: the first run uses the period
}

// HolderLine is one live hold.
type HolderLine struct {
	Mode, Attempt, Owner string
	Weight, Entries      int
	Token                uint64
	Since                time.Time
	Left                 time.Duration
	Kept                 bool // released, and kept for a while
	Ending               bool // an operator has asked for its end
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

// UnprovenError says that nobody knows whether a lock is held over a quorum. Some of the servers that answered have a
// holder, and it has a majority if the others have it, too.
type UnprovenError struct{ Silent []string }

func (e *UnprovenError) Error() string {
	return "only the servers that did not answer can tell whether the lock is held: " + strings.Join(e.Silent, ", ")
}

// Hint says what to do about the error, for [holdfast.Hint].
func (e *UnprovenError) Hint() string {
	return "ask again when the servers that the error names answer"
}

// reader reads the words of a line. After the first bad word everything is zero.
type reader struct {
	words []string
	bad   bool
}

func (r *reader) word() string {
	if len(r.words) == 0 {
		r.bad = true
		return ""
	}
	w := r.words[0]
	r.words = r.words[1:]
	return w
}

func (r *reader) name() string {
	if w := r.word(); w != "-" {
		return Decode(w)
	}
	return ""
}

func (r *reader) count() int {
	n, err := parseCount(r.word())
	r.bad = r.bad || err != nil
	return n
}

func (r *reader) token() uint64 {
	n, err := parseToken(r.word())
	r.bad = r.bad || err != nil
	return n
}

func (r *reader) left() time.Duration {
	d, err := parseLeft(r.word())
	r.bad = r.bad || err != nil
	return d
}

// offset reads the offset of a job, which a record may have below 0.
func (r *reader) offset() time.Duration {
	word, below := strings.CutPrefix(r.word(), "-")
	d, err := parseLeft(word)
	r.bad = r.bad || err != nil
	if below {
		return -d
	}
	return d
}

func (r *reader) instant() time.Time {
	n, err := strconv.ParseInt(r.word(), 10, 64)
	r.bad = r.bad || err != nil
	return time.UnixMilli(n)
}

// ParseRecord reads the answer of inspect. It ignores lines of an
// unknown kind, because a later minor version may add some.
func ParseRecord(answer string) (Record, error) {
	if answer == "absent" {
		return Record{Absent: true}, nil
	}
	var rec Record
	for i, line := range strings.Split(answer, "\n") {
		r := reader{words: strings.Split(line, " ")} // a name may have other spaces in it
		kind := r.word()
		if (kind == "lock") != (i == 0) {
			return Record{}, BadAnswer(answer)
		}
		switch kind {
		case "lock":
			rec.Now, rec.Fence, rec.Waiting = r.instant(), r.token(), r.count()
			_ = r.word() // the record's own life, of interest to operators only
			rec.Used = r.count()
			if rec.Drained = len(r.words) > 0 && r.words[0] == "-"; rec.Drained {
				r.words = r.words[1:]
			} else {
				rec.Limit = r.count()
			}
		case "holder":
			kept := len(r.words) > 2 && r.words[2] == KeptHolder
			h := HolderLine{
				Mode: r.word(), Attempt: r.word(), Owner: r.name(), Weight: r.count(),
				Token: r.token(), Since: r.instant(), Left: r.left(), Entries: r.count(),
			}
			h.Ending = len(r.words) > 0 && r.words[0] == endingHold
			if kept {
				h.Owner, h.Entries, h.Kept = "", 1, true
			}
			rec.Holders = append(rec.Holders, h)
		case "waiter":
			rec.Waiters = append(rec.Waiters, WaiterLine{
				Place: r.count(), Mode: r.word(), Attempt: r.word(), Owner: r.name(),
				Weight: r.count(), Joined: r.instant(), Left: r.left(),
			})
		case "leader":
			value, marked := strings.CutPrefix(r.word(), "=")
			value = Decode(value)
			rec.Leader, r.bad = &value, r.bad || !marked
		case "period":
			rec.Job = &JobLine{Next: r.instant(), Attempt: r.name(), Plan: r.plan()}
		case "tries":
			if r.bad = rec.Job == nil; !r.bad {
				rec.Job.Runs, rec.Job.Tries = r.count(), r.count()
			}
		case "evicted":
			rec.Evicted = &EvictedLine{At: r.instant(), By: r.name(), Reason: r.name()}
			rec.Evicted.Attempts = r.words
		case "silent":
			for len(r.words) > 0 {
				rec.Silent = append(rec.Silent, r.name())
			}
		case "page":
			rec.next, rec.run = r.word(), r.word()
		}
		if r.bad {
			return Record{}, BadAnswer(line)
		}
	}
	return rec, nil
}

// mostRestarts is how often ReadRecord begins again because another server has answered.
const mostRestarts = 3

// ReadRecord reads the record of a lock. ask sends inspect with these arguments; mode is the
// first of them, or nothing. A record of one page is that of one moment. A larger one is read
// in several requests: each holder and waiter was there at some time in between, and all else
// is as the last page says.
//
// If enough is not nil, the reading ends with the first page that enough accepts. Every page
// has all but the shared holders and the waiters.
func ReadRecord(
	ask func(args []string) (string, error), enough func(page *Record) bool, mode ...string,
) (Record, error) {
	var pages []Record
	args := mode
	for restarts := 0; ; {
		answer, err := ask(args)
		if err != nil {
			return Record{}, err
		}
		page, err := ParseRecord(answer)
		if err != nil || page.next == "" {
			return page, err
		}
		if len(pages) > 0 && page.run != pages[0].run { // a place in a record means nothing to another server
			if restarts++; restarts > mostRestarts {
				return Record{}, BadAnswer(answer)
			}
			pages, args = nil, mode
			continue
		}
		if pages = append(pages, page); page.next == lastPage || enough != nil && enough(&page) {
			return merged(pages), nil
		}
		args = []string{"", page.next}
		copy(args, mode)
	}
}

// merged is the record that these pages show. If two of them disagree, the later one is right.
func merged(pages []Record) Record {
	rec := pages[len(pages)-1]
	var alone []HolderLine
	shared, waiting := make(map[string]HolderLine), make(map[string]WaiterLine)
	for i := range pages {
		alone = nil
		for _, h := range pages[i].Holders {
			if h.Mode == Exclusive {
				alone = append(alone, h)
				clear(shared) // they ended before
			} else {
				shared[h.Attempt] = h
			}
		}
		for _, w := range pages[i].Waiters {
			waiting[w.Attempt] = w
		}
	}
	rec.Used, rec.Holders, rec.Waiters = 0, alone, nil
	for _, h := range shared {
		rec.Used += h.Weight
		rec.Holders = append(rec.Holders, h)
	}
	for _, h := range rec.Holders {
		delete(waiting, h.Attempt) // it was granted the lock between two pages
	}
	for _, w := range waiting {
		rec.Waiters = append(rec.Waiters, w)
	}
	slices.SortStableFunc(rec.Holders, func(a, b HolderLine) int { return cmp.Compare(a.Token, b.Token) })
	slices.SortStableFunc(rec.Waiters, func(a, b WaiterLine) int { return cmp.Compare(a.Place, b.Place) })
	for i := range rec.Waiters {
		rec.Waiters[i].Place = i + 1
	}
	return rec
}

// ClientLine is what a client has said of itself.
type ClientLine struct {
	App, Host, Version string
	PID                int
	Started            time.Time
	Notes              map[string]string // those on attempts that were asked for, by field; nil if there are none
	Noted              bool              // the client has written notes
}

// Registration are the arguments with which register_client writes that down for at least ttl; 0 ends the record.
func (c *ClientLine) Registration(ttl time.Duration) []string {
	return []string{
		Millis(ttl), Encode(c.App), Encode(c.Host), strconv.Itoa(c.PID), c.Version,
		strconv.FormatInt(c.Started.UnixMilli(), 10),
	}
}

// ParseClients reads the answer of read_client about n clients, in order: nil stands for an
// unknown one.
func ParseClients(answer string, n int) ([]*ClientLine, error) {
	var list []*ClientLine
	var bad []int
	for line := range strings.SplitSeq(answer, "\n") {
		kind, _, _ := strings.Cut(line, " ")
		switch kind {
		case "unknown":
			list = append(list, nil)
			continue
		case "client":
			// What one client has written is no reason to forget the others.
			c, known, _ := ParseClient(line)
			if list = append(list, &c); !known {
				bad = append(bad, len(list)-1)
			}
			continue
		}
		if len(list) == 0 || list[len(list)-1] == nil {
			return nil, BadAnswer(answer)
		}
		list[len(list)-1].add(line)
	}
	if len(list) != n {
		return nil, BadAnswer(answer)
	}
	for _, i := range bad {
		list[i] = nil
	}
	return list, nil
}

// add reads a line that follows that of the client.
func (c *ClientLine) add(line string) {
	switch r := (reader{words: strings.Split(line, " ")}); r.word() {
	case "note":
		if c.Notes == nil {
			c.Notes = make(map[string]string)
		}
		c.Notes[r.word()] = r.word()
	case "noted":
		c.Noted = true
	}
}

// mostName is the longest name of a program, in bytes, that is kept: a client says what it likes.
const mostName = 200

// short cuts a name, so that one client cannot fill the memory or the screen of whoever looks.
func short(name string) string {
	if len(name) <= mostName {
		return name
	}
	return strings.ToValidUTF8(name[:mostName], "") + "…"
}

// ParseClient reads the answer of read_client; known is false for "unknown". It ignores lines
// of an unknown kind, because a later minor version may add some.
func ParseClient(answer string) (c ClientLine, known bool, err error) {
	if answer == "unknown" {
		return ClientLine{}, false, nil
	}
	lines := strings.Split(answer, "\n")
	r := reader{words: strings.Split(lines[0], " ")}
	if r.word() != "client" {
		return ClientLine{}, false, BadAnswer(answer)
	}
	c = ClientLine{App: short(r.name()), Host: short(r.name()), PID: r.count(), Version: short(r.name()),
		Started: r.instant()}
	for _, line := range lines[1:] {
		c.add(line)
	}
	if r.bad {
		return ClientLine{}, false, BadAnswer(answer)
	}
	return c, true, nil
}
