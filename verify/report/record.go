package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/verify/suite"
)

// Entry is one round in a record: a file of JSON lines that many runs are added to, so
// that a record of hours can be made in pieces. Fields may be added, and are never
// renamed, removed or given another type.
type Entry struct {
	At           time.Time      `json:"at"`
	Version      string         `json:"version"` // of what was tried
	Topology     string         `json:"topology"`
	Server       string         `json:"server"`
	Seed         uint64         `json:"seed"`
	TTL          time.Duration  `json:"ttl_ns"`
	Clients      int            `json:"clients"`
	Elapsed      time.Duration  `json:"elapsed_ns"`
	Acquisitions map[string]int `json:"acquisitions"` // by workload
	Faults       map[string]int `json:"faults"`       // by kind
	Possible     []string       `json:"possible"`     // the kinds that were drawn from
	Paired       int            `json:"paired"`       // faults that were at one time with another
	Triples      int            `json:"triples"`
	Pairs        map[string]int `json:"pairs"`
	Refused      map[string]int `json:"refused"` // requests that servers refused, by fault
	Losses       int            `json:"losses"`
	Changes      int            `json:"changes"`  // that the servers told
	Examined     map[string]int `json:"examined"` // by check
	Excused      map[string]int `json:"excused"`
	Violations   []string       `json:"violations"`              // those written out, and how many more
	Error        string         `json:"error,omitempty"`         // it came to no end
	Recoveries   []int64        `json:"recoveries_ms,omitempty"` // after faults, see check.Gap
	// Explained is written by hand: what a violation was, and what became of it.
	Explained string `json:"explained,omitempty"`
}

// NewEntry is a round as it is recorded.
func NewEntry(r suite.Round, version string, at time.Time) Entry {
	e := Entry{
		At: at.UTC().Truncate(time.Second), Version: version, Topology: r.Setup.Topology, Server: r.Setup.Server,
		Seed: r.Setup.Seed, TTL: r.Setup.TTL, Clients: r.Setup.Clients, Elapsed: r.Elapsed,
		Acquisitions: r.Tally.Acquisitions, Faults: r.Tally.Faults, Possible: r.Setup.Faults, Paired: r.Tally.Paired,
		Triples: r.Tally.Triples, Pairs: r.Tally.Pairs, Refused: r.Tally.Refused, Losses: r.Tally.Losses,
		Changes: r.Tally.Notes, Examined: make(map[string]int), Excused: make(map[string]int), Violations: []string{},
	}
	e.Error = r.Error
	for _, took := range r.Recoveries {
		e.Recoveries = append(e.Recoveries, took.Milliseconds())
	}
	for _, c := range r.Checks {
		e.Examined[c.Name], e.Excused[c.Name] = c.Examined, c.Excused
		for i, v := range c.Violations {
			if i == shown {
				e.Violations = append(e.Violations, fmt.Sprintf("%s: and %d more", c.Name, len(c.Violations)-shown))
				break
			}
			e.Violations = append(e.Violations, fmt.Sprintf("%s: %s %s", c.Name, v.Lock, v.Text))
		}
	}
	return e
}

// Append adds a round to the record in a file, in one write: what two runs add at
// one time are whole lines.
func Append(name string, e Entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // it is published
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

// ReadRecord reads the record in a file; one that is not there is empty.
func ReadRecord(name string) ([]Entry, error) {
	file, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read
	var all []Entry
	for in := json.NewDecoder(bufio.NewReader(file)); ; {
		var e Entry
		switch err := in.Decode(&e); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("%s, round %d: %w", name, len(all)+1, err)
		}
		all = append(all, e)
	}
}

// Met says how often pairs were at one time in the rounds of a topology.
func Met(record []Entry, topology string) map[string]int {
	pairs := make(map[string]int)
	for _, e := range record {
		if e.Topology == topology {
			for pair, n := range e.Pairs {
				pairs[pair] += n
			}
		}
	}
	return pairs
}
