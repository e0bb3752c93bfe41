package httpfence

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence"
)

// The headers.
const (
	// Header carries the token of a request, as a decimal number.
	Header = "Holdfast-Token"
	// SeenHeader carries the highest token of the resource in an answer that refuses.
	SeenHeader = "Holdfast-Token-Seen"
)

// Set gives a request its token.
func Set(r *http.Request, token uint64) { r.Header.Set(Header, strconv.FormatUint(token, 10)) }

// Transport gives each request the token of the lease that its context belongs to, see
// [holdfast.LeaseOf]. A request that has a token keeps it. A request whose context belongs to no
// lease is sent without one, and a [Guard] then refuses it if it writes.
//
// Tokens of different locks say nothing about each other. So if the context belongs to leases of several
// locks, Lock must name the one that guards what the request is about. Otherwise the error is a
// [fence.ErrInvalid], and nothing is sent.
type Transport struct {
	// Base sends the requests. Default: [http.DefaultTransport].
	Base http.RoundTripper
	// Lock names the lock whose token a request gets. If the context belongs to no lease of that lock, the
	// request is sent without a token. Default: the only lock whose leases the context belongs to.
	Lock func(*http.Request) string
}

// RoundTrip implements [http.RoundTripper].
func (t Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get(Header) == "" {
		var lock []string
		if t.Lock != nil {
			lock = []string{t.Lock(r)}
		}
		lease, ok := holdfast.LeaseOf(r.Context(), lock...)
		if ok && lock == nil && lease.Others > 0 {
			if r.Body != nil {
				_ = r.Body.Close() // as a RoundTripper must
			}
			return nil, fmt.Errorf("%w: the request's context belongs to leases of %d locks: "+
				"set Transport.Lock to name the one that guards the resource", fence.ErrInvalid, lease.Others+1)
		}
		if ok {
			r = r.Clone(r.Context()) // a RoundTripper must not change what it was given
			Set(r, lease.Token)
		}
	}
	if t.Base == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	return t.Base.RoundTrip(r)
}

// Refused returns a [*fence.StaleError] if a [Guard] refused the request of this answer because its
// token is stale, and otherwise nil: look at the status, too. The answer's body is not touched.
func Refused(answer *http.Response) error {
	seen := number(answer.Header, SeenHeader)
	if answer.StatusCode != http.StatusPreconditionFailed || seen == 0 { // 0: another precondition failed
		return nil
	}
	stale := &fence.StaleError{Seen: seen}
	if r := answer.Request; r != nil {
		stale.Resource, stale.Token = r.URL.Path, number(r.Header, Header)
	}
	return stale
}

// number is the token in a header, or 0.
func number(h http.Header, name string) uint64 {
	n, err := strconv.ParseUint(h.Get(name), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
