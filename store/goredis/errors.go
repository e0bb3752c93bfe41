package goredis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/store"
)

// explain turns an error of go-redis into what [store.Store] promises. broke is why an earlier
// request of the same action got no answer, or nil.
func (s *Store) explain(ctx context.Context, err, broke error) error {
	addr := s.addr()
	if refusal := Refusal(err); refusal != nil {
		if broke == nil {
			return refusal
		}
		return fmt.Errorf("goredis: %s: no answer to an earlier request: %w; then: %s",
			addr, broke, refusal.Message)
	}
	if broke == nil && classify(ctx, err) == adapter.NotSent {
		return adapter.NotSentError(adapter.Who("goredis", addr, err), err)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = adapter.Timeout(ctx, err)
	}
	if broke != nil {
		return fmt.Errorf("%s: %w, after %w", adapter.Who("goredis", addr, err), err, asText(broke))
	}
	return fmt.Errorf("%s: %w", adapter.Who("goredis", addr, err), err)
}

// asText returns err as a text if it is a refusal, because it does not answer the last
// request.
func asText(err error) error {
	if Refusal(err) != nil {
		return errors.New(err.Error())
	}
	return err
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
	var unsent notSentError
	switch {
	case errors.As(err, &unsent):
		return adapter.NotSent
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, errGivenUp):
		return adapter.Broken
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded), errors.Is(err, redis.Nil):
		return adapter.Final
	}
	return adapter.SocketFailure(err)
}
