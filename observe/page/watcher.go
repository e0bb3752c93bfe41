package page

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/lockjson"
)

// maxLocks is about how many locks in use a page knows at most. It knows half as many free
// ones. It leaves others out, and says so.
const maxLocks = 10_000

// maxSilence bounds how long a read of all locks may bring none.
const maxSilence = time.Minute

// lateAfter is how much longer than the last one a read may take before the page says that it is late.
const lateAfter = 5 * time.Second

// keptChanges is how many changes wait for slow viewers. A viewer that is further behind gets
// a new snapshot.
const keptChanges = 32

// watcher reads the locks while somebody looks, and keeps what it read.
type watcher struct {
	client *holdfast.Client
	cfg    Config
	ctx    context.Context // ends with the page
	again  chan struct{}   // has space for one: read again at once
	most   int             // locks, see maxLocks
	loop   sync.WaitGroup

	mu      sync.Mutex // guards what follows; nothing is sent or read while it is held
	running bool
	viewers int
	looked  time.Time // when somebody last looked
	reads   readings
	nodes   []lockjson.Node   // the servers of a quorum
	locks   map[string]*entry // by ID
	waits   waitGraph
	past    *history
	clock   time.Duration // the server's clock is ahead of ours by this
	seq     uint64        // of the last change
	changes [][]byte      // the last changes; the last one has the number seq
	news    chan struct{} // closed, and replaced, after each read
	lost    uint64        // leases that were lost, ever
	recent  int           // of these, in the window; also of locks whose record is gone
	evicted uint64        // evictions, ever
}

// entry is a lock with its form in the stream.
type entry struct {
	lock *lockJSON
	text []byte
}

// readings is what is known about the reads themselves.
type readings struct {
	count, failed uint64
	last          time.Time     // when the last one ended, by our clock
	whole         time.Time     // when the last one that succeeded began
	took          time.Duration // the last one
	total         time.Duration
	err           string // of the last one; empty if it succeeded
	cut           bool   // locks were left out
	unreadable    int    // records that could not be read
	shown         []unreadableJSON
}

func newWatcher(ctx context.Context, client *holdfast.Client, cfg Config) *watcher {
	return &watcher{
		client: client, cfg: cfg, ctx: ctx, again: make(chan struct{}, 1), most: maxLocks,
		reads: readings{shown: []unreadableJSON{}}, locks: map[string]*entry{}, nodes: []lockjson.Node{},
		past: newHistory(), news: make(chan struct{}),
	}
}

// look says that somebody looks. The reads begin if they were paused.
func (w *watcher) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lookLocked()
}

func (w *watcher) lookLocked() {
	w.looked = time.Now()
	w.startLocked()
}

func (w *watcher) startLocked() {
	if !w.running && w.ctx.Err() == nil {
		w.running = true
		w.loop.Go(w.run)
	}
}

// join counts a viewer, for whom the reads go on until leave is called.
func (w *watcher) join() (leave func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.viewers++
	w.lookLocked()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.viewers--
		w.looked = time.Now()
	}
}

// wait returns once the reads have ended, because the page has.
func (w *watcher) wait() {
	w.mu.Lock()   // whoever looks from now on sees that the page has ended
	w.mu.Unlock() //nolint:staticcheck // see above
	w.loop.Wait()
}

// hurry makes the next read begin at once.
func (w *watcher) hurry() {
	select {
	case w.again <- struct{}{}:
	default: // somebody has asked already
	}
}

// run reads the locks until nobody looks.
func (w *watcher) run() {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-pause.C:
		case <-w.again:
		case <-w.ctx.Done():
			return
		}
		began := time.Now()
		all, err := w.read()
		took := time.Since(began)
		nodes := w.readNodes()
		if w.ctx.Err() != nil {
			return
		}
		if !w.take(all, err, nodes, began, took) {
			return
		}
		rest := 4 * took
		if err != nil { // the server was away: it may be back, and viewers wait for that
			rest = min(rest, lateAfter)
		}
		pause.Reset(max(w.cfg.Interval, rest))
	}
}

// reading is one state, and when it arrived by our clock.
type reading struct {
	state   holdfast.LockInfo
	arrived time.Time
}

// found is what a read of all locks has found.
type found struct {
	states     []reading
	unreadable map[string]unreadableJSON // by ID: records that this version cannot read
	cut        bool                      // there are more
	partial    bool                      // the read has failed: there may be more
}

