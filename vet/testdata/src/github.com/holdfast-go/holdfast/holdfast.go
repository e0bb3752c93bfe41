// Package holdfast has the calls of the library that the tests of vet need.
package holdfast

import (
	"context"
	"errors"
)

// ErrHeld says that another client holds the lock.
var ErrHeld = errors.New("held")

// HeldError is an ErrHeld.
type HeldError struct{}

func (e *HeldError) Error() string { return "held" }

type (
	Client     struct{}
	Mutex      struct{}
	MultiMutex struct{}
	Election   struct{}
	Lease      struct{}
	MultiLease struct{}
	Leadership struct{ *Lease }
)

func (c *Client) Close(ctx context.Context) error { return nil }
func (c *Client) Mutex(name string) *Mutex        { return nil }

func (m *Mutex) Lock(ctx context.Context) (*Lease, error)                           { return nil, nil }
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error)                        { return nil, nil }
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context) error) error    { return nil }
func (m *MultiMutex) Lock(ctx context.Context) (*MultiLease, error)                 { return nil, nil }
func (e *Election) Campaign(ctx context.Context, value string) (*Leadership, error) { return nil, nil }
func (e *Election) Do(ctx context.Context, value string, f func(ctx context.Context, lead *Leadership) error) error {
	return nil
}

func (l *Lease) Context() context.Context               { return nil }
func (l *Lease) Token() uint64                          { return 0 }
func (l *Lease) Release(ctx context.Context) error      { return nil }
func (l *MultiLease) Release(ctx context.Context) error { return nil }
