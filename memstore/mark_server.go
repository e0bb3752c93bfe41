package memstore

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
)

// badge is the mark that a quorum keeps on a server. It names the run in which it was
// made, and is lost with all other data.
type badge struct{ run, mark string }

// markServer tells the server's run and its mark. It replaces the mark if the present one
// is old.
//
// Answers: node NOW RUN MARK.
func (s *Store) markServer(key string, args *arguments) (string, error) {
	life, old, mark := args.whole(), "", ""
	if len(args.words) > 1 {
		old, mark = args.text(), args.text()
	}
	if err := args.problem("mark_server"); err != nil {
		return "", err
	}
	m, err := s.readMark(key)
	if err != nil {
		return "", err
	}
	at, now := s.lookup(key), s.now().UnixMilli()
	if mark != "" && old == m.mark {
		m.mark = mark
		at = &entry{badge: &m}
		s.entries[key] = at
	}
	if at != nil {
		at.expires = now + life
	}
	return fmt.Sprintf("node %d %s %s", now, m.run, m.mark), nil
}

// readMark returns the server's run, and the mark that was made in it; - for none.
func (s *Store) readMark(key string) (badge, error) {
	at := s.lookup(key)
	switch {
	case at == nil:
		return badge{run: s.run, mark: "-"}, nil
	case at.badge == nil:
		return badge{}, refuse("WRONGTYPE", "Operation against a key that holds no mark: "+strconv.Quote(key))
	case at.badge.run != s.run:
		return badge{run: s.run, mark: "-"}, nil
	}
	return *at.badge, nil
}

// Restart loses every key, as a crash without persistence does, and begins another run of
// the server. Subscriptions remain; BreakSubscriptions breaks them.
func (s *Store) Restart() {
	s.Flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run = newRun()
}

// newRun is the identity of one run of a server, 40 hex digits.
func newRun() string {
	id := make([]byte, 20)
	_, _ = rand.Read(id) // never fails: it would end the program
	return hex.EncodeToString(id)
}