func (w *watcher) read() (all found, err error) {
	ctx, end := context.WithCancelCause(w.ctx)
	defer end(nil)
	silence := time.AfterFunc(maxSilence, func() { end(context.DeadlineExceeded) })
	defer silence.Stop()
	w.mu.Lock()
	quota := newQuota(w.locks, w.most)
	w.mu.Unlock()
	for s, err := range w.client.List(ctx, "") {
		silence.Reset(maxSilence)
		switch {
		case err != nil && s.Name == "":
			all.partial = true
			return all, cmp.Or(context.Cause(ctx), err)
		case err != nil:
			if all.unreadable == nil {
				all.unreadable = map[string]unreadableJSON{}
			}
			all.unreadable[idOf(s)] = unreadableJSON{idOf(s), s.Name, plain(err), holdfast.Hint(err)}
		case !quota.take(s):
			all.cut = true
		default:
			all.states = append(all.states, reading{s, time.Now()})
		}
	}
	return all, nil
}

// quota decides which locks a read keeps if there are too many: those in use before free
// ones, and the known before others, so that a lock does not come and go.
type quota struct {
	known map[string]*entry // only the goroutine that reads replaces it
	all   [2]int            // how many more may be kept: free ones, and those in use
	fresh [2]int            // of these, how many that are not known
}

func newQuota(known map[string]*entry, most int) *quota {
	q := &quota{known: known, all: [2]int{most / 2, most * 3 / 2}, fresh: [2]int{most / 2, most}}
	for _, e := range known {
		q.fresh[index(e.lock.used())]--
	}
	return q
}

func index(used bool) int {
	if used {
		return 1
	}
	return 0
}

// take reports whether to keep a lock.
func (q *quota) take(s holdfast.LockInfo) bool {
	i := index(s.Held() || slices.ContainsFunc(s.Waiters, func(w holdfast.Waiter) bool { return !w.Silent }))
	if q.all[i] <= 0 {
		return false
	}
	if q.known[idOf(s)] == nil {
		if q.fresh[i] <= 0 {
			return false
		}
		q.fresh[i]--
	}
	q.all[i]--
	return true
}

// take stores a read and tells the viewers. It reports whether somebody still looks.
func (w *watcher) take(all found, err error, nodes []lockjson.Node, began time.Time, took time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := &w.reads
	before := r.err
	r.count, r.last, r.took, r.total, r.err = r.count+1, time.Now(), took, r.total+took, ""
	if err == nil {
		r.whole = began
	} else {
		r.failed, r.err = r.failed+1, plain(err)
		if before == "" {
			w.cfg.Logger.Warn("page: cannot read the locks", "err", err)
		}
	}
	var set [][]byte
	var gone []string
	differ := w.takeNodes(nodes)
	if err == nil || len(all.states) > 0 {
		shown := make([]unreadableJSON, 0)
		for _, id := range slices.Sorted(maps.Keys(all.unreadable)) {
			shown = append(shown, all.unreadable[id])
		}
		shown = shown[:min(len(shown), shownUnreadable)]
		differ = differ || r.unreadable != len(all.unreadable) || !slices.Equal(shown, r.shown)
		r.cut, r.unreadable, r.shown = all.cut, len(all.unreadable), shown
		set, gone = w.apply(all, began)
	}
	if differ || len(set) > 0 || len(gone) > 0 || before != r.err {
		w.publish(set, gone)
	}
	close(w.news)
	w.news = make(chan struct{})
	if w.viewers > 0 || w.cfg.KeepWatching || time.Since(w.looked) < idleAfter {
		return true
	}
	w.running = false
	w.past.pause(w.now())
	return false
}

// apply compares a read with what is known. set has the locks that are new or differ.
func (w *watcher) apply(all found, began time.Time) (set [][]byte, gone []string) {
	states := all.states
	w.setClock(states)
	now := began.Add(w.clock)
	w.past.watch(now)
	w.waits = newWaitGraph(states, w.waits)
	seen := make(map[string]*entry, len(states))
	for _, s := range states {
		before := w.locks[idOf(s.state)]
		var was *lockJSON
		if before != nil {
			was = before.lock
		}
		at, ok := clockOf(s.state)
		if !ok {
			at = s.arrived.Add(w.clock)
		}
		l := newLock(s.state, at, was)
		w.lost += w.past.note(was, l, at)
		if evictedSince(was, l) {
			w.evicted++
		}
		l.Lost = w.past.lost(l.ID, now)
		w.waits.mark(l)
		e := &entry{l, encode(l.first())}
		if seen[l.ID] = e; before == nil || !bytes.Equal(before.text, e.text) {
			set = append(set, e.text)
		}
	}
	for id, e := range w.locks {
		if seen[id] != nil {
			continue
		}
		if all.partial { // nobody knows that it has changed
			seen[id] = e
			continue
		}
		gone = append(gone, id)
		if _, bad := all.unreadable[id]; bad || all.cut { // perhaps it is only left out
			delete(w.past.locks, id)
			continue
		}
		w.lost += w.past.note(e.lock, nil, now)
	}
	slices.Sort(gone)
	w.locks = seen
	w.past.prune(now)
	w.recent = w.past.lostInAll(now)
	return set, gone
}

