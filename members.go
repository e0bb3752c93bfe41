// members: the leases under one hold, with the one rule for whoever joins them.

package holdfast

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockorder"
)

// members are the leases under one hold, and what decides whether one more may join. While
// the hold is shared, all of its leases are readers'. Otherwise it serves one lease, and the
// readers are re-entries under that.
type members struct {
	mu lockorder.Mutex[members] // guards all fields but hasTurn

	// hasTurn: the hold has the turn. Without the turn it is never handed
	// over.
	hasTurn atomic.Bool

	shared     bool        // shared on the server, as far as the client knows
	departed   bool        // the holder has released its lease
	noNewLease bool        // no lease joins but under one of its leases
	closed     bool        // the client closes, and all leases have ended
	lease      *leaseState // the lease that the hold serves now; nil while it is shared
	extra      *holdExtra  // nil until it is needed
}

// holdExtra has the fields that few holds need: those of readers, of a loss, of a conversion. The mu of
// the hold guards them.
type holdExtra struct {
	readers    map[*leaseState]struct{}
	lost       *LostError
	evicted    *EvictionInfo // the eviction that ended the hold, if it is known
	failed     error         // of the last renewal; nil if that was confirmed
	early      []news        // what came before the observer had the grant
	keptUntil  time.Duration // the lock stays held until then, also after the last reader's release
	checked    time.Duration // when the client last checked for an eviction
	leak       *leakCheck    // of the lease before, for the next one
	reserved   int32         // reservations: readers that are let in and have no lease yet
	less       int32         // how many permits of a semaphore its user has given back
	extending  int32         // extensions that are under way or have an unknown outcome
	unsettled  conversion    // a conversion that is under way or has an unknown outcome
	converting chan struct{} // closed when the conversion that is under way has ended; nil: none is
	dropped    bool          // the program has dropped one of the leases
	late       bool          // another one of several locks was lost, see heldBack
}

// noExtra stands for the extra fields of a hold that has none. It is only read.
var noExtra holdExtra

// peek returns the extra fields, to be read. The caller holds m.mu.
func (m *members) peek() *holdExtra { return cmp.Or(m.extra, &noExtra) }

// more returns the extra fields, to be changed by the caller. The caller holds m.mu.
func (m *members) more() *holdExtra {
	if m.extra == nil {
		m.extra = new(holdExtra)
	}
	return m.extra
}

// leases returns all leases under the hold. The caller holds m.mu.
func (m *members) leases() (all []*leaseState) {
	if m.lease != nil {
		all = append(all, m.lease)
	}
	for ls := range m.peek().readers {
		all = append(all, ls)
	}
	return all
}

// has reports whether a lease, or one of its re-entry, still has its part of the hold. The caller
// holds m.mu.
func (m *members) has(ls *leaseState) bool {
	_, reads := m.peek().readers[ls.root]
	return !m.departed && (reads || m.lease == ls.root)
}

// joining is how one more lease begins under a hold.
type joining uint8

const (
	asAgreed    joining = iota // of the grant itself, of a hand-over or of a reservation: that was decided before
	asSuccessor                // after a hand-over inside the process
	asSharer                   // a reader of this process, beside the readers that the hold has
	underLease                 // a re-entry, or a reader under the context of a lease of the hold
)

// admission is the answer to whoever wants to join a hold.
type admission uint8

const (
	refused admission = iota // now and later
	notNow                   // a conversion or an extension must end first
	admitted
)

// admits is the one rule for whoever joins the hold; beside is the lease for underLease. The caller holds m.mu.
//
// What it rules out is a reader beside a writer. For example: a reader upgrades its lease, and the request is
// on its way. The server grants it, because it knows of one reader. A reader that joins the hold meanwhile is
// one that the server cannot see. So nothing joins while a conversion is under way. If the outcome of a
// conversion is unknown, a lease under the converted one may still begin: the next conversion counts it. The
// same holds for reservations, so whoever has one is admitted unless the hold has ended.
func (m *members) admits(how joining, beside *leaseState) admission {
	x := m.peek()
	switch {
	case x.lost != nil || m.closed:
		return refused
	case how == asAgreed:
		return admitted
	case how == underLease && !m.has(beside), how != underLease && m.noNewLease,
		how == asSharer && (!m.shared || m.reading() == 0):
		return refused
	case x.converting != nil, how != underLease && x.unsettled != still,
		how == asSuccessor && x.extending > 0: // the next lease has not asked for that TTL
		return notNow
	}
	return admitted
}

