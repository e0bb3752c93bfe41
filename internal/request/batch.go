package request

import (
	"context"
	"sync"

	"github.com/holdfast-go/holdfast/internal/batch"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// One is an acquisition or a release that may be sent with others.
type One struct{ Key, Attempt string }

// Outcome is what became of it. The zero value says nothing: send it alone.
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

// batches are the requests of a client that are sent together when many of its
// goroutines send them at one time: its releases, and the acquisitions of each TTL.
type batches struct {
	releases *Batcher // nil if the store takes one lock at a time

	mu       sync.Mutex // guards acquires
	acquires map[string]*Batcher
}

// maxAcquires bounds how many TTLs have batches. Others are sent alone.
const maxAcquires = 64

func (b *batches) open(s *Sender) {
	if g, ok := s.Store.(store.Batcher); ok && g.Batches() {
		b.acquires = make(map[string]*Batcher)
		b.releases = batch.New(s.release, s.Life.Go)
	}
}

// Batches reports whether several locks can be in one request.
func (s *Sender) Batches() bool { return s.batches.releases != nil }

// Releases sends releases of locks that nobody waits for; nil: send each alone.
func (s *Sender) Releases() *Batcher { return s.batches.releases }

// Acquires sends acquisitions of locks that are free, for leases of ttl and records
// that live for life; nil: send each alone.
func (s *Sender) Acquires(ttl, life string) *Batcher {
	b := &s.batches
	if !s.Batches() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.acquires[ttl]
	if r == nil && len(b.acquires) < maxAcquires {
		r = batch.New(func(batch []*item) { s.acquire(batch, ttl, life) }, s.Life.Go)
		b.acquires[ttl] = r
	}
	return r
}

// acquire takes those locks of a batch that are free. An error tells each of them
// what it would tell a request of its own.
func (s *Sender) acquire(batch []*item, ttl, life string) {
	keys, args := make([]string, len(batch)), make([]string, 2, 2+len(batch))
	args[0], args[1] = ttl, life
	for i, one := range batch {
		keys[i], args = one.Request.Key, append(args, one.Request.Attempt)
	}
	s.sendAll(batch, script.AcquireFree, keys, args)
}

// release gives up those locks of a batch that nobody waits for.
func (s *Sender) release(batch []*item) {
	keys, args := make([]string, len(batch)), make([]string, len(batch))
	for i, one := range batch {
		keys[i], args[i] = one.Request.Key, one.Request.Attempt
	}
	s.sendAll(batch, script.ReleaseIdle, keys, args)
}

func (s *Sender) sendAll(batch []*item, action *script.Script, keys, args []string) {
	token, each, err := s.RunSeveral(s.Life.Context(), action, keys, args)
	for i, one := range batch {
		o := Outcome{Err: err}
		if err == nil && each[i] == '1' {
			o = Outcome{Done: true, Token: token}
		}
		one.Answer <- o
	}
}

// RunSeveral sends a script about several locks. each says of every lock, in order, 1 if
// it was done, and 0 if not.
func (s *Sender) RunSeveral(
	ctx context.Context, action *script.Script, keys, args []string,
) (token uint64, each string, err error) {
	answer, err := s.Run(ctx, action, keys, args)
	if err != nil {
		return 0, "", err
	}
	return wire.ParseSeveral(answer, len(keys))
}
