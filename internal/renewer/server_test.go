package renewer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/internal/leasetime"
)

var errSilent = errors.New("the server does not answer")

// request is one renewal as the server saw it.
type request struct {
	at    time.Duration
	bound time.Duration // the deadline of its context
	batch []Asked
}

// verdict is what the renewer reported of one lease.
type verdict struct {
	at      time.Duration
	reason  Reason // of a loss
	err     error  // of a renewal
	lag     time.Duration
	left    time.Duration // of the lease when it was renewed
	ttl     time.Duration
	waiting int
}

// server is the server of a renewer in a bubble. It counts the requests and answers as
// the test says.
type server struct {
	renewer *Renewer
	start   time.Time
	ahead   atomic.Int64 // how far the clock of trust deadlines moved while timers did not run

	// answer answers one request. If it is nil, every lease is renewed at once.
	answer func(ctx context.Context, batch []Asked) ([]Outcome, error)

	mu       sync.Mutex
	requests []request
	lost     map[*Item]verdict
	renewed  map[*Item][]verdict
}

// serve makes a renewer and its server, and stops the renewer with the test.
func serve(t *testing.T) *server {
	t.Helper()
	s := &server{start: time.Now(), lost: map[*Item]verdict{}, renewed: map[*Item][]verdict{}}
	s.renewer = New(Config{Now: s.now, Renew: s.renew, Renewed: s.onRenewed, Lost: s.onLost, Timeout: 3 * time.Second})
	t.Cleanup(s.renewer.Stop)
	return s
}

func (s *server) now() time.Duration {
	return time.Hour + time.Since(s.start) + time.Duration(s.ahead.Load())
}

func (s *server) renew(ctx context.Context, batch []Asked) ([]Outcome, error) {
	r := request{at: s.now(), batch: batch}
	if at, bounded := ctx.Deadline(); bounded {
		r.bound = time.Until(at)
	}
	s.mu.Lock()
	s.requests = append(s.requests, r)
	s.mu.Unlock()
	if s.answer != nil {
		return s.answer(ctx, batch)
	}
	return make([]Outcome, len(batch)), nil
}

func (s *server) onRenewed(it *Item, r Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewed[it] = append(s.renewed[it], verdict{
		at: s.now(), waiting: r.Waiting, lag: r.Lag, left: r.Remaining, ttl: r.TTL, err: r.Err,
	})
}

func (s *server) onLost(it *Item, reason Reason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, twice := s.lost[it]; twice {
		panic("a lease was lost twice")
	}
	s.lost[it] = verdict{at: s.now(), reason: reason}
}

// own is a hold of this group.
type own string

func (o own) Group() string { return string(o) }

// add adds a new lease, which a request sent now was granted.
func (s *server) add(t *testing.T, name string, ttl time.Duration) *Item {
	t.Helper()
	it := &Item{Hold: own(name), TTL: ttl}
	assert.MustTrue(t, s.renewer.Add(it, s.now(), s.now()), "the renewer takes no lease")
	return it
}

// addPushed adds a lease that was pushed now, for less than its TTL.
func (s *server) addPushed(t *testing.T, it *Item, lasts time.Duration) *Item {
	t.Helper()
	assert.MustTrue(t, s.renewer.AddPushed(it, s.now(), lasts, s.now()), "the renewer takes no lease")
	return it
}

// lossOf returns the reported loss of an item, if there is one.
func (s *server) lossOf(it *Item) (verdict, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, lost := s.lost[it]
	return v, lost
}

// renewals returns the reported renewals of an item.
func (s *server) renewals(it *Item) []verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.renewed[it]
}

// seen returns the requests so far, and clears them.
func (s *server) seen() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.requests
	s.requests = nil
	return seen
}

// hang gives no answer: it returns when the context of the request ends.
func hang(ctx context.Context, _ []Asked) ([]Outcome, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// wantLost asserts that an item was lost for this reason, at this instant.
func (s *server) wantLost(t *testing.T, it *Item, reason Reason, at time.Duration) {
	t.Helper()
	v, lost := s.lossOf(it)
	assert.True(t, lost && v.reason == reason && v.at == at,
		"lost: %v for %q at %v, want %q at %v", lost, v.reason, v.at, reason, at)
}

// bubble runs f in virtual time.
func bubble(t *testing.T, f func(t *testing.T, s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, serve(t)) })
}

const ttl = 30 * time.Second

// life is how long a lease is trusted after its request was sent.
var life = leasetime.Deadline(0, ttl)
