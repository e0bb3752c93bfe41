package suite

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/verify/fault"
	"github.com/holdfast-go/holdfast/verify/history"
)

// nemesis injects faults until ctx ends: bout after bout of one to four that are
// about at one time.
func (w *world) nemesis(ctx context.Context, told func(string)) {
	faults, err := fault.Named(w.opts.Faults)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	rng := rand.New(rand.NewPCG(w.opts.Seed, 1<<48)) //nolint:gosec // it is to be repeated
	d := &draw{faults: faults, asked: w.opts.Asked, there: make(map[string]bool)}
	if w.opts.Pairs != nil {
		d.pairs = maps.Clone(w.opts.Pairs)
	}
	for n := uint64(0); ; n++ {
		rest := w.opts.Calm + w.opts.TTL/10 + time.Duration(rng.Int64N(int64(w.opts.TTL)/3))
		if !history.Sleep(ctx, rest) {
			return
		}
		bout := d.next(rng, w.able)
		spans := w.bout(ctx, n, bout, told)
		d.done(spans)
	}
}

// able reports whether a fault may come now.
func (w *world) able(f fault.Fault) bool { return !f.Forgets || w.ripe() }

// turn is the world as one fault of a bout sees it.
type turn struct {
	*world
	started func()
}

func (t *turn) Started() { t.started() }

// bout injects some faults at the same time, each with a seed of its own. A fault that
// keeps the server from taking orders begins later than the others. If a fault waits for
// its moment, the others wait for it.
func (w *world) bout(ctx context.Context, n uint64, faults []fault.Fault, told func(string)) []history.FaultSpan {
	aims := slices.ContainsFunc(faults, func(f fault.Fault) bool { return f.Aims })
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	spans := make([]history.FaultSpan, len(faults))
	var all sync.WaitGroup
	for i, f := range faults {
		rng := rand.New(rand.NewPCG(w.opts.Seed, 1<<50|n<<8|uint64(i))) //nolint:gosec // it is to be repeated
		offset := time.Duration(rng.Int64N(int64(w.opts.TTL) / 4))
		if f.Late {
			offset += w.opts.TTL / 4
		}
		all.Go(func() {
			if aims && !f.Aims {
				select {
				case <-begun:
				case <-ctx.Done():
				}
			}
			spans[i] = history.FaultSpan{Name: f.Name, Err: "the run ended before"}
			if !f.Aims && len(faults) > 1 && !history.Sleep(ctx, offset) {
				return
			}
			told(f.Name)
			span, err := f.Inject(ctx, &turn{w, begin}, rng)
			if f.Aims {
				begin()
			}
			if err != nil && ctx.Err() != nil {
				span.Err = "the run ended: " + err.Error()
			}
			spans[i] = span
			w.log.Add(history.Event{Kind: history.Fault, Fault: &span})
		})
	}
	all.Wait()
	return spans
}

// draw draws the faults of bouts.
type draw struct {
	faults []fault.Fault
	asked  bool // each is to be there
	there  map[string]bool
	bag    []fault.Fault  // those to come before any comes again
	pairs  map[string]int // how often two were there at one time; nil: that does not matter
}

// done notes which faults of a bout were injected.
func (d *draw) done(spans []history.FaultSpan) {
	ok := slices.DeleteFunc(slices.Clone(spans), func(s history.FaultSpan) bool { return s.Err != "" })
	for pair, n := range pairsOf(ok) {
		if d.pairs != nil {
			d.pairs[pair] += n
		}
	}
	for _, s := range spans {
		d.there[s.Name] = d.there[s.Name] || s.Err == ""
		failed := func(f fault.Fault) bool { return f.Name == s.Name }
		if s.Err == "" || !d.asked {
			continue
		}
		if i := slices.IndexFunc(d.faults, failed); i >= 0 {
			d.bag = append([]fault.Fault{d.faults[i]}, d.bag...) // again
		}
	}
}

// next draws one to four faults that may be active at the same time. able says which may come.
func (d *draw) next(rng *rand.Rand, able func(fault.Fault) bool) []fault.Fault {
	n := 1
	for _, chance := range []int{85, 60, 30} {
		if rng.IntN(100) >= chance {
			break
		}
		n++
	}
	if d.asked && len(d.there) < len(d.faults) {
		n = 4
	}
	var bout []fault.Fault
	if a, b, ok := d.missing(rng, able); ok {
		bout = []fault.Fault{a, b}
	} else if f, ok := d.first(rng, able); ok {
		bout = []fault.Fault{f}
	}
	for len(bout) > 0 && len(bout) < n {
		f, ok := d.more(rng, bout, able)
		if !ok {
			break
		}
		bout = append(bout, f)
		if i := slices.IndexFunc(d.bag, func(o fault.Fault) bool { return o.Name == f.Name }); i >= 0 {
			d.bag = slices.Delete(d.bag, i, i+1)
		}
	}
	return bout
}

// first takes the next fault from the bag: each kind comes once before any comes again.
func (d *draw) first(rng *rand.Rand, able func(fault.Fault) bool) (fault.Fault, bool) {
	if len(d.bag) == 0 {
		d.bag = slices.Clone(d.faults)
		rng.Shuffle(len(d.bag), func(i, j int) { d.bag[i], d.bag[j] = d.bag[j], d.bag[i] })
	}
	i := slices.IndexFunc(d.bag, able)
	if i < 0 {
		d.bag = nil
		return fault.Fault{}, false
	}
	f := d.bag[i]
	d.bag = slices.Delete(d.bag, i, i+1)
	return f, true
}

// missing draws two that were not yet active at the same time.
func (d *draw) missing(rng *rand.Rand, able func(fault.Fault) bool) (a, b fault.Fault, ok bool) {
	var all [][2]fault.Fault
	for i, a := range d.faults {
		for _, b := range d.faults[i:] {
			if d.lacks(a, b) && able(a) && able(b) {
				all = append(all, [2]fault.Fault{a, b})
			}
		}
	}
	if len(all) == 0 {
		return a, b, false
	}
	pair := all[rng.IntN(len(all))]
	return pair[0], pair[1], true
}

// lacks reports that two were not yet active at the same time, though they may be.
func (d *draw) lacks(a, b fault.Fault) bool {
	return d.pairs != nil && fault.Apart(a, b) == "" && d.pairs[pairName(a.Name, b.Name)] == 0
}

// more draws one that may be about beside others: rather one that is drawn often, that
// is to come soon, or that was not yet beside them.
func (d *draw) more(rng *rand.Rand, bout []fault.Fault, able func(fault.Fault) bool) (fault.Fault, bool) {
	var weights []int
	sum := 0
	for _, f := range d.faults {
		weight := 1
		if f.Often {
			weight = 3
		}
		if slices.ContainsFunc(d.bag, func(o fault.Fault) bool { return o.Name == f.Name }) {
			weight *= 3
		}
		switch {
		case !able(f):
			weight = 0
		case d.asked && !d.there[f.Name]:
			weight *= 10
		}
		for _, o := range bout {
			switch {
			case fault.Apart(f, o) != "":
				weight = 0
			case d.lacks(f, o):
				weight *= 10
			}
		}
		weights, sum = append(weights, weight), sum+weight
	}
	if sum == 0 {
		return fault.Fault{}, false
	}
	at := rng.IntN(sum)
	for i, weight := range weights {
		if at -= weight; at < 0 {
			return d.faults[i], true
		}
	}
	panic("BUG: the weights have another sum")
}
