package redistest

import (
	"slices"
	"time"
)

// Imposition is one of several faults of a [Proxy]. Several may be in force at once, and each
// is lifted by itself.
type Imposition struct {
	proxy *Proxy
	fault fault
}

// Impose adds a fault that does nothing yet.
func (p *Proxy) Impose() *Imposition {
	i := &Imposition{proxy: p}
	p.update(func() { p.imposed = append(p.imposed, i) })
	return i
}

// Lift ends the fault, and no other; it may be called again.
func (i *Imposition) Lift() {
	i.proxy.update(func() {
		i.proxy.imposed = slices.DeleteFunc(i.proxy.imposed, func(o *Imposition) bool { return o == i })
	})
}

// BlackHole is [Proxy.BlackHole].
func (i *Imposition) BlackHole() { i.proxy.update(func() { i.fault.blackHole = true }) }

// Delay is [Proxy.Delay]. The longest delay in force counts.
func (i *Imposition) Delay(d time.Duration) { i.proxy.update(func() { i.fault.delay = d }) }

// Stagger is [Proxy.Stagger]. The longest delay in force counts.
func (i *Imposition) Stagger(d time.Duration) { i.proxy.update(func() { i.fault.stagger = d }) }

// RefuseNew is [Proxy.RefuseNew].
func (i *Imposition) RefuseNew() { i.proxy.update(func() { i.fault.refuse = true }) }

// DropRepliesAndCut is [Proxy.DropRepliesAndCut].
func (i *Imposition) DropRepliesAndCut(n int, commands ...string) {
	i.proxy.update(func() { i.fault.drops, i.fault.dropCut, i.fault.dropOnly = n, true, commands })
}

// faults returns the faults in force. The proxy's mutex must be held.
func (p *Proxy) faults() []*fault {
	all := []*fault{&p.fault}
	for _, i := range p.imposed {
		all = append(all, &i.fault)
	}
	return all
}

// worst returns all faults in force as one, without the answers to swallow. The proxy's mutex
// must be held.
func (p *Proxy) worst() fault {
	if len(p.imposed) == 0 {
		return p.fault
	}
	var sum fault
	for _, f := range p.faults() {
		sum.blackHole, sum.refuse = sum.blackHole || f.blackHole, sum.refuse || f.refuse
		sum.delay, sum.stagger = max(sum.delay, f.delay), max(sum.stagger, f.stagger)
	}
	return sum
}
