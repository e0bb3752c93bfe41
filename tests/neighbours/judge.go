package neighbours

import (
	"cmp"
	"slices"
)

// Held is a hold from when a process had it to the last time that it believed so.
type Held struct {
	Lock    string
	Library string // of the process
	Proc    int
	Holder  string // what the wire wrote into the key; empty: not known
	From    int64  // both are readings of the machine's monotonic clock, in ns
	Till    int64
	How     string // how it ended; empty: the process was killed
}

// Violation is two holds of one lock at the same time.
type Violation struct {
	First, Second Held // in the order in which they began
	By            Held // the one of the two whose lease was over
	Reason        Reason
	Faults        []string // those that were active from the first's beginning to the second's
}

// Reason says how it could come to a violation.
type Reason string

// The reasons.
const (
	// Overstayed: the lease of one had expired at the server, and it went on. Only its own library
	// can prevent that.
	Overstayed Reason = "overstayed"
	// Taken: the server gave the lock to another while the lease of one had not expired. One of the
	// libraries breaks the lock of the other.
	Taken Reason = "taken"
	// Unaccounted: the servers' logs do not tell: there are several servers.
	Unaccounted Reason = "unaccounted"
)

// judge finds all violations. The account may be nil. wall turns a time of a hold into one of the
// server's clock, in ms.
func judge(holds []Held, a *account, ttl int64, wall func(ns int64) int64) []Violation {
	byLock := make(map[string][]Held)
	for _, h := range holds {
		byLock[h.Lock] = append(byLock[h.Lock], h)
	}
	var found []Violation
	for lock, list := range byLock {
		slices.SortFunc(list, func(x, y Held) int { return cmp.Compare(x.From, y.From) })
		var open []Held // those that may overlap with the next
		for _, h := range list {
			open = slices.DeleteFunc(open, func(o Held) bool { return o.Till <= h.From })
			for _, o := range open {
				v := Violation{First: o, Second: h, By: o, Reason: Unaccounted}
				if a != nil {
					at := wall(h.From)
					first, second := a.end(lock, o.Holder, wall(o.From), at, ttl), a.end(lock, h.Holder, at, at, ttl)
					switch {
					case first == "" && second != "":
						v.By, v.Reason = h, second
					case first == "":
						v.Reason = Taken // the server had both
					default:
						v.Reason = first
					}
				}
				found = append(found, v)
			}
			open = append(open, h)
		}
	}
	slices.SortFunc(found, func(x, y Violation) int { return cmp.Compare(x.Second.From, y.Second.From) })
	return found
}
