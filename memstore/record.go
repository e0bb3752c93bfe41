package memstore

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// mode is how a lock is held. At one time a record has an exclusive holder, shared
// holders, or permits in use, and never two of these.
type mode string

const (
	exclusive mode = "x"
	shared    mode = "s"
	permit    mode = "p"
)

var permits = regexp.MustCompile(`^p:(\d{1,15}):(\d{1,15})(\+?)$`)

// drained is the limit of a record whose field says 0: no permit is granted.
const drained = -1

// record is the server's record of one lock. Times are milliseconds and
// tokens microseconds of the server's clock since 1970.
type record struct {
	fence int64   // last token granted, or higher after an eviction; 0: a new record
	birth int64   // tokens below this one are not remembered
	lost  []int64 // holds that ended by expiry or eviction, oldest first

	holder  *holder           // exclusive holder; nil: none
	shares  map[string]*share // by attempt: shared holders, or permits
	kind    mode              // of all shares
	soonest int64             // no share expires before this; a lower bound
	sweep   sweep             // of the shares
	limit   int64             // number of permits; 0: not set yet; or drained

	queue   queue
	watched bool      // somebody watches for the lock to become free
	evicted *eviction // the last one

	eviction evictionRequest // the last one that had an ID
	undone   string          // the run that was cancelled last

	tries tries // of the period; zero: the run that has begun uses it

	mark *mark // the period that has had its run; never changed in place
	said *said // the leader's last proclamation; never changed in place
}

// holder is an exclusive holder. Invariant: an attempt's own hold has no entries; the
// hold of a named owner has at least one.
type holder struct {
	name        string   // the attempt, or the owner's name
	entries     []string // attempts under the named owner
	expiry      int64
	provisional bool // granted by a push that is not confirmed yet
	ending      bool // an operator has asked for its end: nothing prolongs it
}

// keptHolder is the holder of a lock that was released and remains locked for a while. It
// is no attempt, and no encoded name of an owner is like it.
const keptHolder = "%kept"

// is reports whether the attempt is this holder, or one of its entries under owner.
func (h *holder) is(attempt, owner string) bool {
	if owner == "" {
		return h.name == attempt && len(h.entries) == 0
	}
	return h.name == owner && slices.Contains(h.entries, attempt)
}

// admits reports whether attempts of this owner become entries of this hold.
func (h *holder) admits(owner string) bool {
	return owner != "" && h.name == owner && len(h.entries) > 0
}

// attempts are the attempts that hold the lock.
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
	provisional bool // granted by a push that is not confirmed yet
	ending      bool // an operator has asked for its end: nothing prolongs it
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

// byToken are the attempts of all shares, in the order of their tokens.
func (r *record) byToken() []string {
	return slices.SortedFunc(maps.Keys(r.shares), func(a, b string) int {
		return cmp.Or(cmp.Compare(r.shares[a].token, r.shares[b].token), cmp.Compare(a, b))
	})
}

// removeShare ends one share.
func (r *record) removeShare(attempt string) {
	delete(r.shares, attempt)
	if len(r.shares) == 0 {
		r.kind, r.soonest, r.sweep = "", 0, sweep{}
	}
}

// remembered is the number of lost tokens that a record keeps.
const remembered = 16

// noteLost remembers the token of a hold that did not end by a release.
func (r *record) noteLost(token int64) {
	r.lost = append(r.lost, token)
	if len(r.lost) > remembered {
		r.birth = max(r.birth, r.lost[0]+1)
		r.lost = r.lost[1:]
	}
}

// wasReleased reports whether the hold with this token was released: the record is old
// enough to know the token, and does not remember it as lost.
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

// step is one run of a script on one record, at one instant. The rules here and in
// queue.go are its methods.
type step struct {
	*record
	expires int64 // ms: until when the record lives; 0: it is new
	now     int64 // ms
	micros  int64 // the same instant

	retention     int64  // ms for which the record outlives its last lease
	channelPrefix string // prefix of the push channels

	// listening returns the number of connections that subscribe to a channel.
	listening func(channel string) int
	pushes    []message // sent after the record is written
	grants    []message // the pushes of grants, sent after all others

	// unfinished: the lock may be free, and there are waiters beyond the two windows.
	unfinished bool

	key       string
	run       string // the server's run ID
	before    *holds // at the beginning of the step; nil: nobody watches
	mustQueue bool   // a newcomer may not overtake the waiters
	gap       bool   // during this step, nobody held the lock and nobody waited
}

