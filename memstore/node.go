package memstore

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strconv"
)

// badge is what a quorum leaves on each of its servers: it names the run that
// it was made in, and is lost with everything else.
type badge struct {
	run  string
	born int64 // ms
}

// node answers which server this is, and since when it has forgotten nothing.
//
// Answers: node NOW BORN RUN.
func (s *Store) node(key string, args *arguments) (string, error) {
	life := args.whole()
	if err := args.problem("node"); err != nil {
		return "", err
	}
	at, now := s.lookup(key), s.now().UnixMilli()
	if at != nil && at.badge == nil {
		return "", refuse("WRONGTYPE", "Operation against a key that holds no mark: "+strconv.Quote(key))
	}
	m := &badge{run: s.run, born: now}
	if at != nil && at.badge.run == s.run && at.badge.born <= now {
		m = at.badge
	}
	s.entries[key] = &entry{badge: m, expires: now + life}
	return fmt.Sprintf("node %d %d %s", now, m.born, m.run), nil
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
