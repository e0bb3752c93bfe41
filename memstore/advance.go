package memstore

import (
	"fmt"
	"slices"
)

// advance grants the lock to the head of the line for as long as the head fits.
//
//   - A waiter whose patience is over is removed.
//   - A waiter whose client does not hear pushes, or is silent, is passed over and
//     keeps its place.
//   - A waiter who does not fit stops the walk: nobody may overtake it.
//   - A waiter who fits is granted, briefly until its client confirms the push.
//
// The walk begins behind those whom an earlier one has passed over, and ends within
// reach: unfinished if the lock may be free and others wait there. One of these is told
// to look at once. Who was passed over and asks is looked at again.
//
// caller is the attempt that asks right now ("": nobody does): it is not
// overdue, and its answer says what a push would. advance answers the caller's
// token if it was granted (else 0), and whether a waiter stands that nobody
// may overtake.
func (t *step) advance(caller string) (token int64, blocked bool) {
	l := &t.line
	l.cursor = max(l.cursor, l.head)
	if own := l.seat(caller); own != nil {
		if own.place < l.cursor {
			l.cursor = max(l.head, own.place-near)
		}
		if t.excessive(own) {
			l.leave(caller)
		}
	}
	token, blocked, pushed := t.walk(caller)
	place := l.cursor
	t.unfinished = l.len() > 0 && place <= l.tail && t.holder == nil && !blocked
	l.clear(t.now)
	next := place
	for next < l.tail && next < place+16 && l.at(next) == nil {
		next++
	}
	if pushed != nil && l.len() > 0 && !(l.watched > t.now && l.watcher >= next) {
		if at := t.hint(next, t.left(), 3, pushed.attempt, caller); at != 0 {
			l.watched, l.watcher = t.now+t.left(), at
		}
	}
	if t.unfinished {
		t.goesOn(place, caller)
	}
	return token, blocked || t.unfinished || t.holder != nil && l.len() > 0
}

// walk grants from the cursor on, and moves it to the first who was not passed over.
func (t *step) walk(caller string) (token int64, blocked bool, pushed *waiter) {
	from := t.line.cursor
	end := min(from+reach, t.line.tail+1)
	defer func() {
		if t.line.len() > 0 {
			t.line.cursor = end
		}
	}()
	if t.holder != nil {
		end = from
	}
	for _, w := range t.line.within(from) {
		if t.holder != nil {
			break
		}
		asks := w.attempt == caller
		if w.patience <= t.now && !asks || t.excessive(w) {
			t.line.leave(w.attempt)
			continue
		}
		if !asks && !t.hears(w) {
			continue
		}
		if !t.fits(w.mode, w.weight) {
			end = w.place
			return token, true, pushed
		}
		if asks {
			t.line.leave(w.attempt)
			token = t.grant(w.request)
		} else {
			t.push(w, t.nextToken())
			t.line.leave(w.attempt)
			t.lend(w.request)
			pushed = w
		}
		if t.holder != nil {
			end = w.place + 1
			if t.holder.admits(w.owner) {
				t.admit(w.place+1, caller)
			}
		}
	}
	return token, false, pushed
}

// excessive says that a waiter wants more permits than there are since the limit was
// lowered: it leaves the line, or it would stop it for good.
func (t *step) excessive(w *waiter) bool {
	return w.mode == permit && t.limit != 0 && w.weight > t.limit
}

// hears says whether a waiter's client listens and is not silent.
func (t *step) hears(w *waiter) bool {
	client := clientOf(w.attempt)
	return !slices.Contains(t.line.silent, client) && t.listening(t.base+client) > 0
}

// push tells a waiter's client of its grant.
func (t *step) push(w *waiter, token int64) {
	payload := fmt.Sprintf("granted %s %d %d %d %d", w.attempt, token, t.line.len()-1, t.now, briefly(w.ttl))
	t.pushes = append(t.pushes, message{t.base + clientOf(w.attempt), payload})
}

// admit lets in whoever waits in the name of the owner that has just been
// granted the lock: they hold together. Who does not listen is passed over, and
// the caller asks by itself; so does who stands out of reach.
func (t *step) admit(place int64, caller string) {
	for _, w := range t.line.within(place) {
		if w.attempt == caller || w.owner != t.holder.name || w.patience <= t.now || !t.hears(w) {
			continue
		}
		t.push(w, t.fence)
		t.line.leave(w.attempt)
		t.keep(w.ttl)
		t.holder.entries = append(t.holder.entries, w.attempt)
		t.holder.expiry = max(t.holder.expiry, t.now+briefly(w.ttl))
	}
}
