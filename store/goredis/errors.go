package goredis

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

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast"
)

// explain turns an error of go-redis into what [holdfast.Store] promises.
// broke is why an earlier request of the same action got no answer, or nil.
func (s *Store) explain(ctx context.Context, err, broke error) error {
	addr := s.client.Options().Addr
	if refused := serverError(err); refused != nil {
		if broke == nil {
			return refused
		}
		return fmt.Errorf("goredis: %s: no answer to an earlier request: %w; then: %s",
			addr, broke, refused.Message)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = timeout(ctx, err)
	}
	if broke != nil {
		return fmt.Errorf("goredis: %s: %w, after %w", addr, err, broke)
	}
	return fmt.Errorf("goredis: %s: %w", addr, err)
}

// timeout returns the context's error in the place of a socket's timeout, if
// that is where it came from: the two fire at the same instant, in any order.
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
	var refused redis.Error
	if !errors.As(err, &refused) || errors.Is(err, redis.Nil) {
		return nil
	}
	return &holdfast.ServerError{Code: code(refused.Error()), Message: refused.Error()}
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
	if word == "" || strings.Trim(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") != "" {
		return "ERR" // a script's own message, without a code
	}
	return word
}

// broken reports whether err says that the connection broke under a request:
// sending it again on another one may help. A time limit that passed and a
// connection that was never made are not of this kind.
func broken(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op != "dial" && !op.Timeout()
}

// pause waits before the next attempt: not at all after the first, which
// found a connection that died in the pool, then longer each time up to about
// a second. It returns the context's error if that ends first.
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
