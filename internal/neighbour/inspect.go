package neighbour

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/wire"
)

// inspect reads a lock. The neighbours write down neither when a grant was made nor when a
// waiter came, so these times are those of the answer, but for grants of this process.
func (s *Store) inspect(ctx context.Context, names []string, in *arguments) (string, error) {
	if len(in.words) > 0 {
		_ = in.text() // p: the caller counts permits
	}
	if !in.ok() {
		return "", nil
	}
	got, err := s.wire.Inspect(ctx, names[0])
	if err != nil {
		return "", err
	}
	if got.Absent {
		return "absent", nil
	}
	return s.recordOf(names[0], got, time.Now()), nil
}

func (s *Store) recordOf(name string, got State, now time.Time) string {
	used, life := 0, time.Duration(0)
	var rest []string
	for _, h := range got.Holders {
		if h.Mode != Exclusive {
			used += h.Permits
		}
		since := now
		if e := s.find(name, h.ID); e != nil {
			s.update(e, func(e *entry) {
				if !e.held.IsZero() {
					since = e.held
				}
			})
		}
		life = max(life, h.Left)
		rest = append(rest, fmt.Sprintf("holder %s %s - %d %d %d %s %d", modeWord(h.Mode), wire.Encode(h.ID),
			h.Permits, h.Token, since.UnixMilli(), millis(h.Left), max(h.Entries, 1)))
	}
	for i, w := range got.Waiters {
		rest = append(rest, fmt.Sprintf("waiter %d %s %s - 1 %d %s", i+1, modeWord(w.Mode), wire.Encode(w.ID),
			now.UnixMilli(), millis(w.Left)))
	}
	first := fmt.Sprintf("lock %d %d %d %s %d %d", now.UnixMilli(), got.Fence, max(got.Waiting, len(got.Waiters)),
		millis(life), used, got.Limit)
	return strings.Join(append([]string{first}, rest...), "\n")
}

// awaitFree asks whether a try would get the lock. It changes nothing: a watcher's subscription
// is that of [Store.Listen] to the lock's news.
func (s *Store) awaitFree(ctx context.Context, names []string, in *arguments) (string, error) {
	a := Attempt{Name: names[0]}
	in.mode(&a)
	in.text() // whether the caller watches: it subscribes to the neighbour's messages instead
	in.skipRecord()
	if !in.ok() {
		return "", nil
	}
	if err := s.carries(a.Mode); err != nil {
		return "", err
	}
	got, err := s.wire.Inspect(ctx, a.Name)
	if err != nil {
		return "", err
	}
	used, left := 0, time.Duration(-1)
	exclusive := false
	for _, h := range got.Holders {
		exclusive = exclusive || h.Mode == Exclusive
		used += h.Permits
		if h.Left != Unknown && (left < 0 || h.Left < left) {
			left = h.Left
		}
	}
	free := got.Absent
	switch a.Mode {
	case Exclusive:
		free = free || used == 0
	case Shared:
		free = free || !exclusive
	case Permits: // the first acquisition sets the limit
		free = free || used+a.Count <= got.Limit
	}
	if free {
		return "free", nil
	}
	hears := s.wire.Channel(a) != "" // a neighbour may tell its first waiter alone
	return "busy " + millis(lookAfter(left, unbounded, s.traits.PollEvery, hears)), nil
}

// watch subscribes to the neighbour's messages about a lock, if the channel is that of the
// lock's news. The listener then looks again at each of them.
func (s *Store) watch(channel string) (stop func()) {
	_, word, found := strings.Cut(channel, ":watch=")
	if !found {
		return func() {}
	}
	name := wire.Decode(word)
	if _, err := s.wire.Key(name); err != nil {
		return func() {}
	}
	e := &entry{Attempt: Attempt{Name: name}, channel: channel}
	ctx, cancel := context.WithTimeout(context.Background(), watching)
	defer cancel()
	s.subscribe(ctx, e)
	return func() { s.update(e, s.leave) }
}

// watching is how long a watcher waits for its subscription. After that it polls, until the
// subscription stands.
const watching = 2 * time.Second
