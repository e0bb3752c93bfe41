package holdfast

import (
	"errors"
	"log/slog"
	"slices"
)

// A lease whose handle was dropped, that is garbage collected without a release, is
// never released by that: its holder's code may still run, and nobody else may come
// in before the TTL is over. It is not renewed any more, so the TTL ends it; and it
// is reported, for it is most often a mistake. A fixed lease ends with its TTL
// anyway, and to take one and let it run out is a way to use it.

// leaked is told by the collector that the handle was dropped.
func (l *Lease) leaked() {
	t := l.tenure
	if !t.drop() {
		return
	}
	t.hold.forsake()
	c, at := t.hold.spec.client, location(t.taken)
	left := max(t.hold.Deadline()-c.now(), 0)
	c.tell(news{hold: t.hold, lease: t, event: t.ending(EventLeak, false, nil), log: func(log *slog.Logger) {
		log.Error("holdfast: a lease was dropped without Release: it is renewed no more, and the lock stays taken "+
			"until its TTL ends it", "lock", t.hold.spec.name, "taken at", at, "token", t.token.Load(), "left", left)
	}})
}

// leakedBundle is leaked for a lease of several locks.
func leakedBundle(b *bundle) {
	b.mu.Lock()
	ended := b.released || errors.Is(b.cause, ErrClosed)
	b.mu.Unlock()
	if ended {
		return
	}
	c, at := b.client, location(b.taken)
	names := make([]string, len(b.parts))
	for i, part := range b.parts {
		names[i] = part.Name()
	}
	c.tell(news{log: func(log *slog.Logger) {
		log.Error("holdfast: a lease of several locks was dropped without Release: it is renewed no more, and the "+
			"locks stay taken until its TTL ends it", "locks", names, "taken at", at)
	}})
	for _, part := range b.parts {
		if t := part.tenure; t.drop() {
			t.hold.forsake()
			c.tell(news{hold: t.hold, lease: t, event: t.ending(EventLeak, false, nil)})
		}
	}
}

// drop notes that nobody has the lease any more. It reports false if it had ended.
func (t *tenure) drop() bool {
	t.hold.mu.Lock()
	t.hold.dropped = true
	t.hold.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.released || t.cause != nil {
		return false
	}
	t.dropped = true
	return true
}

// forsake ends the renewals of a hold of which nothing is left but leases that were
// dropped. Nobody joins it from then on, nor is it passed on.
func (h *hold) forsake() {
	for {
		h.mu.Lock()
		dropped, reserved, all := h.dropped, h.reserved, h.leases()
		h.mu.Unlock()
		if !dropped || reserved > 0 || slices.ContainsFunc(all, (*tenure).inUse) {
			return
		}
		h.mu.Lock()
		same := h.reserved == 0 && len(h.leases()) == len(all)
		if same {
			h.last = true
		}
		h.mu.Unlock()
		if same {
			break
		}
	}
	h.spec.client.renewer.StopRenewal(&h.Item)
	h.unshare()
}

// inUse reports whether somebody has a lease of the stay that t began.
func (t *tenure) inUse() bool {
	t.mu.Lock()
	begun := !t.left && !t.dropped
	inner := slices.Clone(t.inside().inner)
	t.mu.Unlock()
	return begun || slices.ContainsFunc(inner, func(in *tenure) bool { return !in.isDropped() })
}

func (t *tenure) isDropped() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.dropped
}
