package memstore

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
)

// badge is what a quorum leaves on each of its servers: it names the run that
// it was made in, and is lost with everything else.
type badge struct{ run, mark string }

// markServer answers which server this is, and what its quorum has noted on it: a new
// mark if the old one is the one that was read.
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
	at, now := s.lookup(key), s.now().UnixMilli()
	if at != nil && at.badge == nil {
		return "", refuse("WRONGTYPE", "Operation against a key that holds no mark: "+strconv.Quote(key))
	}
	m := badge{run: s.run, mark: "-"}
	if at != nil && at.badge.run == s.run {
		m = *at.badge
	}
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

// Restart forgets every key as a crash without persistence would, and makes the
// store known as another run of its server. Subscriptions stand; Cut breaks
// them.
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
