// Twice is once (G6), and a refusal is no promise for a copy of the request that runs late: no two clients then hold a
// lock (G1), and no run is lost (G20).

package contract_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/assert"
	"github.com/holdfast-go/holdfast/script"
)

// copying is a world whose server refuses one request. Something on the way has copied that request, and the copy
// runs later, when the server refuses nothing any more.
type copying struct {
	*world
	copier   *copier
	c, other *holdfast.Client
}

// copier is the way of c to the server.
type copier struct {
	*network
	code string

	action     string // a request of it is refused; empty: none
	skip       int    // how many come before that
	copied     *script.Script
	keys, args []string
}

func (n *copier) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	n.mu.Lock()
	refuses := action.Name == n.action && n.skip == 0
	if action.Name == n.action {
		n.skip--
	}
	if refuses {
		n.action, n.copied, n.keys, n.args = "", action, slices.Clone(keys), slices.Clone(args)
	}
	n.mu.Unlock()
	if refuses {
		return "", &holdfast.ServerError{Code: n.code, Message: n.code + " not now"}
	}
	return n.network.Run(ctx, action, keys, args)
}

// refuse lets the server refuse the next request of an action.
func (r *copying) refuse(action string) {
	r.copier.mu.Lock()
	defer r.copier.mu.Unlock()
	r.copier.action, r.copier.skip = action, 0
}

// runCopy lets the copy of the refused request run.
func (r *copying) runCopy() {
	r.t.Helper()
	synctest.Wait()
	assert.MustTrue(r.t, r.copier.copied != nil, "nothing was refused")
	assert.Must(r.t, assert.Err(r.Run(context.Background(), r.copier.copied, r.copier.keys, r.copier.args)))
	synctest.Wait()
}

// refused asserts that the error is the refusal, and whether it says that the outcome is unknown.
func (r *copying) refused(err error, unknown bool) {
	r.t.Helper()
	var refusal *holdfast.ServerError
	assert.True(r.t, errors.As(err, &refusal) && refusal.Code == r.copier.code, "the error is %v", err)
	assert.Equal(r.t, errors.Is(err, holdfast.ErrUnknownOutcome), unknown, "the outcome is unknown")
}

// afterTTL asserts that a copy that got the lock for nobody has it for no longer than a TTL.
func (r *copying) afterTTL(names ...string) {
	r.t.Helper()
	time.Sleep(ttl + time.Millisecond)
	for _, name := range names {
		r.wantFree(name)
	}
}

// lateCopies are calls whose request was refused, by script. Each says what is true when a copy of the request has
// run late. A script that is not here must change nothing, or be one that the client does not send by itself.
var lateCopies = map[string][]func(r *copying){
	"acquire":     {tryLate, waitLate},
	"acquire_all": {allLate},
	"poll":        {pollLate},
	"release":     {releaseLate("release", (*holdfast.Lease).Release)},
	"release_after": {releaseLate("release_after", func(l *holdfast.Lease, ctx context.Context) error {
		return l.ReleaseAfter(ctx, time.Second)
	})},
	"renew":           {extendLate},
	"convert":         {downgradeLate, upgradeLate},
	"lessen":          {shortenLate, keepPermitsLate},
	"set_limit":       {setLimitLate},
	"begin_run":       {runLate, rescheduleLate},
	"cancel_run":      {doneLate},
	"cancel":          {cancelLate},
	"evict":           {evictLate},
	"proclaim":        {proclaimLate},
	"resume":          {resumeLate},
	"await_free":      {awaitLate},
	"register_client": {registerLate},

	"check":        nil, // it writes nothing, see its WHY
	"acquire_free": nil, // acquires of several goroutines: as acquire
	"release_idle": nil, // releases of several goroutines: as release
	"raise_fence":  nil, // a quorum's: it raises the token of the attempt that holds, and nothing else
	"mark_server":  nil, // a quorum's: it replaces the mark that was read before
}

