package demo

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/internal/audit"
)

// grant is a hold by the server's account. Times are µs of the server's clock.
type grant struct {
	Attempt  string
	Token    uint64
	By       string // the script that granted it
	From     int64
	Till     int64 // its release, or the last expiry that the record had
	Released bool
}

// account follows the lock's record through its notes. It judges by the rules of a lease and
// trusts no script: a hold lasts until its own attempt releases it, or until the last expiry
// that the record had. A grant does not end the hold before it, so a grant that comes too
// early shows as an overlap.
type account struct {
	grants   []grant
	last     audit.Record
	problems []string
}

// step takes in one note.
func (a *account) step(n audit.Note) {
	if n.Before.Fence != 0 && n.Before.Fence != a.last.Fence {
		a.problems = append(a.problems, fmt.Sprintf(
			"before %s the record had the token %d, but the previous step had left it with %d",
			n.Action, n.Before.Fence, a.last.Fence))
	}
	same := n.After.Holder != "" && n.After.Holder == n.Before.Holder && n.After.Fence == n.Before.Fence
	if len(a.grants) > 0 && !same {
		if g := &a.grants[len(a.grants)-1]; !g.Released && n.Before.Holder == g.Attempt && n.For(g.Attempt) {
			g.Till, g.Released = min(g.Till, n.At), true
		}
	}
	expiry := n.After.Expiry * 1000
	switch {
	case n.After.Holder == "":
	case same && len(a.grants) > 0:
		a.grants[len(a.grants)-1].Till = expiry
	default:
		if n.After.Fence <= a.last.Fence {
			a.problems = append(a.problems,
				fmt.Sprintf("the token %d was granted after %d", n.After.Fence, a.last.Fence))
		}
		a.grants = append(a.grants, grant{
			Attempt: n.After.Holder, Token: n.After.Fence, By: n.Action, From: n.At, Till: expiry,
		})
	}
	a.last = n.After
}

// hold is a hold as its worker saw it.
type hold struct {
	got  event
	over *event // nil: the worker has not reported its end
}

// holdsOf joins the beginnings and the ends of holds.
func holdsOf(events []event) []*hold {
	type number struct {
		client string
		id     uint64
	}
	var list []*hold
	byID := map[number]*hold{}
	for _, e := range events {
		switch id := (number{e.Client, e.ID}); e.Kind { //nolint:exhaustive // the others are no part of a hold
		case got:
			h := &hold{got: e}
			byID[id], list = h, append(list, h)
		case end:
			if h := byID[id]; h != nil {
				h.over = &e
			}
		}
	}
	return list
}

// losses says what became of the writes.
type losses struct {
	Taken, Refused int   // by the fenced file
	Fenced, Plain  int64 // updates that were lost
}

// lossesOf compares the writes with what the files have in the end.
func lossesOf(events []event, fenced, plain int64) (l losses) {
	var toFenced, toPlain []int64
	for _, e := range events {
		switch {
		case e.Kind != wrote:
			continue
		case e.Stale:
			l.Refused++
		default:
			toFenced = append(toFenced, e.Value)
		}
		toPlain = append(toPlain, e.Plain)
	}
	l.Taken = len(toFenced)
	if len(toPlain) > 0 {
		l.Fenced, l.Plain = missing(toFenced, fenced), missing(toPlain, plain)
	}
	return l
}

// missing is how many updates of a counter were lost. written has the value of every write
// that was taken, each meant to be one more than the value before; final is the counter at
// the end. A value between 1 and the highest that nobody reports was written by a process
// that died before its report, and counts as an update too.
func missing(written []int64, final int64) int64 {
	highest := max(final, slices.Max(append([]int64{0}, written...)))
	slices.Sort(written)
	distinct := len(slices.Compact(slices.Clone(written)))
	return int64(len(written)) + highest - int64(distinct) - final
}
