package sim

import (
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
)

// belief is until when a process may trust what it holds, by its own clock, reckoned
// apart from the library: from the sending of the requests whose answers it has heard.
type belief struct {
	trust  map[string]time.Duration // by key and attempt
	queued map[string]time.Duration // when the last request was sent that was answered so, or else the first
	asked  map[string]time.Duration // the lease that a waiter asked for
	wants  map[string]string        // the key at which it waits
	said   map[string]int64         // the server's time in that answer, ms
	heard  map[string]push          // its push came, perhaps before the answer to an earlier request
}

func newBelief() belief {
	return belief{
		map[string]time.Duration{}, map[string]time.Duration{}, map[string]time.Duration{},
		map[string]string{}, map[string]int64{}, map[string]push{},
	}
}

func (b *belief) until(key, attempt string, sent, ttl time.Duration) {
	ttl -= wire.Delay(attempt)
	b.trust[key+attempt] = max(b.trust[key+attempt], sent+ttl-ttl/100-2*time.Millisecond)
}

func millis(word string) time.Duration { return time.Duration(number(word)) * time.Millisecond }

// push is what a push says: when the grant was made, by the server's clock in ms, and for
// how long.
type push struct {
	now   int64
	lease time.Duration
}

// believe takes note of an answer that a caller hears.
func (b *belief) believe(c *call, answer string) {
	words := strings.Fields(answer)
	switch c.action {
	case script.Acquire, script.Poll:
		key, id, ttl := c.keys[0], c.args[0], millis(c.args[1])
		switch words[0] {
		case "granted":
			b.until(key, id, c.sent, ttl)
		case "queued":
			b.queued[id], b.asked[id], b.wants[id], b.said[id] = c.sent, ttl, key, number(words[3])
			b.follow(id)
		}
	case script.AcquireFree:
		for i, key := range c.keys {
			if words[2][i] == '1' {
				b.until(key, c.args[2+i], c.sent, millis(c.args[0]))
			}
		}
	case script.Renew:
		for i, key := range c.keys {
			if word := words[1+i]; word != "-" && word != "evicted" {
				attempt, ttl, _ := wire.ParseLeaseWord(c.args[2+i], c.args[1])
				b.until(key, attempt, c.sent, millis(ttl))
			}
		}
	case script.Convert:
		if words[0] == "granted" {
			b.until(c.keys[0], c.args[0], c.sent, millis(c.args[3]))
		}
	}
}

// asks takes note of a request. A grant is not older than the first one of its attempt.
func (b *belief) asks(c *call) {
	if c.action != script.Acquire {
		return
	}
	if id := c.args[0]; b.wants[id] == "" {
		b.queued[id], b.asked[id], b.wants[id] = c.sent, millis(c.args[1]), c.keys[0]
	}
}

// pushed takes note of a push that the process hears.
func (l *link) pushed(payload string) {
	words := strings.Fields(payload)
	if words[0] != "granted" {
		return
	}
	id := words[1]
	l.heard[id] = push{number(words[4]), millis(words[5])}
	l.follow(id)
}

// follow reckons what a push is worth. It answers no request: it was made so long after
// the last one that was answered "queued", or it is not believed.
func (b *belief) follow(id string) {
	p, said := b.heard[id], b.said[id]
	if said == 0 || p.now < said {
		return
	}
	b.until(b.wants[id], id, b.queued[id]+time.Duration(p.now-said)*time.Millisecond, p.lease)
}

// check asserts what must be true of all beliefs at every instant.
func (w *world) check() {
	believers := map[*object][]*user{}
	for _, u := range w.users {
		if u.lease == nil || u.link.dead || u.over {
			continue
		}
		w.trusted(u)
		if u.lease.Err() == nil {
			believers[u.lock] = append(believers[u.lock], u)
		}
	}
	for _, o := range w.objects {
		w.apart(o, believers[o])
	}
	w.noneHangs()
}

// trusted asserts I8: nobody trusts a lease for longer than the server's answers allow.
func (w *world) trusted(u *user) {
	key, now := "holdfast:{"+u.lock.name+"}", u.link.now()
	until := u.link.trust[key+u.lease.HolderID()]
	if now <= until {
		return
	}
	if u.lease.Err() == nil {
		w.violatef("I8: %s trusts its lease at %v, which is good until %v", u, now, until)
	}
	// A machine that slept is told within a second of waking up.
	if u.ctx.Err() == nil && (u.link.slept.Load() == 0 || now > until+time.Duration(u.link.slept.Load())+time.Second) {
		w.violatef("I8: the context of %s goes on at %v, its lease was good until %v", u, now, until)
	}
}

// apart asserts I1 on beliefs.
func (w *world) apart(o *object, all []*user) {
	if len(all) < 2 || w.excused(o) {
		return
	}
	used := 0
	for _, u := range all {
		used += u.weight
		if u.mode == 'x' {
			w.violatef("I1: %v believe at a time to hold %s, %s as its writer", all, o.name, u)
		}
	}
	if o.kind == 's' && used > o.limit {
		w.violatef("I1: %v believe to hold %d of %d permits of %s", all, used, o.limit, o.name)
	}
}

// noneHangs asserts I7 in time: while nothing breaks, no lock is free for longer than a
// waiter's heartbeat though somebody asks for it.
func (w *world) noneHangs() {
	if !w.quiet {
		return
	}
	for _, u := range w.users {
		r := w.locks["holdfast:{"+u.lock.name+"}"]
		if !u.asks || u.link.dead || r == nil || len(r.line) == 0 {
			continue
		}
		since := max(w.health, w.storm, r.free, u.since)
		if r.free == 0 {
			for _, h := range r.holds {
				since = max(since, w.now()-time.Duration(w.serverNow()-h.expiry)*time.Millisecond)
			}
		}
		if limit := 2*max(2*w.ttl, time.Second) + time.Second; w.now() > since+limit {
			w.violatef("I7: %s is free since %v, and %s wants it", u.lock.name, since, u)
		}
	}
}
