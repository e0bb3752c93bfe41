package quorum

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/internal/lockorder"
	"github.com/holdfast-go/holdfast/script"
	"github.com/holdfast-go/holdfast/store"
)

// Example: server 3 is down when the program starts, and rueidis would fail to connect. Lazy puts
// that off to the first request. Until server 3 is up, each request to it fails with ErrNotSent: the
// store knows that the request has taken nothing.

// Lazy is a node that is opened when it is first needed, and again until that succeeds. It is
// for a client library that connects when its client is made, as rueidis does: with Lazy a
// quorum can be opened while a server is down.
//
//	quorum.Lazy(func() (store.Store, error) {
//		client, err := rueidis.NewClient(option)
//		if err != nil {
//			return nil, err
//		}
//		return rueidisstore.New(client), nil
//	})
//
// One goroutine at a time calls open, and none after a success. open may take its time: a
// request waits for it no longer than for an answer. The opened store belongs to the caller,
// as other nodes do.
func Lazy(open func() (store.Store, error)) store.Store { return &lazy{open: open} }

// lazy is a node that may not be open yet.
type lazy struct {
	open func() (store.Store, error)

	// mu guards the fields below. open is called without it, because it may take its time.
	mu        lockorder.Mutex[lazy]
	store     store.Store   // nil until a try succeeds; it never changes after that
	opening   chan struct{} // closed when the try that is under way ends; nil without one
	err       error         // of the last try
	notBefore time.Time     // the earliest time of the next try
}

// retryPause is the shortest time between two tries to open a node.
const retryPause = 250 * time.Millisecond

// get returns the node, opened. An error says that nothing was sent.
//
// Several requests may wait for one try. When it ends, all of them look again: it may have failed,
// and the next try must wait for retryPause. A request that comes during that pause fails at once,
// with the error of the last try. A request whose ctx ends leaves the try to the others: open has
// no context that could end it.
func (l *lazy) get(ctx context.Context) (store.Store, error) {
	for {
		l.mu.Lock()
		s, err := l.store, l.err
		if s != nil {
			l.mu.Unlock()
			return s, nil
		}
		if l.opening == nil && err != nil && time.Now().Before(l.notBefore) {
			l.mu.Unlock()
			return nil, fmt.Errorf("%w: %w", store.ErrNotSent, err)
		}
		if l.opening == nil {
			l.opening = make(chan struct{})
			go func() {
				openLabel.Set()
				l.openNode()
			}()
		}
		opening := l.opening
		l.mu.Unlock()
		select {
		case <-opening:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", store.ErrNotSent, ctx.Err())
		}
	}
}

// openNode tries to open the node.
func (l *lazy) openNode() {
	s, err := l.open()
	switch {
	case err != nil:
		s = nil
	case s == nil:
		err = errors.New("quorum: opening the node returned nil")
	case s.Sharded():
		s, err = nil, errors.New("quorum: the node is a Cluster: use independent servers")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store, l.err, l.notBefore = s, err, time.Now().Add(retryPause)
	close(l.opening)
	l.opening = nil
}

func (l *lazy) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	s, err := l.get(ctx)
	if err != nil {
		return "", err
	}
	return s.Run(ctx, action, keys, args)
}

func (l *lazy) Listen(ctx context.Context, channel string, to store.Listener) (stop func(), err error) {
	s, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return s.Listen(ctx, channel, to)
}

func (l *lazy) Server(ctx context.Context) (store.ServerInfo, error) {
	s, err := l.get(ctx)
	if err != nil {
		return store.ServerInfo{}, err
	}
	return s.Server(ctx)
}

// Scan implements [store.Scanner]: it opens the node.
func (l *lazy) Scan(ctx context.Context, prefix string, visit func(keys []string) error) error {
	s, err := l.get(ctx)
	if err != nil {
		return err
	}
	scanner, ok := store.As[store.Scanner](s)
	if !ok {
		return refuse(ErrUnsupported, "UNSUPPORTED", "the node's store cannot scan keys")
	}
	return scanner.Scan(ctx, prefix, visit)
}

// Unwrap implements [store.Wrapper]. It opens nothing.
func (l *lazy) Unwrap() store.Store {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.store
}

// Group implements [store.Store]: a node is one server, so all keys are together.
func (l *lazy) Group(string) string { return "" }

func (l *lazy) Sharded() bool { return false }
