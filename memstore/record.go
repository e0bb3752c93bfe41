package memstore

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// mode is how a lock is held. One record has exclusive holders, shared ones
// or permits at a time, never two kinds together.
type mode string

const (
	exclusive mode = "x"
	shared    mode = "s"
	permit    mode = "p"
)

var permits = regexp.MustCompile(`^p:(\d{1,15}):(\d{1,15})$`)

// record is what the server keeps of one lock. Times are milliseconds and
// tokens microseconds of the server's clock since 1970.
type record struct {
	fence int64   // last token granted, or higher after an eviction; 0: a new record
	birth int64   // tokens below this one are not remembered
	lost  []int64 // holds that ended by expiry or eviction, oldest first

	holder  *holder           // exclusive holder; nil: nobody
	shares  map[string]*share // by attempt: shared holders, or permits
	kind    mode              // of all shares
	soonest int64             // no share expires before this; a lower bound
	limit   int64             // permits there are; 0: not said yet

	queue   queue
	evicted *eviction // the last one

	mark *mark // the period that has had its run; never changed in place
	said *said // the last proclamation; never changed in place
}

// holder holds exclusively. Invariant: entries is empty if and only if the
// hold is an attempt's own; under a named owner at least one attempt is in.
type holder struct {
	name        string   // the attempt, or the owner's name
	entries     []string // attempts under the named owner
	expiry      int64
	provisional bool // it was pushed, and is not confirmed yet
}

// keptHolder is the name in which an attempt stands that has given up a lock which
// stays taken for a while: no owner's, and no attempt's.
const keptHolder = "%kept"

// is says whether attempt is this holder, or one of its entries under owner.
func (h *holder) is(attempt, owner string) bool {
	if owner == "" {
		return h.name == attempt && len(h.entries) == 0
	}
	return h.name == owner && slices.Contains(h.entries, attempt)
}

// admits says whether the attempts of owner enter this hold.
func (h *holder) admits(owner string) bool {
	return owner != "" && h.name == owner && len(h.entries) > 0
}

// attempts are those that hold.
func (h *holder) attempts() []string {
	if len(h.entries) > 0 {
		return h.entries
	}
	return []string{h.name}
}

// share is one shared holder, or one holder of permits.
type share struct {
	mode        mode
	expiry      int64
	weight      int64
	token       int64
	since       int64
	owner       string
	provisional bool // it was pushed, and is not confirmed yet
}

// eviction is an operator's forced release.
type eviction struct {
	when     int64
	by       string
	reason   string
	attempts []string
}

// used is the sum over all shares.
func (r *record) used() (sum int64) {
	for _, h := range r.shares {
		sum += h.weight
	}
	return sum
}

// byToken are those who share, in the order of their tokens.
func (r *record) byToken() []string {
	return slices.SortedFunc(maps.Keys(r.shares), func(a, b string) int {
		return cmp.Compare(r.shares[a].token, r.shares[b].token)
	})
}

// removeShare ends one share.
func (r *record) removeShare(attempt string) {
	delete(r.shares, attempt)
	if len(r.shares) == 0 {
		r.kind, r.soonest = "", 0
	}
}

// earliest is the earliest expiry among the shares.
func (r *record) earliest() (at int64) {
	for _, h := range r.shares {
		if at == 0 || h.expiry < at {
			at = h.expiry
		}
	}
	return at
}

// remembered is how many lost tokens a record keeps.
const remembered = 16

// noteLost remembers a token whose hold did not end by its own release.
func (r *record) noteLost(token int64) {
	r.lost = append(r.lost, token)
	if len(r.lost) > remembered {
		r.birth = max(r.birth, r.lost[0]+1)
		r.lost = r.lost[1:]
	}
}

// wasReleased says that the hold with this token ended by its own release: the
// record is old enough to know, and remembers nothing else.
func (r *record) wasReleased(token int64) bool {
	return r.fence != 0 && r.birth <= token && token <= r.fence && !slices.Contains(r.lost, token)
}

func (r *record) clone() *record {
	c := *r
	c.lost = slices.Clone(r.lost)
	if r.holder != nil {
		h := *r.holder
		h.entries = slices.Clone(h.entries)
		c.holder = &h
	}
	c.shares = maps.Clone(r.shares)
	for attempt, h := range c.shares {
		copied := *h
		c.shares[attempt] = &copied
	}
	c.queue = r.queue.clone()
	return &c
}

// clientOf is the client that made an attempt.
func clientOf(attempt string) string {
	client, _, _ := strings.Cut(attempt, "/")
	return client
}

// step is one action on one record at one instant: what the shared rules work
// on. The rules of the wait queue are in queue.go.
type step struct {
	*record
	expires int64 // ms: until when the record lives; 0: it is new
	now     int64 // ms
	micros  int64 // the same instant

	retention     int64  // ms for which the record outlives its last lease
	channelPrefix string // channel prefix of the pushes

	// listening answers how many connections will hear a message.
	listening func(channel string) int
	pushes    []message // sent once the record is written

	// unfinished: the lock may be free, and others wait out of reach.
	unfinished bool
}

// message is what PUBLISH takes.
type message struct{ channel, payload string }

// extendRecord makes the record live for at least ms and the retention after it, and
// never shortens its life.
func (t *step) extendRecord(ms int64) { t.expires = max(t.expires, t.lifeEnd(ms)) }

