package quorum

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/script"
)

// Lazy is a node that is opened when it is first needed, and again until that
// succeeds. It is for a client library that connects when its client is made, as
// rueidis does: with it a quorum can be opened while a server is down.
//
//	quorum.Lazy(func() (holdfast.Store, error) {
//		client, err := rueidis.NewClient(option)
//		if err != nil {
//			return nil, err
//		}
//		return rueidisstore.New(client), nil
//	})
//
// open is called by one goroutine at a time, and not again after a success. It
// may take its time: requests do not wait for it longer than for an answer. What
// it opens is the caller's, as other nodes are.
func Lazy(open func() (holdfast.Store, error)) holdfast.Store { return &lazy{open: open} }

// lazy is a node that may not be open yet.
type lazy struct {
	open func() (holdfast.Store, error)

	mu      sync.Mutex
	store   holdfast.Store
	opening chan struct{} // closed when the try under way is over; nil without one
	err     error         // of the last try
	again   time.Time     // no earlier is the next
}

// between is the least time between two tries to open a node.
const between = 250 * time.Millisecond

// get is the node, opened. The error says that nothing was sent.
func (l *lazy) get(ctx context.Context) (holdfast.Store, error) {
	for {
		l.mu.Lock()
		store, err := l.store, l.err
		if store != nil {
			l.mu.Unlock()
			return store, nil
		}
		if l.opening == nil && err != nil && time.Now().Before(l.again) {
			l.mu.Unlock()
			return nil, fmt.Errorf("%w: %w", holdfast.ErrUnreachable, err)
		}
		if l.opening == nil {
			l.opening = make(chan struct{})
			go l.try()
		}
		opening := l.opening
		l.mu.Unlock()
		select {
		case <-opening:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", holdfast.ErrUnreachable, ctx.Err())
		}
	}
}

// try opens the node.
func (l *lazy) try() {
	store, err := l.open()
	switch {
	case err != nil:
		store = nil
	case store == nil:
		err = errors.New("quorum: the node was opened as nil")
	case store.Sharded():
		store, err = nil, errors.New("quorum: the node is a Cluster: use independent servers")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.store, l.err, l.again = store, err, time.Now().Add(between)
	close(l.opening)
	l.opening = nil
}

func (l *lazy) Run(ctx context.Context, action *script.Script, keys, args []string) (string, error) {
	store, err := l.get(ctx)
	if err != nil {
		return "", err
	}
	return store.Run(ctx, action, keys, args)
}

func (l *lazy) Listen(ctx context.Context, channel string, to holdfast.Listener) (stop func(), err error) {
	store, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	return store.Listen(ctx, channel, to)
}

func (l *lazy) Server(ctx context.Context) (holdfast.ServerInfo, error) {
	store, err := l.get(ctx)
	if err != nil {
		return holdfast.ServerInfo{}, err
	}
	return store.Server(ctx)
}

// CloseIdleConnections implements [holdfast.IdleCloser].
func (l *lazy) CloseIdleConnections() {
	l.mu.Lock()
	store := l.store
	l.mu.Unlock()
	if s, ok := store.(holdfast.IdleCloser); ok {
		s.CloseIdleConnections()
	}
}

// Group is that of one server, as each node is one.
func (l *lazy) Group(string) string { return "" }

func (l *lazy) Sharded() bool { return false }
