package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
)

// setBack is by how much the server's clock is set back at most, in sum.
const setBack = 10 * time.Second

// upset plans what goes wrong with processes and the server.
func (w *world) upset() {
	if w.kind == calm || w.kind == lossy {
		return
	}
	faults := []func(){w.crash, w.pause, w.cut, w.deafen, w.silence, w.part, w.refuse, w.forgets, w.repeat}
	if w.kind == wild {
		faults = append(faults, w.suspend, w.ahead, w.evict)
		// A clock that is set back and a lost memory together may repeat a token.
		faults = append(faults, pick(w, w.back, w.flush))
	}
	for range 1 + w.rng.IntN(4) {
		// Two or three at about one time, or one.
		at := w.upTo(w.storm)
		for range pick(w, 1, 2, 2, 3, 3) {
			w.in(at+w.upTo(w.ttl/2), "something breaks", func() {
				if !w.quiet && len(w.alive()) > 0 {
					pick(w, faults...)()
				}
			})
		}
	}
}

// span is a fault from when it began until it was over.
type span struct {
	what       string
	from, till time.Duration
}

// met counts the pairs of faults that were about at one time.
func (w *world) met() {
	for i, a := range w.spans {
		for _, b := range w.spans[:i] {
			if a.what != b.what && a.from <= b.till && b.from <= a.till {
				w.counts[min(a.what, b.what)+" with "+max(a.what, b.what)]++
			}
		}
	}
}

// breaks are the faults of which each is to meet each.
var breaks = []string{
	"crashes", "pauses", "suspensions", "broken subscriptions", "half-open connections", "silences of the server",
	"bad networks", "steps of the clock", "evictions", "losses of memory", "refusing servers",
	"forgotten connections", "late copies",
}

// alive are the processes that have not crashed.
func (w *world) alive() (alive []*link) {
	for _, l := range w.links {
		if !l.dead {
			alive = append(alive, l)
		}
	}
	return alive
}

func (w *world) victim() *link { return pick(w, w.alive()...) }

// lasts notes until when a fault does.
func (w *world) lasts(what string, d time.Duration) time.Duration {
	w.counts[what]++
	w.note(fmt.Sprintf("  %s for %v", what, d))
	w.spans = append(w.spans, span{what, w.now(), w.now() + d})
	w.health = max(w.health, w.now()+d)
	return d
}

// crash ends a process between two instructions, and starts another.
func (w *world) crash() {
	l := w.victim()
	w.note(fmt.Sprintf("  %s crashes", l))
	w.lasts("crashes", 4*w.ttl) // what it holds ends by itself
	l.dead = true
	go l.client.Abandon()
	w.in(w.upTo(w.ttl/10), fmt.Sprintf("%s is disconnected", l), func() {
		for _, s := range l.subs {
			s.fall()
		}
	})
	w.in(w.upTo(w.ttl), "a process starts", func() {
		if !w.quiet {
			w.boot()
		}
	})
}

// pause stops a process for up to two leases.
func (w *world) pause() {
	l := w.victim()
	l.paused = max(l.paused, w.now()+w.lasts("pauses", w.upTo(2*w.ttl)))
}

// suspend lets the clock of a process go on while its timers stand still.
func (w *world) suspend() {
	l := w.victim()
	l.slept.Add(int64(w.lasts("suspensions", w.upTo(2*w.ttl))))
}

// cut breaks the subscriptions of a process, which stand again after a while.
func (w *world) cut() {
	l := w.victim()
	for _, s := range l.subs {
		if s.unsub == nil {
			continue
		}
		s.fall()
		w.in(w.lasts("broken subscriptions", w.upTo(2*w.ttl)), fmt.Sprintf("%s subscribes again", l), func() {
			if l.dead || s.ended.Load() {
				return
			}
			s.stand()
			w.in(w.travel(), fmt.Sprintf("%s resumes", l), s.look)
		})
	}
}

// deafen loses the pushes to a process, and the server does not know.
func (w *world) deafen() {
	l := w.victim()
	l.halfOpen = true
	lasts := w.lasts("half-open connections", w.upTo(2*w.ttl))
	w.in(lasts, fmt.Sprintf("%s hears again", l), func() { l.halfOpen = false })
}