// setClock estimates the server's clock. An answer arrives after the server read its clock,
// so the state with the least delay is the best one.
func (w *watcher) setClock(states []reading) {
	ahead, known := time.Duration(0), false
	for _, s := range states {
		if at, ok := clockOf(s.state); ok && (!known || at.Sub(s.arrived) > ahead) {
			ahead, known = at.Sub(s.arrived), true
		}
	}
	if known {
		w.clock = ahead
	}
}

// now is the time by the server's clock.
func (w *watcher) now() time.Time { return time.Now().Add(w.clock) }

// newsJSON is what each event of the stream begins with.
type newsJSON struct {
	Seq    uint64          `json:"seq"`
	Now    string          `json:"now"` // by the server's clock
	Read   readJSON        `json:"read"`
	Totals totalsJSON      `json:"totals"`
	Nodes  []lockjson.Node `json:"nodes"` // the servers of a quorum; empty for any other topology
}

type readJSON struct {
	TookMS float64 `json:"took_ms"`
	At     string  `json:"at"`    // when the last read that succeeded began, by the server's clock; or empty
	Error  string  `json:"error"` // why the last read failed: locks may be those of an earlier one
	Late   bool    `json:"late"`  // the next read should have ended
	Cut    bool    `json:"cut"`   // there are more locks than the page shows

	// The first records that cannot be read, by ID; totals has how many there are.
	Unreadable []unreadableJSON `json:"unreadable"`
}

// shownUnreadable is how many records that cannot be read the page names.
const shownUnreadable = 20

type unreadableJSON struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Error string `json:"error"`
	Hint  string `json:"hint"`
}

type totalsJSON struct {
	Locks   int `json:"locks"`
	Held    int `json:"held"`
	Waiting int `json:"waiting"`
	Lost    int `json:"lost"`

	Deadlocks  int `json:"deadlocks"`
	Unreadable int `json:"unreadable"`
}

func (w *watcher) heading() newsJSON {
	n := newsJSON{Seq: w.seq, Now: lockjson.Stamp(w.now()), Read: readJSON{
		TookMS: lockjson.Millis(w.reads.took), Error: w.reads.err, Late: w.late(), Cut: w.reads.cut,
		Unreadable: w.reads.shown,
	}, Nodes: w.nodes}
	if !w.reads.whole.IsZero() {
		n.Read.At = lockjson.Stamp(w.reads.whole.Add(w.clock))
	}
	n.Totals.Unreadable, n.Totals.Deadlocks = w.reads.unreadable, w.waits.number
	n.Totals.Locks, n.Totals.Lost = len(w.locks), w.recent
	for _, e := range w.locks {
		if e.lock.Held {
			n.Totals.Held++
		}
		n.Totals.Waiting += e.lock.Waiting
	}
	return n
}

// late reports whether a read that should have ended has not: the server is slow, or does not answer. The
// caller has the mutex.
func (w *watcher) late() bool {
	r := w.reads
	return time.Since(r.last) > max(w.cfg.Interval, 4*r.took)+r.took+lateAfter
}

func (w *watcher) publish(set [][]byte, gone []string) {
	w.seq++
	if gone == nil {
		gone = []string{}
	}
	text := withLocks(set, w.heading(), struct {
		Gone []string `json:"gone"`
	}{gone})
	w.changes = append(w.changes, text)
	if n := len(w.changes) - keptChanges; n > 0 {
		w.changes = append([][]byte(nil), w.changes[n:]...)
	}
}

// withLocks encodes objects as one, with locks that are encoded already.
func withLocks(locks [][]byte, objects ...any) []byte {
	var b bytes.Buffer
	b.WriteString(`{"locks":[`)
	b.Write(bytes.Join(locks, []byte(",")))
	b.WriteString("]")
	for _, o := range objects {
		text := encode(o)
		b.WriteString(",")
		b.Write(text[1 : len(text)-1])
	}
	b.WriteString("}")
	return b.Bytes()
}
