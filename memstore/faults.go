package memstore

import (
	"context"
	"maps"
	"sync"
	"time"
)

// FailRequest sets a function that is called before every script, with the script's name
// and keys. If it returns an error, the script does not run, and Run returns that error: a
// *store.ServerError is a refusal, any other error a lost request. Nil removes the
// function.
//
// f runs in the caller's goroutine. Several may call it at once.
func (s *Store) FailRequest(f func(action string, keys []string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

// LoseReply is FailRequest for the reply: f is called after the script has run, and Run
// returns its error in place of the reply. The caller cannot tell a lost reply from a lost
// request.
func (s *Store) LoseReply(f func(action string, keys []string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = f
}

func (s *Store) hooks() (fail, lose func(string, []string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fail, s.lose
}

// Stall makes the server silent: Run, Listen and Server wait until resume is
// called. If their context ends before, they return and nothing has run. After several
// calls the server is silent until every resume was called.
func (s *Store) Stall() (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalls++; s.stalls == 1 {
		s.stalled = make(chan struct{})
	}
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.stalls--; s.stalls == 0 {
			close(s.stalled)
			s.stalled = nil
		}
	})
}

// reach returns when the server is not silent, or with ctx's error.
func (s *Store) reach(ctx context.Context) error {
	for {
		s.mu.Lock()
		stalled := s.stalled
		s.mu.Unlock()
		if err := ctx.Err(); err != nil || stalled == nil {
			return err
		}
		if err := stall(ctx, stalled); err != nil {
			return err
		}
	}
}

// stall waits for stalled, or for the end of ctx, or for its deadline, which may come
// before Done or without it.
func stall(ctx context.Context, stalled <-chan struct{}) error {
	var late <-chan time.Time
	if at, bounded := ctx.Deadline(); bounded {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-stalled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-late:
		return context.DeadlineExceeded
	}
}

// DropPushes loses the next n messages that have a subscriber; if n is below 0, all of
// them until DropPushes(0). For the server they were delivered.
func (s *Store) DropPushes(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop = max(n, -1)
}

// BreakSubscriptions breaks all subscriptions: no message is delivered until resume is
// called. Resume tells every listener.
func (s *Store) BreakSubscriptions() (resume func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.cut {
			return
		}
		s.cut = false
		for _, subs := range s.listeners {
			for _, sub := range subs {
				if sub.Look != nil {
					sub.enqueue(func() { sub.Look(true) })
				}
			}
		}
	}
}

// Flush loses every key, as FLUSHALL or a restart without persistence does. Subscriptions
// remain.
func (s *Store) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.entries)
}

// The values that PlantForeign and PlantNewerFormat put at a key.
const (
	wrongType   = "a value of another type"
	laterFormat = "a record of a later format"
)

// PlantForeign puts a value at key that is not a hash: every script on it is refused with the
// code WRONGTYPE.
func (s *Store) PlantForeign(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[key] = &entry{foreign: wrongType}
}

// PlantNewerFormat puts a record of a later Holdfast at key: every script on a lock refuses
// it with the code FORMAT.
func (s *Store) PlantNewerFormat(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[key] = &entry{foreign: laterFormat}
}

// PlantRecord puts a hash with these fields at key, as a program without Holdfast may write them. If
// they are a record as the scripts write it, it is one. If not, every script on it refuses it with
// the code FORMAT, and only an eviction with Force removes it. The scripts refuse what they read, and
// this store refuses the whole record. Without the field lock it is no record: the code is WRONGTYPE.
func (s *Store) PlantRecord(key string, fields map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := &entry{expires: s.now().UnixMilli() + plantedLife}
	if r, damaged := parse(fields); damaged == "" {
		at.record = r
	} else {
		at.planted = maps.Clone(fields)
	}
	s.entries[key] = at
}

// plantedLife is the TTL of what PlantRecord puts at a key, in ms.
const plantedLife = 600_000

// refuseRecord is the refusal of a record that no version wrote.
func refuseRecord(key string, fields map[string]string) error {
	_, damaged := parse(fields)
	switch lock, is := fields["lock"]; {
	case !is:
		return refuse("WRONGTYPE", "the hash "+key+" is not a lock")
	case lock == "" || lock[0] < '0' || lock[0] > '9':
		return refuse("FORMAT", "the record "+key+" was written by a newer Holdfast")
	}
	return refuse("FORMAT", "the record "+key+" is damaged: "+damaged)
}
