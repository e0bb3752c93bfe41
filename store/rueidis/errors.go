package rueidis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/holdfast-go/holdfast"
)

// explain turns an error of rueidis into what [holdfast.Store] promises.
// broke is why an earlier request of the same action got no answer, or nil.
func (s *Store) explain(ctx context.Context, err, broke error) error {
	if refused := serverError(err); refused != nil {
		if broke == nil {
			return refused
		}
		return fmt.Errorf("rueidis: %s: no answer to an earlier request: %w; then: %s",
			s.addr(), own(ctx, broke), refused.Message)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = timeout(ctx, err)
	}
	if broke != nil {
		return fmt.Errorf("rueidis: %s: %w, after %w", s.addr(), own(ctx, err), own(ctx, broke))
	}
	return fmt.Errorf("rueidis: %s: %w", s.addr(), own(ctx, err))
}

// own returns err, as a mere text if it is the end of somebody else's context.
// Requests share a connection, and rueidis breaks it, for everybody, with the
// error of the one whose deadline passed. The caller must not take it for the
// end of its own context.
func own(ctx context.Context, err error) error {
	if foreign(ctx, err) {
		//nolint:errorlint // a text, so that errors.Is does not find the other context's end
		return fmt.Errorf("the connection broke under another request: %v", err)
	}
	return err
}

func foreign(ctx context.Context, err error) bool {
	return (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) &&
		!ended(ctx)
}

// timeout returns the context's error in the place of a socket's timeout, if
// that is where it came from.
func timeout(ctx context.Context, err error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if ended(ctx) {
		return context.DeadlineExceeded
	}
	return err
}

// serverError returns err as the server's refusal, nil if it is none.
// A refused login counts: the request was not sent.
func serverError(err error) *holdfast.ServerError {
	if err == nil {
		return nil
	}
	var known *holdfast.ServerError
	if errors.As(err, &known) {
		return known
	}
	var refused *rueidis.RedisError
	if !errors.As(err, &refused) || refused.IsNil() {
		return nil
	}
	return refusal(refused.Error())
}

// refusal makes a ServerError of what the server said. rueidis takes the code
// ERR away from its errors; a message without a code gets it back.
func refusal(message string) *holdfast.ServerError {
	word := code(message)
	if word == "ERR" && !strings.HasPrefix(message, "ERR ") {
		message = "ERR " + message
		word = code(message)
	}
	return &holdfast.ServerError{Code: word, Message: message}
}

// code returns the code word of an error message.
//
// Redis 7.0 says a lack of permission in two ways: NOPERM for the command
// that the client sent, and ERR with a sentence for one that a script calls.
func code(message string) string {
	if strings.HasPrefix(message, "ERR The user executing the script can't ") {
		return "NOPERM"
	}
	word, _, _ := strings.Cut(message, " ")
	// Short words in capitals are no codes: "ERR DB index is out of range",
	// which rueidis may have cut.
	if len(word) < 3 || strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" {
		return "ERR"
	}
	return word
}

// broken reports whether err says that the connection broke under a request:
// sending it again on another one may help. A time limit of our own that
// passed and a connection that was never made are not of this kind.
func broken(ctx context.Context, err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || foreign(ctx, err) {
		return true
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op != "dial" && !op.Timeout()
}

// pause waits before the next attempt: not at all after the first, which
// found a connection that had died unnoticed, then longer each time up to
// about a second. It returns the context's error if that ends first.
func pause(ctx context.Context, attempt int) error {
	if attempt == 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(backoff(attempt))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// backoff returns how long to wait after so many failures in a row: from
// 10 ms up to a second, the upper half of it by chance, so that clients which
// lost their server together do not return together.
func backoff(failures int) time.Duration {
	most := min(time.Second, 10*time.Millisecond<<min(failures, 10))
	return most/2 + rand.N(most/2)
}