// message is the arguments of PUBLISH.
type message struct{ channel, payload string }

// extendRecord makes the record live for at least ms and the retention. It never shortens
// the TTL.
func (st *step) extendRecord(ms int64) { st.expires = max(st.expires, st.lifeEnd(ms)) }

// lifeEnd is the time after ms and the retention. If the clock was set back, the fence is
// ahead of it. The record then lives until the clock has passed the fence, so that tokens
// keep rising. A lease from before lasts as long; so this takes the longer of the two and
// not their sum.
func (st *step) lifeEnd(ms int64) int64 {
	var ahead int64
	if st.fence > st.micros {
		ahead = (st.fence - st.micros + 999) / 1000
	}
	return st.now + max(ms, ahead) + st.retention
}

// msUntilFree is for how long, in ms, the present holders may keep the lock, or waiters may still answer.
func (st *step) msUntilFree() int64 {
	switch asked := max(st.queue.askedUntil-st.now, 0); {
	case st.holder != nil:
		return max(st.holder.expiry-st.now, 0)
	case len(st.shares) > 0 && (asked == 0 || st.soonest-st.now < asked):
		return max(st.soonest-st.now, 0)
	default:
		return asked
	}
}

// expire ends the exclusive hold if it has expired, and remembers its token as lost. soonest
// is a lower bound of the shares' expiries. So the step looks for expired shares only if
// there may be one.
func (st *step) expire() {
	if st.holder != nil && st.holder.expiry <= st.now {
		if st.holder.name != keptHolder { // a kept lock was released before
			st.noteLost(st.fence)
		}
		if st.holder.provisional {
			for _, attempt := range st.holder.attempts() {
				st.queue.markSilent(clientOf(attempt))
			}
		}
		st.holder = nil
	}
	if st.sweeping() {
		st.sweepShares()
	}
	st.gap = st.gap || st.before != nil && st.before.till != 0 && st.idle()
}

// sweep is a search for shares that have expired. A step looks at sweepWindow of them, so
// its time does not grow with their number. Until a sweep has come to a share, it counts.
type sweep struct {
	past  int64 // the token of the last share that it has seen; 0: no sweep is under way
	found int64 // the earliest expiry of those that it has seen, and of those granted since; 0: none
}

const sweepWindow = 256

// sweeping reports whether shares may have expired that no step has ended yet.
func (st *step) sweeping() bool { return len(st.shares) > 0 && st.soonest <= st.now }

// sweepShares is one step of a sweep. The last one finds the true soonest. The scripts come to
// the shares in another order.
func (st *step) sweepShares() {
	s := st.sweep
	if s.past == 0 {
		s.found = 0
	}
	seen := 0
	for _, attempt := range st.byToken() {
		h := st.shares[attempt]
		if h.token <= st.sweep.past {
			continue
		}
		if seen++; seen > sweepWindow && h.token != s.past { // raise_fence may have made two tokens equal
			st.sweep = s
			return
		}
		s.past = h.token
		if h.expiry > st.now {
			s.found = earlier(s.found, h.expiry)
			continue
		}
		st.noteLost(h.token)
		if h.provisional {
			st.queue.markSilent(clientOf(attempt))
		}
		st.removeShare(attempt)
	}
	st.soonest, st.sweep = s.found, sweep{}
}

// noteExpiry notes that a share expires at this time. A sweep that is under way may be past it.
func (st *step) noteExpiry(at int64) {
	st.soonest, st.sweep.found = earlier(st.soonest, at), earlier(st.sweep.found, at)
}

// earlier returns the earlier of two times; 0 is none.
func earlier(a, b int64) int64 {
	if a == 0 || b < a {
		return b
	}
	return a
}

// liveShare returns the share of an attempt; nil if it has none. If it has expired, and no
// sweep has come to it yet, this ends it.
func (st *step) liveShare(attempt string) *share {
	h := st.shares[attempt]
	if h == nil || h.expiry > st.now {
		return h
	}
	st.noteLost(h.token)
	st.removeShare(attempt)
	return nil
}

// compatible reports whether a hold of this mode and weight can be granted beside the
// present holds: any if there is none, none beside an exclusive one, a shared one beside
// shared ones, and permits beside permits up to the limit.
func (st *step) compatible(want mode, weight int64) bool {
	switch {
	case st.holder != nil:
		return false
	case len(st.shares) == 0:
		return want != permit || st.limit == 0 || weight <= st.limit
	case want == exclusive || want != st.kind:
		return false
	case want == shared:
		return true
	}
	return st.used()+weight <= st.limit
}

