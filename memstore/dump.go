package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Dump returns the fields at key exactly as HGETALL would on a server, or nil if there
// are none.
func (s *Store) Dump(key string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.lookup(key)
	switch {
	case at == nil:
		return nil
	case at.record != nil:
		return at.record.fields()
	case at.client != nil:
		c := at.client
		fields := map[string]string{
			"app": c.app, "host": c.host, "pid": c.pid, "version": c.version, "started": c.started,
		}
		maps.Copy(fields, c.notes)
		return fields
	case at.badge != nil:
		return map[string]string{"run": at.badge.run, "mark": at.badge.mark}
	case at.planted != nil:
		return maps.Clone(at.planted)
	case at.foreign == laterFormat:
		return map[string]string{"lock": laterFormat}
	}
	return nil
}

// TTL returns the answer of PTTL: the TTL of the key, -1 if it has none, and -2 if there
// is no key.
func (s *Store) TTL(key string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.lookup(key)
	switch {
	case at == nil:
		return -2
	case at.expires == 0:
		return -1
	}
	return time.Duration(at.expires-s.now().UnixMilli()) * time.Millisecond
}

// Keys returns all keys that have not expired, sorted.
func (s *Store) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for key := range s.entries {
		if s.lookup(key) != nil {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Scan implements [store.Scanner].
func (s *Store) Scan(ctx context.Context, prefix string, visit func(keys []string) error) error {
	if err := s.reach(ctx); err != nil {
		return err
	}
	keys := s.Keys()
	for page := range slices.Chunk(slices.DeleteFunc(keys, func(key string) bool {
		return !strings.HasPrefix(key, prefix)
	}), scanPage) {
		if err := visit(page); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// scanPage is how many keys a page has.
const scanPage = 250

// fields writes a record as the hash of docs/protocol.md.
func (r *record) fields() map[string]string {
	f := map[string]string{"lock": r.lock(), "birth": text(r.birth)}
	if len(r.lost) > 0 {
		f["lost"] = strings.Trim(fmt.Sprint(r.lost), "[]")
	}
	if h := r.holder; h != nil && len(h.entries) > 0 {
		f["entries"] = strings.Join(h.entries, " ")
	}
	if len(r.shares) > 0 {
		f["shares"] = fmt.Sprint(r.used(), " ", r.kind, " ", r.soonest) + r.sweep.String()
	}
	if r.limit != 0 {
		f["limit"] = text(max(r.limit, 0))
	}
	for attempt, h := range r.shares {
		f["h:"+attempt] = owned(h.owner, h.mode, marked(h.expiry, h.provisional, h.ending), h.weight, h.token, h.since)
	}
	alone := r.onlyWaiter() != nil // and part of the field lock
	if len(r.queue.waiters) > 0 && !alone {
		sum := []string{text(r.queue.len()), text(r.queue.head), text(r.queue.tail)}
		if r.queue.pollAt > 0 {
			sum = append(sum, fmt.Sprintf("~%d:%d", r.queue.pollAt, r.queue.pollPlace))
		}
		if r.queue.cursor > r.queue.head+headWindow {
			sum = append(sum, ">"+text(r.queue.cursor))
		}
		if r.queue.askedEnd > 0 {
			asked := []string{fmt.Sprintf("?%d:%d", r.queue.askedUntil, r.queue.askedEnd)}
			for _, place := range r.queue.answers {
				asked = append(asked, text(place))
			}
			sum = append(sum, strings.Join(asked, ":"))
		}
		f["queue"] = strings.Join(append(sum, r.queue.silent...), " ")
	}
	for _, w := range r.queue.waiters {
		if alone {
			break
		}
		f["#"+text(w.place)] = w.attempt
		f["w:"+w.attempt] = owned(w.owner, w.place, w.mode, w.weight, w.ttl, w.expiry, w.joined)
	}
	if r.evicted != nil {
		f["evicted"] = r.evicted.String()
	}
	if r.eviction.request != "" {
		f["eviction"] = fmt.Sprint(r.eviction.request, " ", r.eviction.ended)
	}
	if r.undone != "" {
		f["undone"] = r.undone
	}
	if r.mark != nil {
		f["period"] = r.mark.String()
	}
	if r.tries.most > 0 {
		f["tries"] = r.tries.String()
	}
	if r.said != nil {
		f["leader"] = r.said.String()
	}
	return f
}

// lock is the field that a script reads first: the fence, the exclusive holder, and
// whether there are shared holders or waiters, and whether somebody watches.
func (r *record) lock() string {
	form, more, mark := text(r.fence), "", ""
	if r.watched {
		mark = "!"
	}
	if len(r.shares) > 0 || r.queue.len() > 0 {
		more = "+"
	}
	more, others := strings.TrimSuffix(" "+more+mark, " "), more != ""
	if w := r.onlyWaiter(); w != nil {
		more = fmt.Sprintf(" +1 %d %d %d 0%d %s", w.expiry, w.joined, w.ttl, provisionalLease(w.ttl), w.attempt)
	}
	switch h := r.holder; {
	case h != nil && len(h.entries) > 0:
		form += " " + marked(h.expiry-r.fence/1000, h.provisional, h.ending) + " @" + h.name + more
	case h != nil:
		form += " " + marked(h.expiry-r.fence/1000, h.provisional, h.ending) + " " + h.name + more
	case others:
		form += " 0 -" + more
	}
	return form
}

// onlyWaiter is the waiter that is part of the field lock, nil if there is none: the only one, of a
// mutex, if the queue has to say nothing else.
func (r *record) onlyWaiter() *waiter {
	q, h := &r.queue, r.holder
	if q.len() != 1 || q.tail != 1 || q.pollAt > 0 || q.askedEnd > 0 || len(q.silent) > 0 ||
		h == nil || len(h.entries) > 0 || r.watched {
		return nil
	}
	if w := q.waiters[0]; w.mode == exclusive && w.owner == "" {
		return w
	}
	return nil
}

// marked writes a lease, or its expiry: a 0 in front marks it as provisional, and two that the hold is to end.
func marked(ms int64, provisional, ending bool) string {
	mark := ""
	switch {
	case ending:
		mark = "00"
	case provisional:
		mark = "0"
	}
	if ms < 0 {
		return "-" + mark + text(-ms)
	}
	return mark + text(ms)
}

// sweepRun stands for the server's run in a sweep of this package.
const sweepRun = "memstore"

// A sweep of this package goes on at a token, and not at a cursor of HSCAN.
func (s sweep) String() string {
	if s.past == 0 {
		return ""
	}
	return fmt.Sprintf(" >%d:%s:%s", s.past, sweepRun, strings.TrimPrefix(text(s.found), "0"))
}

func (e *eviction) String() string {
	return strings.Join(append([]string{text(e.when), e.by, e.reason}, e.attempts...), " ")
}

// owned writes words, and after them the owner if there is one.
func owned(owner string, words ...any) string {
	if owner != "" {
		words = append(words, owner)
	}
	return strings.TrimSuffix(fmt.Sprintln(words...), "\n")
}

func text(n int64) string { return strconv.FormatInt(n, 10) }