// A refusal says that this request has not run. It says nothing of a copy of it. If one runs late, then no two clients
// hold a lock, no run is lost, and nobody is evicted who came later: the call does not trust what the copy
// would change. Guarantee: G1 G6 G20.
func TestALateCopyOfARefusedRequestDoesNoHarm(t *testing.T) {
	for _, s := range script.All() {
		calls, known := lateCopies[s.Name]
		if !known {
			assert.True(t, strings.Contains(s.Declaration(), "no-writes"),
				"%s writes: say in lateCopies what a late copy does after a refusal", s.Name)
		}
		for i, call := range calls {
			for _, code := range []string{"LOADING", "OOM", "NOAUTH", "READONLY", "NOPERM"} {
				runBubble(t, s.Name+string(rune('a'+i))+" "+code, func(t *testing.T, w *world) {
					r := &copying{world: w, copier: &copier{network: w.net, code: code}, other: w.client()}
					r.c = w.over(r.copier, holdfast.Config{})
					release(t, mustLock(t, r.c.Mutex("warm")))
					call(r)
				})
			}
		}
	}
}

func tryLate(r *copying) {
	r.refuse("acquire")
	r.refused(assert.Err(r.c.Mutex("a").TryLock(r.t.Context())), false)
	r.runCopy()
	r.afterTTL("a")
}

func waitLate(r *copying) {
	held := mustLock(r.t, r.other.Mutex("a"))
	r.refuse("acquire")
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Millisecond)
	defer cancel()
	_, err := r.c.Mutex("a").Lock(ctx)
	assert.True(r.t, err != nil, "the lock is held")
	r.runCopy()
	release(r.t, held)
	r.afterTTL("a")
}

func allLate(r *copying) {
	r.refuse("acquire_all")
	r.refused(assert.Err(r.c.MultiMutex([]string{"a", "b"}).TryLock(r.t.Context())), false)
	r.runCopy()
	r.afterTTL("a", "b")
}

func pollLate(r *copying) {
	held := mustLock(r.t, r.other.Mutex("a", holdfast.TTL(time.Hour)))
	ctx, cancel := context.WithCancel(r.t.Context())
	r.refuse("poll")
	got := r.waiting(r.c.Mutex("a"), ctx)
	time.Sleep(2 * ttl)
	cancel()
	<-got
	r.runCopy()
	release(r.t, held)
	r.afterTTL("a")
}

func releaseLate(action string, give func(l *holdfast.Lease, ctx context.Context) error) func(r *copying) {
	return func(r *copying) {
		l := mustLock(r.t, r.c.Mutex("a"))
		r.refuse(action)
		r.refused(give(l, r.t.Context()), false)
		time.Sleep(ttl)
		next := mustLock(r.t, r.other.Mutex("a"))
		r.runCopy()
		assert.Equal(r.t, r.state("a").Holders[0].HolderID, next.HolderID(), "who holds the lock")
		release(r.t, next)
	}
}

// left asserts that the server keeps the hold for at least as long as the lease is trusted.
func (r *copying) left(l *holdfast.Lease) {
	r.t.Helper()
	holders := r.state(l.Name()).Holders
	assert.MustTrue(r.t, len(holders) == 1 && holders[0].HolderID == l.HolderID() &&
		holders[0].Remaining >= l.Remaining() && l.Err() == nil,
		"a lease is trusted for %v, and the server has %+v: %v", l.Remaining(), holders, l.Err())
}

func extendLate(r *copying) {
	l := mustLock(r.t, r.c.Mutex("a"))
	r.refuse("renew")
	r.refused(l.Extend(r.t.Context(), 2*ttl), false)
	assert.True(r.t, l.Remaining() <= ttl, "after the refusal: %v", l.Remaining())
	r.runCopy()
	r.left(l)
	release(r.t, l)
	r.runCopy()
	r.wantFree("a")
}

func downgradeLate(r *copying) {
	l := must(r.t, r.c.RWMutex("a").Lock)
	r.refuse("convert")
	r.refused(l.Downgrade(r.t.Context()), true) // so the caller does not write
	r.runCopy()
	other := must(r.t, r.other.RWMutex("a").RLock)
	assert.True(r.t, errors.Is(l.Upgrade(r.t.Context()), holdfast.ErrHeld), "a writer beside a reader")
	release(r.t, other)
	assert.Must(r.t, l.Upgrade(r.t.Context()))
	r.runCopy() // has the token of an earlier hold
	r.isHeld(r.other.RWMutex("a").TryRLock(r.t.Context()))
	release(r.t, l)
}

// isHeld asserts that the lock is held.
func (r *copying) isHeld(_ *holdfast.Lease, err error) {
	r.t.Helper()
	assert.Is(r.t, err, holdfast.ErrHeld)
}

