package request

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/batch"
	"github.com/holdfast-go/holdfast/internal/label"
	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// One is an acquisition or a release that may be sent with others. Limit is the time limit that it would have
// alone. The shortest one is that of the batch: whoever has more time left then asks again alone.
type One struct {
	Key, Attempt string
	Limit        time.Duration
}

// Outcome is the result of One. The zero value means that the request was not carried out:
// send it alone.
type Outcome struct {
	Done  bool
	Token uint64
	Err   error
}

type (
	// Batcher decides which requests of a kind are sent together.
	Batcher = batch.Batcher[One, Outcome]
	item    = batch.Item[One, Outcome]
)

// batchers have the requests of a client that are sent as one when many of its goroutines
// send them at the same time: its releases, and the acquisitions of each TTL.
type batchers struct {
	releases *Batcher // nil if the store takes one lock at a time
	checks   *batch.Batcher[checkOne, checkOutcome]

	mu       lockorder.Mutex[batchers] // guards acquires
	acquires map[string]*Batcher
}

// maxAcquires bounds how many TTLs have batches. Others are sent alone.
const maxAcquires = 64

// The labels of the goroutines that this package starts.
var (
	batchLabel        = label.New("batch")
	cancelLabel       = label.New("cancel")
	registrationLabel = label.New("registration")
)

// inBackground sends a batch.
func (s *Sender) inBackground(send func()) bool { return s.Life.Go(batchLabel, send) }

func (b *batchers) open(s *Sender) {
	b.checks = batch.New(s.sendChecks, s.inBackground)
	if g, ok := store.As[store.Batcher](s.Store); ok && g.Batches() {
		b.acquires = make(map[string]*Batcher)
		b.releases = batch.New(s.release, s.inBackground)
	}
}

// CanBatch reports whether several locks can be in one request.
func (s *Sender) CanBatch() bool { return s.batchers.releases != nil }

// Releases sends releases of locks without waiters. If it is nil, send each alone.
func (s *Sender) Releases() *Batcher { return s.batchers.releases }

// Acquires sends acquisitions of free locks, for leases of ttl and records with the TTL life.
// If it is nil, send each alone.
func (s *Sender) Acquires(ttl, life string) *Batcher {
	b := &s.batchers
	if !s.CanBatch() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.acquires[ttl]
	if r == nil && len(b.acquires) < maxAcquires {
		r = batch.New(func(batch []*item) { s.acquire(batch, ttl, life) }, s.inBackground)
		b.acquires[ttl] = r
	}
	return r
}

// acquire acquires those locks of a batch that are free. An error means for each of them
// what it would mean for a request of its own.
func (s *Sender) acquire(batch []*item, ttl, life string) {
	keys, args := make([]string, len(batch)), make([]string, 2, 2+len(batch))
	args[0], args[1] = ttl, life
	for i, one := range batch {
		keys[i], args = one.Request.Key, append(args, one.Request.Attempt)
	}
	s.sendAll(batch, script.AcquireFree, keys, args)
}

// release releases those locks of a batch that have no waiters.
func (s *Sender) release(batch []*item) {
	keys, args := make([]string, len(batch)), make([]string, len(batch))
	for i, one := range batch {
		keys[i], args[i] = one.Request.Key, one.Request.Attempt
	}
	s.sendAll(batch, script.ReleaseIdle, keys, args)
}

func (s *Sender) sendAll(batch []*item, action *script.Script, keys, args []string) {
	limit := batch[0].Request.Limit
	for _, one := range batch {
		limit = min(limit, one.Request.Limit)
	}
	token, each, err := s.RunSeveral(s.Life.Context(), limit, action, keys, args)
	for i, one := range batch {
		o := Outcome{Err: err}
		if err == nil && each[i] == '1' {
			o = Outcome{Done: true, Token: token}
		}
		one.Answer <- o
	}
}

// RunSeveral sends a script about several locks. each has one character for every lock, in
// order: 1 if the lock was acquired or released, and - if not. If the server refuses the request
// because of one key, nothing has happened, and each is sent alone.
func (s *Sender) RunSeveral(
	ctx context.Context, limit time.Duration, action *script.Script, keys, args []string,
) (token uint64, each string, err error) {
	answer, err := s.RunWithin(ctx, limit, action, keys, args)
	if batch.ConcernsAKey(err) && len(keys) > 1 {
		return 0, strings.Repeat("-", len(keys)), nil
	}
	if err != nil {
		return 0, "", err
	}
	return wire.ParseSeveral(answer, len(keys))
}
