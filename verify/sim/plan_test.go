package sim

import "time"

// The kinds of worlds.
const (
	calm   = iota // nothing is lost, nobody dies: then nothing at all may go wrong
	lossy         // requests, answers and pushes are lost, doubled, late and refused
	deadly        // processes crash, pause and close, subscriptions break, the server falls silent
	wild          // all of it, and clocks are set, operators evict, the server forgets
	kinds
)

var kindNames = [kinds]string{"calm", "lossy", "deadly", "wild"}

// plan is what a seed says of a world before it begins.
type plan struct {
	kind      int
	processes int
	each      int // goroutines of a process
	rounds    int // acquisitions of a goroutine
	ttl       time.Duration
	lag       time.Duration // of one way through the network
	storm     time.Duration // how long things go wrong
	work      time.Duration // how long a lock is held, at most
	retention time.Duration
	sharded   bool
	gathers   bool
	crowd     bool
	passes    []int // MaxLocalHandOvers, by process
	objects   []*object

	loss    float64 // of requests, of answers and of pushes, each
	double  float64
	late    float64 // takes up to two leases on its way
	repeats float64 // of requests that come once more, up to eight leases later
	refusal float64

	rate    float64       // of the server's clock
	stepped time.Duration // by which it was set
}

// object is one lock.
type object struct {
	name  string
	kind  byte // m: mutex, r: read-write lock, s: semaphore
	limit int
	delay time.Duration // the lock-delay

	highest uint64 // token that a client was told of
	writer  uint64 // and of those a writer
}

// lateness is how many leases a request, or a copy of it, may be on its way.
const lateness = 2

// latest is how many leases later a copy of a request arrives at most, if something on the way repeats requests.
const latest = 8

func (w *world) draw() plan {
	p := plan{
		kind:      w.rng.IntN(kinds),
		processes: 2 + w.rng.IntN(3),
		each:      1 + w.rng.IntN(4),
		rounds:    2 + w.rng.IntN(4),
		ttl:       pick(w, 100*time.Millisecond, 500*time.Millisecond, 2*time.Second),
		retention: 30 * time.Second,
		sharded:   w.chance(0.2),
		gathers:   w.chance(0.5),
		rate:      1,
		stepped:   time.Duration(w.rng.Int64N(int64(time.Second))),
	}
	if w.chance(0.1) { // many requests of one process at a time travel together
		p.processes, p.each, p.gathers, p.crowd = 2, 8, true, true
	}
	p.lag = pick(w, p.ttl/500, p.ttl/100, p.ttl/30)
	p.work = pick(w, p.ttl/100, p.ttl/10, p.ttl/2, 2*p.ttl)
	p.storm = 20 * p.ttl
	for range p.processes {
		passes := pick(w, 0, 0, 1, 3, -1)
		if p.crowd {
			passes = -1
		}
		p.passes = append(p.passes, passes)
	}
	for _, name := range []string{"a", "b"}[:1+w.rng.IntN(2)] {
		kind := pick[byte](w, 'm', 'm', 'r', 'r', 's')
		p.objects = append(p.objects, &object{name: name, kind: kind, limit: 2 + w.rng.IntN(2)})
	}
	if p.kind == calm {
		return p
	}
	p.rate = 1 + (w.rng.Float64()-0.5)*0.018
	if p.kind != deadly {
		p.loss, p.refusal = pick(w, 0, 0.02, 0.1), pick(w, 0, 0.02)
		p.double, p.late, p.repeats = pick(w, 0, 0.05), pick(w, 0, 0.02), pick(w, 0, 0, 0.1)
	}
	return p
}

// delays draws the lock-delays. They come last, so that the other worlds are what they were.
func (w *world) delays() {
	for _, o := range w.objects {
		if w.chance(0.25) {
			o.delay = pick(w, w.ttl/10, w.ttl, 3*w.ttl)
		}
	}
}

// delayed is the longest lock-delay.
func (w *world) delayed() (longest time.Duration) {
	for _, o := range w.objects {
		longest = max(longest, o.delay)
	}
	return longest
}

// patience is how long it may take, after the last fault, until all waiters are served:
// a hold that nobody can release ends with its lease, and so does a hold that a late
// copy of a request makes.
func (w *world) patience() time.Duration {
	people := w.processes*w.each + 20
	return time.Duration(people) * (4*w.ttl + w.delayed() + w.work + time.Second)
}
