package majority

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// Merge makes one record of those of n servers: holders are those with a majority. records are
// those of the servers that answered, the coordinator's first. The record has the
// coordinator's clock.
func Merge(records []wire.Record, n int) wire.Record {
	coordinator := records[0]
	r := wire.Record{Absent: true, Now: coordinator.Now}
	var fences []uint64
	for i := range records {
		one := &records[i]
		if one.Absent {
			continue
		}
		r.Absent = false
		if r.Now.IsZero() {
			r.Now = one.Now
		}
		fences = append(fences, one.Fence)
		if e := one.Evicted; e != nil && (r.Evicted == nil || e.At.After(r.Evicted.At)) {
			r.Evicted = e
		}
	}
	r.Fence = Rank(fences, n)
	r.Holders = holders(records, r.Now, n)
	for _, h := range r.Holders {
		if h.Mode != wire.Exclusive {
			r.Used += h.Weight
		}
	}
	for _, w := range coordinator.Waiters {
		if !slices.ContainsFunc(r.Holders, func(h wire.HolderLine) bool { return h.Attempt == w.Attempt }) {
			w.Place = len(r.Waiters) + 1
			r.Waiters = append(r.Waiters, w)
		}
	}
	r.Waiting = len(r.Waiters)
	return r
}

// holder is one holder, as the servers that have it say.
type holder struct {
	line    wire.HolderLine
	tokens  []uint64
	entries []int
	lefts   []time.Duration
	age     time.Duration
	ending  int // so many servers say that it is to end
}

// collect returns the holders that any server has.
func collect(records []wire.Record) (all []*holder) {
	for i := range records {
		for _, line := range records[i].Holders {
			at := slices.IndexFunc(all, func(h *holder) bool {
				return h.line.Attempt == line.Attempt || line.Owner != "" && h.line.Owner == line.Owner
			})
			if at < 0 {
				at = len(all)
				all = append(all, &holder{line: line})
			}
			h := all[at]
			h.tokens = append(h.tokens, line.Token)
			h.entries = append(h.entries, line.Entries)
			h.lefts = append(h.lefts, line.Left)
			h.age = max(h.age, records[i].Now.Sub(line.Since))
			if line.Ending {
				h.ending++
			}
		}
	}
	return all
}

// holders returns the holders that a majority of n servers has, ordered by token.
func holders(records []wire.Record, now time.Time, n int) (list []wire.HolderLine) {
	for _, h := range collect(records) {
		if len(h.tokens) < Of(n) {
			continue
		}
		h.line.Token, h.line.Left, h.line.Entries = Rank(h.tokens, n), Rank(h.lefts, n), slices.Max(h.entries)
		h.line.Since = now.Add(-h.age)
		// The others are no majority, so the holder is not renewed.
		h.line.Ending = n-h.ending < Of(n)
		list = append(list, h.line)
	}
	slices.SortStableFunc(list, func(a, b wire.HolderLine) int { return cmp.Compare(a.Token, b.Token) })
	return list
}

// Unproven reports whether a holder that Merge leaves out may have a majority of n servers. records are those of the
// servers that answered, a majority. Whoever holds on none of them has no majority, because the others are too few.
// Whoever holds on some of them has one if the others make up for the rest.
//
// Example: two of three servers answer, and one of these has a holder. If the third has it, too, the lock is held.
// If all three answer, one with a holder is too few for anybody, and the lock is free.
func Unproven(records []wire.Record, n int) bool {
	return slices.ContainsFunc(collect(records), func(h *holder) bool {
		return len(h.tokens) < Of(n) && MayHold(len(h.tokens), len(records), n)
	})
}

// MayHold reports whether a majority of n servers may have what so many of those that answered have.
func MayHold(have, answered, n int) bool { return have > 0 && have+n-answered >= Of(n) }

// Format writes a record as inspect answers it. It writes 0 for the record's TTL, because
// several servers have no common one.
func Format(r *wire.Record) string {
	if r.Absent {
		return "absent"
	}
	lines := []string{fmt.Sprintf("lock %d %d %d 0 %d %d",
		r.Now.UnixMilli(), r.Fence, r.Waiting, r.Used, r.Limit)}
	for i := range r.Holders {
		h := &r.Holders[i]
		lines = append(lines, fmt.Sprintf("holder %s %s %s %d %d %d %d %d%s", h.Mode, h.Attempt, holderName(h),
			h.Weight, h.Token, h.Since.UnixMilli(), h.Left.Milliseconds(), h.Entries, h.EndingMark()))
	}
	for _, w := range r.Waiters {
		lines = append(lines, fmt.Sprintf("waiter %d %s %s %s %d %d %d", w.Place, w.Mode, w.Attempt,
			owner(w.Owner), w.Weight, w.Joined.UnixMilli(), w.Left.Milliseconds()))
	}
	if len(r.Silent) > 0 {
		line := "silent"
		for _, name := range r.Silent {
			line += " " + wire.Encode(name)
		}
		lines = append(lines, line)
	}
	if e := r.Evicted; e != nil {
		lines = append(lines, fmt.Sprintf("evicted %d %s %s %s", e.At.UnixMilli(), wire.Encode(e.By),
			wire.Encode(e.Reason), strings.Join(e.Attempts, " ")))
	}
	return strings.Join(lines, "\n")
}

// holderName is how other clients see a holder.
func holderName(h *wire.HolderLine) string {
	if h.Kept {
		return wire.KeptHolder
	}
	return owner(h.Owner)
}

func owner(name string) string {
	if name == "" {
		return "-"
	}
	return wire.Encode(name)
}
