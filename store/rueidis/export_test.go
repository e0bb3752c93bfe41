package rueidis

import "context"

// Timed reports whether the store keeps a timer for its next request.
func (s *Store) Timed() bool { return !s.deadlines.Stopped() }

// Explain is the error of a request with ctx.
func (s *Store) Explain(ctx context.Context, err error) error { return s.explain(ctx, err, nil) }

// Leave is what the store does when a replica has refused.
func (s *Store) Leave(ctx context.Context) { s.leave(ctx) }