func upgradeLate(r *copying) {
	l := must(r.t, r.c.RWMutex("a").RLock)
	r.refuse("convert")
	r.refused(l.Upgrade(r.t.Context()), false)
	r.runCopy()
	r.isHeld(r.other.RWMutex("a").TryRLock(r.t.Context())) // a reader keeps readers out, and nobody writes
	r.left(l)
	assert.Must(r.t, l.Upgrade(r.t.Context()))
	assert.Must(r.t, l.Downgrade(r.t.Context()))
	r.runCopy()
	release(r.t, must(r.t, r.other.RWMutex("a").RLock))
	release(r.t, l)
	r.wantFree("a")
}

func shortenLate(r *copying) {
	l := mustLock(r.t, r.c.Mutex("a"))
	r.refuse("lessen")
	r.refused(l.Shorten(r.t.Context(), ttl/3), false)
	time.Sleep(ttl)
	r.runCopy()
	r.left(l)
	release(r.t, l)
}

func keepPermitsLate(r *copying) {
	l := must(r.t, func(ctx context.Context) (*holdfast.Lease, error) {
		return r.c.Semaphore("a", 3).Acquire(ctx, 3)
	})
	r.refuse("lessen")
	r.refused(l.KeepPermits(r.t.Context(), 2), false) // the caller uses no more, whatever the error is
	r.runCopy()
	r.left(l)
	assert.Equal(r.t, r.state("a").Holders[0].Permits, 2, "permits")
	release(r.t, l)
}

func setLimitLate(r *copying) {
	l := must(r.t, func(ctx context.Context) (*holdfast.Lease, error) {
		return r.c.Semaphore("a", 1).Acquire(ctx, 1)
	})
	r.refuse("set_limit")
	r.refused(r.c.Semaphore("a", 1).SetLimit(r.t.Context(), 2), true)
	r.runCopy()
	assert.Equal(r.t, r.state("a").Limit, 2, "the limit")
	release(r.t, l)
}

func runLate(r *copying) {
	r.refuse("begin_run")
	j := &job{t: r.t}
	r.refused(assert.Err(r.c.Periodic("job", time.Hour).Do(r.t.Context(), j.run)), false)
	time.Sleep(10 * time.Second)
	r.runCopy()
	time.Sleep(2 * time.Second) // the longest pause between two cancels
	turn := j.do(r.other.Periodic("job", time.Hour))
	assert.True(r.t, turn.Ran && j.count() == 1, "%+v after %d runs", turn, j.count())
}

func rescheduleLate(r *copying) {
	j := &job{t: r.t}
	j.do(r.c.Periodic("job", time.Hour))
	r.refuse("begin_run")
	r.refused(r.c.Periodic("job", 2*time.Hour).Reschedule(r.t.Context()), true)
	r.runCopy()
	time.Sleep(2*time.Hour + time.Second)
	j.do(r.other.Periodic("job", 2*time.Hour))
	assert.Equal(r.t, j.count(), 2, "runs")
}

func doneLate(r *copying) {
	j := &job{t: r.t}
	p := r.c.Periodic("job", time.Hour, holdfast.DoneOnSuccess(2))
	r.refuse("cancel_run")
	r.refused(assert.Err(p.Do(r.t.Context(), j.run)), false)
	time.Sleep(ttl + time.Second)
	turn := j.do(r.other.Periodic("job", time.Hour, holdfast.DoneOnSuccess(2)))
	runs := j.count()
	assert.True(r.t, turn.Ran == (runs == 2), "%+v after %d runs", turn, runs) // a success may have been told
	r.runCopy()                                                                // the last run and its period stay
	assert.False(r.t, j.do(r.other.Periodic("job", time.Hour)).Ran, "after %d runs, one run more", runs)
}

func cancelLate(r *copying) {
	r.LoseReply(only("acquire", 2, errLink))
	r.refuse("cancel")
	_, err := r.c.Mutex("a").TryLock(r.t.Context())
	assert.Is(r.t, err, holdfast.ErrUnknownOutcome)
	r.afterTTL("a")
	next := mustLock(r.t, r.other.Mutex("a"))
	r.runCopy()
	r.left(next)
	release(r.t, next)
}

