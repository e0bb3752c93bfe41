package redistest

import (
	"slices"
	"sync"
	"time"
)

// Imposition is one of several faults of a [Proxy]. Several may be in force at once, and each
// is lifted by itself.
type Imposition struct {
	proxy  *Proxy
	fault  fault
	lifted chan struct{} // closed by Lift

	copies sync.WaitGroup // planned or under way; none begins after Lift

	forgotten, copied int // guarded by the proxy's mutex
}

// Impose adds a fault that does nothing yet.
func (p *Proxy) Impose() *Imposition {
	i := &Imposition{proxy: p, lifted: make(chan struct{})}
	p.update(func() { p.imposed = append(p.imposed, i) })
	return i
}

// Lift ends the fault, and no other; it may be called again. Connections that it has forgotten stay
// forgotten, and copies that were not sent yet are dropped.
func (i *Imposition) Lift() {
	i.proxy.update(func() {
		select {
		case <-i.lifted:
		default:
			close(i.lifted)
		}
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

// Forget makes the proxy forget connections that have rested for longer than rest, or are older than age, as a
// router does: [Proxy.Forget] says what then happens to them. A time of 0 does not count.
func (i *Imposition) Forget(rest, age time.Duration) {
	i.proxy.update(func() { i.fault.rest, i.fault.age = rest, age })
}

// CopyLate makes the proxy send copies of requests with the given commands: once more, after the time that
// after returns. If after returns false, there is no copy of that request. after must be safe for concurrent use.
func (i *Imposition) CopyLate(after func() (time.Duration, bool), commands ...string) {
	i.proxy.update(func() { i.fault.late, i.fault.lateOnly = after, commands })
}

// Forgotten returns how many connections the fault has forgotten so far. Each was forgotten when something was
// sent on it.
func (i *Imposition) Forgotten() int {
	i.proxy.mu.Lock()
	defer i.proxy.mu.Unlock()
	return i.forgotten
}

// Copied returns how many copies a server has answered so far. After Lift, it waits for those that are under way.
func (i *Imposition) Copied() int {
	select {
	case <-i.lifted:
		i.copies.Wait()
	default:
	}
	i.proxy.mu.Lock()
	defer i.proxy.mu.Unlock()
	return i.copied
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
