package check

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/holdfast-go/holdfast/verify/history"
)

// Porcupine decides small windows in milliseconds, and may never finish with a big one
// that is wrong. So it gets small ones, and a time limit.
const (
	window  = 25  // holds in one
	windows = 120 // examined in one run, spread over it
	limit   = 2 * time.Second
)

// step is what a client did to a lock.
type step struct {
	take  bool
	token uint64
}

// state is a lock with fencing tokens: the token of the hold that lasts, or 0,
// and the last token.
type state struct{ held, last uint64 }

// lockModel says which steps a lock takes in which order.
var lockModel = porcupine.Model{
	Init: func() any { return state{} },
	Step: func(before, input, _ any) (bool, any) {
		s, do := before.(state), input.(step)
		if do.take {
			return s.held == 0 && do.token > s.last, state{held: do.token, last: do.token}
		}
		return s.held == do.token, state{last: s.last}
	},
	DescribeOperation: func(input, _ any) string {
		if do := input.(step); do.take {
			return fmt.Sprintf("lock %d", do.token)
		}
		return fmt.Sprintf("unlock %d", input.(step).token)
	},
}

// Linearizable searches, by porcupine, for an order of the clients' calls in which a lock
// could have answered them. It does not use the server's account. A hold that was lost,
// or whose process died, ends at an unknown time after the client last trusted it.
func (r *Run) Linearizable() Result {
	res := Result{
		Name: "linearizable", Guarantees: "G1 G3",
		Promise: "in some order of the clients' calls, a lock with rising tokens gives the same answers",
	}
	all := make(map[string][][]*Hold) // by workload
	for _, lock := range r.locks() {
		var holds []*Hold
		for _, h := range r.Holds[lock] {
			if h.Mode == "x" && h.Name == "" {
				holds = append(holds, h)
			}
		}
		if len(holds) < len(r.Holds[lock]) {
			continue // not a plain mutex
		}
		// In the order of tokens what is left out, before and behind a window, are
		// whole holds: a lock's history stays one without them.
		slices.SortFunc(holds, func(a, b *Hold) int { return cmp.Compare(a.Token, b.Token) })
		for part := range slices.Chunk(holds, window) {
			all[part[0].Work] = append(all[part[0].Work], part)
		}
	}
	for _, work := range slices.Sorted(maps.Keys(all)) {
		every := max(len(all[work])*len(all)/windows, 1)
		for i := 0; i < len(all[work]); i += every {
			r.decide(&res, all[work][i])
		}
	}
	return res
}

// decide judges one window.
func (r *Run) decide(res *Result, holds []*Hold) {
	first, last := holds[0].Asked, int64(0)
	for _, h := range holds {
		first, last = min(first, h.Asked), max(last, h.At, h.Trusted())
	}
	if r.lossBetween(first-int64(r.Setup.TTL), last) || r.fell(holds) {
		res.Excused++
		return
	}
	res.Examined++
	switch porcupine.CheckOperationsTimeout(lockModel, r.operations(holds), limit) {
	case porcupine.Illegal:
		res.findf(holds[0].At, holds[0].Lock, "no order explains the %d holds from token %d on",
			len(holds), holds[0].Token)
	case porcupine.Unknown:
		res.Undecided++
	case porcupine.Ok:
	}
}

// fell reports whether tokens fell under faults under which they may, see TokensInTime.
func (r *Run) fell(holds []*Hold) bool {
	for _, next := range holds {
		for _, h := range holds {
			if h.Token > next.Token && h.Over != nil && h.Over.At < next.Asked && r.behind(h, next, next.Asked) {
				return true
			}
		}
	}
	return false
}

// operations are the calls that make up the holds. A hold that was evicted was over
// at some time since it was asked for, whatever its client thought. So was one that
// its client has never been seen to trust: it was stopped with the grant in its hands.
func (r *Run) operations(holds []*Hold) []porcupine.Operation {
	ops := make([]porcupine.Operation, 0, 2*len(holds))
	for i, h := range holds {
		ops = append(ops, porcupine.Operation{ClientId: i, Input: step{true, h.Token}, Call: h.Asked, Return: h.At})
		end := porcupine.Operation{
			ClientId: i, Input: step{false, h.Token}, Call: h.Trusted(), Return: math.MaxInt64,
		}
		if h.Over != nil && h.Over.How == history.Released {
			end.Call, end.Return = h.Over.Asked, h.Over.At
		} else if r.evicted(h) || h.Trusted() < h.At {
			end.Call = h.Asked
		}
		ops = append(ops, end)
	}
	return ops
}
