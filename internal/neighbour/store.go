package neighbour

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/internal/pushes"
	"github.com/holdfast-go/holdfast/internal/wire"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Store is a lock store on a neighbour's wire. Many goroutines may use it at once.
type Store struct {
	inner     store.Store
	wire      Wire
	traits    Traits
	channels  *pushes.Channels[*entry, *entry] // those of the neighbour, and the attempts that wait on them
	listeners pushes.Listeners                 // of the library, on its own channels

	// mu guards the fields below. Under it nothing is sent and no callback runs.
	mu        lockorder.Mutex[Store]
	entries   map[attemptKey]*entry
	lastSweep int // how many entries the last sweep left
}

var _ store.PlainTokens = (*Store)(nil)

// New makes a store of a wire. inner is the store that the wire sends to; it also has the
// records of the clients, and carries the subscriptions.
func New(inner store.Store, w Wire) *Store {
	s := &Store{inner: inner, wire: w, traits: w.Traits(), entries: make(map[attemptKey]*entry)}
	s.channels = pushes.NewChannels[*entry](pushes.ChannelsConfig[*entry]{
		Listen: s.listen, Tell: func(waiters []*entry) { s.wakeAll(waiters, "") },
		Timeout: subscribing, Linger: linger, Pause: subscribeAgain,
	})
	return s
}

// ErrUnsupported says that the wire cannot carry what was asked for. Nothing was sent.
var ErrUnsupported = errors.New("holdfast: not supported on this wire")

// refusal is a definite answer of the store itself. To the client it is the server's refusal.
type refusal struct {
	kind   error
	server store.ServerError
}

func (r *refusal) Error() string { return r.server.Message }

func (r *refusal) Unwrap() []error { return []error{r.kind, &r.server} }

// errInvalidCall marks a call that the library does not make.
var errInvalidCall = errors.New("neighbour: invalid call")

// unsupported refuses what no request can say in the neighbour's format.
func (s *Store) unsupported(what string) error {
	text := fmt.Sprintf("UNSUPPORTED %s has no %s", s.traits.Neighbour, what)
	if s.traits.Hint != "" {
		text += ": " + s.traits.Hint
	}
	return &refusal{ErrUnsupported, store.ServerError{Code: "UNSUPPORTED", Message: text}}
}

// badName refuses a name that the neighbour's clients would not find.
func badName(name string, why error) error {
	return &refusal{ErrUnsupported, store.ServerError{
		Code: "NAME", Message: fmt.Sprintf("NAME %q: %v", name, why),
	}}
}

func invalidCall(format string, args ...any) error {
	return &refusal{errInvalidCall, store.ServerError{Code: "ERR", Message: "ERR " + fmt.Sprintf(format, args...)}}
}

// Run implements [store.Store]: it answers an action in the library's own words.
func (s *Store) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	switch action {
	case script.RegisterClient, script.ReadClient:
		return s.inner.Run(ctx, action, keys, args)
	}
	act, known := actions[action.Name]
	if !known {
		return "", s.unsupported(whatOf(action))
	}
	names := make([]string, len(keys))
	for i, key := range keys {
		name, err := s.name(key)
		if err != nil {
			return "", err
		}
		names[i] = name
	}
	if len(names) == 0 {
		return "", invalidCall("%s needs a key", action.Name)
	}
	in := &arguments{action: action.Name, words: args}
	answer, err := act(s, ctx, names, in)
	var refused *store.ServerError
	switch {
	case in.wrong != "":
		return "", invalidCall("%s: %s", action.Name, in.wrong)
	case errors.As(err, &refused) && refused.Code == "NOPERM":
		return "", &deniedError{err, s}
	}
	return answer, err
}

// deniedError is a refusal for lack of a permission. The keys, channels and commands are not the library's own.
type deniedError struct {
	error
	store *Store
}

func (d *deniedError) Unwrap() error { return d.error }

