package page

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// metrics are what the server knows about the locks, and how the reads go. No label has a
// lock's name: names would make as many series as there are locks.
type metrics struct {
	held                  map[string]int // by kind
	locks, waiting, queue int
	oldest, longest       time.Duration // hold, and wait
	lost, evicted         uint64
	deadlocks             int
	nodes, counting       int // servers of a quorum
	up                    bool
	reads                 readings
	viewers               int
}

var kinds = []string{"exclusive", "shared", "permits", "leader", "job"}

func (w *watcher) metrics() metrics {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := metrics{held: map[string]int{}, locks: len(w.locks), lost: w.lost, reads: w.reads, viewers: w.viewers}
	m.up = w.healthyLocked()
	m.nodes, m.evicted, m.deadlocks = len(w.nodes), w.evicted, w.waits.number
	for _, n := range w.nodes {
		if n.Answers && n.Counts {
			m.counting++
		}
	}
	now := w.now()
	for _, e := range w.locks {
		if e.lock.Held {
			m.held[e.lock.Kind]++
		}
		m.waiting += e.lock.Waiting
		m.queue = max(m.queue, e.lock.Waiting)
		for _, h := range e.lock.Holders {
			m.oldest = max(m.oldest, now.Sub(h.since))
		}
		if e.lock.Kind == "leader" {
			continue // candidates wait for as long as the leader leads
		}
		for _, q := range e.lock.Waiters {
			m.longest = max(m.longest, now.Sub(q.since))
		}
	}
	return m
}

// getMetrics answers in the text format of Prometheus.
func (p *Page) getMetrics(w http.ResponseWriter, r *http.Request) {
	p.watcher.fresh(r.Context())
	m := p.watcher.metrics()
	var b strings.Builder
	put := func(name, kind, help string, value any) {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n%s %v\n", name, help, name, kind, name, value)
	}
	up := 0
	if m.up {
		up = 1
	}
	put("holdfast_server_up", "gauge", "Whether the locks can be read. If not, the figures are old.", up)
	put("holdfast_server_locks", "gauge", "Locks and jobs that have a record on the server.", m.locks)
	put("holdfast_server_unreadable", "gauge", "Records of locks and jobs that cannot be read.", m.reads.unreadable)
	b.WriteString("# HELP holdfast_server_locks_held Locks that are held, and jobs that are running.\n" +
		"# TYPE holdfast_server_locks_held gauge\n")
	for _, k := range kinds {
		fmt.Fprintf(&b, "holdfast_server_locks_held{kind=%q} %d\n", k, m.held[k])
	}
	put("holdfast_server_waiters", "gauge", "Clients that wait for a lock.", m.waiting)
	put("holdfast_server_longest_queue", "gauge", "Waiters of the lock with the most waiters.", m.queue)
	put("holdfast_server_longest_wait_seconds", "gauge",
		"How long the client has waited that has waited longest, without candidates of elections.", seconds(m.longest))
	put("holdfast_server_deadlocks", "gauge", "Deadlocks: calls that wait for each other.", m.deadlocks)
	put("holdfast_server_oldest_hold_seconds", "gauge", "Age of the oldest hold.", seconds(m.oldest))
	put("holdfast_server_leases_lost_total", "counter",
		"Leases that expired, were evicted, or lost their record, as far as the reads can tell.", m.lost)
	put("holdfast_server_evictions_total", "counter", "Evictions, as far as the reads can tell.", m.evicted)
	if m.nodes > 0 {
		put("holdfast_server_nodes", "gauge", "Servers of the quorum.", m.nodes)
		put("holdfast_server_nodes_counting", "gauge",
			"Servers of the quorum that answer and count for new locks.", m.counting)
	}
	put("holdfast_serve_reads_total", "counter", "Reads of all locks.", m.reads.count)
	put("holdfast_serve_read_errors_total", "counter", "Reads of all locks that failed.", m.reads.failed)
	put("holdfast_serve_read_seconds_total", "counter", "Time spent on reads of all locks.", seconds(m.reads.total))
	put("holdfast_serve_last_read_seconds", "gauge", "Time that the last read took.", seconds(m.reads.took))
	put("holdfast_serve_viewers", "gauge", "Viewers of the page.", m.viewers)
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Write([]byte(b.String())) //nolint:errcheck // the viewer has left
}

// getHealth tells a probe whether the last read of the locks succeeded. It needs no token, and so it says no more.
func (p *Page) getHealth(w http.ResponseWriter, r *http.Request) {
	p.watcher.fresh(r.Context())
	if !p.watcher.healthy() {
		answerError(w, http.StatusServiceUnavailable, "the locks cannot be read", "holdfast doctor says why")
		return
	}
	answer(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (w *watcher) healthy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.healthyLocked()
}

func (w *watcher) healthyLocked() bool { return w.reads.count > 0 && w.reads.err == "" && !w.late() }

func seconds(d time.Duration) string { return fmt.Sprintf("%.6f", d.Seconds()) }