// forgets lets a router forget the connections of a process. New ones work.
func (w *world) forgets() {
	l := w.victim()
	l.swallows = 1 + w.rng.IntN(10)
	lasts := w.lasts("forgotten connections", w.upTo(2*w.ttl))
	for _, s := range l.subs {
		if s.unsub != nil {
			s.rest(w.upTo(lasts))
		}
	}
	w.in(lasts, fmt.Sprintf("%s has new connections", l), func() { l.swallows = 0 })
}

// repeat is a proxy that sends requests once more, when their clients may have long had an answer, and have given
// back what they got.
func (w *world) repeat() {
	d := w.upTo(4 * w.ttl)
	w.copies = max(w.copies, w.now()+d)
	w.lasts("late copies", d+latest*w.ttl)
}

// silence lets the server answer nobody.
func (w *world) silence() {
	w.down = max(w.down, w.now()+w.lasts("silences of the server", w.upTo(2*w.ttl)))
}

// part loses half of everything for a while.
func (w *world) part() {
	was := w.loss
	w.loss = 0.5
	w.in(w.lasts("bad networks", w.upTo(w.ttl)), "the network is better", func() {
		if !w.quiet {
			w.loss = was
		}
	})
}

// refuse has the server refuse what it is asked for, before any of it is done: all, what
// writes, or what may take memory.
func (w *world) refuse() {
	w.word = pick(w, "READONLY", "NOREPLICAS", "MISCONF", "OOM", "LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN",
		"NOAUTH")
	w.refuses = max(w.refuses, w.now()+w.lasts("refusing servers", w.upTo(2*w.ttl)))
}

// refused is what the server says to a script that it does not run, nil if it runs it.
func (w *world) refused(c *call) error {
	if c.action == nil || w.now() >= w.refuses {
		return nil
	}
	declared := c.action.Declaration()
	switch w.word {
	case "OOM":
		if strings.Contains(declared, "allow-oom") || strings.Contains(declared, "no-writes") {
			return nil
		}
	case "READONLY", "NOREPLICAS", "MISCONF":
		if strings.Contains(declared, "no-writes") {
			return nil
		}
	}
	w.counts["refused requests"]++
	return &holdfast.ServerError{Code: w.word, Message: w.word + " it was simulated"}
}

// ahead sets the server's clock forward: leases end too early, and a holder cannot know.
func (w *world) ahead() {
	d := w.lasts("steps of the clock", w.upTo(2*w.ttl))
	w.stepped += d
	w.steps = append(w.steps, forward{w.now(), d})
}

// forward is a step of the server's clock.
type forward struct{ at, by time.Duration }

// excused reports whether a broken assumption explains what is believed of a lock. So does a step of the clock, if that
// is no shorter than the lock-delay, alone or with others of the same time.
func (w *world) excused(o *object) bool {
	var stepped time.Duration
	for _, s := range w.steps {
		if w.now() < s.at+4*w.ttl+o.delay {
			stepped += s.by
		}
	}
	return w.now() < w.excuse || stepped > 0 && stepped >= o.delay
}

// back sets it back: leases last longer.
func (w *world) back() {
	d := w.upTo(min(2*w.ttl, setBack/10))
	w.stepped -= w.lasts("steps of the clock", d)
	w.health = max(w.health, w.now()+4*w.ttl+d)
}

// evict is an operator that evicts the holders of a lock.
func (w *world) evict() {
	o := pick(w, w.objects...)
	l := w.victim()
	w.lasts("evictions", w.ttl/5) // until the request is there
	e := evictor
	if e.AtOnce = w.chance(0.5); e.AtOnce { // else no holder believes beside another one
		w.excuse = max(w.excuse, w.now()+8*w.ttl)
	}
	go func() {
		_, err := l.client.Evict(context.Background(), o.name, e)
		w.arrive(l, fmt.Sprintf("%s evicted from %s: %v", l, o.name, err), func() {})
	}()
}

// flush makes the server forget everything.
func (w *world) flush() {
	w.lasts("losses of memory", 0)
	w.store.Flush()
	w.forget()
}
