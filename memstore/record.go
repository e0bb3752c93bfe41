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

	line    line
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
	c.line = r.line.clone()
	return &c
}

// clientOf is the client that made an attempt.
func clientOf(attempt string) string {
	client, _, _ := strings.Cut(attempt, "/")
	return client
}
