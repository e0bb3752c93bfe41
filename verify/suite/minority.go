package suite

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/redistest"
	"github.com/holdfast-go/holdfast/verify/fault"
)

// minority are the servers of a quorum that may forget, or go by wrong clocks. What
// two of them forget one after the other a majority may have forgotten: so another
// minority is drawn only when what this one forgot would be over anyway.
type minority struct {
	servers []*redistest.Server
	out     int       // faults that are at them
	since   time.Time // when they were drawn
	over    time.Time // what they forgot is over by then
}

// probation is for how long a server that forgot is not counted on, and then some.
func (w *world) probation() time.Duration { return 2*w.opts.TTL + time.Second }

// Weak implements [fault.World].
func (w *world) Weak(rng *rand.Rand) ([]*redistest.Server, func()) {
	if w.opts.Topology != fault.Quorum {
		return []*redistest.Server{w.Server(rng)}, func() {}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	m := &w.weak
	switch now := time.Now(); {
	case m.out == 0 && now.After(m.over):
		all := slices.Clone(w.deployment.own)
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		m.servers, m.since = all[:(len(all)-1)/2], now
	case !m.patient(w.opts.TTL, now):
		return nil, func() {}
	}
	m.out++
	chosen := slices.Clone(m.servers)
	rng.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
	return chosen[:1+rng.IntN(len(chosen))], func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		m.out--
		m.over = time.Now().Add(w.probation())
	}
}

// patient reports whether the same servers may forget once more: not for ever, for
// then no others would.
func (m *minority) patient(ttl time.Duration, now time.Time) bool {
	return len(m.servers) > 0 && now.Sub(m.since) < 6*ttl
}

// Forgot implements [fault.World].
func (w *world) Forgot() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.weak.servers, w.weak.over = nil, time.Now().Add(w.probation())
}

// ripe reports whether servers may forget now.
func (w *world) ripe() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	return w.opts.Topology != fault.Quorum || w.weak.out == 0 && now.After(w.weak.over) ||
		w.weak.patient(w.opts.TTL, now)
}