// request is what an attempt asks for, when it comes or while it waits.
type request struct {
	attempt string
	owner   string // "" without a named owner
	mode    mode
	weight  int64
	ttl     int64
}

// nextToken is the token of the next grant: higher than all before it, and not below the
// clock.
func (st *step) nextToken() int64 { return max(st.micros, st.fence+1) }

// provisionalLease is the lease of a pushed grant, in ms, until the client confirms it.
func provisionalLease(ttl int64) int64 { return min(ttl, max(2000, min(3000, ttl/10))) }

// grant adds a holder and returns its token. The caller has checked that the hold is
// compatible.
func (st *step) grant(r request) (token int64) {
	st.addHolder(r, r.ttl, false)
	if r.mode == exclusive && st.queue.len() == 0 {
		st.expires = st.lifeEnd(r.ttl) // nothing but this lease needs the record
	} else {
		st.extendRecord(r.ttl)
	}
	return st.fence
}

// grantProvisional is grant by a push: the lease is short until the client confirms it. The record
// lives until the waiter's place expires, and for the retention of that waiter's client. So a
// lease that ends before needs no more. The confirmation extends the record, as every renewal does.
func (st *step) grantProvisional(w *waiter) {
	lease := provisionalLease(w.ttl)
	st.addHolder(w.request, lease, true)
	if st.now+lease > w.expiry || st.fence > st.micros {
		st.extendRecord(lease)
	}
}

func (st *step) addHolder(r request, lease int64, provisional bool) {
	st.fence = st.nextToken()
	if st.birth == 0 {
		st.birth = st.fence
	}
	if r.mode == exclusive {
		st.holder = &holder{name: r.attempt, expiry: st.now + lease, provisional: provisional}
		if r.owner != "" {
			st.holder.name, st.holder.entries = r.owner, []string{r.attempt}
		}
	} else {
		st.share(r, st.now+lease, provisional)
	}
}

func (st *step) share(r request, expiry int64, provisional bool) {
	if len(st.shares) == 0 {
		st.kind, st.shares = r.mode, map[string]*share{}
	}
	st.noteExpiry(expiry)
	st.shares[r.attempt] = &share{
		mode:        r.mode,
		expiry:      expiry,
		weight:      r.weight,
		token:       st.fence,
		since:       st.now,
		owner:       r.owner,
		provisional: provisional,
	}
}

// expiredForAll reports whether a hold with several entries has expired. It is then lost for
// the other entries too, and this ends it and serves the queue.
func (st *step) expiredForAll() bool {
	if len(st.holder.entries) < 2 || st.holder.expiry > st.now {
		return false
	}
	st.expire()
	st.serveQueue("")
	return true
}

// removeEntry ends the exclusive hold, or one entry of it. It returns the number of entries
// that remain.
func (st *step) removeEntry(attempt string) int {
	h := st.holder
	h.entries = slices.DeleteFunc(h.entries, func(e string) bool { return e == attempt })
	if len(h.entries) > 0 {
		st.extendRecord(0)
		return len(h.entries)
	}
	st.holder = nil
	return 0
}

// isEnding reports whether the attempt has a hold that is to end.
func (st *step) isEnding(attempt, owner string) bool {
	if h := st.holder; h != nil && h.ending && h.is(attempt, owner) {
		return true
	}
	h := st.shares[attempt]
	return h != nil && h.ending
}

// reacquire returns the token of a hold that the attempt has already, because its request
// came twice. If enters is set, the attempt may also become one more entry of the named
// owner that holds; it then leaves the queue. The lease counts from now. A hold that is to end is not prolonged.
func (st *step) reacquire(attempt, owner string, ttl int64, enters bool) (token int64, held bool) {
	if h := st.holder; h != nil && !h.ending && (h.is(attempt, owner) || enters && h.admits(owner)) {
		st.extendRecord(ttl)
		if !h.is(attempt, owner) {
			h.entries = append(h.entries, attempt)
			st.queue.leave(attempt)
		}
		h.expiry, h.provisional = max(h.expiry, st.now+ttl), false
		return st.fence, true
	}
	h := st.liveShare(attempt)
	if h == nil || h.ending {
		return 0, false
	}
	h.expiry, h.provisional = max(h.expiry, st.now+ttl), false
	st.extendRecord(ttl)
	return h.token, true
}
