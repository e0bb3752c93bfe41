package goredis

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/store"
)

// explain turns an error of go-redis into what [store.Store] promises. broke is why an earlier
// request of the same action got no answer, or nil.
func (s *Store) explain(ctx context.Context, err, broke error) error {
	return s.retry.Explain(ctx, "goredis", s.addr, err, broke)
}

// Refusal returns an error of go-redis as the server's refusal, nil if it is none. A refused login and a
// rejected certificate count as refusals: the request was not sent.
func Refusal(err error) *store.ServerError {
	if err == nil {
		return nil // to search in no error would allocate
	}
	var known *store.ServerError
	if errors.As(err, &known) {
		return known
	}
	var refused redis.Error
	if !errors.As(err, &refused) || errors.Is(err, redis.Nil) {
		return adapter.TLSRefusal(err)
	}
	return adapter.Refusal(refused.Error())
}

// classify says what an error that is not a refusal means for the request. An exceeded deadline
// is final.
func classify(_ context.Context, err error) adapter.Failure {
	failure := adapter.FailureOf(err)
	if failure == adapter.Final && errors.Is(err, errGivenUp) {
		return adapter.Broken
	}
	return failure
}
