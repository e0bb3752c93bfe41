package rueidis

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast/internal/adapter"
	"github.com/holdfast-go/holdfast/store"
)

// explain turns an error of rueidis into what [store.Store] promises. broke is why an earlier
// request of the same action got no answer, or nil.
func (s *Store) explain(ctx context.Context, err, broke error) error {
	if s.isClosed(err) {
		return adapter.ClosedClient("rueidis")
	}
	if broke != nil || classify(ctx, err) != adapter.NotSent {
		err = hideForeign(ctx, err)
	}
	return s.retry.Explain(ctx, "rueidis", s.addr, err, hideForeign(ctx, broke))
}

// isClosed reports whether the user has closed the client. The first request that finds out
// may have been under way by then; later ones were not sent. With Sentinel and in a Cluster
// rueidis takes connections away at other times too.
func (s *Store) isClosed(err error) bool {
	return errors.Is(err, rueidis.ErrClosing) && s.mode == rueidis.ClientModeStandalone && s.foundClosed.Swap(true)
}

// hideForeign returns err as a mere text if it is the end of another request's context.
// Requests share a connection. If the deadline of one passes, rueidis breaks the connection
// for all of them with that error. A caller must not take it for the end of its own context.
func hideForeign(ctx context.Context, err error) error {
	if foreign(ctx, err) {
		//nolint:errorlint // a text, so that errors.Is does not find the other context's end
		return fmt.Errorf("the connection broke during another request: %v", err)
	}
	return err
}

func foreign(ctx context.Context, err error) bool {
	return (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) &&
		!adapter.Ended(ctx)
}

// serverError returns err as the server's refusal, nil if it is none. A refused login and a
// rejected certificate count as refusals: the request was not sent.
func serverError(err error) *store.ServerError {
	if err == nil {
		return nil
	}
	var known *store.ServerError
	if errors.As(err, &known) {
		return known
	}
	var refused *rueidis.RedisError
	if !errors.As(err, &refused) || refused.IsNil() {
		return adapter.TLSRefusal(err)
	}
	return refusal(refused.Error())
}

// refusal makes a ServerError of the server's message. rueidis removes the code ERR from its
// errors; a message without a code gets it back.
func refusal(message string) *store.ServerError {
	refusal := adapter.Refusal(message)
	if refusal.Code == "ERR" && !strings.HasPrefix(message, "ERR ") {
		return adapter.Refusal("ERR " + message)
	}
	return refusal
}

// classify says what an error that is not a refusal means for the request. An exceeded deadline
// of the request's own is final.
//
// Requests get ErrClosing when rueidis takes their connection away: the user has closed the
// client, or Sentinel has named another primary.
func classify(ctx context.Context, err error) adapter.Failure {
	failure := adapter.FailureOf(err)
	switch {
	case failure != adapter.Final:
		return failure
	case foreign(ctx, err):
		return adapter.Broken
	case errors.Is(err, rueidis.ErrClosing):
		return adapter.Lost
	case errors.Is(err, rueidis.ErrNoSlot):
		return adapter.NotSent
	}
	return adapter.Final
}