// mayHandOver reports whether the hold may go to the next goroutine of this process.
func (m *members) mayHandOver() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.admits(asSuccessor, nil) == admitted
}

// joinable reports whether readers may find the hold, to join it now or after a conversion.
func (m *members) joinable() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.admits(asSharer, nil) != refused
}

// reserve adds a reservation for one more reader. The reader redeems it or gives it back.
func (m *members) reserve() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.admits(asSharer, nil) != admitted {
		return false
	}
	m.more().reserved++
	return true
}

func (m *members) addReader(ls *leaseState) {
	x := m.more()
	if x.readers == nil {
		x.readers = make(map[*leaseState]struct{})
	}
	x.readers[ls] = struct{}{}
}

// mayBeShared reports whether the hold may be shared on the server: after a conversion without an answer nobody knows.
func (m *members) mayBeShared() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shared || m.peek().unsettled != still
}

// reads reports whether the lease is a reader's.
func (m *members) reads(ls *leaseState) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lease != ls
}

// reading returns how many leases and reservations of readers the hold has. The caller
// holds h.mu.
func (m *members) reading() int {
	x := m.peek()
	return len(x.readers) + int(x.reserved)
}

// alone reports whether no reader is left. The caller holds m.mu.
func (m *members) alone() bool { return m.shared && m.reading() == 0 }

// removal says what must follow after a lease has left its hold.
type removal uint8

const (
	asHolder     removal = iota // it was the writer's lease or one of permits: give the hold up
	asLastReader                // it was the last reader's lease: give the hold up
	asOneReader                 // other readers remain
	asGuest                     // it had ended with the writer's lease, under which it was acquired
)

// remove removes a lease from its hold. After that the lease cannot convert the hold. The
// re-entries under a writer's lease end with it: remove returns them as guests.
func (m *members) remove(ls *leaseState) (as removal, guests map[*leaseState]struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	readers := m.peek().readers
	if m.lease == ls {
		m.departed = true
		if m.extra != nil {
			m.extra.readers = nil
		}
		return asHolder, readers
	}
	if _, in := readers[ls]; !in {
		return asGuest, nil
	}
	delete(readers, ls)
	if m.alone() {
		return asLastReader, nil
	}
	return asOneReader, nil
}

// keepUntil keeps the lock held until then, also while other readers hold it. It reports false if ls is
// not the lease of a reader.
func (m *members) keepUntil(then time.Duration, ls *leaseState) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, reads := m.peek().readers[ls]
	if reads = reads && m.shared; reads {
		m.extra.keptUntil = max(m.extra.keptUntil, then)
	}
	return reads
}

// noneInUse reports whether the program has dropped all leases. Then there is no further
// one.
//
// Each lease is asked under its own mutex, and without m.mu. So a reader may join while
// the leases are asked. For example, two readers have dropped their leases, and a third one joins after the
// second was asked: the number of leases has changed, and noneInUse asks all of them again.
func (m *members) noneInUse() bool {
	for {
		m.mu.Lock()
		x, all := *m.peek(), m.leases()
		m.mu.Unlock()
		if !x.dropped || x.reserved > 0 || slices.ContainsFunc(all, (*leaseState).inUse) {
			return false
		}
		m.mu.Lock()
		same := m.peek().reserved == 0 && len(m.leases()) == len(all)
		if same {
			m.noNewLease = true
		}
		m.mu.Unlock()
		if same {
			return true
		}
	}
}

// close ends the hold for all callers, because the client closes. It returns the leases.
func (m *members) close() []*leaseState {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return m.leases()
}

// addEarly keeps news of a hold for tellGrant. The caller holds the mutex of the notifier. While
// m.mu is held, nothing is told.
func (m *members) addEarly(item news) {
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.more()
	x.early = append(x.early, item)
}

// takeEarly returns what addEarly has kept.
func (m *members) takeEarly() (early []news) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.extra != nil {
		early, m.extra.early = m.extra.early, nil
	}
	return early
}

// beginExtension notes an extension of ls. Until endExtension, the hold is not handed over: the next
// goroutine has not asked for that TTL. It reports false if ls is released.
func (m *members) beginExtension(ls *leaseState) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.has(ls) {
		return false
	}
	m.more().extending++
	return true
}

// endExtension notes that the outcome of an extension is known.
func (m *members) endExtension() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.extra.extending--
}
