package memstore

import (
	"context"
	"sync"
	"time"
)

// FailRequest sets a function that is called before every action, with the action's
// name and keys. If it returns an error, the action does not run, and Run
// returns that error: a *store.ServerError is a refusal, any other error a
// request that was lost on its way. Nil takes the function away.
//
// f runs in the goroutine of the caller and may be called by several at once.
func (s *Store) FailRequest(f func(action string, keys []string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = f
}

// LoseReply is FailRequest for the way back: f is called after the action has run, and the
// error that it returns stands in for the reply. The caller cannot tell a lost
// reply from a lost request.
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
// called, or return when their context ends, in which case nothing has run. After
// several calls it is silent until each resume was called.
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

// reach returns once the server can be talked to, or with ctx's error.
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

// stall waits for stalled, ctx's end or its deadline, which may come without
// or before a Done.
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

// DropPushes loses the next n messages that somebody listens for, or with n
// below 0 all of them until DropPushes(0). The server believes that they were
// heard.
func (s *Store) DropPushes(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop = max(n, -1)
}

// BreakSubscriptions breaks all subscriptions: what is published is heard by nobody until
// resume is called, which tells every listener that it was.
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
				if sub.Resumed != nil {
					sub.enqueue(sub.Resumed)
				}
			}
		}
	}
}

// Flush forgets every key, as FLUSHALL or a restart without persistence would.
// Subscriptions stand.
func (s *Store) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.entries)
}

// What Plant and PlantNewerFormat put at a key.
const (
	wrongType   = "a value of another type"
	laterFormat = "a record of a later format"
)

// PlantForeign puts a value at key that is no hash: every action on it is refused
// with the code WRONGTYPE.
func (s *Store) PlantForeign(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[key] = &entry{foreign: wrongType}
}

// PlantNewerFormat puts a record at key that a later Holdfast wrote: every action on
// a lock refuses it with the code FORMAT.
func (s *Store) PlantNewerFormat(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries[key] = &entry{foreign: laterFormat}
}