// lifeEnd is the end of a life of ms and the retention after it. A fence that runs
// ahead of the clock (the clock was set back) is kept until the clock has
// passed it, so that tokens go on rising. So does a lease from before that last
// longer: the two are not added.
func (t *step) lifeEnd(ms int64) int64 {
	var ahead int64
	if t.fence > t.micros {
		ahead = (t.fence - t.micros + 999) / 1000
	}
	return t.now + max(ms, ahead) + t.retention
}

// msUntilFree is for how long the present holders can keep a waiter out, in ms.
func (t *step) msUntilFree() int64 {
	switch {
	case t.holder != nil:
		return max(t.holder.expiry-t.now, 0)
	case len(t.shares) > 0:
		return max(t.soonest-t.now, 0)
	}
	return 0
}

// expire ends every hold whose expiry has passed and remembers its token as
// lost. soonest is a lower bound, so the shares are looked through only when
// one of them may be over; the look finds the true soonest.
func (t *step) expire() {
	if t.holder != nil && t.holder.expiry <= t.now {
		if t.holder.name != keptHolder { // what was given up is over, not lost
			t.noteLost(t.fence)
		}
		if t.holder.provisional {
			for _, attempt := range t.holder.attempts() {
				t.queue.markSilent(clientOf(attempt))
			}
		}
		t.holder = nil
	}
	if len(t.shares) == 0 || t.soonest > t.now {
		return
	}
	for _, attempt := range t.byToken() {
		h := t.shares[attempt]
		if h.expiry > t.now {
			continue
		}
		t.noteLost(h.token)
		if h.provisional {
			t.queue.markSilent(clientOf(attempt))
		}
		t.removeShare(attempt)
	}
	t.soonest = t.earliest()
}

// compatible says whether a hold of this mode and weight may stand beside those that
// stand: nobody beside an exclusive holder, shared beside shared, permits
// beside permits up to the limit, and anybody where nobody holds.
func (t *step) compatible(want mode, weight int64) bool {
	switch {
	case t.holder != nil:
		return false
	case len(t.shares) == 0:
		return true
	case want == exclusive || want != t.kind:
		return false
	case want == shared:
		return true
	}
	return t.used()+weight <= t.limit
}

// request is an acquisition: what a newcomer asks for, or a waiter wants.
type request struct {
	attempt string
	owner   string // "" without a named owner
	mode    mode
	weight  int64
	ttl     int64
}

// nextToken is the token of the next grant: above every earlier one, and the
// clock where that is higher.
func (t *step) nextToken() int64 { return max(t.micros, t.fence+1) }

// provisionalLease is the lease of a grant that is pushed, in ms, until it is confirmed.
func provisionalLease(ttl int64) int64 { return min(ttl, max(2000, ttl/10)) }

// grant writes a holder in and answers its token. The caller has made sure
// that it fits.
func (t *step) grant(r request) (token int64) { return t.addHolder(r, r.ttl, false) }

// grantProvisional is grant for one who is told by a push: it holds provisionalLease until it asks.
func (t *step) grantProvisional(r request) (token int64) {
	return t.addHolder(r, provisionalLease(r.ttl), true)
}

func (t *step) addHolder(r request, lease int64, provisional bool) (token int64) {
	t.fence = t.nextToken()
	if t.birth == 0 {
		t.birth = t.fence
	}
	if r.mode == exclusive {
		t.holder = &holder{name: r.attempt, expiry: t.now + lease, provisional: provisional}
		if r.owner != "" {
			t.holder.name, t.holder.entries = r.owner, []string{r.attempt}
		}
	} else {
		t.share(r, t.now+lease, provisional)
	}
	if r.mode == exclusive && t.queue.len() == 0 {
		t.expires = t.lifeEnd(r.ttl) // nothing but this lease needs the record
	} else {
		t.extendRecord(r.ttl)
	}
	return t.fence
}

func (t *step) share(r request, expiry int64, provisional bool) {
	if len(t.shares) == 0 {
		t.kind, t.soonest = r.mode, expiry
		t.shares = map[string]*share{}
	}
	t.soonest = min(t.soonest, expiry)
	t.shares[r.attempt] = &share{
		mode:        r.mode,
		expiry:      expiry,
		weight:      r.weight,
		token:       t.fence,
		since:       t.now,
		owner:       r.owner,
		provisional: provisional,
	}
}

// reacquire answers the token of a hold that the attempt has already: its request
// came twice, or, if it enters, it is one more entry under a named owner. The
// lease is counted from now; a place in the line that it no longer needs is
// given up.
func (t *step) reacquire(attempt, owner string, ttl int64, enters bool) (token int64, held bool) {
	if h := t.holder; h != nil && (h.is(attempt, owner) || enters && h.admits(owner)) {
		t.extendRecord(ttl)
		if !h.is(attempt, owner) {
			h.entries = append(h.entries, attempt)
			t.queue.leave(attempt)
		}
		h.expiry, h.provisional = max(h.expiry, t.now+ttl), false
		return t.fence, true
	}
	h := t.shares[attempt]
	if h == nil {
		return 0, false
	}
	h.expiry, h.provisional = max(h.expiry, t.now+ttl), false
	t.extendRecord(ttl)
	return h.token, true
}
