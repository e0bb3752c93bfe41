package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Store is a server of its own, empty at first. Many goroutines may use it at once.
type Store struct {
	// mu guards all fields below. While it is held, nothing blocks, and no function
	// of a user runs except the clock.
	mu        lockorder.Mutex[Store]
	clock     func() time.Time
	ahead     time.Duration // what Advance added to clock
	born      time.Time
	entries   map[string]*entry
	listeners map[string][]*subscription
	cut       bool
	run       string // the server's run ID
	drop      int    // pushes still to drop; below 0: all
	stalled   chan struct{}
	stalls    int // how many calls of Stall are in force
	acks      store.Acks
	fail      func(action string, keys []string) error
	lose      func(action string, keys []string) error
}

// entry is the value at a key: one of its fields is set.
type entry struct {
	record  *record           // a lock's
	client  *client           // a client's own
	badge   *badge            // a quorum's
	foreign string            // what PlantForeign or PlantNewerFormat has put there
	planted map[string]string // a damaged record, by PlantRecord
	expires int64             // ms; 0: never
}

// New returns an empty store that follows Go's clock.
func New() *Store {
	return &Store{
		clock:     time.Now,
		born:      time.Now(),
		run:       newRun(),
		entries:   map[string]*entry{},
		listeners: map[string][]*subscription{},
	}
}

// Run executes one script at one instant of the store's clock. If the store does not know
// the script, or if arguments are missing, it refuses as a server does.
//
// If ctx has ended, nothing runs, and Run returns ctx.Err().
func (s *Store) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	if err := s.reach(ctx); err != nil {
		return "", err
	}
	fail, lose := s.hooks()
	if fail != nil {
		if err := fail(action.Name, keys); err != nil {
			return "", err
		}
	}
	answer, err := s.act(action.Name, keys, args)
	if lose != nil {
		if lost := lose(action.Name, keys); lost != nil {
			return "", lost
		}
	}
	return answer, err
}

// actions has the twins of the scripts that work on the record of one lock.
var actions = map[string]func(*step, *arguments) string{
	"acquire":    acquire,
	"release":    release,
	"poll":       poll,
	"cancel":     cancel,
	"inspect":    inspect,
	"evict":      evict,
	"convert":    convert,
	"set_limit":  setLimit,
	"lessen":     lessen,
	"begin_run":  beginRun,
	"cancel_run": cancelRun,

	"proclaim":      proclaim,
	"read_leader":   readLeader,
	"resume":        resume,
	"release_after": releaseAfter,
	"await_free":    awaitFree,
}

func (s *Store) act(name string, keys, words []string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(keys) == 0 {
		return "", refuse("ERR", name+" needs a key")
	}
	args := &arguments{words: words}
	switch name {
	case "evict":
		if len(words) > 2 && words[2] == forced {
			return s.force(keys[0], args)
		}
	case "renew":
		return s.renew(keys, args)
	case "acquire_free":
		return s.acquireFree(keys, args)
	case "release_idle":
		return s.releaseIdle(keys, args)
	case "acquire_all":
		return s.acquireAll(keys, args)
	case "check":
		return s.check(keys, args)
	case "check_acl":
		return checkACL()
	case "register_client":
		return s.registerClient(keys[0], args)
	case "read_client":
		return s.readClient(keys, args)
	case "raise_fence":
		return s.raiseFence(keys, args)
	case "mark_server":
		return s.markServer(keys[0], args)
	}
	act := actions[name]
	if act == nil {
		return "", refuse("ERR", "unknown action "+name)
	}
	return s.onRecord(keys[0], func(st *step) (string, error) {
		answer := act(st, args)
		return answer, args.problem(name)
	})
}

// onRecord runs act on the record at key, an empty one if there is none. Unless act returns
// an error, it stores the changes and sends the pushes.
func (s *Store) onRecord(key string, act func(*step) (string, error)) (string, error) {
	st, err := s.open(key)
	if err != nil {
		return "", err
	}
	answer, err := act(st)
	if err != nil {
		return "", err
	}
	s.close(key, st)
	return answer, nil
}

// open begins a step on the record at key. It changes nothing.
func (s *Store) open(key string) (*step, error) {
	at := s.lookup(key)
	if at == nil {
		at = &entry{record: &record{}}
	}
	switch {
	case at.foreign == laterFormat:
		return nil, refuse("FORMAT", "the record "+key+" was written by a newer Holdfast")
	case at.planted != nil:
		return nil, refuseRecord(key, at.planted)
	case at.record == nil:
		return nil, refuse("WRONGTYPE", "Operation against a key holding the wrong kind of value")
	}
	micros := s.now().UnixMicro()
	st := &step{
		record:    at.record.clone(),
		expires:   at.expires,
		micros:    micros,
		now:       micros / 1000,
		listening: s.listening,
		key:       key,
		run:       s.run,
		mustQueue: at.record.queue.len() > 0,
	}
	if st.watched {
		st.before = st.holds()
	}
	return st, nil
}

// close stores the changes of a step, and sends its pushes: those of grants last, as a server does.
func (s *Store) close(key string, st *step) {
	st.tellWatchers()
	if st.record.fence != 0 {
		s.entries[key] = &entry{record: st.record, expires: st.expires}
	}
	for _, m := range slices.Concat(st.pushes, st.grants) {
		s.publish(m.channel, m.payload)
	}
}

// lookup returns the value at key, nil if there is none or it has expired.
func (s *Store) lookup(key string) *entry {
	at := s.entries[key]
	if at != nil && at.expires != 0 && s.now().UnixMilli() > at.expires {
		delete(s.entries, key)
		return nil
	}
	return at
}

// Group returns the same for every key: all keys are on one server.
func (s *Store) Group(string) string { return "" }

// Sharded returns false.
func (s *Store) Sharded() bool { return false }

// Batches returns true.
func (s *Store) Batches() bool { return true }

// Server describes the store itself. It respects ctx and Stall, and calls no hook.
func (s *Store) Server(ctx context.Context) (store.ServerInfo, error) {
	if err := s.reach(ctx); err != nil {
		return store.ServerInfo{}, err
	}
	return store.ServerInfo{
		Product: "memstore",
		Role:    "master",
		Mode:    "standalone",
		Address: "memory",
	}, nil
}

// refuse is an error as a server answers it.
func refuse(code, why string) error {
	return &store.ServerError{Code: code, Message: fmt.Sprintf("%s %s", code, why)}
}