func evictLate(r *copying) {
	for _, token := range []bool{false, true} {
		l := mustLock(r.t, r.other.Mutex("a"))
		e := holdfast.Eviction{By: "ops", Reason: "test"}
		if token {
			e.Token = l.Token()
		}
		r.refuse("evict")
		r.refused(assert.Err(r.c.Evict(r.t.Context(), "a", e)), false)
		release(r.t, l)
		next := mustLock(r.t, r.other.Mutex("a"))
		r.runCopy()
		r.left(next)
		release(r.t, next)
	}
	// The record is damaged, so an operator removes it. A copy of the eviction before that ends no later hold.
	r.PlantRecord("holdfast:{a}", map[string]string{"lock": "x"})
	r.copier.copied = nil
	r.refuse("evict") // before the script refuses it
	_, err := r.c.Evict(r.t.Context(), "a", holdfast.Eviction{By: "ops", Reason: "test"})
	r.refused(err, false)
	assert.Must(r.t, assert.Err(r.c.Evict(r.t.Context(), "a", holdfast.Eviction{By: "ops", Reason: "x", Force: true})))
	next := mustLock(r.t, r.other.Mutex("a"))
	r.runCopy()
	r.left(next)
	release(r.t, next)
	// So it is with a copy of what has removed a record, also after another eviction, which the record remembers.
	remove := holdfast.Eviction{By: "ops", Reason: "y", Force: true}
	for skip := range 2 { // the first request looks at the record, and the second one removes it
		r.copier.copied = nil
		old := mustLock(r.t, r.other.Mutex("a"))
		r.refuse("evict")
		r.copier.skip = skip
		r.refused(assert.Err(r.c.Evict(r.t.Context(), "a", remove)), false)
		assert.Must(r.t, assert.Err(r.c.Evict(r.t.Context(), "a", remove)))
		assert.Is(r.t, old.Release(r.t.Context()), holdfast.ErrNotHeld)
		next := mustLock(r.t, r.other.Mutex("a"))
		another := holdfast.Eviction{By: "ops", Reason: "z", AtOnce: true}
		assert.Must(r.t, assert.Err(r.c.Evict(r.t.Context(), "a", another)))
		assert.Is(r.t, next.Release(r.t.Context()), holdfast.ErrNotHeld)
		next = mustLock(r.t, r.other.Mutex("a"))
		r.runCopy()
		r.left(next)
		release(r.t, next)
	}
	// A copy that does not name what it may end would end any hold.
	sent := r.net.count("evict")
	r.refuse("inspect")
	r.refused(assert.Err(r.c.Evict(r.t.Context(), "a", holdfast.Eviction{By: "ops", Reason: "test"})), false)
	assert.Equal(r.t, r.net.count("evict"), sent, "evictions sent")
}

func proclaimLate(r *copying) {
	l, err := r.c.Election("a").Campaign(r.t.Context(), "one")
	assert.Must(r.t, err)
	r.refuse("proclaim")
	r.refused(l.Proclaim(r.t.Context(), "two"), true)
	r.runCopy()
	assert.Must(r.t, l.Proclaim(r.t.Context(), "three"))
	r.runCopy()
	leader, err := r.other.Election("a").Leader(r.t.Context())
	assert.True(r.t, err == nil && leader.Value == "three", "the leader is %+v: %v", leader, err)
	assert.Must(r.t, l.Release(r.t.Context()))
}

func resumeLate(r *copying) {
	former, err := r.other.Election("a").Campaign(r.t.Context(), "one")
	assert.Must(r.t, err)
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Millisecond)
	defer cancel()
	r.refuse("resume")
	_, err = r.c.Election("a").Resume(ctx, former.HolderID(), former.Token())
	assert.True(r.t, err != nil, "the server refuses, or the time is over")
	r.runCopy()
	for former.Err() == nil { // nobody else leads before the former leader knows
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
		assert.Is(r.t, assert.Err(r.c.Election("a").Campaign(ctx, "two")), holdfast.ErrHeld)
		cancel()
	}
	r.afterTTL("a")
}

func awaitLate(r *copying) {
	l := mustLock(r.t, r.other.Mutex("a"))
	r.refuse("await_free")
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
	defer cancel()
	_ = r.c.Mutex("a").AwaitFree(ctx)
	r.runCopy()
	r.left(l)
	release(r.t, l)
}

func registerLate(r *copying) {
	r.refuse("register_client")
	time.Sleep(24 * time.Hour)
	l := mustLock(r.t, r.c.Mutex("a"))
	r.runCopy()
	r.left(l)
	release(r.t, l)
}