// Hint says what the server's user needs.
func (d *deniedError) Hint() string {
	commands := []string{"eval", "evalsha", "publish", "subscribe"}
	if d.store.inner.Sharded() {
		commands = append(commands, "spublish", "ssubscribe")
	}
	for _, line := range d.store.traits.Commands {
		command, _, _ := strings.Cut(line, " ")
		commands = append(commands, command)
	}
	slices.Sort(commands)
	return fmt.Sprintf("give the server's user the keys and the channels of %s, and the commands +%s (ACL SETUSER)",
		d.store.traits.Neighbour, strings.Join(slices.Compact(commands), " +"))
}

// actions are those that a wire carries, by the names of their scripts. An action reads all of
// its arguments before it does anything.
var actions = map[string]func(s *Store, ctx context.Context, names []string, in *arguments) (string, error){
	script.Acquire.Name:      (*Store).acquire,
	script.AcquireAll.Name:   (*Store).acquireAll,
	script.Poll.Name:         (*Store).poll,
	script.Cancel.Name:       (*Store).cancel,
	script.Release.Name:      (*Store).release,
	script.ReleaseAfter.Name: (*Store).releaseAfter,
	script.Renew.Name:        (*Store).renew,
	script.Inspect.Name:      (*Store).inspect,
	script.Evict.Name:        (*Store).evict,
	script.AwaitFree.Name:    (*Store).awaitFree,
	script.CheckACL.Name:     (*Store).checkACL,
}

// whatOf says in the user's words what an action is for.
func whatOf(action *script.Script) string {
	switch action {
	case script.Convert:
		return "Upgrade or Downgrade of a lease"
	case script.Lessen:
		return "Shorten or KeepPermits of a lease"
	case script.SetLimit:
		return "SetLimit of a semaphore"
	case script.BeginRun, script.CancelRun:
		return "Periodic"
	case script.Proclaim, script.ReadLeader, script.Resume:
		return "Election"
	case script.Check:
		return "Check of a token"
	}
	return "action " + action.Name
}

// name reads the name of a lock out of the key that the client computes.
func (s *Store) name(key string) (string, error) {
	_, rest, found := strings.Cut(key, ":{")
	word, end, closed := strings.Cut(rest, "}")
	switch {
	case !found || !closed:
		return "", s.unsupported("place under another store of locks: give it a store of one server or of a Cluster")
	case end == ":periodic":
		return "", s.unsupported("Periodic")
	}
	name := wire.Decode(word)
	if _, err := s.wire.Key(name); err != nil {
		return "", badName(name, err)
	}
	return name, nil
}

// Group implements [store.Store]: locks are of one group if their keys on the neighbour's wire
// are.
func (s *Store) Group(key string) string {
	if name, err := s.name(key); err == nil {
		if theirs, err := s.wire.Key(name); err == nil {
			return s.inner.Group(theirs)
		}
	}
	return s.inner.Group(key)
}

// Sharded implements [store.Store]. The client's own pushes never leave this process.
func (s *Store) Sharded() bool { return false }

// PlainTokens implements [store.PlainTokens].
func (s *Store) PlainTokens() bool { return true }

// Server implements [store.Store].
func (s *Store) Server(ctx context.Context) (store.ServerInfo, error) { return s.inner.Server(ctx) }

// CloseIdleConnections implements [store.IdleCloser]: it also ends the subscriptions for which
// nobody waits.
func (s *Store) CloseIdleConnections() {
	s.channels.EndIdle()
	if own, ok := store.As[store.IdleCloser](s.inner); ok {
		own.CloseIdleConnections()
	}
}

// definite reports whether an error says that nothing has changed at the server.
func definite(err error) bool {
	var refused *store.ServerError
	return errors.As(err, &refused) || errors.Is(err, store.ErrNotSent)
}

// carries returns an error if the wire has no such mode.
func (s *Store) carries(m Mode) error {
	if slices.Contains(s.traits.Modes, m) {
		return nil
	}
	return s.unsupported(map[Mode]string{Exclusive: "exclusive holders", Shared: "readers", Permits: "permits"}[m])
}

// millis writes a duration for an answer, rounded up.
func millis(d time.Duration) string { return wire.Millis(max(d, 0) + time.Millisecond - 1) }
